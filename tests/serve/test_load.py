"""`nibble load` against `nibble serve`: both count the same, and none of it fails."""
import json
import re
import time

import pytest

from serving import serving

# Before the load: two prompts of 16 tokens and one of 144, with answers of 4 (drive/negotiate.cpp).
PROBES, PROBE_PROMPTS, PROBE_ANSWERS = 3, 16 + 16 + 144, 3 * 4
USERS = (1, 2, 4, 8, 16, 32, 64)
REQUESTS = (3, 4, 8, 16, 32, 64, 96)
INPUT, OUTPUT = 20, 12
QUIET = ("--no-telemetry", "--self-audit", "off", "--num-warmups", "0", "--json")


def counters(server):
    """The page's counters without their labels, summed; without the pages that were sought and are not there."""
    found = {}
    page = re.sub(r'^.*reason="not_found".*$', "", server.ask("/metrics")[1], flags=re.M)
    for name, value in re.findall(r"^nibble:(\w+_total)(?:\{[^}]*\})? (\S+)$", page, re.M):
        found[name] = found.get(name, 0) + float(value)
    return found


def listed(numbers):
    return ",".join(map(str, numbers))


def test_a_sweep_from_1_to_64_users(binary, nibble, tmp_path):
    rows_file = tmp_path / "rows.jsonl"
    with serving(binary) as server:
        before = counters(server)
        began = time.monotonic()
        run = nibble("load", "--base-url", server.first["url"], *QUIET, "--max-concurrency", listed(USERS),
                     "--num-prompts", listed(REQUESTS), "--random-input-len", str(INPUT),
                     "--random-output-len", str(OUTPUT), "--rows", rows_file)
        wall_s = time.monotonic() - began
        after = counters(server)
        assert server.comes_to_rest()
    assert (run.returncode, run.stderr) == (0, "")
    levels = json.loads(run.stdout)["levels"]
    rows = [json.loads(line) for line in rows_file.read_text().splitlines()]
    assert [level["max_concurrency"] for level in levels] == list(USERS)
    for number, level in enumerate(levels):
        own = [row for row in rows if row["level"] == number]
        assert {row["outcome"] for row in own} == {"ok"} and len(own) == REQUESTS[number]
        assert (level["completed"], level["failed"]) == (REQUESTS[number], 0)
        # three counts of the same tokens: events, usage, and the server's own
        assert all(sum(n * tokens for n, tokens in row["event_tokens"]) == row["output_tokens"] == OUTPUT
                   for row in own)
        assert level["total_output_tokens"] == OUTPUT * REQUESTS[number]
        assert level["total_input_tokens"] == INPUT * REQUESTS[number]
        checks = {check["id"]: check for check in level["checks"]}
        for name in ("requests", "output_tokens", "prompt_tokens", "littles_law"):
            assert checks[name]["holds"] is True, (level["max_concurrency"], checks[name])
        # Little's law from the rows: the mean in flight is arrivals a second times the time in the system
        in_system = sum(row["end_ns"] - row["sent_ns"] for row in own)
        span = max(row["end_ns"] for row in own) - min(row["sent_ns"] for row in own)
        assert level["mean_in_flight"] == pytest.approx(in_system / span, rel=0.1)
        assert level["max_concurrent_requests"] <= min(USERS[number], REQUESTS[number])
    gained = {name: after[name] - before.get(name, 0) for name in after}
    total = sum(REQUESTS)
    assert gained["generation_tokens_total"] == total * OUTPUT + PROBE_ANSWERS
    assert gained["prompt_tokens_total"] == total * INPUT + PROBE_PROMPTS
    assert gained["request_success_total"] == total + PROBES
    assert gained["requests_refused_total"] == 0
    assert gained["engine_step_seconds_total"] <= wall_s


def test_prompts_hold_no_ids_that_the_model_lacks(binary, nibble):
    """The built-in model has 4,096 tokens; ids up to 29,999 are drawn where nothing is known (a 400 each)."""
    with serving(binary) as server:
        run = nibble("load", "--base-url", server.first["url"], *QUIET, "--max-concurrency", "8",
                     "--num-prompts", "8", "--random-input-len", "100", "--random-output-len", "2")
        refused = counters(server)["requests_refused_total"]
    assert (run.returncode, run.stderr, refused) == (0, "", 0)
    document = json.loads(run.stdout)
    assert document["levels"][0]["completed"] == 8
    assert any("4096 token ids" in note for note in document["setup"]["notes"])


def test_what_the_server_tells_stands_beside_a_level(binary, nibble):
    """Its own counts over the steady window, and who it is: what a diagnosis starts from."""
    with serving(binary, "--inject", "step_stall_ms=4") as server:
        run = nibble("load", "--base-url", server.first["url"], "--self-audit", "off", "--json", "--max-concurrency", "4",
                     "--duration", "5", "--random-input-len", "20", "--random-output-len", "60")
    assert (run.returncode, run.stderr) == (0, "")
    document = json.loads(run.stdout)
    assert document["setup"]["server"]["engine"] == "nibble"
    assert document["setup"]["server"]["server_info"]["inject"]["step_stall_ms"] == 4
    level = document["levels"][0]
    joined = level["joined"]
    assert joined["window"] == "steady window"
    assert 3 < joined["server_running"] <= 4 and joined["server_waiting"] < 1 and 0 < joined["server_kv_usage"] < 1
    signals = {signal["name"]: signal for signal in level["telemetry"]["signals"]}
    steps, in_steps = signals["server.steps"]["per_s"], signals["server.step_time"]["per_s"]
    # Between two steps lie 4 ms at the least: so many steps fit into the rest of the time.
    assert 0 < in_steps < 1 and 0 < steps <= (1 - in_steps) / 0.004 * 1.05
    # A step gives each running request one token.
    assert steps * joined["server_running"] == pytest.approx(level["steady"]["output_throughput"], rel=0.15)
    assert 1 <= signals["server.expert_load_ratio"]["mean"] <= 8
    names = {signal["name"] for signal in document["series"]["signals"]}
    assert {"server.steps", "server.step_time", "server.running", "server.waiting", "server.kv_usage",
            "server.expert_load_ratio"} <= names
