"""`nibble diagnose` from the outside: recorded cases, a mock whose cap is known, files of before, traces, mistakes."""
import json
import subprocess
import sys

import jsonschema
import pytest
from diagnosing import FLOOR, LOAD, first_class, mocking


def document(result):
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def capped(nibble, binary, tmp_path_factory):
    """A server that runs 8 requests at once, diagnosed while it runs; and a load test of it in a file."""
    folder = tmp_path_factory.mktemp("capped")
    with mocking(binary, folder, capacity=8) as url:
        live = document(nibble("diagnose", "--server", url, "--telemetry", url.split("//")[1], *LOAD, *FLOOR, "--json"))
        load = nibble("load", "--base-url", url, *LOAD, "--json")
        assert load.returncode == 0, load.stderr
    path = folder / "load.json"
    path.write_text(load.stdout)
    return live, path


# ---- A server that runs


def test_a_cap_is_named_with_its_evidence(capped):
    live, _ = capped
    verdict = live["verdicts"][0]
    assert verdict["class"] == "scheduler_cap" and verdict["certainty"] in ("likely", "certain"), verdict
    told = " ".join(clue["sentence"] for clue in verdict["evidence"]["for"])
    assert "8 of " in told and "wait in the server" in told, told
    assert verdict["experiment_id"] == "more_users"
    # 8 of 32 run: three of four users wait, by Little's law three quarters of a token's time.
    level = live["levels"][-1]
    queue = next(bar["ms"] for bar in level["waterfall"] if bar["id"] == "queue")
    assert queue / level["measured_ms"] == pytest.approx(0.75, abs=0.1)
    best = live["proposals"][0]
    assert best["because"] == "scheduler_cap" and "--max-running-requests" in best["how"], best


def test_the_level_below_the_cap_has_no_queue(capped):
    live, _ = capped
    named = [verdict["class"] for verdict in live["levels"][0]["verdicts"] if verdict["certainty"] in ("likely", "certain")]
    assert not {"scheduler_cap", "kv_capacity", "front_end", "client_limited"} & set(named), named


def test_bars_add_up_to_littles_law(capped):
    live, _ = capped
    for level in live["levels"]:
        known = [bar["ms"] for bar in level["waterfall"] if bar["ms"] is not None]
        assert sum(known) == pytest.approx(level["measured_ms"], rel=1e-9)
        in_flight, rate = level["facts"]["in_flight"]["value"], level["facts"]["output_rate"]["value"]
        assert level["measured_ms"] == pytest.approx(in_flight / rate * 1e3, rel=1e-9)


def test_the_simulated_gpus_are_seen_on_the_loads_clock(capped):
    live, _ = capped
    names = {series["name"] for series in live["series"]}
    assert any(name.endswith("gpu0.power") for name in names), names
    assert "client.output_rate" in names
    spans = [(phase["start_s"], phase["end_s"]) for phase in live["phases"]]
    assert len(spans) == 2 and all(start < end for start, end in spans) and spans[0][1] <= spans[1][0] + 0.5
    # The rate that the client saw within a level's window is the level's rate.
    points = next(series["points"] for series in live["series"] if series["name"] == "client.output_rate")
    start, end = spans[1]
    inside = [value for at, value in points if start <= at <= end]
    assert sum(inside) / len(inside) == pytest.approx(live["levels"][1]["facts"]["output_rate"]["value"], rel=0.1)


def test_a_file_of_before_is_judged_as_the_run_was(capped, nibble):
    live, path = capped
    recorded = document(nibble("diagnose", "--from", str(path), *FLOOR, "--json"))
    assert first_class(recorded) == first_class(live)
    origins = {fact["origin"] for fact in recorded["levels"][0]["facts"].values() if fact["value"] is not None}
    assert "recorded" in origins and "measured" not in origins, origins


def test_an_experiment_says_what_came_out(nibble, binary, tmp_path):
    with mocking(binary, tmp_path, capacity=8) as url:
        diagnosis = document(nibble("diagnose", "--server", url, *LOAD, *FLOOR, "--experiment", "--json"))
    (experiment,) = diagnosis["experiments"]
    assert experiment["id"] == "more_users" and experiment["about"] == "scheduler_cap"
    assert experiment["confirms"] is True and "running requests 8" in experiment["outcome"], experiment


# ---- Recorded cases


def test_the_glm5_case_has_its_fourteen_points_and_a_ranked_list(nibble):
    diagnosis = document(nibble("diagnose", "--case", "glm5_rtxpro6000", "--json"))
    assert {finding["point"] for finding in diagnosis["findings"]} >= set(range(1, 15))
    wins = [proposal["at_most_ms"] for proposal in diagnosis["proposals"]]
    assert len(wins) >= 6 and all(win > 0 for win in wins)
    assert all(proposal["at_most_ratio"] > 1 for proposal in diagnosis["proposals"])
    # 39 % of the power limit at 100 % utilization: the cards wait. 2,048 requests against a cap of 1,024 are
    # consistent with the cap, not a proof. Of both, what would tell is missing, so that neither is certain.
    waiting, top = diagnosis["verdicts"][0], diagnosis["levels"][3]
    assert (waiting["class"], waiting["certainty"]) == ("collectives", "likely")
    cap = next(verdict for verdict in top["verdicts"] if verdict["class"] == "scheduler_cap")
    assert top["users"] == 2048 and cap["certainty"] == "possible"
    assert all(verdict["certainty"] not in ("likely", "certain") for verdict in top["verdicts"])
    assert len(waiting["evidence"]["missing"]) >= 3 and len(cap["evidence"]["missing"]) >= 3


def test_cards_that_wait_are_called_collectives(nibble):
    diagnosis = document(nibble("diagnose", "--case", "glm52_rtxpro6000_spin", "--json"))
    assert first_class(diagnosis) == "collectives"
    assert diagnosis["verdicts"][0]["certainty"] in ("likely", "certain")
    assert not any(verdict["class"] == "kernel_inefficiency" and verdict["certainty"] in ("likely", "certain")
                   for verdict in diagnosis["verdicts"])


# ---- Two diagnoses side by side


def test_diff_tells_a_change_from_noise(capped, nibble, tmp_path):
    live, _ = capped
    before, faster, same = (tmp_path / name for name in ("before.json", "faster.json", "same.json"))
    before.write_text(json.dumps(live))
    same.write_text(json.dumps(live))
    changed = json.loads(json.dumps(live))
    for level in changed["levels"]:
        level["output_rate"] = level["output_rate"] * 2
        level["facts"]["output_rate"]["value"] *= 2
        level["measured_ms"] /= 2
    faster.write_text(json.dumps(changed))
    verdicts = [level["verdict"] for level in document(nibble("diagnose", "--diff", str(before), str(faster), "--json"))["levels"]]
    assert verdicts == ["faster", "faster"]
    verdicts = [level["verdict"] for level in document(nibble("diagnose", "--diff", str(before), str(same), "--json"))["levels"]]
    assert verdicts == ["within noise", "within noise"]
    assert "within noise" in nibble("diagnose", "--diff", str(before), str(same)).stdout


# ---- Traces


@pytest.mark.parametrize("name", ["chrome.trace.json", "chrome.trace.json.gz", "nsys.sqlite"])
def test_a_trace_fills_the_served_column(nibble, source_dir, tmp_path, name):
    subprocess.run([sys.executable, str(source_dir / "tools/make_traces.py"), str(tmp_path)], check=True, capture_output=True)
    expected = json.loads((tmp_path / "expected.json").read_text())
    trace = document(nibble("diagnose", "--trace", str(tmp_path / name), "--json"))["trace"]
    assert trace["steps"] == expected["steps"] and trace["step_ms"] == pytest.approx(expected["step_ms"])
    assert trace["busy_ms"] == pytest.approx(expected["busy_ms"])
    served = {op["op"]: (op["ms"], op["count"]) for op in trace["ops"]}
    for op, (ms, count) in expected["ops"].items():
        assert served[op] == pytest.approx((ms, count)), op


def test_a_trace_of_a_real_gpu_has_all_of_its_kernels_time(nibble, source_dir):
    """Recorded by torch's profiler on an H200 (tools/record_trace.py), which adds the kernels up by itself."""
    golden = source_dir / "tests/golden/traces"
    expected = json.loads((golden / "h200_torch.expected.json").read_text())
    trace = document(nibble("diagnose", "--trace", str(golden / "h200_torch.trace.json.gz"), "--json"))["trace"]
    assert trace["steps"] == expected["steps"]
    assert sum(op["ms"] for op in trace["ops"]) == pytest.approx(expected["kernel_ms_a_step"], rel=1e-6)
    assert sum(op["count"] for op in trace["ops"]) * expected["steps"] == pytest.approx(expected["kernels_and_copies"])
    served = {op["op"] for op in trace["ops"]}
    assert {"gemm", "attn.core", "sampling", "embed"} <= served and "unmapped" not in served


# ---- Mistakes


@pytest.mark.parametrize("words, told", [
    (["--case", "no_such_case"], "no_such_case"),
    (["--from", "no_such_file.json"], "no_such_file.json"),
    (["--trace", "no_such_trace.json"], "no_such_trace.json"),
    (["--diff", "one.json"], "two diagnoses"),
    (["--case", "glm5_rtxpro6000", "--experiment"], "server that runs"),
    (["--server", "http://127.0.0.1:1"], "127.0.0.1:1"),
    (["--server", "nonsense://"], "nonsense"),
    (["--server", "http://127.0.0.1:1", "--case", "glm5_rtxpro6000"], "one of them"),
    (["--server", "http://127.0.0.1:1", "--serve-option=--port"], "--serve-option"),
    (["--case", "glm5_rtxpro6000", "--max-concurrency", "4"], "--max-concurrency"),
])
def test_a_mistake_is_one_sentence(nibble, words, told):
    result = nibble("diagnose", *words)
    assert result.returncode == 2, result.stderr
    assert result.stderr.startswith("nibble: ") and told in result.stderr and len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_what_is_no_document_is_refused_by_name(nibble, tmp_path):
    for name, text in (("text.json", "hello"), ("list.json", "[1, 2]"), ("other.json", '{"schema": "nibble.mock/1"}'),
                       ("load.json", '{"schema": "nibble.load/1", "levels": 3}')):
        path = tmp_path / name
        path.write_text(text)
        result = nibble("diagnose", "--from", str(path))
        assert result.returncode == 2 and name in result.stderr and len(result.stderr.splitlines()) == 1, result.stderr


def test_a_live_document_fits_its_schema(capped, source_dir):
    schema = json.loads((source_dir / "docs/schemas/nibble.diagnosis.1.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(capped[0])


# ---- The main job


def test_our_own_server_is_measured_and_reported(nibble, tmp_path):
    result = nibble("diagnose", "--max-concurrency", "1,4", "--duration", "2", "--self-audit", "off", "--report", str(tmp_path / "out"))
    assert result.returncode == 0, result.stderr
    assert str(tmp_path / "out" / "report.html") in result.stdout.splitlines()[0]
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["setting"]["engine"] == "nibble"
    top = report["levels"][-1]["facts"]
    # Kernels alone, the floor, the server's own counts and the client's, all from this run.
    for name in ("kernels", "floor", "server_running", "occupancy", "server_step", "tpot", "output_rate"):
        assert top[name]["value"] is not None and top[name]["value"] > 0, (name, top[name])
    assert "report.md" in {path.name for path in (tmp_path / "out").iterdir()}
