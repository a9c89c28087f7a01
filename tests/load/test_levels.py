"""Whole levels and sweeps: queues, knees, warm-up, a client that is too slow, open loops, prefix caches."""
import itertools
import json
import signal
import time

import pytest

from loadrun import FIRST, FakeServer, line_count, slow_from_the_load, wait_for


def test_t12_a_server_that_runs_32_at_once(mock, load):
    """64 users: 32 run, 32 wait. An answer takes 20 + 9 x 5 = 65 ms, so that a request waits for 65 ms."""
    server = mock(ttft_ms=20, itl_ms=5, capacity=32)
    run = load.quiet(server.url, "--max-concurrency", "16,32,64,128", "--num-prompts", "64,128,256,384",
                     "--random-output-len", 10).well()
    below, full, twice, four = run.levels
    # in flight at the client are all; the server's own places are seen in the rate: 32 answers per 65 ms
    assert twice["max_concurrent_requests"] == 64
    most = 32 * 10 / 0.065
    for level in run.levels:
        assert level["output_throughput"] <= most * 1.02
    steady = [level["steady"].get("output_throughput") or level["output_throughput"] for level in run.levels]
    assert steady[1] > 1.4 * steady[0]  # 16 -> 32 doubles
    assert steady[2] < 1.25 * steady[1] and steady[3] < 1.25 * steady[1]  # and no further
    # the queue is in TTFT and not in TPOT
    assert twice["median_ttft_ms"] > 20 + 60
    assert four["median_ttft_ms"] > twice["median_ttft_ms"] + 60
    assert four["median_tpot_ms"] < 3 * below["median_tpot_ms"]


# Answers out of step with each other, so that the rate of a short level is known well.
UNEVEN_MS = {"kind": "uniform", "low": 15, "high": 25}


def unhindered(load, least, *words):
    """A sweep with at least so many levels in which the client kept up: the others count for no knee, and on a
    busy machine that is the client's true state. Tried again; where it cannot be had, the reason is checked."""
    for _ in range(2):
        run = load.quiet(*words).well()
        limited = [level["max_concurrency"] for level in run.levels if level["client_overhead"]["cpu_limited"]]
        if len(run.levels) - len(limited) >= least:
            return run
        if len(run.levels) - len(limited) < 3:
            assert run.document["knee"] is None and "levels count" in run.document["knee_reason"]
    pytest.skip(f"others are at work on this machine: the client was held up with {limited} users")


def test_t13_the_knee_of_a_scripted_curve(mock, load):
    """Linear to 4 and flat from there: a token in 20 ms for each of four, some 200 tokens/s in all."""
    server = mock(ttft_ms=1, itl_ms=UNEVEN_MS, load_curve={"kind": "knee", "knee": 4})
    run = unhindered(load, 4, server.url, "--max-concurrency", "1,2,4,8,16", "--random-output-len", 16,
                     "--num-prompts", "3,6,12,16,16")
    knee = run.document["knee"]
    assert knee["concurrency"] in (2, 4, 8), knee
    assert run.document["usl"]["reason"] is None
    rates = [level["output_throughput"] for level in run.levels]
    assert rates[2] > 2.5 * rates[0]
    assert max(rates) < 16 / 15 * 4 / 0.020 * 1.1  # 16 tokens in 15 gaps; drawn with an error of 2 %


def test_t13_no_knee_on_a_straight_line(mock, load):
    run = unhindered(load, 3, mock(ttft_ms=1, itl_ms=UNEVEN_MS).url, "--max-concurrency", "1,2,4,8",
                     "--random-output-len", 16, "--num-prompts", "3,6,12,24")
    assert run.document["knee"]["concurrency"] is None and run.document["knee"]["reason"]


def test_t14_a_slow_start_is_cut(mock, load):
    """The first 20 answers take ten times as long: 110 ms instead of 11. They are neither in the steady
    part nor, sent as warm-ups, in any number."""
    slow = {"ttft_ms": 10, "itl_ms": 0.25, "slow_start": {"requests": FIRST + 20, "factor": 10}}
    run = load.quiet(mock(**slow).url, "--max-concurrency", 4, "--num-prompts", 160, "--random-output-len", 5).well()
    level, steady = run.level, run.level["steady"]
    assert steady["unstable_requests"] >= 20
    assert level["max_ttft_ms"] >= 99
    slow_rows = sorted(run.rows(), key=lambda row: row.sent_ns)[:20]
    assert steady["start_ns"] >= max(row.end_ns for row in slow_rows)
    assert steady["mean_ttft_ms"] < level["mean_ttft_ms"]
    run = load.quiet(mock(**slow).url, "--max-concurrency", 4, "--num-prompts", 40, "--num-warmups", 20,
                     "--random-output-len", 5).well()
    assert run.level["warmup_requests"] == 20 and run.level["num_requests"] == 40
    warm = [row for row in run.all_rows() if row.warmup]
    assert len(warm) == 20 and min(row.at[0] - row.sent_ns for row in warm) >= 99_000_000
    assert run.level["median_ttft_ms"] < 90


def test_t24_a_client_that_is_held_up_says_so(mock, load):
    """Stopped for 80 ms again and again, while tokens come every 10 ms: late loops, and the verdict."""
    server = mock(ttft_ms=10, itl_ms=10)
    process = load.start(server.url, "--no-telemetry", "--no-server-metrics", "--self-audit", "off",
                         "--num-warmups", 0, "--max-concurrency", 4, "--num-prompts", 24, "--random-output-len", 20)
    wait_for(lambda: line_count(server.truth_path) > FIRST, "the first answer")
    for _ in range(7):  # 6 x 210 ms are the least that the level takes
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.08)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.05)
    run = load.finish(process)
    assert run.status == 0, run.errors
    client = run.level["client_overhead"]
    assert client["client_limited"] is True
    assert client["late"] is True and "uncertain" in client["in_doubt"]
    assert client["verdict"].startswith("client-limited")
    assert max(loop["lag_p99_ms"] for loop in client["loops"]) > 30


def test_t24_the_verdict_is_that_of_its_numbers(mock, load):
    run = load.quiet(mock(ttft_ms=20, itl_ms=20).url, "--max-concurrency", 4, "--num-prompts", 8,
                     "--random-output-len", 10).well()
    client, level = run.level["client_overhead"], run.level
    late = max(loop["lag_p99_ms"] for loop in client["loops"]) > 0.1 * level["mean_itl_ms"]
    busy = max(loop["cpu_share"] for loop in client["loops"]) > 0.8
    assert client["client_limited"] is (late or busy)
    assert client["late"] is late and client["cpu_limited"] is busy
    assert client["verdict"].startswith("client-limited") is (late or busy)


def test_a_trace_is_played_to_the_nanosecond(mock, load, tmp_path):
    times = [0.5, 0.52, 0.52, 0.6, 0.65, 0.75]
    trace = tmp_path / "trace.txt"
    trace.write_text("# seconds\n" + "".join(f"{at}\n" for at in times))
    run = load.quiet(mock().url, "--trace", trace, "--random-output-len", 3).well()
    rows = run.rows()
    assert [row.scheduled_ns - rows[0].scheduled_ns for row in rows] == [round((t - 0.5) * 1e9) for t in times]
    assert all(row.sent_ns >= row.scheduled_ns for row in rows)
    mooncake = tmp_path / "mooncake.jsonl"
    mooncake.write_text("".join(json.dumps({"timestamp": at * 1000, "input_length": 7}) + "\n" for at in times))
    run = load.quiet(mock().url, "--trace", mooncake, "--trace-speed", 2, "--random-output-len", 3).well()
    rows = run.rows()
    gaps = [b.scheduled_ns - a.scheduled_ns for a, b in zip(rows, rows[1:])]
    assert gaps == pytest.approx([10e6, 0, 40e6, 25e6, 50e6], abs=1)


def test_an_even_rate_does_not_wait_for_the_server(mock, load):
    """50 a second whatever the server does, which takes 300 ms for an answer: 15 are under way at once."""
    run = load.quiet(mock(ttft_ms=slow_from_the_load(300), itl_ms=0).url, "--request-rate", 50, "--constant-rate",
                     "--num-prompts", 40, "--random-output-len", 2).well()
    rows = run.rows()
    assert [row.scheduled_ns - rows[0].scheduled_ns for row in rows] == [20_000_000 * n for n in range(40)]
    assert 14 <= run.level["max_concurrent_requests"] <= 40
    assert run.level["request_rate"] == 50 and run.level["max_concurrency"] is None


def test_a_burst_is_told_with_its_jitter(mock, load):
    """guidellm#1041: all at once, and how far apart the sends really were."""
    run = load.quiet(mock(ttft_ms=slow_from_the_load(400)).url, "--num-prompts", 50, "--random-output-len", 2).well()
    rows = run.rows()
    assert len({row.scheduled_ns for row in rows}) == 1
    queue = [(row.sent_ns - row.scheduled_ns) / 1e6 for row in rows]
    assert run.level["max_client_queue_ms"] == pytest.approx(max(queue))
    assert run.level["max_concurrent_requests"] == 50


def test_a_sweep_of_rates_and_a_duration(mock, load):
    run = load.quiet(mock(ttft_ms=2, itl_ms=0).url, "--request-rate", "20,40", "--constant-rate", "--duration", 0.5,
                     "--random-output-len", 2).well()
    assert [level["request_rate"] for level in run.levels] == [20, 40]
    for level, gap_ns, most in ((0, 50_000_000, 11), (1, 25_000_000, 21)):
        rows = run.rows(level)
        assert 1 <= len(rows) <= most  # fewer where this process got no time
        assert [row.scheduled_ns - rows[0].scheduled_ns for row in rows] == [
            gap_ns * (row.index - rows[0].index) for row in rows]


def test_a_level_without_an_end_stops_at_its_longest(mock, load):
    """Neither --num-prompts nor --duration: by its rate, or at the latest then; it is whole and not converged."""
    run = load.quiet(mock(ttft_ms=2, itl_ms=2).url, "--max-concurrency", 2, "--longest-level", 0.6,
                     "--random-output-len", 5).well()
    assert run.level["complete"] is True and run.level["duration"] >= 0.6
    assert run.level["output_throughput_ci"]["converged"] is False and run.level["output_throughput_ci"]["reason"]


def test_time_is_over_and_what_runs_is_cut(mock, load):
    """An answer takes 5 s, the level 0.2 s and its grace 0.1 s: cancelled, which is no failure."""
    run = load.quiet(mock(ttft_ms=slow_from_the_load(5000)).url, "--max-concurrency", 2, "--duration", 0.2,
                     "--grace", 0.1, "--random-output-len", 2)
    assert run.level["cancelled"] == 2 and run.level["failed"] == 0
    assert "cancelled at the end" in run.flags()


def test_users_start_over_the_ramp(mock, load):
    run = load.quiet(mock(ttft_ms=slow_from_the_load(500), itl_ms=0).url, "--max-concurrency", 5, "--ramp", 0.4,
                     "--num-prompts", 5, "--random-output-len", 2).well()
    scheduled = sorted(row.scheduled_ns for row in run.rows())
    gaps = [(b - a) / 1e6 for a, b in zip(scheduled, scheduled[1:])]
    assert gaps == pytest.approx([80] * 4, abs=0.001) or gaps == pytest.approx([100] * 4, abs=0.001)


def prompts_of(server, skip=0):
    return [tuple(body["prompt"]) for _, _, body in server.posts()[skip:]]


def test_f_no_prompt_begins_like_another(load):
    """Not within a level, between levels, warm-ups and runs of the same seed: a prefix cache finds nothing
    (vllm#52884, inference-perf#340)."""
    with FakeServer() as server:
        for _ in range(2):
            load.quiet(server.url, "--seed", 7, "--max-concurrency", "2,4", "--num-prompts", 12, "--num-warmups", 2,
                       "--random-output-len", 2, input_len=40).well()
        prompts = prompts_of(server)
    long = [prompt for prompt in prompts if len(prompt) == 40]
    assert len(long) == 2 * 2 * (12 + 2)
    blocks = [prompt[:16] for prompt in prompts]  # a block of vLLM's cache
    assert len(set(blocks)) == len(blocks)


@pytest.mark.parametrize("told", [True, False])
def test_prompts_hold_no_ids_beyond_the_vocabulary(load, told):
    """4,096 tokens: told by /server_info, or found out by what is refused."""
    def refuse(handler, body):
        if max(body["prompt"]) < 4096:
            return False
        handler.say(400, json.dumps({"error": {"message": "token id out of vocabulary"}}))
        return True

    def page(path):
        return json.dumps({"model": {"vocabulary": 4096}}) if told and path == "/server_info" else None

    with FakeServer(answer=refuse, page=page) as server:
        run = load.quiet(server.url, "--max-concurrency", 2, "--num-prompts", 6, "--random-output-len", 4,
                         input_len=400).well()
    assert run.level["completed"] == 6
    drawn = {token for _, _, body in server.posts()[-6:] for token in body["prompt"]}
    assert 1000 <= min(drawn) and 4000 < max(drawn) < 4096  # the whole range is drawn from
    if told:
        assert all(max(body["prompt"]) < 4096 for _, _, body in server.posts())


def test_lengths_that_cannot_fit_are_said_before_anything_is_sent(load):
    models = json.dumps({"object": "list", "data": [{"id": "small", "object": "model", "max_model_len": 300}]})
    with FakeServer(page=lambda path: models if path == "/v1/models" else None) as server:
        fits = load.quiet(server.url, "--max-concurrency", 1, "--num-prompts", 1, "--random-output-len", 4,
                          input_len=296).well()
        assert fits.level["completed"] == 1
        sent = len(server.posts())
        run = load.quiet(server.url, "--max-concurrency", 1, "--num-prompts", 1, "--random-output-len", 5,
                         input_len=296)
    assert run.status == 2
    assert "takes 300 tokens" in run.errors and "296 + 5" in run.errors and "--input-len" in run.errors
    assert len(server.posts()) - sent < 20  # what the negotiation asks; no load


def test_f_a_shared_prefix_is_shared_and_nothing_else(load):
    with FakeServer() as server:
        load.quiet(server.url, "--dataset-name", "generated-shared-prefix", "--gsp-num-groups", 2,
                   "--gsp-prompts-per-group", 3, "--gsp-system-prompt-len", 32, "--gsp-question-len", 8,
                   "--gsp-output-len", 2, "--max-concurrency", 1).well()
        prompts = [prompt for prompt in prompts_of(server) if len(prompt) == 40]
    assert len(prompts) == 6
    groups = {}
    for prompt in prompts:
        groups.setdefault(prompt[:32], set()).add(prompt[32:])
    assert sorted(len(questions) for questions in groups.values()) == [3, 3]


def test_f_cached_tokens_are_told(mock, load):
    run = load.quiet(mock(usage={"cached_share": 0.5}).url, "--max-concurrency", 1, "--num-prompts", 4,
                     "--random-output-len", 3, input_len=40).well()
    assert run.level["cached_tokens"] == 80 and run.level["cached_fraction"] == 0.5
    assert "50" in run.flags() and "prefix cache" in run.flags()
    run = load.quiet(mock().url, "--max-concurrency", 1, "--num-prompts", 2, "--random-output-len", 3).well()
    assert run.level["cached_fraction"] in (None, 0)


def test_f_the_cache_is_flushed_before_each_level(load):
    def answer(handler, body):
        if handler.path == "/flush_cache":
            handler.say(200, "{}")
            return True
        return False

    with FakeServer(answer=answer) as server:
        run = load.quiet(server.url, "--flush-cache", "--max-concurrency", "1,2", "--num-prompts", 2,
                         "--random-output-len", 2).well()
        paths = [path for path, _, _ in server.requests]
    assert paths.count("/flush_cache") == 2
    assert not any("flush" in note for note in run.setup["notes"])
    with FakeServer(answer=lambda handler, body: handler.path == "/flush_cache"
                    and (handler.say(404, "{}") or True)) as server:
        run = load.quiet(server.url, "--flush-cache", "--max-concurrency", 1, "--num-prompts", 2,
                         "--random-output-len", 2).well()
    assert any("/flush_cache gave status 404" in note for note in run.setup["notes"])


def test_no_request_is_sent_twice(load):
    """gpustack#1677: every fourth answer is a 503, and no prompt comes again."""
    counter = itertools.count()

    def answer(handler, body):
        if next(counter) % 4 != 3:
            return False
        handler.say(503, '{"error": {"message": "busy"}}')
        return True

    with FakeServer(answer=answer) as server:
        run = load.quiet(server.url, "--max-concurrency", 4, "--num-prompts", 40, "--random-output-len", 2,
                         input_len=30)
        prompts = [prompt for prompt in prompts_of(server) if len(prompt) == 30]
    assert len(prompts) == len(set(prompts)) == 40
    assert run.level["failed"] == 10 and run.level["completed"] == 30
