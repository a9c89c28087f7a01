"""transformers itself, where it is installed, says again what tests/golden/qwen3_moe/ holds; that the engine
agrees with those files is a unit test (src/engine/models/qwen3_moe_test.cpp)."""
import os
import pathlib
import subprocess

from serving import python_with

SOURCE = pathlib.Path(os.environ.get("NIBBLE_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
GOLDEN = SOURCE / "tests/golden/qwen3_moe"
SCRIPT = SOURCE / "tools/oracle/qwen3_moe.py"


def compare(folder):
    python = python_with(SOURCE, "torch", "transformers")
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
