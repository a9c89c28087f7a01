"""tools/fp4_sass.py: the machine code of W4A4 tactics against what their tiles imply."""
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

# Small products, and one tile of each that is compiled.
PRODUCT = ("--op", "gemm", "--experts", "4", "--n", "512", "--k", "1024")


@pytest.fixture(scope="module")
def path(source_dir):
    return source_dir / "tools/fp4_sass.py"


@pytest.fixture
def tool(path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec = importlib.util.spec_from_file_location("fp4_sass", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tools_are_here(nibble):
    libraries = {entry["name"]: entry for entry in json.loads(nibble("doctor", "--json").stdout)["libraries"]}
    if not libraries["NVRTC"]["path"]:
        pytest.skip("no NVRTC here: nothing can be compiled")
    if not shutil.which("nvdisasm"):
        pytest.skip("no nvdisasm on the PATH (PyPI: nvidia-cuda-nvdisasm)")


# FP4 instructions of a warp: products of 16 x 8 x 64 in its share of the tile.
@pytest.mark.parametrize("tile,rows", [
    # (128 / 2 / 16) x (256 / 4 / 8) x (128 / 64); four warps copy, and registers move
    ("128x256x128", [r"tokens 128x256x128 +\d+ +2x4 +1 +64 +64 "]),
    # Both ways round: (128 / 2 / 16) x (128 / 4 / 8) x 2, and (128 / 4 / 16) x (128 / 2 / 8) x 2
    ("128x128x128", [r"tokens 128x128x128 +\d+ +2x4 +1 +32 +32 ", r"weights 128x128x128 +\d+ +4x2 +1 +32 +32 "]),
    # (64 / 2 / 16) x 1 x (256 / 64)
    ("64x8x256", [r"weights 64x8x256 +\d+ +2x1 +3 +8 +8 "]),
])
def test_the_loop_has_what_the_tile_implies(path, binary, tools_are_here, tile, rows):
    done = subprocess.run([sys.executable, "-B", path, binary, "--", *PRODUCT, "--explain", tile],
                          capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"sm_120a, {len(rows)} tactics" in done.stdout
    for row in rows:
        assert re.search(row, done.stdout), done.stdout


def test_a_tactic_whose_code_is_not_found_is_a_fault(tool, binary, tools_are_here, monkeypatch, capsys):
    # As where names of tactics change: those with tokens on M are read no more.
    monkeypatch.setattr(tool, "NAME", re.compile(tool.NAME.pattern.replace(b"tokens|weights", b"weights")))
    monkeypatch.setattr(sys, "argv", ["fp4_sass.py", os.fspath(binary), "--", *PRODUCT, "--explain", "128x128x128"])
    assert tool.main() == 1
    said = capsys.readouterr().out
    assert re.search(r"4 x \[512, 1024\] .*, w4a4 tokens 128x128x128 .* split: feasible, and its machine code was not "
                     r"found\n", said), said
    assert "w4a4 weights" not in said


def test_every_feasible_tactic_needs_a_row(tool):
    rows = [{"shape": "A", "tactic": "one", "tile": "1", "fault": ""}]
    assert tool.faults_of(rows, {("A", "one")}) == []
    assert tool.faults_of(rows, {("A", "one"), ("A", "two"), ("B", "one")}) == [
        "A, two: feasible, and its machine code was not found", "B, one: feasible, and its machine code was not found"]
    rows[0]["fault"] = "no loop holds all FP4 instructions"
    assert tool.faults_of(rows, {("A", "one")}) == ["1: no loop holds all FP4 instructions"]
