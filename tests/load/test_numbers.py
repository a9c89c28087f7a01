"""Every number of the document, made once more from the rows; and the rows against the mock's own times."""
import math
import time

import pytest

import recompute
from loadrun import EARLY_NS, QUIET, FakeServer, answers, lateness_ms, median, slow_from_the_load

# How far a client may be behind the mock at the median. The promise is 0.2 ms and is kept by the benchmark
# (bench/net_stream.cpp) on a quiet machine; here others may run, and a fault of the client is far larger.
BUSY_MS = 25


def recomputed(run, level, limits=None):
    document, rows = run.levels[level], run.rows(level)
    wrong = recompute.compare(document, recompute.level(rows, limits))
    steady = document["steady"]
    sent = [row for row in rows if row.sent_ns is not None]
    span = (min(row.sent_ns for row in sent), max(row.end_ns for row in sent))
    if steady["reason"] is None:
        span = (steady["start_ns"], steady["stop_ns"])
    wrong += recompute.compare(document, recompute.drift(rows, *span))
    if steady["reason"] is None:
        inside = recompute.window(rows, steady["start_ns"], steady["stop_ns"])
        wrong += ["steady." + text for text in recompute.compare(steady, inside)]
    assert wrong == []
    return document


# Answers that differ in length, form and fate.
MIXED = {"ttft_ms": {"kind": "gamma", "mean": 20, "stddev": 15}, "itl_ms": {"kind": "gamma", "mean": 4, "stddev": 3},
         "tokens_per_chunk": [1, 3, 2], "early_end": {"probability": 0.2, "tokens": [1, 4, 9]},
         "fields": {"reasoning_tokens": [0, 2, 5]},
         "faults": [{"kind": "status", "requests": [7, 19], "status": 500},
                    {"kind": "reset", "requests": [12, 31], "after_tokens": 3},
                    {"kind": "error_event", "requests": [16], "after_tokens": 2}]}


def test_every_number_of_a_sweep_from_its_rows(mock, load, valid):
    limits = {"ttft": 25, "tpot": 4.5, "e2el": 120}
    run = load.quiet(mock(**MIXED).url, "--backend", "openai-chat", "--max-concurrency", "1,4,16",
                     "--num-prompts", "9,30,80", "--num-warmups", 2, "--random-output-len", 20,
                     "--goodput", *(f"{name}:{limit}" for name, limit in limits.items())).well()
    valid("load", run.document)
    for row in run.all_rows():
        valid("load_row", {name: value for name, value in vars(row).items()
                           if name not in ("at", "tokens", "kinds")})
    for level, requests in enumerate((9, 30, 80)):
        document = recomputed(run, level, limits)
        assert document["num_requests"] == requests and document["warmup_requests"] == 2
        assert {check["id"]: check["holds"] for check in document["checks"]}["requests"] is True
    assert sum(level["failed"] for level in run.levels) == 5
    assert run.levels[2]["output_lengths"]["early_eos"] > 0
    assert run.levels[2]["median_ttfo_ms"] > run.levels[2]["median_ttft_ms"]


@pytest.mark.parametrize("script, words", [
    ({"usage": {"when": "last"}, "tokens_per_chunk": 4}, ()),
    ({"usage": {"when": "none"}}, ()),
    ({"usage": {"when": "zeros"}}, ()),
    ({"stream": {"mode": "one_chunk"}}, ()),
    ({}, ("--disable-stream",)),
    ({}, ("--backend", "sglang")),
    ({"tokens_per_chunk": 2}, ("--backend", "llamacpp")),
    ({"fields": {"reasoning_tokens": 99}}, ("--backend", "openai-chat")),
], ids=["usage at the end", "no usage", "zeros", "one chunk", "not streamed", "sglang", "llamacpp", "reasoning"])
def test_every_number_of_other_forms(mock, load, valid, script, words):
    run = load.quiet(mock(ttft_ms=10, itl_ms=2, **script).url, "--max-concurrency", 3, "--num-prompts", 9,
                     "--random-output-len", 9, "--goodput", "ttft:1000", *words).well()
    valid("load", run.document)
    recomputed(run, 0, {"ttft": 1000})


def test_every_number_of_an_open_loop(mock, load, valid):
    """Five a second too many for one place: what waits in the client is told, and only from the schedule."""
    run = load.quiet(mock(ttft_ms=20, itl_ms=2).url, "--request-rate", 60, "--burstiness", 0.5,
                     "--max-concurrency", 1, "--num-prompts", 40, "--random-output-len", 6).well()
    valid("load", run.document)
    document = recomputed(run, 0)
    assert document["max_concurrent_requests"] == 1
    assert document["p99_sched_ttft_ms"] > document["p99_ttft_ms"] + 100
    # 40 of 30 ms one after the other, planned within some 0.7 s
    assert document["max_client_queue_ms"] > 300
    for row in run.rows():
        assert row.sent_ns >= row.scheduled_ns


def test_t22_few_values_and_what_they_can_carry(mock, load):
    """1, 2, 3 and 100 values; P99 takes 368 requests, P95 72, the median 6."""
    run = load.quiet(mock(ttft_ms={"kind": "uniform", "low": 1, "high": 30}).url, "--max-concurrency", "1,2,3,50",
                     "--num-prompts", "1,2,3,100", "--random-output-len", 3).well()
    for level, n in enumerate((1, 2, 3, 100)):
        document = recomputed(run, level)
        ci = document["ci"]["ttft"]
        assert (ci["n"], ci["missing"]) == (n, 0)
        assert ci["p99"] is None and "368" in ci["p99_reason"]
        assert "P99 is withheld" in run.flags(level)
        if n < 6:
            assert ci["p50"] is None and "it takes 6" in ci["p50_reason"]
    values = sorted(row.at[0] - row.sent_ns for row in run.rows(3))
    for p in (50, 95):
        low, high = recompute.ranks(100, p / 100)
        assert run.levels[3]["ci"]["ttft"][f"p{p}"] == pytest.approx([values[low - 1] / 1e6, values[high - 1] / 1e6])
    assert recompute.ranks(100, 0.5) == (40, 61)  # the facts' own numbers


def test_t1_times_against_the_mocks_own(mock, load):
    """1, 10 and 100 streams of 10 ms; the first token after 50 ms."""
    server = mock(ttft_ms=50, itl_ms=10)
    before = time.monotonic_ns()
    run = load.quiet(server.url, "--max-concurrency", "1,10,100", "--num-prompts", "5,20,100",
                     "--random-output-len", 12).well()
    after = time.monotonic_ns()
    truth = server.truth()[3:]
    assert len(truth) == 125
    for level, begin, end in ((0, 0, 5), (1, 5, 25), (2, 25, 125)):
        rows = sorted(run.rows(level), key=lambda row: row.sent_ns)
        pairs = list(zip(rows, truth[begin:end]))
        for row in rows:
            # T19: the stamps are of CLOCK_MONOTONIC, which Python reads too.
            assert before <= row.scheduled_ns <= row.sent_ns < row.first_byte_ns <= row.at[0]
            assert row.at == sorted(row.at) and row.at[-1] <= row.end_ns <= after
        if level == 0:  # one at a time: who is who is certain, and nothing comes before it was due
            for row, line in pairs:
                assert row.sent_ns <= line["arrival_ns"]
                assert all(at >= due - EARLY_NS for at, due in zip(row.at, line["due_ns"]))
        ttft = [abs((row.at[0] - row.sent_ns) - (line["written_ns"][0] - line["arrival_ns"])) / 1e6
                for row, line in pairs]
        assert median(ttft) < BUSY_MS
        gaps = [abs((b - a) - (d - c)) / 1e6 for row, line in pairs
                for a, b, c, d in zip(row.at, row.at[1:], line["written_ns"], line["written_ns"][1:])]
        assert len(gaps) == 11 * len(rows) and median(gaps) < BUSY_MS
        assert median(lateness_ms(pairs)) < BUSY_MS
        assert run.levels[level]["max_concurrent_requests"] == (1, 10, 100)[level]


def test_t1_the_clients_own_overhead_is_told(mock, load, valid):
    """Measured against the mock in this process, kept for the next run, and told with its age."""
    server = mock(ttft_ms=20, itl_ms=10)
    words = ("--no-telemetry", "--no-server-metrics", "--max-concurrency", 4, "--num-prompts", 8,
             "--random-output-len", 10)
    run = load(server.url, *words, "--self-audit", "fresh").well()
    valid("load", run.document)
    audit = run.level["client_overhead"]
    found = audit["calibration"]
    assert found["concurrency"] >= 4 and found["events"] > 0 and found["failed"] == 0
    assert found["cached"] is False
    for spread in ("ttft_error_ms", "itl_error_ms"):
        assert found[spread]["p50"] <= found[spread]["p99"] <= found[spread]["max"]
    assert found["client_cpu_us_per_event"] > 0 and audit["cpu_us_per_event"] > 0
    assert audit["verdict"]
    # A run beside busy neighbours has another pace, for which a calibration is measured and kept of its own.
    kept = [found]
    for _ in range(4):
        again = load(server.url, *words, "--self-audit", "cached").well().level["client_overhead"]["calibration"]
        if again["cached"]:
            break
        kept.append(again)
    assert again["cached"] is True and again["age_s"] > 0
    assert again["ttft_error_ms"] in [one["ttft_error_ms"] for one in kept]
    off = load(server.url, *words, "--self-audit", "off").well().level["client_overhead"]
    assert off["calibration"] is None and "off" in off["calibration_reason"]


def test_t2_three_tokens_a_chunk(mock, load):
    """1 + 10 x 3 tokens. Whatever the times were, a chunk takes three times as long as a token."""
    server = mock(ttft_ms=10, itl_ms=2, tokens_per_chunk=3)
    run = load.quiet(server.url, "--max-concurrency", 3, "--num-prompts", 6, "--random-output-len", 31).well()
    level = recomputed(run, 0)
    for row, line in answers(server, run.rows()):
        assert row.tokens == line["chunk_tokens"] == [1] + 10 * [3]
        assert row.output_tokens == 31 and row.token_source == "continuous_usage"
        # by the script: (last - first) / (tokens - 1) is the ITL, to the nanosecond
        assert (line["due_ns"][-1] - line["due_ns"][0]) / 30 == 2_000_000
    assert level["ci"]["itl"]["n"] == 60 and level["ci"]["token_itl"]["n"] == 180
    assert level["mean_icl_ms"] == pytest.approx(3 * level["mean_token_itl_ms"], rel=1e-9)
    assert level["mean_tpot_ms"] == pytest.approx(level["mean_token_itl_ms"], rel=1e-9)
    assert level["mean_tpot_ms"] == pytest.approx(level["mean_tpot_after_first_chunk_ms"], rel=1e-9)
    assert level["tokens_per_chunk"] == pytest.approx(31 / 11)
    # 186 tokens in 66 chunks: the best second is counted in tokens, and below the mean it cannot be
    assert level["total_output_tokens"] == 186 and level["token_counts"]["chunks"] == 66
    assert "chunks hold 2.8" in run.flags()


def test_the_best_second_counts_tokens(mock, load):
    """Eight tokens a chunk: counting chunks, a second would hold an eighth of the mean rate."""
    run = load.quiet(mock(ttft_ms=10, itl_ms=2, tokens_per_chunk=8).url, "--max-concurrency", 2,
                     "--num-prompts", 8, "--random-output-len", 161).well()
    level = recomputed(run, 0)
    assert level["duration"] >= 1.3
    assert level["max_output_tokens_per_s"] >= level["output_throughput"]


def test_littles_law_and_conservation(mock, load):
    """The client's count in flight, the sum of the latencies and the server's own counters agree."""
    server = mock(ttft_ms=10, itl_ms=2, metrics_style="vllm")
    run = load(server.url, "--self-audit", "off", "--no-telemetry", "--num-warmups", 1, "--max-concurrency", 4,
               "--num-prompts", 24, "--random-output-len", 12, input_len=37).well()
    checks = {check["id"]: check for check in run.level["checks"]}
    for name in ("littles_law", "requests", "output_tokens", "prompt_tokens"):
        assert checks[name]["holds"] is True, checks[name]
    assert checks["output_tokens"]["value"] == 0 and checks["prompt_tokens"]["value"] == 0
    assert run.level["total_input_tokens"] == 24 * 37 and run.level["total_output_tokens"] == 24 * 12


def test_a_server_that_miscounts_is_told(load):
    """A counter that rises by half of what came."""
    state = {"tokens": 0}

    def answer(handler, body):
        state["tokens"] += 2
        return False

    def page(path):
        return f"vllm:generation_tokens_total {state['tokens']}\n" if path == "/metrics" else None

    with FakeServer(answer=answer, page=page, tokens=4) as server:
        run = load(server.url, "--self-audit", "off", "--no-telemetry", "--num-warmups", 0,
                   "--max-concurrency", 2, "--num-prompts", 10, "--random-output-len", 4)
    check = next(check for check in run.level["checks"] if check["id"] == "output_tokens")
    assert check["holds"] is False and math.isclose(check["value"], 1)  # 40 against 20


def test_b_an_exact_number_in_flight(mock, load):
    """Never one more or fewer than asked (guidellm#70), and no hidden limit of connections (gpustack#2324)."""
    server = mock(ttft_ms=slow_from_the_load(400), itl_ms=5)
    run = load.quiet(server.url, "--max-concurrency", 150, "--num-prompts", 150, "--random-output-len", 4).well()
    assert run.level["max_concurrent_requests"] == 150 and run.level["completed"] == 150
    assert run.level["new_connections"] >= 149  # one may be left of the requests before
    # all of them had arrived before the first was answered
    truth = server.truth()[3:]
    assert max(line["arrival_ns"] for line in truth) < min(line["written_ns"][0] for line in truth)
