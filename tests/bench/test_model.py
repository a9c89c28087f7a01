"""nibble bench step and perplexity: the engine's whole model, here the embedded one."""
import json

import pytest

from conftest import environment
from test_bench import assert_usage_error, validator


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def bench(nibble, cache):
    def run(*words):
        return nibble("bench", *words, env=environment(XDG_CACHE_HOME=str(cache)))

    return run


# The card's figure (data/tiny/README.md) comes from torch. Kernels and torch round differently, by far
# less than half a percent of the bits.
def test_the_card_holds_on_held_out_text(bench, source_dir):
    card = json.loads((source_dir / "data/tiny/training.json").read_text())
    result = bench("perplexity", "--text", str(source_dir / "data/tiny/held_out.txt"), "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    validator(source_dir, "perplexity").validate(found)
    assert found["tokens"] == card["counts"]["held_out_tokens"]
    assert found["characters"] == card["counts"]["held_out_characters"]
    assert found["window"] == 1023
    assert found["bits_per_character"] == pytest.approx(card["bits_per_character"]["w4a16"], rel=0.005)
    # Perplexity within 3 % of bf16's.
    bits_per_token = found["bits_per_character"] * found["characters"] / found["tokens"]
    bf16 = card["bits_per_character"]["bf16"] * found["characters"] / found["tokens"]
    assert found["perplexity"] == pytest.approx(2 ** bits_per_token)
    assert found["perplexity"] < 1.03 * 2 ** bf16


def test_a_step_beside_its_floor(bench, source_dir):
    result = bench("step", "--concurrency", "1,3", "--context", "20", "--seconds", "0.1", "--json")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    validator(source_dir).validate(document)
    assert [step["sequences"] for step in document["steps"]] == [1, 3]
    for step in document["steps"]:
        ops = {op["op"]: op for op in step["ops"]}
        assert {"attn.qkv", "moe.gate_up", "moe.down", "lm_head"} <= set(ops)
        assert all(op["time_us"] is None or op["time_us"] > 0 for op in ops.values())
        # Medians of parts add up to about the median of the whole; floors exactly to the floor.
        assert sum(op["time_us"] or 0 for op in ops.values()) == pytest.approx(step["time_us"], rel=0.25)
        assert sum(op["floor_us"] or 0 for op in ops.values()) == pytest.approx(step["floor_us"], rel=1e-3)
        assert step["floor_us"] == pytest.approx(step["time_us"] * step["roof_share"], rel=1e-6)
        assert any("fit in the last-level cache" in flag for flag in step["flags"]) == \
            (document["machine"]["last_level_cache_mb"] > 10.06)  # the bytes that inspect finds
    # By hand: lm_head is 4,096 x 256 bf16 weights, whatever the batch; activations come on top.
    heads = [next(op for op in step["ops"] if op["op"] == "lm_head") for step in document["steps"]]
    assert heads[0]["flop"] == 2 * 4096 * 256
    assert heads[1]["flop"] == 3 * heads[0]["flop"]
    assert 2 * 4096 * 256 < heads[0]["bytes"] < 2.1 * 4096 * 256


def test_tables_for_people(bench):
    result = bench("step", "--concurrency", "2", "--context", "8", "--seconds", "0.05")
    assert result.returncode == 0, result.stderr
    assert "moe.gate_up" in result.stdout and "x floor" in result.stdout and "sum" in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize("words, parts", [
    (["step", "--tokens", "4"], ["--tokens does not apply", "bench step"]),
    (["step", "--context", "1024"], ["--context is 1024", "1024 tokens"]),
    (["step", "--concurrency", "0"], ["--concurrency"]),
    (["step", "--model", "qwen3-30b-a3b-nvfp4"], ["--model", "no folder"]),
    (["perplexity"], ["--text"]),
    (["perplexity", "--text", "/nowhere/book.txt"], ["/nowhere/book.txt"]),
    (["perplexity", "--text", "/dev/null"], ["/dev/null"]),
    (["perplexity", "--text", __file__, "--window", "1024"], ["--window is 1024", "1023"]),
    (["roof", "--seconds", "1"], ["--seconds does not apply", "bench roof"]),
    (["gemm", "--context", "8"], ["--context does not apply", "bench gemm"]),
    (["gemm", "--activations", "fp32"], ["fp32"]),
])
def test_faults(bench, words, parts):
    assert_usage_error(bench(*words), *parts)


def test_a_folder_without_a_checkpoint(bench, tmp_path):
    assert_usage_error(bench("step", "--model", str(tmp_path)), str(tmp_path))


def test_the_embedded_model_is_unpacked_once_and_mended(bench, cache):
    text = cache / "text.txt"
    text.write_text("In the beginning God created the heaven and the earth.")
    first = bench("perplexity", "--text", str(text))
    assert first.returncode == 0, first.stderr
    (folder,) = (cache / "nibble").glob("embedded-model-*/nibble-tiny")
    weights = folder / "model.safetensors"
    before = weights.stat().st_mtime_ns
    assert bench("perplexity", "--text", str(text)).stdout == first.stdout
    assert weights.stat().st_mtime_ns == before
    weights.write_bytes(weights.read_bytes()[:-1])
    assert bench("perplexity", "--text", str(text)).stdout == first.stdout
    assert weights.stat().st_mtime_ns != before


def test_text_that_is_none(bench, cache):
    (cache / "bytes").write_bytes(bytes(range(256)))
    assert_usage_error(bench("perplexity", "--text", str(cache / "bytes")), "bytes", "UTF-8")


def test_a_cache_that_cannot_be_written(nibble, tmp_path):
    (tmp_path / "file").write_text("")
    result = nibble("bench", "step", env=environment(XDG_CACHE_HOME=str(tmp_path / "file")))
    assert result.returncode == 1
    assert "embedded model cannot be unpacked" in result.stderr and "--model" in result.stderr
