"""transformers itself, where it is installed, says again what tests/golden/qwen3_moe/ holds; that the engine
agrees with those files is a unit test (src/engine/models/qwen3_moe_test.cpp)."""
import os
import pathlib
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(os.environ.get("NIBBLE_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
GOLDEN = SOURCE / "tests/golden/qwen3_moe"
SCRIPT = SOURCE / "tools/oracle/qwen3_moe.py"


def python_with_transformers():
    for python in (SOURCE / "build/oracle/bin/python", pathlib.Path(sys.executable)):
        if not python.exists():
            continue
        found = subprocess.run(
            [python, "-c", "import importlib.util as u; assert u.find_spec('torch'); import transformers"],
            capture_output=True,
            check=False,
        )
        if found.returncode == 0:
            return python
    return None


def compare(folder):
    python = python_with_transformers()
    if python is None:
        pytest.skip("no Python here has torch and transformers; make oracle installs them in build/oracle")
    return subprocess.run(
        [python, "-B", SCRIPT, folder, "--compare"], capture_output=True, text=True, timeout=200, check=False
    )


def test_golden_files_are_what_transformers_says():
    done = compare(GOLDEN)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_changed_logit_is_noticed(tmp_path):
    for path in GOLDEN.rglob("*"):
        if path.is_file():
            copy = tmp_path / path.relative_to(GOLDEN)
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(path.read_bytes())
    changed = tmp_path / "shared.safetensors"
    data = bytearray(changed.read_bytes())
    data[-1] ^= 0x41  # the sign and an exponent bit of the last logit
    changed.write_bytes(data)
    done = compare(tmp_path)
    assert done.returncode != 0
    assert "shared.safetensors" in done.stderr and "differs" in done.stderr
