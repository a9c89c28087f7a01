"""`nibble diagnose` with kernels of a GPU: documents made by hand beside a load made by hand, and mistakes. All numbers
here are synthetic: nobody measured them."""
import json

import jsonschema
import pytest

FLOOR = ["--model-config", "glm-5-nvfp4", "--gpu", "h200", "--tp", "8"]
READ_GB_S = 4000
LAYER_US, QUERY_US, GAP_US = 200, 5, 1.5
BOARD = {"clock_mhz": 1755, "power_w": 480, "temperature_c": 52, "throttled": ["power cap"], "samples": 7, "reason": None}


def roof(value):
    return {"value": value, "path": "by hand", "passes": [value], "reason": None, "conditions": BOARD}


def row(part, tokens, time_us, **changes):
    made = {"op": part, "kind": "moe" if part == "layer" else "gemm", "format": "nvfp4", "activations": "bf16", "experts": 1,
            "top_k": 1, "m": 1, "n": 1, "k": 1, "tokens": tokens, "threads": 1, "cold": True, "kernel": "by hand",
            "error": None, "time_us": time_us, "time_interval_us": None, "time_modes_us": None, "samples": 9,
            "stopped": "precise", "floor_us": time_us and time_us * 0.8, "memory_us": None, "compute_us": 1, "bound_by": "memory",
            "roof_share": 0.8, "roof_share_interval": None, "predicted_us": None, "predicted_ratio": None,
            "predicted_ratio_interval": None, "bytes": 1e6, "weight_bytes": 1e6, "distinct_experts": 1, "flop": 1e6,
            "ring_bytes": 1e9, "roof_gb_s": READ_GB_S, "roof_tops": 750, "reached_gb_s": 3000, "reached_tops": 9,
            "disturbed": False, "flags": [], "on": "cuda:0", "part": part, "routing": None, "tactic": None, "imported": None,
            "launches": 1, "launch_floor_us": None, "time_over_floors": None, "conditions": BOARD}
    return {**made, **changes}


def bench_document(title="NVIDIA H200"):
    layer = {"experts": 256, "top_k": 8, "n": 256, "k": 6144}
    rows = [row("layer", tokens, LAYER_US, **layer) for tokens in (32, 64, 128)]
    rows += [row("dense", tokens, QUERY_US, op="attn.q", format="bf16", n=2048, k=2048) for tokens in (32, 128)]
    rows.append(row("dense", 64, None, op="attn.out", format="bf16", n=6144, k=2048, error="out of memory"))
    gpu = {"title": title, "arch": "sm_90a", "uuid": "", "driver": "580", "sms": 132, "memory_bytes": 1.5e11,
           "l2_bytes": 6e7, "taken_unix_s": 1.7e9,
           "roofs": {"read_gb_s": roof(READ_GB_S), "bf16_tflops": roof(750), "graph_gap_us": roof(GAP_US)}}
    plain_roof = {"value": READ_GB_S, "path": "by hand", "passes": [READ_GB_S]}
    plain = {"threads": 1, "buffer_bytes": 1e10, "read_gb_s": plain_roof,
             "tflops": {"bf16": plain_roof}}
    return {"schema": "nibble.bench/1", "version": "0", "command": "by hand",
            "machine": {"title": title, "cores": 132, "memory_gb": 150, "last_level_cache_mb": 60, "isa": ["sm_90a"]},
            "on": "cuda:0", "compiler": "NVRTC", "taken_unix_s": 1.7e9, "state": None,
            "gpu_roofs": gpu, "roofs": plain, "scaling": [], "kernel_rates": [], "rows": rows, "baselines": [], "notes": []}


def load_document(step_ms=40, users=64):
    """All of the users run all the time, and a step gives each of them one token."""
    rate = users / step_ms * 1e3
    level = {"level": 0, "max_concurrency": users, "request_rate": "inf", "complete": True, "completed": 100, "failed": 0,
             "mean_in_flight": users, "output_throughput": rate, "request_throughput": rate / 400,
             "total_input_tokens": 100 * 1000, "total_output_tokens": 100 * 400, "mean_ttft_ms": 100, "mean_tpot_ms": step_ms,
             "median_itl_ms": step_ms, "p99_itl_ms": 1.2 * step_ms,
             "joined": {"window": "whole level", "server_running": users, "server_waiting": 0, "reasons": {}}}
    server = {"engine": "sglang", "version": "0.5", "models": None, "props": None, "server_info": {"tp_size": 8}}
    return {"schema": "nibble.load/1", "date": "20261130-101500", "model_id": "glm-5",
            "setup": {"dataset": "random", "dataset_options": {}, "notes": [], "host": {"cpu": "a client"}, "server": server},
            "levels": [level]}


@pytest.fixture
def files(tmp_path):
    for name, document in (("load.json", load_document()), ("bench.json", bench_document()),
                           ("other.json", bench_document("NVIDIA H100 80GB HBM3"))):
        (tmp_path / name).write_text(json.dumps(document))
    return tmp_path


@pytest.fixture
def diagnosed(nibble, files, source_dir):
    schema = json.loads((source_dir / "docs/schemas/nibble.diagnosis.1.json").read_text())

    def run(*words):
        result = nibble("diagnose", *words, "--json", cwd=files)
        assert result.returncode == 0, result.stderr
        diagnosis = json.loads(result.stdout)
        jsonschema.Draft202012Validator(schema).validate(diagnosis)
        return diagnosis

    return run


def bar_of(diagnosis, name):
    return next(bar for bar in diagnosis["waterfall"] if bar["id"] == name)


def op_of(step, name):
    return next(op for op in step["ops"] if op["op"] == name)


def test_kernels_of_a_gpu_are_a_partial_sum_of_the_step(diagnosed):
    diagnosis = diagnosed("--from", "load.json", "bench.json", *FLOOR)
    (step,) = diagnosis["gpu"]["steps"]
    assert diagnosis["gpu"]["explains"] is True and step["sequences"] == 64
    # 75 layers of experts and 78 of attention: by the model's configuration, three layers are dense.
    assert step["covered_ms"] == pytest.approx((75 * LAYER_US + 78 * QUERY_US) / 1e3)
    # 64 x 8 draws of 256 meet 256 x (1 - (1 - 8 / 256) ^ 64) experts; gate, up and down of 256 x 6144 values of 4.5 bits.
    # Activations add under 3 %.
    experts = 256 * (1 - (1 - 8 / 256) ** 64)
    layer_floor = experts * 3 * 256 * 6144 * 4.5 / 8 / READ_GB_S / 1e3 + 2 * GAP_US
    assert op_of(step, "moe.gate_up + moe.down")["floor_us"] == pytest.approx(layer_floor, rel=0.03)
    kernels = bar_of(diagnosis, "kernels_timed")
    assert "as far as timed" in kernels["title"] and "nothing covers the others" in kernels["note"]
    assert kernels["ms"] == pytest.approx(step["covered_ms"] - step["covered_floor_ms"], rel=1e-9)
    assert "without a kernel timed" in bar_of(diagnosis, "unexplained")["note"]
    known = [bar["ms"] for bar in diagnosis["waterfall"] if bar["ms"] is not None]
    assert sum(known) == pytest.approx(40)
    # Floor, covered and not, is the whole floor.
    assert step["covered_floor_ms"] + step["uncovered_floor_ms"] == pytest.approx(step["floor_ms"])
    # Of kernels that are not the server's nothing can be said that a change of them wins.
    assert "better_kernels" not in {proposal["id"] for proposal in diagnosis["proposals"]}
    # What is no whole step is none of the facts that clues weigh.
    fact = diagnosis["levels"][0]["facts"]["kernels"]
    assert fact["value"] is None and "no whole step" in fact["reason"]


def test_what_has_no_kernel_says_why(diagnosed):
    (step,) = diagnosed("--from", "load.json", "bench.json", *FLOOR)["gpu"]["steps"]
    assert "attention" in op_of(step, "attn.core")["reason"]
    assert "bench link" in op_of(step, "moe.all_reduce")["reason"]
    assert op_of(step, "attn.out")["reason"] == "it was not timed: out of memory"
    assert op_of(step, "lm_head")["reason"] == "it was not timed"


def test_both_roofs_and_the_board_are_told(nibble, files):
    result = nibble("diagnose", "--from", "load.json", "bench.json", *FLOOR, "--report", "out", cwd=files)
    assert result.returncode == 0, result.stderr
    text = (files / "out" / "report.md").read_text()
    line = next(line for line in text.splitlines() if "memory, read" in line)
    assert "4000" in line.replace(",", "") and "4800" in line.replace(",", "") and "power cap" in line, line
    assert "timed, a partial sum" in text and "480 W of 700 W" in text
    assert (files / "out" / "report.html").exists()


def test_the_measured_roofs_make_the_floor(diagnosed):
    with_catalog = diagnosed("--from", "load.json", *FLOOR)["levels"][0]["floor_ms"]
    measured = diagnosed("--from", "load.json", "bench.json", *FLOOR)["levels"][0]["floor_ms"]
    assert measured["expert_weights"] == pytest.approx(with_catalog["expert_weights"] * 4800 / READ_GB_S, rel=1e-6)


def test_without_gpu_in_the_command_the_one_that_was_timed_is_taken_and_said(diagnosed):
    diagnosis = diagnosed("--from", "load.json", "bench.json", "--model", "glm-5-nvfp4", "--tp", "8")
    assert bar_of(diagnosis, "kernels_timed")["ms"] > 0
    assert any("NVIDIA H200 is taken for it" in note for note in diagnosis["setting"]["notes"])


@pytest.mark.parametrize("words,served", [
    (("--from", "load.json", "bench.json", "--model-config", "glm-5-nvfp4", "--gpu", "h100", "--tp", "8"), "NVIDIA H100"),
    (("--case", "glm5_rtxpro6000", "--from", "bench.json"), "NVIDIA RTX PRO 6000"),
])
def test_a_load_of_another_gpu_is_not_explained(diagnosed, words, served):
    diagnosis = diagnosed(*words)
    assert f"The load was served by {served}" in diagnosis["sentence"] and "explain nothing" in diagnosis["sentence"]
    assert diagnosis["gpu"]["explains"] is False
    for level in diagnosis["levels"]:
        bars = {bar["id"]: bar for bar in level["waterfall"]}
        assert bars["kernels"]["ms"] is None and "kernels_timed" not in bars, bars
    assert diagnosis["roofs"] is None or diagnosis["roofs"]["source"] != "bench.json"
    # The floor is of the machine that served: as it is without the document.
    without = [word for word in words if word != "bench.json"]
    without = without[:-1] if without[-1] == "--from" else without
    alone = diagnosed(*without)
    assert [level["floor_ms"] for level in alone["levels"]] == [level["floor_ms"] for level in diagnosis["levels"]]


def test_a_case_of_such_a_gpu_is_explained_by_its_measured_roofs(diagnosed, source_dir):
    case = ("--case", str(source_dir / "tests/diagnose/glm5_h200_invented_case.json"))
    alone, beside = diagnosed(*case), diagnosed(*case, "--from", "bench.json")
    assert beside["gpu"]["explains"] is True
    for before, after in zip(alone["levels"], beside["levels"]):
        weights = before["floor_ms"]["expert_weights"]
        assert after["floor_ms"]["expert_weights"] == pytest.approx(weights * 4800 / READ_GB_S, rel=1e-6)
    # What the case itself says stands on the same roofs.
    told = " ".join(text for finding in beside["findings"] for text in finding["assumptions"])
    assert f"bandwidth {READ_GB_S} GB/s" in told and "bandwidth 4800 GB/s" not in told
    # Kernels were timed at 32 to 128 tokens: a third less and half as much more at most.
    timed = {level["users"]: any(bar["id"] == "kernels_timed" for bar in level["waterfall"]) for level in beside["levels"]}
    assert timed == {8: False, 32: True, 64: True, 128: True, 256: False}
    # The rest comes last, whatever bars the levels have.
    assert beside["levels"][2]["waterfall"][-1]["id"] == "unexplained"


def test_kernels_without_a_load(diagnosed):
    diagnosis = diagnosed("--from", "bench.json", "--model", "glm-5-nvfp4", "--tp", "8")
    assert diagnosis["sentence"].startswith("Kernels were timed on NVIDIA H200: 2 of ")
    assert [step["sequences"] for step in diagnosis["gpu"]["steps"]] == [32, 64, 128]
    assert diagnosis["levels"] == []


def test_the_bench_document_here_is_one_that_bench_could_write(source_dir):
    schema = json.loads((source_dir / "docs/schemas/nibble.bench.1.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(bench_document())


def has_gpu(nibble):
    return bool(json.loads(nibble("doctor", "--json").stdout)["gpus"])


@pytest.mark.parametrize("words", [
    ("--model", "glm-5-nvfp4", "--tp", "8"), ("--case", "glm5_rtxpro6000"), ("--case", "glm5_rtxpro6000", "--tp", "8"),
    ("--model", "glm-5-nvfp4", "--tp", "8", "--from", "load.json"),
    ("--server", "http://127.0.0.1:9", "--model-config", "glm-5-nvfp4", "--tp", "8")])
def test_without_a_gpu_one_sentence(nibble, files, words):
    if has_gpu(nibble):
        pytest.skip("this machine has a GPU")
    result = nibble("diagnose", "--on", "cuda:0", *words, cwd=files)
    assert result.returncode == 1 and result.stdout == ""
    assert result.stderr.startswith("nibble: ") and result.stderr.count("\n") == 1 and "CUDA driver" in result.stderr


def test_on_a_gpu(nibble, tmp_path):
    if not has_gpu(nibble):
        pytest.skip("this machine has no GPU")
    result = nibble("diagnose", "--on", "cuda:0", "--model", "qwen3-30b-a3b", "--json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    gpu = json.loads(result.stdout)["gpu"]
    assert gpu["measured"]["roofs"]["read_gb_s"]["value"] > 0
    assert all(step["covered_ms"] > 0.9 * step["covered_floor_ms"] for step in gpu["steps"])


@pytest.mark.parametrize("words,parts", [
    (("--on", "cuda:0"), ("--model", "--case")),
    (("--on", "gpu"), ('"gpu"', "cuda:N")),
    (("--on", "cuda:0", "--model", "nosuch"), ("nosuch", "--model-config")),
    (("--on", "cuda:0", "--model", "glm-5-nvfp4", "--tp", "7"), ("--tp 7",)),
    (("--on", "cuda:0", "--model", "glm-5-nvfp4", "--tp", "8", "--max-concurrency", "4"), ("--max-concurrency", "--server")),
    (("--on", "cuda:0", "--model", "glm-5-nvfp4", "--tp", "8", "--experiment"), ("--experiment", "server")),
    (("--on", "cuda:0", "--model", "glm-5-nvfp4", "--tp", "8", "--peak", "bf16=9"), ("--peak", "measured")),
    (("--on", "cuda:0", "--model", "glm-5-nvfp4", "--tp", "8", "--routing", "counts.json"), ("--routing", "counts.json")),
    (("--on", "cuda:0", "--case", "glm5_rtxpro6000", "--tp", "4"), ("--tp is 4", "8")),
    (("--on", "cuda:0", "--case", "glm5_rtxpro6000", "--model", "deepseek-r1"), ("--model", "leave it out")),
    (("--on", "cuda:0", "--case", "glm5_rtxpro6000", "--gpu", "h200"), ("--gpu", "RTX PRO 6000")),
    (("--on", "cuda:0", "--from", "load.json", "bench.json", *FLOOR), ("bench.json", "--on", "again")),
    (("--on", "cuda:0", "--serve-option", "x", "--model", "glm-5-nvfp4"), ("--serve-option",)),
    (("--from", "load.json", "bench.json", "other.json", *FLOOR), ("bench.json", "other.json", "give one")),
    (("--from", "load.json", "bench.json", *FLOOR, "--set", "bandwidth_gb_s=9"), ("--set", "measured")),
])
def test_mistakes(nibble, files, words, parts):
    result = nibble("diagnose", *words, cwd=files)
    assert result.returncode == 2 and result.stdout == "", result.stdout + result.stderr
    assert result.stderr.startswith("nibble: ") and result.stderr.count("\n") == 1, result.stderr
    for part in parts:
        assert part in result.stderr, result.stderr
