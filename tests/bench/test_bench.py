"""nibble bench: documents, tables, faults, and what analyze makes of its results."""
import json
import os
import re

import jsonschema
import pytest

from conftest import environment

# Shapes and budgets so small that the tests are quick; what they say of the machine does not matter.
SMALL = ("--experts", "4", "--top-k", "2", "--n", "64", "--k", "128", "--tokens", "1,3",
         "--seconds", "0.02", "--hot")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def bench(nibble, cache):
    def run(*words, **changes):
        return nibble("bench", *words, env=environment(XDG_CACHE_HOME=str(cache), **changes))

    return run


def validator(source_dir, name="bench"):
    schema = json.loads((source_dir / f"docs/schemas/nibble.{name}.1.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def assert_usage_error(result, *parts):
    assert result.returncode == 2, result.stdout
    assert result.stdout == ""
    assert re.fullmatch(r"nibble: .*\n", result.stderr), result.stderr
    for part in parts:
        assert part in result.stderr


def test_roofs_are_printed_and_kept(bench, cache, source_dir):
    result = bench("roof", "--json")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    validator(source_dir).validate(document)
    assert document["rows"] == []
    cores = document["machine"]["cores"]
    assert [roofs["threads"] for roofs in document["scaling"]][0] == 1
    assert document["scaling"][-1]["threads"] == cores
    kept = json.loads((cache / "nibble/roofs.json").read_text())
    assert kept["read_gb_s"]["value"] == document["roofs"]["read_gb_s"]["value"]


def test_analyze_uses_the_kept_roofs(bench, nibble, cache):
    kept_path = cache / "nibble/roofs.json"
    if not kept_path.exists():
        assert bench("roof").returncode == 0
    if json.loads(nibble("doctor", "--json").stdout)["gpus"]:
        pytest.skip("this machine is its GPU, whose roofs the catalog has")
    kept = json.loads(kept_path.read_text())
    kept["read_gb_s"]["value"] = 12.25  # a number that no measurement hits by chance
    kept_path.write_text(json.dumps(kept))
    words = ("analyze", "--model", "glm-5-nvfp4", "--machine", "this", "--concurrency", "1")
    env = environment(XDG_CACHE_HOME=str(cache))
    text = nibble(*words, env=env)
    assert text.returncode == 0, text.stderr
    assert "12.25 GB/s" in text.stdout
    assert "nibble bench roof measures again" in text.stdout
    document = json.loads(nibble(*words, "--json", env=env).stdout)
    assert document["machine"]["bandwidth_gb_s"]["value"] == 12.25
    # A file that is no use is measured around, and said so.
    for damaged in ("{", '{"schema": "nibble.roofs/1"}'):
        kept_path.write_text(damaged)
        result = nibble(*words, env=env)
        assert result.returncode == 0, result.stderr
        assert "12.25 GB/s" not in result.stdout
        assert "no use" in result.stdout
    kept_path.unlink()


def test_a_cache_that_cannot_be_written_is_a_note(nibble, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    result = nibble("bench", "gemm", *SMALL, "--activations", "int8",
                    env=environment(XDG_CACHE_HOME=str(blocked)))
    assert result.returncode == 0, result.stderr
    assert "the roofs are not kept" in result.stdout


@pytest.mark.parametrize("what,kind,pairs", [
    ("gemm", "gemm", {("nvfp4", "bf16"), ("nvfp4", "int8")}),
    ("moe", "moe", {("nvfp4", "bf16"), ("nvfp4", "int8")}),
])
def test_rows(bench, source_dir, what, kind, pairs):
    result = bench(what, *SMALL, "--json")
    document = json.loads(result.stdout)
    assert result.returncode == 0, document["rows"]
    validator(source_dir).validate(document)
    rows = document["rows"]
    assert len(rows) == 4
    assert {(row["format"], row["activations"]) for row in rows} == pairs
    for row in rows:
        assert row["kind"] == kind and not row["cold"] and row["memory_us"] is None
        products = 3 if kind == "moe" else 1
        assert row["flop"] == 2 * row["tokens"] * 2 * 64 * 128 * products
        assert row["error"] is None and row["time_us"] > 0
        assert row["roof_share"] < 1


@pytest.mark.parametrize("flags,pair", [
    (("--format", "mxfp4", "--activations", "int8"), "mxfp4 x int8"),
    (("--activations", "nvfp4"), "nvfp4 x nvfp4"),
    (("--format", "bf16"), "bf16 x bf16"),
    (("--isa", "portable", "--activations", "int8"), "nvfp4 x int8"),
])
def test_formats_in_tables(bench, flags, pair):
    result = bench("gemm", *SMALL, *flags)
    assert result.returncode == 0, result.stdout
    assert len(re.findall(rf"gemm .*{pair} ", result.stdout)) == 2
    assert "time / floor" in result.stdout


def test_csv(bench):
    result = bench("gemm", *SMALL, "--csv", "--activations", "int8")
    lines = result.stdout.splitlines()
    assert len(lines) == 3
    header = lines[0].split(",")
    row = dict(zip(header, lines[1].split(",")))
    assert (row["op"], row["format"], row["tokens"], row["cold"]) == ("gemm", "nvfp4", "1", "false")
    assert float(row["time_us"]) > 0


def test_csv_of_roofs(bench):
    lines = bench("roof", "--csv", "--threads", "1").stdout.splitlines()
    assert lines[0] == "threads,roof,value,unit,measured_with"
    assert [line.split(",")[:2] for line in lines[1:]] == [
        ["1", "read"], ["1", "fp32"], ["1", "bf16"], ["1", "int8"]]


def test_rows_recompute_by_hand(bench):
    words = ("gemm", "--experts", "8", "--top-k", "2", "--n", "256", "--k", "1024", "--tokens", "2",
             "--seconds", "0.1", "--activations", "int8")
    row = json.loads(bench(*words, "--json").stdout)["rows"][0]
    assert row["floor_us"] == pytest.approx(row["time_us"] * row["roof_share"])
    assert row["floor_us"] == pytest.approx(max(row["memory_us"], row["compute_us"]))
    assert row["memory_us"] == pytest.approx(row["bytes"] / row["roof_gb_s"] / 1e3)
    assert row["compute_us"] == pytest.approx(row["flop"] / row["roof_tops"] / 1e6)
    assert row["reached_gb_s"] == pytest.approx(row["bytes"] / row["time_us"] / 1e3)
    assert row["reached_tops"] == pytest.approx(row["flop"] / row["time_us"] / 1e6)
    assert row["predicted_us"] == pytest.approx(row["time_us"] * row["predicted_ratio"])


def test_a_tiny_matrix_is_measured_and_flagged(bench):
    result = bench("gemm", "--n", "1", "--k", "2", "--experts", "1", "--top-k", "1", "--seconds", "0.02",
                   "--tokens", "1", "--activations", "int8", "--json")
    row = json.loads(result.stdout)["rows"][0]
    assert row["time_us"] > 0
    assert any("not cold" in flag for flag in row["flags"])


def test_a_huge_shape_is_refused_before_good_ones_are_measured(bench, tmp_path):
    path = tmp_path / "shapes.json"
    shape = {"format": "nvfp4", "activations": "int8", "experts": 1, "top_k": 1, "tokens": 1}
    path.write_text(json.dumps({"schema": "nibble.shapes/1", "shapes": [
        {**shape, "n": 64, "k": 64}, {**shape, "n": 1 << 20, "k": 1 << 20, "experts": 1024}]}))
    assert_usage_error(bench("gemm", "--shapes", str(path)), "shapes[1]", "of memory")
    path.write_text(json.dumps({"schema": "nibble.shapes/1", "shapes": [
        {**shape, "n": 64, "k": 64, "activations": "fp8"}]}))
    assert_usage_error(bench("gemm", "--shapes", str(path)), str(path), "shapes[0]", "fp8")


def test_eighty_columns_keep_shape_and_ratio(nibble_in_terminal, cache):
    status, shown = nibble_in_terminal("bench", "gemm", *SMALL, "--activations", "int8", width=80,
                                       XDG_CACHE_HOME=str(cache))
    assert status == 0
    assert "4x[64,128] top 2" in shown and "reached" in shown and "x floor" in shown


def test_cold_rows_read_memory(bench, source_dir):
    result = bench("gemm", "--experts", "4", "--top-k", "2", "--n", "512", "--k", "1024",
                   "--tokens", "2", "--seconds", "0.2", "--activations", "int8", "--json")
    document = json.loads(result.stdout)
    validator(source_dir).validate(document)
    row = document["rows"][0]
    assert row["cold"] and row["ring_bytes"] >= 512e6
    assert row["memory_us"] > 0
    # two to four experts of 512 x 1,024 x 9/16 bytes
    assert 2 <= row["distinct_experts"] <= 4
    assert row["weight_bytes"] == pytest.approx(row["distinct_experts"] * 294_912)


@pytest.fixture(scope="module")
def of_a_model(nibble, cache):
    """What the products of a model's own shapes took, at two tokens."""
    result = nibble("bench", "gemm", "--model", "gpt-oss-20b", "--tp", "8", "--tokens", "2", "--seconds",
                    "0.02", "--hot", "--json", "--activations", "int8",
                    env=environment(XDG_CACHE_HOME=str(cache)))
    assert result.returncode == 0, result.stdout
    return result.stdout


def test_models_shapes(of_a_model):
    document = json.loads(of_a_model)
    names = [row["op"] for row in document["rows"]]
    assert "moe.gate_up" in names and "moe.down" in names and len(set(names)) == len(names)
    gate_up = document["rows"][names.index("moe.gate_up")]
    # gpt-oss-20b: hidden 2,880, intermediate 2,880, 32 experts, 4 a token
    assert (gate_up["n"], gate_up["k"]) == (2 * 2880 // 8, 2880)
    assert (gate_up["experts"], gate_up["top_k"]) == (32, 4)


def test_kernels_stand_beside_their_floors(of_a_model, nibble, nibble_in_terminal, source_dir, tmp_path,
                                           cache):
    path = tmp_path / "kernels.json"
    words = ("--model", "gpt-oss-20b", "--tp", "8")
    path.write_text(of_a_model)
    measured = {row["op"]: row["time_us"] for row in json.loads(of_a_model)["rows"]}
    analyze = ("analyze", *words, "--machine", "this", "--concurrency", "1,2", "--activations",
               "int8", "--link", "50", "--link-latency-us", "1", "--kernels", str(path))
    env = environment(XDG_CACHE_HOME=str(cache))
    if json.loads(nibble("doctor", "--json").stdout)["gpus"]:
        pytest.skip("this machine is its GPU, and the rows are of its CPU")
    document = json.loads(nibble(*analyze, "--json", env=env).stdout)
    validator(source_dir, "ledger").validate(document)
    one, two = document["kernels"]["levels"]
    for level, ops in zip((one, two), (level["ops"] for level in document["levels"])):
        assert [cell["name"] for cell in level["ops"]] == [op["name"] for op in ops]
        for cell in level["ops"]:
            assert (cell["kernel_us"] is None) != (cell["reason"] is None)
    cells = {cell["name"]: cell for cell in two["ops"]}
    for name in ("moe.gate_up", "moe.down", "attn.qkv"):
        assert cells[name]["kernel_us"] == measured[name]
    assert all(cell["kernel_us"] is None for cell in one["ops"])
    assert "2 tokens, not at 1" in next(c for c in one["ops"] if c["name"] == "moe.down")["reason"]
    text = nibble(*analyze, env=env).stdout
    assert "kernel each" in text and "measured alone on" in text
    status, shown = nibble_in_terminal(*analyze, width=80, XDG_CACHE_HOME=str(cache))
    assert status == 0
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in shown.splitlines()]
    header = next(line for line in lines if "kernel each" in line)
    assert re.search(r"floor each +kernel each +kernel/floor", header)
    assert max(len(line) for line in lines if str(path) not in line) <= 80
    assert_usage_error(nibble(*analyze[:-1], str(tmp_path / "none")), "none")
    path.write_text("{}")
    assert_usage_error(nibble(*analyze), str(path))


def test_shapes_of_a_file(bench, source_dir, tmp_path):
    path = tmp_path / "shapes.json"
    shape = {"format": "nvfp4", "activations": "int8", "experts": 2, "top_k": 1, "n": 64, "k": 64}
    document = {"schema": "nibble.shapes/1",
                "shapes": [{**shape, "tokens": 1}, {**shape, "kind": "moe", "tokens": 2}]}
    validator(source_dir, "shapes").validate(document)
    path.write_text(json.dumps(document))
    result = bench("gemm", "--shapes", str(path), "--hot", "--seconds", "0.02", "--json")
    assert [row["kind"] for row in json.loads(result.stdout)["rows"]] == ["gemm", "moe"]
    assert_usage_error(bench("gemm", "--shapes", str(path), "--n", "3"), "--n", "--shapes")
    path.write_text("{}")
    assert_usage_error(bench("gemm", "--shapes", str(path)), str(path))
    assert_usage_error(bench("gemm", "--shapes", str(tmp_path / "none")), "none")


@pytest.mark.parametrize("words,parts", [
    (("gemn",), ("gemn", "roof, gemm, moe")),
    (("gemm", "--hot", "--cold"), ("--hot", "--cold")),
    (("gemm", "--json", "--csv"), ("--json", "--csv")),
    (("gemm", "--tokens", "0"), ("--tokens",)),
    (("gemm", "--tokens", "1,x"), ("--tokens", '"x"')),
    (("gemm", "--top-k", "9", "--experts", "4"), ("--top-k is 9", "4 of --experts")),
    (("moe", "--n", "33"), ("--n is 33", "even")),
    (("gemm", "--n", "1000000", "--k", "1000000"), ("[1000000, 1000000]", "of memory")),
    (("gemm", "--threads", "1000000"), ("--threads is 1000000", "processors")),
    (("roof", "--n", "5"), ("--n", "roof")),
    (("roof", "--model", "glm-5-nvfp4"), ("--model", "roof")),
    (("roof", "--hot"), ("--hot", "roof")),
    (("gemm", "--k", "63"), ("even",)),
    (("gemm", "--format", "fp8"), ("--format", "fp8")),
    (("gemm", "--format", "bf16", "--activations", "int8"), ("bf16 weights",)),
    (("gemm", "--tp", "8"), ("--tp", "--model")),
    (("gemm", "--model", "no-such-model"), ("no-such-model",)),
    (("gemm", "--model", "glm-5-nvfp4", "--n", "5"), ("--n", "--model")),
    (("gemm", "--model", "glm-5-nvfp4", "--tp", "7"), ("7",)),
    (("moe", "--experts", "5000"), ("experts", "5000")),
    (("gemm", "--threads", "0"), ("--threads",)),
    (("gemm", "--seconds", "nan"), ("--seconds",)),
])
def test_faults(bench, words, parts):
    assert_usage_error(bench(*words), *parts)


def test_progress_is_for_terminals_only(bench, nibble_in_terminal, cache):
    words = ("gemm", *SMALL, "--activations", "int8")
    assert bench(*words).stderr == ""
    status, shown = nibble_in_terminal("bench", *words, width=100, XDG_CACHE_HOME=str(cache))
    assert status == 0
    assert "measuring" in shown


def test_the_first_table_takes_less_than_a_minute(bench):
    import time

    start = time.monotonic()
    result = bench()
    elapsed = time.monotonic() - start
    assert result.returncode == 0, result.stdout
    assert elapsed < 60
    first = result.stdout.splitlines()[0]
    assert first.startswith("What ") and first.endswith(".")
    assert len(re.findall(r"^gemm ", result.stdout, re.M)) == 6
    assert "Weights are cold" in result.stdout
