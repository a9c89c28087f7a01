"""How requests fail, and that a failure is a class, a count and never a latency: T8, T9, reports of D."""
import socket
import threading

import pytest

from loadrun import FIRST, HOST, FakeServer

# (fault of the mock, class of the row, status); each strikes the answer that its place in the list names.
FAULTS = [
    ({"kind": "status", "status": 429}, "http_status", 429),
    ({"kind": "status", "status": 500}, "http_status", 500),
    ({"kind": "status", "status": 503}, "http_status", 503),
    ({"kind": "reset", "after_tokens": 2}, "reset", 200),
    ({"kind": "truncate", "after_tokens": 2}, "truncated", 200),
    ({"kind": "close", "after_tokens": 2}, "truncated", 200),
    ({"kind": "bad_framing", "after_tokens": 2}, "protocol", 200),
    ({"kind": "error_event", "after_tokens": 2}, "error_event", 200),
    ({"kind": "error_event"}, "error_event", 200),
    ({"kind": "bad_json", "after_tokens": 2}, "not_json", 200),
    ({"kind": "error_body"}, "error_body", 200),
    ({"kind": "html"}, "not_json", 200),
    ({"kind": "empty"}, "no_tokens", 200),
]


def test_t8_every_fault_has_its_class(mock, load, valid):
    """One good answer of 5 tokens before and behind each fault; nothing is sent twice."""
    faults = [{**fault, "requests": [FIRST + 2 * place + 1]} for place, (fault, _, _) in enumerate(FAULTS)]
    server = mock(ttft_ms=3, itl_ms=1, faults=faults)
    count = 2 * len(FAULTS) + 1
    run = load.quiet(server.url, "--max-concurrency", 1, "--num-prompts", count, "--random-output-len", 5)
    assert run.status == 0, run.errors
    valid("load", run.document)
    rows = run.rows()
    assert [row.outcome for row in rows[::2]] == ["ok"] * (len(FAULTS) + 1)
    for row, (fault, outcome, status) in zip(rows[1::2], FAULTS):
        assert (row.outcome, row.http_status) == (outcome, status), fault
        assert row.message and "\n" not in row.message
    level = run.level
    classes = {}
    for _, outcome, _ in FAULTS:
        classes[outcome] = classes.get(outcome, 0) + 1
    assert level["errors_by_class"] == classes
    assert (level["completed"], level["failed"], level["num_requests"]) == (len(FAULTS) + 1, len(FAULTS), count)
    # no failure is in a latency, a token or a length
    for name in ("ttft", "e2el", "e2e_latency", "tpot"):
        assert level["ci"][name]["n"] == len(FAULTS) + 1
    assert level["total_output_tokens"] == 5 * (len(FAULTS) + 1)
    assert level["latency_valid"] is False and level["success_ratio"] == pytest.approx(14 / 27)
    assert "latencies are those of the ones that the server chose to answer" in run.flags()
    # gpustack#1677: as many answers as requests
    assert len(server.truth()) == FIRST + count


def test_t8_a_server_that_goes_away_and_comes_back(mock, load):
    """It resets one request and refuses connections for a while; the run goes on when it is back."""
    server = mock(ttft_ms=3, itl_ms=1, faults=[{"kind": "refuse", "requests": [FIRST + 2], "ms": 200}])
    run = load.quiet(server.url, "--max-concurrency", 1, "--num-prompts", 12, "--random-output-len", 3)
    assert run.status == 0, run.errors
    outcomes = [row.outcome for row in run.rows()]
    assert outcomes[:2] == ["ok", "ok"] and outcomes[-1] == "ok" and len(outcomes) == 12
    # The request that was reset may have got through on a new connection: a kept one that breaks before a byte of the
    # answer is replaced once, and the listener is still closing then.
    assert set(outcomes) <= {"ok", "reset", "refused"} and "refused" in outcomes
    # a user waits after a failure: 50 ms, then twice as long
    failed = [row for row in run.rows() if not row.ok]
    for before, after in zip(failed, failed[1:]):
        assert (after.sent_ns or after.scheduled_ns) - before.end_ns >= 45_000_000


def test_t8_nobody_listens(load):
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
    run = load.quiet(f"http://{HOST}:{port}", "--max-concurrency", 1, "--num-prompts", 2)
    assert run.status == 2 and run.output == ""
    sentence = run.one_sentence()
    assert f"{HOST}:{port}" in sentence and "--ready-check-timeout-sec" in sentence
    assert not run.rows_path.exists()


def test_a_server_that_starts_late_is_waited_for(binary, mock, load):
    """--ready-check-timeout-sec, as vLLM has it."""
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
    process = load.start(f"http://{HOST}:{port}", "--no-telemetry", "--self-audit", "off", "--num-warmups", 0,
                         "--ready-check-timeout-sec", 20, "--max-concurrency", 1, "--num-prompts", 2,
                         "--random-output-len", 3)
    threading.Event().wait(0.3)
    mock(port=port)
    run = load.finish(process).well()
    assert run.level["completed"] == 2


def test_t8_no_request_succeeds(mock, load, valid):
    run = load.quiet(mock(faults=[{"kind": "status", "status": 503, "probability": 1}]).url,
                     "--max-concurrency", 2, "--num-prompts", 4)
    assert run.status == 1
    assert "no request succeeded" in run.one_sentence() and "503" in run.errors
    valid("load", run.document)
    level = run.level
    assert (level["completed"], level["failed"], level["success_ratio"]) == (0, 4, 0)
    assert level["errors_by_class"] == {"http_status": 4}
    assert level["mean_ttft_ms"] is None and level["output_throughput"] == 0
    assert level["latency_valid"] is False


@pytest.mark.parametrize("status, part", [(401, "--api-key-env"), (403, "--api-key-env"), (404, "--model"),
                                          (400, "--model")])
def test_a_server_that_refuses_every_request_is_one_sentence(load, status, part):
    def answer(handler, body):
        handler.say(status, '{"error": {"message": "not with me"}}')
        return True

    with FakeServer(answer=answer) as server:
        run = load.quiet(server.url, "--max-concurrency", 1, "--num-prompts", 2)
    assert run.status == 2 and run.output == ""
    assert "not with me" in run.one_sentence() and part in run.errors


def test_t9_silence_before_and_within_an_answer(mock, load):
    """Before the head, behind it, and after two tokens; the others have 4 tokens. The limit is 300 ms."""
    server = mock(ttft_ms=3, itl_ms=1, faults=[
        {"kind": "hang", "requests": [FIRST + 1], "head": False}, {"kind": "hang", "requests": [FIRST + 3]},
        {"kind": "hang", "requests": [FIRST + 5], "after_tokens": 2}])
    run = load.quiet(server.url, "--timeout-first-byte", 0.3, "--timeout-idle", 0.3, "--max-concurrency", 1,
                     "--num-prompts", 7, "--random-output-len", 4)
    assert run.status == 0, run.errors
    rows = run.rows()
    assert [row.outcome for row in rows[::2]] == ["ok"] * 4
    assert [row.outcome for row in rows[1::2]] == ["first_byte_timeout", "first_byte_timeout", "idle_timeout"]
    assert rows[1].http_status == 0 and rows[5].http_status == 200
    assert len(rows[5].at) == 2
    assert rows[1].end_ns - rows[1].sent_ns >= 299_000_000
    assert rows[5].end_ns - rows[5].at[-1] >= 299_000_000
    assert run.level["errors_by_class"] == {"first_byte_timeout": 2, "idle_timeout": 1}
    assert run.level["max_e2el_ms"] < 290 or run.level["ci"]["e2el"]["n"] == 4
    assert run.setup["timeouts"] == pytest.approx(
        {"connect_s": 10, "first_byte_s": 0.3, "idle_s": 0.3, "total_s": None})


def test_t9_a_pause_below_the_limit_is_no_failure(mock, load):
    """The stream stands still for 150 ms and goes on: a slow answer, not a failed one."""
    server = mock(ttft_ms=3, itl_ms=1, faults=[
        {"kind": "hang", "requests": [FIRST], "after_tokens": 2, "ms": 150}])
    run = load.quiet(server.url, "--timeout-idle", 20, "--max-concurrency", 1, "--num-prompts", 2,
                     "--random-output-len", 5).well()
    assert run.level["max_itl_ms"] >= 149 and run.level["completed"] == 2


def test_t9_the_whole_request_may_take_too_long(mock, load):
    """Keep-alives hold the connection, and --timeout-total ends it (vllm-omni#5548: no limit of its own)."""
    server = mock(ttft_ms=3, itl_ms=1, sse={"keep_alive_ms": 20}, faults=[
        {"kind": "hang", "requests": [FIRST], "after_tokens": 1}])
    run = load.quiet(server.url, "--timeout-total", 0.4, "--timeout-idle", 0, "--max-concurrency", 1,
                     "--num-prompts", 2, "--random-output-len", 5)
    assert run.status == 0, run.errors
    assert [row.outcome for row in run.rows()] == ["total_timeout", "ok"]
    assert run.rows()[0].end_ns - run.rows()[0].sent_ns >= 399_000_000


def test_d_a_server_that_refuses_most_is_not_fast(mock, load):
    """InferenceX#357: nine of ten are refused at once; latencies and goodput say so."""
    server = mock(ttft_ms=5, itl_ms=1, capacity=0, faults=[
        {"kind": "status", "status": 503, "requests": [FIRST + n for n in range(10) if n != 4]}])
    run = load.quiet(server.url, "--request-rate", 200, "--num-prompts", 10, "--random-output-len", 3,
                     "--goodput", "ttft:10000")
    assert run.status == 0
    level = run.level
    assert level["latency_valid"] is False and level["success_ratio"] == pytest.approx(0.1)
    assert level["goodput"]["good"] == 1 and level["goodput"]["of_sent"] == pytest.approx(0.1)
    assert level["errors_by_class"] == {"http_status": 9}


def test_d_failures_stand_in_the_table(mock, load):
    """vllm#26478: what a person reads has the failures, by class."""
    server = mock(faults=[{"kind": "status", "status": 500, "requests": [FIRST + 1, FIRST + 3]},
                          {"kind": "reset", "requests": [FIRST + 5], "after_tokens": 1}])
    run = load.quiet(server.url, "--max-concurrency", 1, "--num-prompts", 8, "--random-output-len", 4,
                     json_document=False)
    assert run.status == 0
    assert "http_status" in run.output and "reset" in run.output and "3" in run.output
