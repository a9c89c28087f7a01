"""nibble bench link: what it says without GPUs, and the whole run on stand-ins of the driver and of NCCL.

The stand-ins (src/bench/fake_cuda.c, fake_nccl.c) are GPUs whose links have known numbers: direct copies
2 us and 400 GB/s, staged ones 20 us and 20 GB/s, collectives 9 us and 320 GB/s of their buffer.
"""
import json
import re

import jsonschema
import pytest

from conftest import environment

SMALL = ("--sizes", "2KB..1MB", "--seconds", "0.02")


@pytest.fixture(scope="module")
def schema(source_dir):
    document = json.loads((source_dir / "docs/schemas/nibble.bench.1.json").read_text())
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(document)


@pytest.fixture
def link(nibble, build_dir):
    """nibble bench link on stand-ins."""
    folder = build_dir / "fake_gpu"
    assert (folder / "libcuda.so.1").exists() and (folder / "libnccl.so.2").exists()

    def run(*words, **changes):
        env = environment(LD_LIBRARY_PATH=str(folder), **changes)
        return nibble("bench", "link", *words, env=env)

    return run


def curves(document):
    return {(c["op"], c["route"], tuple(c["devices"]), c["both_ways"]): c
            for c in document["link"]["curves"]}


def test_without_a_gpu_it_is_one_sentence(nibble, link):
    if not json.loads(nibble("doctor", "--json").stdout)["gpus"]:
        result = nibble("bench", "link")
        assert result.returncode == 1
        assert result.stdout == ""
        assert re.fullmatch(r"nibble: .*CUDA driver.*\n", result.stderr), result.stderr
    result = link(FAKE_CUDA_GPUS="0")
    assert result.returncode == 1 and result.stdout == ""
    assert re.fullmatch(r"nibble: .*CUDA_ERROR_NO_DEVICE.*\n", result.stderr), result.stderr


def test_one_gpu_has_no_link(link):
    result = link(FAKE_CUDA_GPUS="1")
    assert result.returncode == 1 and result.stdout == ""
    assert result.stderr == "nibble: a link is between two GPUs, and this process sees 1\n"


@pytest.mark.parametrize("words, part", [
    (("--on", "cuda:0"), "--on is \"cuda:0\"; give at least two GPUs"),
    (("--on", "cuda:0,7"), "--on names cuda:7, and this process sees cuda:0 to cuda:1"),
    (("--sizes", "1B"), "--sizes is \"1B\"; give sizes of 256 B to 1 GB"),
    (("--seconds", "0"), "--seconds is \"0\""),
    (("--tokens", "1"), "--tokens does not apply to \"bench link\""),
])
def test_options_that_are_wrong_are_refused(link, words, part):
    result = link(*words)
    assert result.returncode == 2 and result.stdout == ""
    assert re.fullmatch(r"nibble: .*\n", result.stderr) and part in result.stderr, result.stderr


def test_known_links_are_found_and_the_document_is_valid(link, schema):
    result = link("--json", *SMALL)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    schema.validate(document)
    assert [gpu["on"] for gpu in document["link"]["gpus"]] == ["cuda:0", "cuda:1"]
    assert document["link"]["nvlink"] is True and document["link"]["nccl"] == "2.28.9"
    found = curves(document)
    assert len(found) == 9
    # Shares of the ledger's formulas for two ranks: all of an all-reduce (one-shot), half of the others.
    expected = {("copy", "direct"): (2, 400), ("copy", "staged"): (20, 20), ("all_reduce", "nccl"): (9, 320),
                ("all_gather", "nccl"): (9, 160), ("all_to_all", "nccl"): (9, 160)}
    for (op, route, _, _), curve in found.items():
        latency, bandwidth = expected[op, route]
        assert curve["fit"]["latency_us"] == pytest.approx(latency, rel=1e-3), (op, route)
        assert curve["fit"]["bandwidth_gb_s"] == pytest.approx(bandwidth, rel=1e-3), (op, route)
        assert [point["bytes"] for point in curve["points"]] == [2048 << at for at in range(10)]
        assert all(point["graphs"] == (route != "staged") for point in curve["points"])
    assert any("NCCL_NVLS_ENABLE=0" in note for note in document["notes"])


def test_the_measured_link_is_what_analyze_uses(link, nibble, tmp_path):
    path = tmp_path / "mine.json"
    result = link("--on", "cuda:0,1", *SMALL, "--save-machine", str(path))
    assert result.returncode == 0, result.stderr
    for part in ("Copies with peer access", "through the host", "all-reduce, 2 GPUs", "In a machine file",
                 "nibble analyze --machine"):
        assert part in result.stdout
    saved = json.loads(path.read_text())
    first = saved["links"][0]
    assert first["name"] == "nvlink4"
    assert first["bandwidth_gb_s"]["is"] == "measured"
    assert first["bandwidth_gb_s"]["value"] == pytest.approx(320, rel=1e-3)
    assert "nibble bench link --on cuda:0,1 --sizes 2KB..1MB" in first["latency_us"]["source"]
    words = ("analyze", "--model", "glm-5-nvfp4", "--tp", "8", "--concurrency", "64", "--json")
    ours = json.loads(nibble(*words, "--machine", str(path)).stdout)
    assert ours["machine"]["links"][0]["latency_us"]["value"] == pytest.approx(9, rel=1e-3)
    catalog = json.loads(nibble(*words, "--machine", "h200").stdout)
    assert ours != catalog


def test_more_gpus_than_two(link, schema):
    result = link("--json", "--on", "cuda:2,0,1", "--sizes", "4KB,1MB", "--seconds", "0.02", FAKE_CUDA_GPUS="3")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    schema.validate(document)
    found = curves(document)
    assert {key[2] for key in found if key[0] == "copy"} == {(2, 0), (0, 2), (2, 1), (1, 2)}
    reduce = found["all_reduce", "nccl", (2, 0, 1), False]
    # Each rank's part is whole words of 16 B: 4,096 B become 4,128 of three parts.
    assert [point["bytes"] for point in reduce["points"]] == [4128, 1048608]


def test_without_nccl_the_copies_are_measured(link, schema, tmp_path):
    result = link("--json", *SMALL, "--nccl", str(tmp_path / "libnccl.so.2"))
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    schema.validate(document)
    assert document["link"]["nccl"] is None
    assert {curve["op"] for curve in document["link"]["curves"]} == {"copy"}
    assert any("no collectives were measured: NCCL is not here" in note for note in document["notes"])
    assert document["link"]["links"][0]["bandwidth_gb_s"]["value"] == pytest.approx(400, rel=1e-3)


def test_streams_that_cannot_be_captured_are_timed_without_graphs(link):
    result = link("--json", *SMALL, FAKE_CUDA_NO_CAPTURE="1")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    found = curves(document)
    reduce = found["all_reduce", "nccl", (0, 1), False]
    assert not any(point["graphs"] for point in reduce["points"])
    assert reduce["fit"]["latency_us"] == pytest.approx(9, rel=1e-3)
    notes = [note for note in document["notes"] if "timed without CUDA graphs" in note]
    assert len(notes) == 1 and "cuStreamBeginCapture" in notes[0]


def test_what_arrives_changed_is_an_error(link, schema):
    result = link("--json", *SMALL, FAKE_CUDA_CORRUPT="1")
    assert result.returncode == 1
    document = json.loads(result.stdout)
    schema.validate(document)
    copy = curves(document)["copy", "direct", (0, 1), False]
    assert copy["points"][-1]["bytes"] == 1 << 20
    assert "arrived as bf16" in copy["points"][-1]["error"]
    assert copy["points"][-1]["time_us"] is None
    assert copy["points"][-2]["error"] is None
