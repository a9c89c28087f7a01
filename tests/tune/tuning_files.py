"""What the tests of nibble tune and of those who read its file share: one tuned file of the embedded model."""
import json
import re

import jsonschema
import pytest

from conftest import environment

# Budgets so small that the tests are quick: what is chosen does not matter.
# The activations are those that a server and a layer of the C API have, not the checkpoint's NVFP4.
BF16 = ("--activations", "bf16")
SHORT = ("--tokens", "1,4", "--seconds", "0.05", "--replays", "3", *BF16)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def tune(nibble, cache, source_dir):
    def run(*words, model=True):
        of_model = ("--model", str(source_dir / "data/tiny")) if model else ()
        return nibble("tune", *of_model, *words, env=environment(XDG_CACHE_HOME=str(cache)))

    return run


@pytest.fixture(scope="module")
def tuned(nibble, cache, source_dir, tmp_path_factory):
    """A tuning file of the embedded model, and what was printed."""
    path = tmp_path_factory.mktemp("tuned") / "cpu.json"
    result = nibble("tune", "--model", str(source_dir / "data/tiny"), *SHORT, "--output", str(path),
                    env=environment(XDG_CACHE_HOME=str(cache)))
    assert result.returncode == 0, result.stderr
    return path, result


def validator(source_dir, name):
    schema = json.loads((source_dir / f"docs/schemas/nibble.{name}.1.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def assert_refused(result, status, *parts):
    assert result.returncode == status, result.stdout
    assert result.stdout == ""
    assert re.fullmatch(r"nibble: .*\n", result.stderr), result.stderr
    for part in parts:
        assert part in result.stderr


def changed(tuned, tmp_path, **changes):
    file = json.loads(tuned[0].read_text())
    for name, value in changes.items():
        (file if name in file else file["site"])[name] = value
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(file))
    return path


def bench_layer(nibble, cache, source_dir, *words):
    return nibble("bench", "moe", "--model", str(source_dir / "data/tiny"), "--activations", "bf16", "--tokens", "1,8",
                  "--hot", "--seconds", "0.01", "--json", *words, env=environment(XDG_CACHE_HOME=str(cache)))
