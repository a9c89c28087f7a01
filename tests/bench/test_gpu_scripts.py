"""tools/gpu_check.sh, gpu_bench.sh and the tools behind them, without a GPU: what they run, count and say."""
import importlib.util
import json
import os
import re
import subprocess
import tarfile

import jsonschema
import pytest

from conftest import environment


def tool(source_dir, name, *words, **changes):
    return subprocess.run([source_dir / "tools" / name, *words], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120, env=environment(**changes))


def module(source_dir, name):
    spec = importlib.util.spec_from_file_location(name, source_dir / f"tools/{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def program(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


GPU = 'case "$1" in doctor) echo \'{"gpus": [{"arch": "sm_90"}]}\';; esac\n'
PASSED = 'echo "[==========] 3 tests ran."; echo "[  PASSED  ] 3 tests."\n'


@pytest.fixture
def carried(tmp_path):
    """A folder as gpu_pack.sh makes it, of programs that only say what the tests below need."""
    program(tmp_path / "nibble", GPU)
    for name in ("cuda", "kernels", "bench", "machine"):
        program(tmp_path / f"nibble_{name}_test", PASSED)
    return tmp_path


def table(result):
    """The rows of the last table: {suite: (passed, failed, skipped)}."""
    lines = result.stdout.splitlines()
    begin = max(at for at, line in enumerate(lines) if re.match(r"suite +passed", line))
    rows = {}
    for line in lines[begin + 1:]:
        found = re.fullmatch(r"(.*?) +(\d+) +(\d+) +(\d+) +(\d+)", line)
        if not found:
            break
        rows[found[1].strip()] = tuple(map(int, found.groups()[1:4]))
    return rows


# ---- gpu_check.sh ------------------------------------------------------------------------------

def test_without_a_gpu_everything_was_skipped(source_dir, build_dir, binary, nibble, tmp_path):
    if json.loads(nibble("doctor", "--json").stdout)["gpus"]:
        pytest.skip("this machine has a GPU")
    (tmp_path / "nibble").symlink_to(binary)
    suite = build_dir / "src/bench/nibble_bench_test"
    assert suite.exists()
    (tmp_path / "nibble_bench_test").symlink_to(suite)
    result = tool(source_dir, "gpu_check.sh", str(tmp_path), "--only", "doctor,bench,kernels", "--filter", "CudaLink*")
    assert result.returncode == 0, result.stdout + result.stderr
    rows = table(result)
    assert rows["doctor"] == (0, 0, 1)
    assert rows["bench"][:2] == (0, 0) and rows["bench"][2] >= 3
    assert rows["kernels"] == (0, 0, 1)
    assert "bench: everything was skipped: " in result.stdout and "CUDA driver" in result.stdout
    assert result.stdout.endswith("everything was skipped: nothing is shown to work\n")


def test_what_passed_is_counted(source_dir, carried):
    result = tool(source_dir, "gpu_check.sh", str(carried), "--only", "doctor,analyze,cuda,kernels,bench,machine")
    assert result.returncode == 0, result.stdout + result.stderr
    assert table(result) == {"doctor": (1, 0, 0), "machine": (3, 0, 0), "analyze": (1, 0, 0), "cuda": (3, 0, 0),
                             "kernels": (3, 0, 0), "bench": (3, 0, 0)}
    assert "nothing is shown" not in result.stdout


@pytest.mark.parametrize("text, row, note", [
    ('echo "[  PASSED  ] 2 tests."; echo "[  FAILED  ] 1 test, listed below:"; exit 1', (2, 1, 0), ""),
    ('echo "[ RUN      ] Cuda.X"; kill -SEGV $$', (0, 1, 0), "ended with status"),
    ('echo "[  PASSED  ] 3 tests."; exit 9', (3, 1, 0), "ended with status 9"),
    ('echo "[==========] 0 tests"; echo "[  PASSED  ] 0 tests."', (0, 1, 0), "no test matches"),
    ("sleep 30", (0, 1, 0), "stopped after 1 s"),
])
def test_what_failed_fails_the_whole(source_dir, carried, text, row, note):
    program(carried / "nibble_cuda_test", text + "\n")
    result = tool(source_dir, "gpu_check.sh", str(carried), "--only", "cuda,bench", "--seconds", "1")
    assert result.returncode == 1
    assert table(result) == {"cuda": row, "bench": (3, 0, 0)}
    assert note in result.stdout


def test_some_skipped_are_said_with_the_reason(source_dir, carried):
    program(carried / "nibble_cuda_test", 'echo "a.cpp:5: Skipped"; echo "one GPU only"; '
            'echo "[  PASSED  ] 2 tests."; echo "[  SKIPPED ] 1 test, listed below:"\n')
    result = tool(source_dir, "gpu_check.sh", str(carried), "--only", "cuda")
    assert result.returncode == 0
    assert table(result) == {"cuda": (2, 0, 1)}
    assert "cuda: 1 skipped: one GPU only" in result.stdout


def test_shards_run_side_by_side_and_are_added_up(source_dir, carried):
    # Each waits for the other one's mark, which only comes where both run at once.
    program(carried / "nibble_cuda_test", f'mark={carried}/shard\n'
            'touch $mark.$GTEST_SHARD_INDEX\n'
            'until [ -f $mark.0 ] && [ -f $mark.1 ]; do sleep 0.05; done\n'
            'echo "part $GTEST_SHARD_INDEX of $GTEST_TOTAL_SHARDS"\n'
            'echo "[  PASSED  ] $((GTEST_SHARD_INDEX + 2)) tests."\n')
    result = tool(source_dir, "gpu_check.sh", str(carried), "--only", "cuda", "--shards", "2", "--seconds", "20")
    assert result.returncode == 0, result.stdout + result.stderr
    assert table(result) == {"cuda": (5, 0, 0)}
    assert "part 0 of 2\n" in result.stdout and "part 1 of 2\n" in result.stdout


@pytest.mark.parametrize("second, row, note", [
    ('echo "[  PASSED  ] 1 test."; echo "[  FAILED  ] 2 tests, listed below:"; exit 1', (4, 2, 0), ""),
    ('echo "[ RUN      ] Cuda.X"; kill -SEGV $$', (3, 1, 0), "cuda, shard 1: ended with status 139"),
    ("sleep 30", (3, 1, 0), "cuda, shard 1: stopped after 1 s"),
])
def test_a_shard_that_failed_fails_the_whole(source_dir, carried, second, row, note):
    program(carried / "nibble_cuda_test",
            f"if [ $GTEST_SHARD_INDEX = 1 ]; then {second}; else {PASSED.strip()}; fi\n".replace("\n;", ";"))
    result = tool(source_dir, "gpu_check.sh", str(carried), "--only", "cuda", "--shards", "2", "--seconds", "1")
    assert result.returncode == 1
    assert table(result) == {"cuda": row}
    assert note in result.stdout


def test_sanitizers_run_each_suite_once_more(source_dir, carried):
    tools = carried / "bin"
    tools.mkdir()
    # Racecheck finds something in the suite of the kernels.
    program(tools / "compute-sanitizer", 'echo "$@"; echo "[  PASSED  ] 3 tests."\n'
            'case "$*" in *racecheck*nibble_kernels_test*) exit 9;; esac\n')
    result = tool(source_dir, "gpu_check.sh", str(carried), "--only", "cuda,kernels", "--sanitize",
                  PATH=f"{tools}:{os.environ['PATH']}")
    assert result.returncode == 1
    rows = table(result)
    assert len(rows) == 8
    assert rows["kernels, racecheck"] == (3, 1, 0)
    assert all(counts == (3, 0, 0) for name, counts in rows.items() if name != "kernels, racecheck")


def test_the_cache_that_was_carried_is_used(source_dir, carried):
    (carried / "cubins").mkdir()
    program(carried / "nibble_cuda_test", 'echo "cache $NIBBLE_CUBIN_CACHE"\n' + PASSED)
    result = tool(source_dir, "gpu_check.sh", "--only", "cuda", NIBBLE_GPU_DIR=str(carried))
    assert result.returncode == 0 and f"cache {carried}/cubins\n" in result.stdout


def test_what_was_packed_is_unpacked_once(source_dir, carried, tmp_path):
    packed = tmp_path / "packed"
    packed.mkdir()
    with tarfile.open(packed / "programs.tar.gz", "w:gz") as archive:
        for path in carried.glob("nibble*"):
            archive.add(path, path.name)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    for _ in range(2):
        result = tool(source_dir, "gpu_check.sh", str(packed), "--only", "cuda", TMPDIR=str(temporary))
        assert result.returncode == 0 and table(result) == {"cuda": (3, 0, 0)}
        assert len(list(temporary.glob("nibble-gpu-*"))) == 1
    (packed / "programs.tar.gz").write_bytes(b"no archive")
    result = tool(source_dir, "gpu_check.sh", str(packed), "--only", "cuda", TMPDIR=str(temporary))
    assert result.returncode == 2 and "has no nibble" in result.stderr


def test_kernels_are_unpacked_without_xz_too(source_dir, carried, tmp_path):
    packed = tmp_path / "packed"
    packed.mkdir()
    (carried / "cubins").mkdir()
    (carried / "cubins" / "a.cubin").write_text("kernel")
    with tarfile.open(carried / "cubins.tar.xz", "w:xz") as archive:
        archive.add(carried / "cubins", "cubins")
    program(carried / "nibble_cuda_test", 'cat "$NIBBLE_CUBIN_CACHE/a.cubin"\n' + PASSED)
    with tarfile.open(packed / "programs.tar.gz", "w:gz") as archive:
        for path in [*carried.glob("nibble*"), carried / "cubins.tar.xz"]:
            archive.add(path, path.name)
    tools = tmp_path / "bin"
    tools.mkdir()
    for place in filter(os.path.isdir, os.environ["PATH"].split(":")):
        for name in os.listdir(place):
            if name != "xz" and not (tools / name).is_symlink():
                (tools / name).symlink_to(os.path.join(place, name))
    for number, path in enumerate([os.environ["PATH"], str(tools)]):
        temporary = tmp_path / f"tmp{number}"
        temporary.mkdir()
        result = tool(source_dir, "gpu_check.sh", str(packed), "--only", "cuda", TMPDIR=str(temporary), PATH=path)
        assert result.returncode == 0 and "kernel[====" in result.stdout, result.stdout + result.stderr


@pytest.mark.parametrize("name, words, part", [
    ("gpu_check.sh", ("--shards", "0"), "--shards 0 is no number from 1 to 99"),
    ("gpu_check.sh", ("/nowhere",), "/nowhere has no nibble"),
    ("gpu_check.sh", ("--only",), "--only needs a value"),
    ("gpu_check.sh", ("--fast",), "there is no option --fast"),
    ("gpu_bench.sh", ("/nowhere",), "/nowhere has no nibble"),
    ("gpu_bench.sh", ("--dry-run", "--models", "gpt-5"), '--models has "gpt-5"'),
    ("gpu_bench.sh", ("--dry-run", "--only", "all"), '--only has "all"'),
    ("gpu_pack.sh", ("--fast",), "there is no option --fast"),
])
def test_wrong_words_are_refused(source_dir, name, words, part):
    result = tool(source_dir, name, *words)
    assert result.returncode == 2 and part in result.stderr


# ---- gpu_bench.sh ------------------------------------------------------------------------------

def test_the_commands_are_such_as_nibble_takes(source_dir, nibble):
    result = tool(source_dir, "gpu_bench.sh", "--dry-run", "--only", "roof,moe,gemm,link")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    # Six models under three kinds of routing, their products, the roof and the link.
    assert len(lines) == 6 * 3 + 6 + 2
    options = set(re.findall(r"(--[a-z-]+)", nibble("bench", "--help").stdout))
    for line in lines:
        assert set(re.findall(r" (--[a-z-]+)", line)) <= options, line
        model = re.search(r"--model (\S+)", line)
        if model:
            assert (source_dir / f"data/models/{model[1]}.json").exists()


def test_each_measurement_is_a_file_and_a_failure_is_told(source_dir, carried, tmp_path):
    out = tmp_path / "out"
    program(carried / "nibble", 'case "$*" in *random*) exit 1;; esac\n'
            'echo \'{"schema": "nibble.bench/1", "rows": [{"op": "moe", "part": "layer", "kernel": "w4a16", '
            '"tokens": 8, "roof_share": 0.8, "error": null}]}\'\n')
    result = tool(source_dir, "gpu_bench.sh", str(carried), "--out", str(out), "--only", "moe", "--models", "glm5")
    assert result.returncode == 1
    assert sorted(path.name for path in out.iterdir()) == ["moe_glm5_balanced.json", "moe_glm5_zipf1.json"]
    assert "failed: moe_glm5_random (status 1)" in result.stdout
    assert re.search(r"moe_glm5_balanced layer w4a16 +1\.25\n", result.stdout), result.stdout
    late = tool(source_dir, "gpu_bench.sh", str(carried), "--out", str(out), "--only", "roof", "--minutes", "0")
    assert late.returncode == 1 and "not begun within 0 minutes: roof" in late.stdout


def test_the_tables_of_a_link(source_dir, tmp_path):
    point = {"bytes": 2048, "time_us": 9.25, "gb_s": 0.2214, "error": None}
    fit = {"latency_us": 9.2, "bandwidth_gb_s": 320.06, "worst_factor": 1.25}
    copy = {"op": "copy", "route": "direct", "both_ways": False, "fit": None}
    link = {"curves": [
        {"op": "all_reduce", "route": "nccl", "devices": [0, 1], "both_ways": False, "fit": fit,
         "points": [point, {**point, "bytes": 1 << 20, "time_us": 12.5, "gb_s": 83.886}]},
        {**copy, "devices": [0, 1], "points": [{**point, "error": "lost"}]},
        {**copy, "devices": [1, 0], "points": [point]}]}
    path = tmp_path / "link.json"
    path.write_text(json.dumps({"schema": "nibble.bench/1", "command": "nibble bench link", "rows": [], "link": link}))
    lines = tool(source_dir, "gpu_tables.py", "--markdown", str(path)).stdout.splitlines()
    assert lines[0] == "`nibble bench link`"
    assert "| all_reduce of 2 | 9.20 | 320.1 | 1.25 |" in lines
    assert "| copy 1 -> 0 direct | - | - | - |" in lines
    assert "| us (GB/s) | all_reduce of 2 | copy 0 -> 1 direct |" in lines
    assert "| 2 KB | 9.25 (0.2) | - |" in lines and "| 1 MB | 12.50 (83.9) | - |" in lines


# ---- the catalog -------------------------------------------------------------------------------

MEASURED = {"taken_unix_s": 1796083200, "link": {"links": [{
    "name": "nvlink4",
    "bandwidth_gb_s": {"value": 321.98765, "is": "measured", "source": "nibble bench link: NCCL 2.28.9"},
    "latency_us": {"value": 8.76543, "is": "measured", "source": "nibble bench link: NCCL 2.28.9"}}]}}


def test_a_measured_link_goes_into_the_catalog(source_dir):
    text = (source_dir / "data/machines/h200.json").read_text()
    into = module(source_dir, "link_to_catalog")
    changed = into.changed_catalog(text, MEASURED)
    machine = json.loads(changed)
    schema = json.loads((source_dir / "docs/schemas/nibble.machine.1.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(machine)
    link = machine["links"][0]
    assert link["name"] == "nvlink4"
    assert link["bandwidth_gb_s"]["value"] == 322.0 and link["latency_us"]["value"] == 8.765
    assert link["latency_us"]["is"] == "measured"
    # 1,796,083,200 s are 20,788 days of 86,400 s: 2026-12-01.
    assert link["latency_us"]["source"].startswith("2026-12-01, nibble bench link: NCCL 2.28.9")
    # Nothing but the links has changed, and what is left of the file is byte for byte the same.
    before = json.loads(text)
    assert machine["links"][1:] == before["links"][1:]
    assert {**machine, "links": 0} == {**before, "links": 0}
    assert changed.split('"links"')[0] == text.split('"links"')[0]
    assert changed.split('"power"')[1] == text.split('"power"')[1]
    # Written in the same way, so that the difference is what was measured.
    assert '{\n      "name": "pcie5-x16",\n' in changed


def test_a_document_without_a_link_changes_nothing(source_dir):
    into = module(source_dir, "link_to_catalog")
    with pytest.raises(SystemExit, match="no measured link"):
        into.changed_catalog("{}", {"taken_unix_s": 0, "link": {"links": []}})
