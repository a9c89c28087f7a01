"""nibble mock as an engine of steps: tokens, counts and the sensors of its GPUs, all from one script."""
import concurrent.futures
import http.client
import json
import time

import jsonschema
import pytest

# 20 ms of weights and 1 ms for each of four rows, then 8 ms of nothing: of 32 ms 20 read, 4 compute.
ENGINE = {"capacity": 4, "metrics_style": "sglang",
          "steps": {"weights_ms": 20, "kv_ms_per_1k_tokens": 0, "per_sequence_ms": 1,
                    "prefill_ms_per_token": 0, "host_gap_ms": 8}}


def read_stream(port, seconds):
    """All lines of /stream that come in so many seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("GET", "/stream")
    response = connection.getresponse()
    assert response.status == 200
    end = time.monotonic() + seconds
    lines = []
    while time.monotonic() < end:
        lines.append(json.loads(response.readline()))
    connection.close()
    return lines


def values(lines, name, after=0):
    return [line["v"][name] for line in lines if name in line.get("v", {}) and line["t"] > after]


@pytest.fixture
def in_background():
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        yield pool.submit


def until_running(mock, name, count):
    end = time.monotonic() + 60
    while mock.counters()[name] != count:
        assert time.monotonic() < end, f"never {count} of {name}"
        time.sleep(0.005)


def ask(mock, tokens):
    return mock.stream("/v1/completions", prompt="a b c", max_tokens=tokens)


def test_tokens_come_in_steps(start, script, tmp_path, in_background):
    truth = tmp_path / "truth.jsonl"
    mock = start("--script", script(**ENGINE), "--truth", str(truth))
    answers = [in_background(ask, mock, 30) for _ in range(6)]
    assert all(len(answer.result()) == 30 + 2 for answer in answers)  # the finish and [DONE]
    assert mock.stop()[0] == 0
    rows = [json.loads(line) for line in truth.read_text().splitlines()]
    assert len(rows) == 6 and all(row["complete"] for row in rows)
    ends = sorted({due for row in rows for due in row["due_ns"]})
    assert max(sum(end in row["due_ns"] for row in rows) for end in ends) == 4
    # 20 ms and up to 4 rows, and the gap of 8 ms, of which an idle engine may wait for more
    gaps = [after - before for before, after in zip(ends, ends[1:])]
    assert all(gap >= 28_000_000 for gap in gaps)
    assert sorted(gaps)[len(gaps) // 2] in {n * 1_000_000 for n in (28, 29, 30, 31, 32)}
    # nobody is early, and whoever waited began when a step began after another's last token
    assert all(at >= due - 50_000 for row in rows for at, due in zip(row["written_ns"], row["due_ns"]))
    late = sorted(rows, key=lambda row: row["start_ns"])[4:]
    last = sorted(row["due_ns"][-1] for row in rows)
    assert all(row["start_ns"] == last[0] + 8_000_000 for row in late[:1])


def test_the_page_tells_the_counts(start, script, in_background):
    mock = start("--script", script(**ENGINE))
    answers = [in_background(ask, mock, 120) for _ in range(6)]
    end = time.monotonic() + 60
    # For more than the second that the occupancy is of: of 3.8 s that the first four take.
    while (during := mock.counters())["sglang:num_used_tokens"] <= 4 * (3 + 40):
        assert time.monotonic() < end
        time.sleep(0.02)
    assert during["sglang:num_running_reqs"] == 4
    assert during["sglang:num_queue_reqs"] == 2
    assert during["sglang:fwd_occupancy"] == pytest.approx(24 / 32, abs=0.07)
    # four prompts of three tokens, and all of their tokens so far
    assert during["sglang:num_used_tokens"] < 4 * (3 + 120)
    for answer in answers:
        answer.result()
    after = mock.counters()
    assert after["sglang:num_running_reqs"] == after["sglang:num_used_tokens"] == 0
    assert after["sglang:generation_tokens_total"] == 6 * 120
    assert after["sglang:prompt_tokens_total"] == 6 * 3
    assert after["sglang:num_retracted_requests_total"] == 0


def test_sensors_show_the_steps(start, script, in_background, source_dir):
    mock = start("--script", script(**ENGINE, gpu={"idle_w": 100, "copy_w": 420, "matrix_w": 660}))
    answers = [in_background(ask, mock, 140) for _ in range(4)]
    until_running(mock, "sglang:num_running_reqs", 4)
    time.sleep(0.2)  # and have done so for a period of the sensors
    lines = read_stream(mock.port, 1.5)
    schema = json.loads((source_dir / "docs/schemas/nibble.telemetry.1.json").read_text())
    for line in lines[:50]:
        jsonschema.validate(line, schema)
    assert lines[0]["schema"] == "nibble.telemetry/1"
    signals = {line["signal"]["name"]: line["signal"] for line in lines if "signal" in line}
    assert {name: signals["gpu0." + name]["unit"] for name in ("power", "dram_active", "clock_sm",
                                                             "throttle_power")} == {
        "power": "W", "dram_active": "%", "clock_sm": "MHz", "throttle_power": "s"}

    def mean(name):
        found = values(lines, name)
        assert len(found) >= 10, name
        return sum(found) / len(found)

    # ten periods of 100 ms and steps of 32 ms: a step more or less is 3 %
    assert mean("gpu0.dram_active") == pytest.approx(100 * 20 / 32, abs=3)
    assert mean("gpu0.tensor_active") == pytest.approx(100 * 4 / 32, abs=1.5)
    assert mean("gpu0.sm_active") == pytest.approx(100 * 24 / 32, abs=3)
    assert mean("gpu0.utilization") == 100
    assert mean("gpu0.power") == pytest.approx(100 + 320 * 20 / 32 + 560 * 4 / 32, abs=12)
    assert mean("gpu0.clock_sm") == pytest.approx(1980)
    assert values(lines, "gpu0.throttle_power")[-1] == 0
    for answer in answers:
        answer.result()
    clock = json.loads(mock.get("/clock")[1])
    assert 0 <= clock["answered_ns"] - clock["received_ns"] < 1e9


def test_a_power_cap_and_a_bad_link_show(start, script, in_background):
    mock = start("--script", script(
        steps={"weights_ms": 5, "per_sequence_ms": 20, "prefill_ms_per_token": 0,
               "collectives": {"count": 10, "latency_us": 0, "bytes_per_row": 1e6, "gb_s": 10},
               "ranks": 2},
        gpu={"power_cap_w": 300, "link_generation": 4, "link_width": 8}))
    answer = in_background(ask, mock, 100)
    until_running(mock, "vllm:num_requests_running", 1)
    time.sleep(0.2)
    lines = read_stream(mock.port, 0.8)
    for gpu in ("gpu0", "gpu1"):
        assert values(lines, gpu + ".pcie_generation")[-1] == 4
        assert values(lines, gpu + ".pcie_width")[-1] == 8
        assert values(lines, gpu + ".power_limit")[-1] == 300
        assert max(values(lines, gpu + ".power")) == pytest.approx(300, abs=1)
        throttled = values(lines, gpu + ".throttle_power")
        assert throttled[-1] - throttled[0] > 0.3
        assert max(values(lines, gpu + ".clock_sm")[1:]) < 1900
    answer.result()
    events = ask(mock, 6)
    # 10 x 1 MB over a quarter of 10 GB/s: 4 ms; 5 ms of weights; 20 ms of computing, stretched
    assert events[4][0] - events[1][0] > 3 * 29_000_000


def test_preemptions_are_counted(start, script, in_background):
    mock = start("--script", script(kv_capacity_tokens=40,
                                    steps={"weights_ms": 20, "per_sequence_ms": 0}))
    answers = [in_background(ask, mock, 30) for _ in range(4)]
    assert all(len(answer.result()) == 30 + 2 for answer in answers)
    assert mock.counters()["vllm:num_preemptions_total"] > 0
    refused = mock.post("/v1/completions", prompt="a b c", max_tokens=100)
    assert refused.status == 400
    assert "never fit into a cache of 40 tokens" in refused.read().decode()


def test_load_joins_the_sensors(start, script, nibble):
    mock = start("--script", script(**ENGINE))
    where = f"127.0.0.1:{mock.port}"
    result = nibble("load", "--base-url", f"http://{where}", "--json", "--max-concurrency", "4",
                    "--duration", "1.5", "--random-input-len", "8", "--random-output-len", "20",
                    "--num-warmups", "0", "--self-audit", "off", "--no-gpu", "--telemetry", where)
    assert result.returncode == 0, result.stderr
    level = json.loads(result.stdout)["levels"][0]
    found = [signal for signal in level["telemetry"]["signals"]
             if signal["name"] == f"{where}/gpu0.dram_active"]
    # of 20 ms and 4 or fewer rows and the gap: 20 / 32 to 20 / 29
    assert 58 <= found[0]["mean"] <= 72, found


def test_the_script_is_valid_by_its_schema(nibble, script, source_dir):
    schema = json.loads((source_dir / "docs/schemas/nibble.mock.1.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    document = json.loads(nibble("mock", "--json", "--script", script(steps={})).stdout)
    validator.validate(document)
    assert document["steps"]["weights_ms"] == 10 and document["gpu"]["limit_w"] == 700
    assert "itl_ms" not in document
    # each of its members is one of the schema's, and the other way round
    for part in ("steps", "gpu"):
        assert document[part].keys() == schema["properties"][part]["properties"].keys()
    again = json.loads(nibble("mock", "--json", "--script", script(**document)).stdout)
    assert again == document
    for wrong in ({"weights_ms": 0}, {"ranks": 65}, {"clock_factor": 1.1}, {"weight_ms": 1},
                  {"collectives": {"gb_s": 0}}, {"prefill_chunk_tokens": 0}):
        assert not validator.is_valid({"steps": wrong}), wrong
        assert nibble("mock", "--json", "--script", script(steps=wrong)).returncode == 2


@pytest.mark.parametrize("words,fields,part", [
    ((), {"steps": {}, "itl_ms": 10}, '"itl_ms" contradicts "steps"'),
    ((), {"steps": {}, "load_curve": {"kind": "knee"}}, '"load_curve" contradicts "steps"'),
    ((), {"gpu": {"power_cap_w": 300}}, '"gpu" belongs to an engine with "steps"'),
    ((), {"steps": {}, "gpu": {"power_cap_w": 50}}, "raise limit_w and power_cap_w"),
    (("--itl-ms", "5"), {"steps": {}}, "--itl-ms contradicts the script"),
])
def test_mistakes(nibble, script, words, fields, part):
    result = nibble("mock", "--port", "0", "--script", script(**fields), *words)
    assert result.returncode == 2 and result.stdout == ""
    assert part in result.stderr and len(result.stderr.splitlines()) == 1
