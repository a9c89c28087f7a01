"""tools/peers.py: rows of nibble.bench/1 whatever is installed."""
import importlib.util
import json
import math
import subprocess
import sys

import jsonschema
import pytest


@pytest.fixture(scope="module")
def script(source_dir):
    return source_dir / "tools/peers.py"


@pytest.fixture(scope="module")
def peers(script):
    spec = importlib.util.spec_from_file_location("peers", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(script, *words):
    return subprocess.run([sys.executable, str(script), *words], capture_output=True, text=True, timeout=120,
                          check=False)


def test_absent_packages_are_reasons(script, source_dir):
    if importlib.util.find_spec("torch"):
        pytest.skip("torch is installed here: rows may be timed")
    result = run(script, "--experts", "16", "--top-k", "2", "--hidden", "256", "--intermediate", "128",
                 "--dense", "64x128", "--tokens", "1,8")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    schema = json.loads((source_dir / "docs/schemas/nibble.bench.1.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(document)
    kernels = {row["kernel"] for row in document["rows"]}
    assert {"torch.mm", "flashinfer mm_fp4", "vllm fused_marlin_moe"} <= kernels
    assert len(document["rows"]) == 2 * 6
    for row in document["rows"]:
        assert row["time_us"] is None and "torch" in row["error"]


@pytest.mark.parametrize("words,part", [
    ((), "nothing to measure"),
    (("--dense", "64"), "--dense"),
    (("--dense", "64x0"), "--dense"),
    (("--experts", "8"), "--hidden"),
    (("--experts", "4", "--top-k", "8", "--hidden", "64", "--intermediate", "64"), "--top-k is 8"),
    (("--dense", "64x64", "--tokens", "0"), "--tokens"),
    (("--ledger", "/no/such/file"), "/no/such/file"),
])
def test_faults_are_one_sentence(script, words, part):
    result = run(script, *words)
    assert result.returncode == 1 and result.stdout == ""
    assert part in result.stderr and len(result.stderr.splitlines()) == 1


def test_shapes_come_from_the_ledger(peers, nibble, source_dir):
    result = nibble("analyze", "--model", "glm-5-nvfp4", "--tp", "8", "--machine", "h200", "--concurrency",
                    "8", "--json")
    shapes = peers.shapes_of_ledger(json.loads(result.stdout))
    layer = next(shape for shape in shapes if shape["kind"] == "moe")
    # GLM-5: 256 experts, 8 a token, hidden 6144; its intermediate of 2048 cut by eight ranks
    assert (layer["experts"], layer["top_k"], layer["k"], layer["n"], layer["tokens"]) == (256, 8, 6144, 256, 8)
    out = next(shape for shape in shapes if shape["op"] == "attn.out")
    assert (out["n"], out["k"], out["tokens"]) == (6144, 2048, 8)
    with pytest.raises(SystemExit):
        peers.shapes_of_ledger({"schema": "nibble.bench/1"})


def test_rows_of_a_timed_peer(peers, source_dir):
    shape = {"kind": "moe", "op": "moe", "n": 128, "k": 256, "tokens": 4, "experts": 8, "top_k": 2}
    peer = next(peer for peer in peers.PEERS if peer[0] == "vllm fused_marlin_moe")
    row = peers.row_of(peer, shape, [10.0, 12.0, 11.0], None)
    assert row["time_us"] == 11.0
    assert row["flop"] == 2 * 4 * 2 * 3 * 128 * 256
    assert row["reached_tops"] == pytest.approx(row["flop"] / 11e-6 / 1e12)
    document = peers.document_of([row], "a GPU", "tools/peers.py")
    schema = json.loads((source_dir / "docs/schemas/nibble.bench.1.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(document)


def test_intervals_are_those_of_order_statistics(peers):
    # Of 10 values the second and the ninth: 2 x (1 + 10) / 1024 = 2.1 % lie outside.
    assert peers.interval([float(value) for value in range(10)]) == [1.0, 8.0]
    assert peers.interval([1.0, 2.0, 3.0]) is None  # 2 x 1 / 8 is more than 5 %
    values = [float(value) for value in range(60)]
    low, high = peers.interval(values)
    below = int(low)  # as many values lie below
    outside = 2 * sum(math.comb(60, count) for count in range(below + 1)) / 2 ** 60
    assert outside <= 0.05 and high == 59 - low
