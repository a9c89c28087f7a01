#!/usr/bin/env python3
"""Holds the machine code of the W4A4 kernels for sm_120 against what their tiles imply.

    tools/fp4_sass.py PROGRAM [--arch sm_120a] [--markdown] [-- OPTION...]

PROGRAM is nibble: `nibble tactics` compiles every tactic of GLM-5's TP8 shapes, or of the products that its
options behind "--" name, without a GPU; NVIDIA's nvdisasm, from PyPI (nvidia-cuda-nvdisasm) unless one is on
the PATH, reads what came out. In the loop over stages a warp has one FP4 instruction for each 16 x 8 x 64 of
its share of the tile, and all are the block-scaled one. Exit status 1 where a count differs, or where the
machine code of a tactic that `nibble tactics` calls feasible was not found; 0, with the reason, where there
is no compiler or no nvdisasm.

The table: FP4 instructions of a warp and stage; all others of that loop, and how many of those are loads;
clocks of a sub-partition that the former take at 16 each and at least the latter's one each, for the warps
that share it; what bounds the loop.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ISSUE_CLOCKS = 16  # of a sub-partition for an FP4 instruction: 4,096 FLOP a clock and SM, four sub-partitions
OPCODE = "OMMA.SF.16864.F32.E2M1.E2M1"
SHAPES = ("--model", "glm-5-nvfp4", "--tp", "8")
# What a program is compiled as: the product, and the tactic.
NAME = re.compile(rb"(\d+ x \[\d+, \d+\] [^\n,]*), (w4a4 (tokens|weights) (\d+)x(\d+)x(\d+) (\d+) stages "
                  rb"(\d+)x(\d+) warps(?: (\d+) an SM)?(?: split)?)")
Loop = collections.namedtuple("Loop", "fp4 loads others")


def nvdisasm(folder):
    """The disassembler's path, or why there is none."""
    found = shutil.which("nvdisasm")
    if found:
        return found, ""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), "nvidia-cuda-nvdisasm"]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    for path in pathlib.Path(folder).rglob("nvdisasm"):
        path.chmod(0o755)
        return str(path), ""
    return None, f"nvdisasm is not on the PATH, and PyPI did not give it: {done.stderr.strip().splitlines()[-1:]}"


def instructions(disassembler, image):
    """Opcodes of a cubin in their order; labels as '.L...:'."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(image)
        file.flush()
        text = subprocess.run([disassembler, "-c", file.name], stdout=subprocess.PIPE, text=True, check=True).stdout
    listing = []
    for line in text.splitlines():
        label = re.match(r"\s*(\.L\w+):", line)
        if label:
            listing.append((label[1] + ":", ""))
            continue
        code = re.match(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+ )?([A-Z0-9_.]+)(.*)", line)
        if code:
            listing.append((code[1], code[2]))
    return listing


def loop_of_stages(listing):
    """The innermost backward branch around all FP4 instructions."""
    at = {code[:-1]: index for index, (code, _) in enumerate(listing) if code.endswith(":")}
    places = [index for index, (code, _) in enumerate(listing) if code.startswith("OMMA")]
    best = None
    for index, (code, rest) in enumerate(listing):
        target = re.search(r"`\((\.L\w+)\)", rest)
        if not code.startswith("BRA") or not target or target[1] not in at:
            continue
        begin = at[target[1]]
        inside = sum(begin <= place <= index for place in places)
        if inside == len(places) and (best is None or index - begin < best[1] - best[0]):
            best = (begin, index)
    if best is None:
        return None
    codes = [code for code, _ in listing[best[0]:best[1] + 1] if not code.endswith(":")]
    fp4 = sum(code.startswith("OMMA") for code in codes)
    loads = sum(code.startswith(("LDSM", "LDS")) for code in codes)
    return Loop(fp4, loads, len(codes) - fp4)


def row_of(name, listing):
    """What a tile implies, and what its code has."""
    m, n, k, stages, warps_m, warps_n = (int(name[index]) for index in range(4, 10))
    implied = (m // warps_m // 16) * (n // warps_n // 8) * (k // 64)
    counts = collections.Counter(code.split(".")[0] for code, _ in listing)
    right_form = sum(code.startswith(OPCODE) for code, _ in listing)
    loop = loop_of_stages(listing)
    warps = warps_m * warps_n
    blocks = int(name[10] or 1)
    shared_by = -(-warps * blocks // 4)  # multiplying warps of a sub-partition
    fault = ""
    if counts["OMMA"] != implied or right_form != implied:
        fault = f"{counts['OMMA']} FP4 instructions, {right_form} of the form {OPCODE}; the tile implies {implied}"
    elif loop is None or loop.fp4 != implied:
        fault = "no loop holds all FP4 instructions"
    return {
        "shape": name[1].decode(), "tactic": name[2].decode(),
        "tile": f"{name[3].decode()} {m}x{n}x{k}", "stages": stages, "warps": f"{warps_m}x{warps_n}",
        "blocks": blocks, "fp4": counts["OMMA"], "implied": implied, "loop": loop, "fault": fault,
        "fp4_clocks": implied * ISSUE_CLOCKS * shared_by,
        "other_clocks": (loop.others if loop else 0) * shared_by,
        "tile_bytes": (m + n) * k * 9 // 16,
    }


def tactics(program, arch, words, cache):
    """Compiles; the feasible ones as (product, tactic), or None where there is no compiler."""
    command = [program, "tactics", "--arch", arch, *words, "--family", "w4a4", "--json"]
    environment = dict(os.environ, NIBBLE_CUBIN_CACHE=str(cache))
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"fp4_sass.py: {' '.join(command)}: {done.stderr.strip()}")
    document = json.loads(done.stdout)
    if not cache.exists() or not any(cache.iterdir()):
        return None
    products = {product["op"]: product["text"]["w4a4"] for product in document["products"]}
    return {(products[entry["op"]], entry["name"]) for entry in document["tactics"] if entry["feasible"]}


def read_cubins(disassembler, cache):
    rows = []
    for entry in sorted(cache.iterdir()):
        data = entry.read_bytes()
        name = NAME.search(data)
        begin = data.find(b"\x7fELF")
        if name and begin >= 0:
            rows.append(row_of(name, instructions(disassembler, data[begin:])))
    return rows


def faults_of(rows, wanted):
    """Sentences: counts that differ, and feasible tactics that have no row."""
    faults = [f"{row['tile']}: {row['fault']}" for row in rows if row["fault"]]
    missing = wanted - {(row["shape"], row["tactic"]) for row in rows}
    return faults + [f"{shape}, {tactic}: feasible, and its machine code was not found"
                     for shape, tactic in sorted(missing)]


def table(rows, markdown):
    head = ("tile on M", "stages", "warps", "an SM", "FP4", "implied", "not FP4", "loads of those", "FP4 clocks",
            "issue clocks", "bytes a stage")
    body = [[row["tile"], row["stages"], row["warps"], row["blocks"], row["fp4"], row["implied"],
             row["loop"].others if row["loop"] else "-", row["loop"].loads if row["loop"] else "-",
             row["fp4_clocks"], row["fp4_clocks"] // ISSUE_CLOCKS + row["other_clocks"], row["tile_bytes"]] for row in rows]
    if markdown:
        print("|" + "|".join(f" {text} " for text in head) + "|")
        print("|" + "---|" * len(head))
        for line in body:
            print("|" + "|".join(f" {value} " for value in line) + "|")
        return
    lines = [list(head)] + [[str(value) for value in line] for line in body]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        print("  ".join(text.ljust(width) if column == 0 else text.rjust(width)
                        for column, (text, width) in enumerate(zip(line, widths))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--arch", default="sm_120a")
    parser.add_argument("--markdown", action="store_true")
    words = sys.argv[1:]
    behind = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:behind])
    shapes = words[behind + 1:] or SHAPES
    with tempfile.TemporaryDirectory() as folder:
        cache = pathlib.Path(folder) / "cubins"
        wanted = tactics(options.program, options.arch, shapes, cache)
        if wanted is None:
            print("fp4_sass.py: skipped: nothing was compiled; `nibble doctor` says where NVRTC is looked for")
            return 0
        disassembler, reason = nvdisasm(pathlib.Path(folder) / "pypi")
        if disassembler is None:
            print(f"fp4_sass.py: skipped: {reason}")
            return 0
        rows = read_cubins(disassembler, cache)
    for shape in sorted({row["shape"] for row in rows}):
        of_shape = sorted((row for row in rows if row["shape"] == shape), key=lambda row: row["tile"])
        print(f"\n{shape}, {options.arch}, {len(of_shape)} tactics\n")
        table(of_shape, options.markdown)
    faults = faults_of(rows, wanted)
    for fault in faults:
        print(fault)
    if not wanted:
        sys.exit("fp4_sass.py: no W4A4 tactic is feasible, so nothing was checked")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
