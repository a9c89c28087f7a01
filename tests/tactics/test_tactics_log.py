"""nibble tactics --from-log: logs and caches of other programs' autotuners."""
import json
import re
import subprocess

import jsonschema
import pytest

# flashinfer-ai/flashinfer issue 2077, and the message of NVIDIA/cutlass issue 3144 in its form.
SKIPPED = (
    "(Worker_TP{rank} pid=38385) 2025-11-11 06:41:27,319 - WARNING - autotuner.py:485 - flashinfer.jit: "
    "[Autotuner]: Skipping tactic <flashinfer.fused_moe.core.get_cutlass_fused_moe_module.<locals>."
    "MoERunner object at 0x7c70ccce8350> {tactic}, due to failure while profiling: [TensorRT-LLM][ERROR] "
    "Assertion failed: MoE grouped GEMM requires 102400 bytes shared memory but device supports 101376 "
    "(cutlass_kernel_file_gemm_grouped_sm120_M128_BS_group2.generated.cu:39)\n")

CACHE = {
    "_metadata": {"flashinfer_version": "0.6.3", "cuda_version": "13.0", "gpu": "NVIDIA B200"},
    "('fp4_gemm', 'TrtllmFp4GemmRunner', ((1, 2304), (2304, 7168), (-1, 288)))": ["TrtllmFp4GemmRunner", 21],
}


@pytest.fixture
def server_log(tmp_path):
    path = tmp_path / "server.log"
    path.write_text("".join(SKIPPED.format(rank=rank, tactic=tactic) for rank in (0, 1) for tactic in range(72)))
    return path


@pytest.fixture(scope="module")
def schema(source_dir):
    document = json.loads((source_dir / "docs/schemas/nibble.tactics_log.1.json").read_text())
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(document)


def read(nibble, *words):
    done = nibble("tactics", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_log_says_what_was_skipped_and_why(nibble, server_log):
    text = read(nibble, "--from-log", str(server_log))
    assert "72 tactics of MoERunner were skipped: they ask for 102,400 B of shared memory" in text
    assert "a block of sm_120 has 101,376 B" in text
    assert "What did not run, by reason" in text


def test_the_document_follows_its_schema(nibble, server_log, schema):
    document = json.loads(read(nibble, "--from-log", str(server_log), "--json"))
    schema.validate(document)
    (log,) = document["logs"]
    assert log["lines"] == 144 and log["unread"] == 0
    assert {entry["rank"] for entry in log["entries"]} == {"TP0", "TP1"}
    assert {entry["reason"]["class"] for entry in log["entries"]} == {"shared_memory"}
    (finding,) = document["findings"]
    assert finding["value"] == 72
    assert {"name": "wanted", "value": 102400, "unit": "B", "source": f"{server_log}:1"} in finding["inputs"]


@pytest.mark.parametrize("chip, fits", [(("--machine", "rtx-pro-6000-server"), False), (("--arch", "sm_120a"), False),
                                        (("--machine", "b200"), True), (("--arch", "sm_90a"), True)])
def test_another_chip_gives_another_answer(nibble, server_log, chip, fits):
    document = json.loads(read(nibble, "--from-log", str(server_log), *chip, "--json"))
    (finding,) = [f for f in document["findings"] if f["id"].startswith("tactics.log.shared")]
    assert (finding["verdict"] == "fits_here") == fits


def test_ranks_are_compared_across_files(nibble, tmp_path, schema):
    paths = []
    for rank, tactic in enumerate((21, 21, 23)):
        paths.append(tmp_path / f"rank_tp{rank}_pp0_dp0.json")
        paths[-1].write_text(json.dumps({key: value if key.startswith("_") else [value[0], tactic]
                                         for key, value in CACHE.items()}))
    words = [word for path in paths for word in ("--from-log", str(path))]
    document = json.loads(read(nibble, *words, "--json"))
    schema.validate(document)
    (finding,) = document["findings"]
    assert finding["id"] == "tactics.log.ranks" and finding["value"] == 1
    assert "TP0 PP0 DP0 took TrtllmFp4GemmRunner 21, TP2 PP0 DP0 took TrtllmFp4GemmRunner 23" in finding["sentence"]
    same = json.loads(read(nibble, *words[:4], "--json"))
    assert same["findings"] == []


def test_a_triton_configuration_of_another_chip(nibble, tmp_path, schema):
    path = tmp_path / "E=256,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8.json"
    path.write_text(json.dumps({"64": {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 256, "BLOCK_SIZE_K": 128,
                                       "GROUP_SIZE_M": 32, "num_warps": 8, "num_stages": 4}}))
    document = json.loads(read(nibble, "--from-log", str(path), "--json"))
    schema.validate(document)
    (finding,) = document["findings"]
    # (4 - 1) x (128 + 256) x 128 x 1 B; two buffers are 98,304 B
    assert "= 147,456 B of 101,376 B; 3 stages fit." in finding["sentence"]


def test_a_log_without_a_tuner_is_no_error(nibble, tmp_path, schema):
    path = tmp_path / "quiet.log"
    path.write_text("INFO started\nINFO stopped\n")
    document = json.loads(read(nibble, "--from-log", str(path), "--json"))
    schema.validate(document)
    assert document["findings"][0]["verdict"] == "empty"


def test_a_tactic_on_two_ranks_counts_once(nibble, server_log):
    text = read(nibble, "--from-log", str(server_log))
    assert re.search(r"shared memory +MoERunner +skipped +72 +2 +144 ", text), text
    assert "; 2 ranks say so." in text


DEBUG = ("2026-07-26 05:16:02,319 - DEBUG - autotuner.py:1913 - flashinfer.jit: [Autotuner]: profiling "
         "<flashinfer.gemm.gemm_base.CutlassFp4GemmRunner object at 0x7f> {tactic}, shapes=((512, 3072), "
         "(3072, 6144)), avg_time {time}\n")
CHOSEN = ("2026-07-26 05:16:03,307 - DEBUG - autotuner.py:1913 - flashinfer.jit: [Autotuner]: profiling chosen "
          "runner: <flashinfer.gemm.gemm_base.CutlassFp4GemmRunner object at 0x7f> 8 for ('fp4_gemm', "
          "'CutlassFp4GemmRunner', ((512, 3072), (3072, 6144)))\n")


@pytest.mark.parametrize("chosen", [False, True])
def test_times_of_a_debug_log_are_shown(nibble, tmp_path, schema, chosen):
    path = tmp_path / "debug.log"
    times = {8: 0.08, 19: 0.019, 20: 0.02}
    path.write_text("".join(DEBUG.format(tactic=t, time=ms) for t, ms in times.items()) + (CHOSEN if chosen else ""))
    text = read(nibble, "--from-log", str(path))
    assert re.search(r"512 +CutlassFp4GemmRunner +- +3 +19 in 19.00 us, 20 in 20.00 us, 8 in 80.00 us", text), text
    assert bool(re.search(r"fp4_gemm +512 +CutlassFp4GemmRunner +8 +- +80.00 us", text)) == chosen
    document = json.loads(read(nibble, "--from-log", str(path), "--json"))
    schema.validate(document)
    picked = [entry["time_ms"] for entry in document["logs"][0]["entries"] if entry["status"] == "chosen"]
    assert picked == ([0.08] if chosen else [])


def test_caches_of_two_gpus(nibble, tmp_path, schema):
    for name, gpu, tactic in (("a.json", "NVIDIA B200", 21), ("b.json", "NVIDIA GB10", 23)):
        cache = {key: value if key.startswith("_") else [value[0], tactic] for key, value in CACHE.items()}
        cache["_metadata"] = {**CACHE["_metadata"], "gpu": gpu}
        (tmp_path / name).write_text(json.dumps(cache))
    words = ("--from-log", str(tmp_path / "a.json"), "--from-log", str(tmp_path / "b.json"))
    document = json.loads(read(nibble, *words, "--json"))
    schema.validate(document)
    assert [finding["id"] for finding in document["findings"]] == ["tactics.log.gpus"]
    text = read(nibble, *words)
    assert re.search(r"a.json +fp4_gemm +1 .* 21 ", text) and re.search(r"b.json +fp4_gemm +1 .* 23 ", text), text


@pytest.mark.parametrize("chip,says", [(("--machine", "rtx-pro-6000-server"), True), (("--machine", "b200"), False),
                                       (("--arch", "sm_120a"), True), (("--arch", "sm_100a"), False)])
def test_a_cache_of_another_gpu_than_the_one_named(nibble, tmp_path, chip, says):
    path = tmp_path / "c.json"
    path.write_text(json.dumps(CACHE))
    document = json.loads(read(nibble, *chip, "--from-log", str(path), "--json"))
    sentences = [f["sentence"] for f in document["findings"] if f["id"].startswith("tactics.log.other_chip")]
    assert bool(sentences) == says
    assert all("(NVIDIA B200)" in sentence for sentence in sentences)


def test_failures_of_cutlass_without_a_tuner(nibble, tmp_path, schema):
    path = tmp_path / "engine.log"
    path.write_text("INFO loading\n[MXFP8 SM120 gemm Runner] Failed to initialize cutlass MXFP8 gemm on sm120. "
                    "Error: Error Internal\n")
    document = json.loads(read(nibble, "--from-log", str(path), "--json"))
    schema.validate(document)
    assert document["findings"][0]["verdict"] == "not_initialised"
    assert "MXFP8 SM120 gemm Runner failed in 1 line" in document["findings"][0]["sentence"]


def test_one_line_is_one_line(nibble, tmp_path):
    path = tmp_path / "quiet.log"
    path.write_text("INFO hi\n")
    assert "log: 1 line\n" in read(nibble, "--from-log", str(path))


def test_many_different_failures_are_read_in_seconds(nibble, tmp_path):
    path = tmp_path / "many.log"
    line = SKIPPED.replace("102400", "{wanted}").replace(", due to", "{empty}, due to")
    path.write_text("".join(line.format(rank=0, tactic=index, wanted=200_000 + index, empty="") for index in range(20_000))
                    + DEBUG.format(tactic=1, time=0.5))
    # Each of them is a sentence "1 of 20,001 tactics": a walk over all entries for each would outlast the limit.
    document = json.loads(read(nibble, "--from-log", str(path), "--json"))
    sentences = [f["sentence"] for f in document["findings"] if f["id"].startswith("tactics.log.shared.")]
    assert len(sentences) == 20_000
    assert all(sentence.startswith("1 of 20,000 tactics of MoERunner was skipped") for sentence in sentences)


def test_a_time_that_is_no_number_is_no_time(nibble, tmp_path, schema):
    path = tmp_path / "debug.log"
    path.write_text(DEBUG.format(tactic=8, time="inf") + DEBUG.format(tactic=9, time="nan"))
    document = json.loads(read(nibble, "--from-log", str(path), "--json"))
    schema.validate(document)
    assert [(entry["status"], entry["time_ms"]) for entry in document["logs"][0]["entries"]] == [("skipped", None)] * 2
    assert "What was timed" not in read(nibble, "--from-log", str(path))


def test_broken_bytes_are_one_kind_of_mark(nibble, tmp_path):
    path = tmp_path / "bytes.log"
    # A lone byte, a surrogate and an overlong form.
    path.write_bytes(SKIPPED.format(rank=0, tactic=1).encode().replace(b"MoERunner", b"Mo\xff\xed\xa0\x80\xc0\x80Runner"))
    assert "1 tactic of Mo??????Runner was skipped" in read(nibble, "--from-log", str(path))
    document = json.loads(read(nibble, "--from-log", str(path), "--json"))
    assert document["logs"][0]["entries"][0]["runner"] == "Mo??????Runner"


def test_absurd_bytes_have_a_unit(nibble, tmp_path):
    path = tmp_path / "absurd.log"
    path.write_text(SKIPPED.format(rank=0, tactic=1).replace("102400", str(2**63 - 1)))
    text = read(nibble, "--from-log", str(path))
    assert "it asks for 9,223 PB of shared memory, and a block of sm_120 has 101,376 B" in text
    assert re.search(r" 9,223 PB +101,376 B ", text), text


def test_a_log_from_a_pipe(binary, server_log):
    done = subprocess.run([binary, "tactics", "--from-log", "/dev/stdin"], input=server_log.read_bytes(),
                          capture_output=True, timeout=60, check=True)
    assert b"72 tactics of MoERunner" in done.stdout


@pytest.mark.parametrize("content, words", [
    (b"", "is empty"),
    (b"{}", "no cache"),
    (b"[1, 2]", "BLOCK_SIZE_M (Triton)"),
    (b'{"_metadata": {', "JSON"),
    (b"\x7fELF\x00\x01\x02\x03\x00\x00", "binary"),
    ("[Autotuner]: text\n".encode("utf-16"), "UTF-16"),
    (b"\x1f\x8b\x08\x00", "gzip -d"),
])
def test_what_is_no_log_is_refused_in_one_sentence(nibble, tmp_path, content, words):
    path = tmp_path / "file"
    path.write_bytes(content)
    done = nibble("tactics", "--from-log", str(path))
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("nibble: ") and done.stderr.count("\n") == 1
    assert words in done.stderr


def test_folders_and_missing_files_are_refused(nibble, tmp_path):
    assert "is a folder" in nibble("tactics", "--from-log", str(tmp_path)).stderr
    missing = nibble("tactics", "--from-log", str(tmp_path / "none.log"))
    assert missing.returncode == 2 and "none.log" in missing.stderr


def test_control_characters_of_a_log_do_not_reach_the_terminal(nibble, tmp_path):
    path = tmp_path / "odd.log"
    path.write_text(SKIPPED.format(rank=0, tactic="1\x07\x9b2J") + "\x1b[31m[Autotuner]: new \x1b]0;x\x07words\n")
    done = nibble("tactics", "--from-log", str(path))
    assert done.returncode == 0
    assert not any(character in done.stdout for character in "\x07\x1b\x9b")
