"""The run over time, what prompts were sent before, and how the rate drifts: against rows and what was asked."""
import json
import statistics

import pytest

from loadrun import FakeServer


def signal(series, name):
    return next(signal for signal in series["signals"] if signal["name"] == name)


def mean_within(points, start_s, end_s, bin_s):
    """Of the bins that lie whole in the window."""
    inside = [value for at, value in points if start_s <= at - bin_s / 2 and at + bin_s / 2 <= end_s]
    assert len(inside) >= 10
    return statistics.mean(inside)


def test_the_series_of_a_sweep(mock, load, valid):
    """What the client received over each level's window is the level's rate."""
    run = load(mock(ttft_ms=20, itl_ms=10).url, "--self-audit", "off", "--max-concurrency", "2,6", "--num-prompts",
               "16,48", "--random-output-len", 40).well()
    valid("load", run.document)
    series = run.document["series"]
    rows = run.all_rows()
    assert series["t0_ns"] == min(row.sent_ns for row in rows)
    assert series["telemetry_reason"] is None
    assert [level["name"] for level in series["levels"]] == ["2 users", "6 users"]
    for window, level in zip(series["levels"], run.levels):
        steady = level["steady"]
        assert steady["reason"] is None
        assert window["start_s"] == pytest.approx((steady["start_ns"] - series["t0_ns"]) / 1e9, abs=6e-4)
        assert window["end_s"] == pytest.approx((steady["stop_ns"] - series["t0_ns"]) / 1e9, abs=6e-4)
        over = (window["start_s"], window["end_s"], series["bin_s"])
        rate = mean_within(signal(series, "client.output_rate")["points"], *over)
        assert rate == pytest.approx(steady["output_throughput"], rel=0.05)
        flight = mean_within(signal(series, "client.in_flight")["points"], *over)
        assert flight == pytest.approx(steady["mean_in_flight"], rel=0.05)
    for entry in series["signals"]:
        times = [at for at, _ in entry["points"]]
        assert times == sorted(set(times)) and 0 < len(times) <= 240
    # Every token of the run is in its bins, those of warm-ups too.
    rates = signal(series, "client.output_rate")["points"]
    assert series["bin_s"] * sum(value for _, value in rates) == pytest.approx(
        sum(row.output_tokens for row in rows), rel=1e-4)
    names = {entry["name"] for entry in series["signals"]}
    assert {"cpu.utilization", "server.running", "server.generation_tokens"} <= names
    assert signal(series, "server.generation_tokens")["unit"] == "tokens/s"


def test_without_telemetry_the_clients_own_signals_stand_alone(mock, load, valid):
    run = load.quiet(mock(itl_ms=2).url, "--max-concurrency", 2, "--num-prompts", 4, "--random-output-len", 20).well()
    valid("load", run.document)
    series = run.document["series"]
    assert [entry["name"] for entry in series["signals"]] == ["client.output_rate", "client.in_flight"]
    assert series["telemetry_reason"] == "telemetry is switched off"


def test_the_drift_of_a_server_that_slows_down(mock, load, valid):
    """An answer of 3.5 s on its own: a rate that does not drift. recompute.drift has the others."""
    run = load.quiet(mock(ttft_ms=5, itl_ms=10).url, "--max-concurrency", 1, "--num-prompts", 1, "--num-warmups", 0,
                     "--random-output-len", 350).well()
    valid("load", run.document)
    assert run.level["rate_drift"] == pytest.approx(0, abs=0.1)
    assert run.level["rate_drift_reason"] is None


def test_prompts_that_come_again_are_told(load, valid, tmp_path):
    """A file of three prompts for nine requests: six of nine were sent before. Then the second level: all."""
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps({"prompt": f"prompt {n}", "output_tokens": 4}) + "\n" for n in range(3)))
    with FakeServer() as server:
        run = load.quiet(server.url, "--dataset-name", "custom", "--dataset-path", file, "--max-concurrency", "1,2",
                         "--num-prompts", "9,6", "--num-warmups", 0).well()
        sent = [body["prompt"] for _, _, body in server.posts()][3:]
    valid("load", run.document)
    assert sent[:9] == [f"prompt {n % 3}" for n in range(9)]
    assert [level["repeated_prompts"] for level in run.levels] == [6 / 9, 1]
    assert [row.prompt_repeated for row in run.rows(0)] == [False] * 3 + [True] * 6


def test_prompts_that_are_drawn_never_come_again(mock, load):
    run = load.quiet(mock(itl_ms=1).url, "--max-concurrency", "1,4", "--num-prompts", "10,40",
                     "--random-output-len", 4).well()
    assert [level["repeated_prompts"] for level in run.levels] == [0, 0]
    assert all(level["repeated_prompts_reason"] is None for level in run.levels)
