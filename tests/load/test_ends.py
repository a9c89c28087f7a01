"""Whatever ends a run, what was measured is kept and marked: T21, server death, full disk, bad signals (T20)."""
import json
import resource
import signal
import subprocess
import threading
import time
import urllib.request

import pytest

from loadrun import (FIRST, HOST, QUIET, FakeServer, Loader, Mock, Row, environment, line_count,
                     slow_from_the_load, wait_for)

PLAIN = ("--self-audit", "off", "--num-warmups", 0, *QUIET[:2])


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_t21_interrupted(mock, load, valid, sign, tmp_path):
    """In the first of two levels: the rows so far, a document that says so, status 1, no second level."""
    server = mock(ttft_ms=5, itl_ms=10)
    process = load.start(server.url, *PLAIN, "--max-concurrency", "4,8", "--num-prompts", 2000,
                         "--random-output-len", 8, "--csv", tmp_path / "run.csv",
                         "--output-file", tmp_path / "run.jsonl")
    wait_for(lambda: line_count(server.truth_path) >= FIRST + 8, "eight answers")
    process.send_signal(sign)
    run = load.finish(process)
    assert run.status == 1
    assert "interrupted" in run.one_sentence()
    valid("load", run.document)
    assert "interrupted" in run.document["incomplete_reason"] and run.document["complete"] is False
    level = run.level  # the only one
    assert level["complete"] is False and "interrupted" in level["incomplete_reason"]
    rows = run.rows()
    assert {row.outcome for row in rows} == {"ok", "cancelled"}
    assert level["completed"] == sum(row.ok for row in rows) >= 8
    assert level["cancelled"] == sum(not row.ok for row in rows) >= 1
    assert level["failed"] == 0 and level["success_ratio"] == 1 and level["latency_valid"] is True
    assert level["ci"]["e2el"]["n"] == level["completed"]
    assert {row.level for row in run.all_rows()} == {0}
    assert next(check for check in level["checks"] if check["id"] == "requests")["holds"] is True
    assert len((tmp_path / "run.csv").read_text().splitlines()) == 2
    line = json.loads((tmp_path / "run.jsonl").read_text())
    assert line["completed"] == level["completed"] and line["complete"] is False


def test_t21_an_interrupted_table_says_so(mock, load):
    server = mock(ttft_ms=5, itl_ms=10)
    process = load.start(server.url, *PLAIN, "--max-concurrency", 2, "--duration", 30,
                         "--random-output-len", 8, json_document=False)
    wait_for(lambda: line_count(server.truth_path) >= FIRST + 4, "four answers")
    process.send_signal(signal.SIGINT)
    run = load.finish(process)
    assert run.status == 1 and "interrupted" in run.output
    assert "interrupted" in run.one_sentence()


def test_t21_interrupted_before_the_load(load):
    """The server takes the first request and says nothing."""
    silent = threading.Event()

    def answer(handler, body):
        silent.wait(20)
        return True

    with FakeServer(answer=answer) as server:
        process = load.start(server.url, *PLAIN, "--max-concurrency", 2, "--num-prompts", 4)
        wait_for(lambda: server.requests, "the first request")
        process.send_signal(signal.SIGINT)
        run = load.finish(process, timeout=15)
        silent.set()
    assert run.status == 1 and run.output == ""
    assert "interrupted before the load began" in run.one_sentence()


def test_t21_interrupted_between_slow_answers(mock, load):
    """Every request waits for its first token: it is cancelled at once, not waited for."""
    server = mock(ttft_ms=slow_from_the_load(60_000))
    process = load.start(server.url, *PLAIN, "--max-concurrency", 3, "--num-prompts", 6)
    wait_for(lambda: running(server) == 3, "three requests under way")
    process.send_signal(signal.SIGTERM)
    run = load.finish(process, timeout=20)
    assert run.status == 1
    assert [row.outcome for row in run.rows()] == ["cancelled"] * 3
    assert run.level["completed"] == 0 and run.level["cancelled"] == 3
    assert run.level["mean_ttft_ms"] is None and run.level["success_ratio"] is None


def running(server):
    with urllib.request.urlopen(server.url + "/mock/stats", timeout=10) as page:
        return json.load(page)["running"]


def test_the_server_dies(mock, load, valid):
    """Killed in the first level, with many requests to go: the run does not hammer on, and ends."""
    server = mock(ttft_ms=5, itl_ms=5)
    process = load.start(server.url, *PLAIN, "--max-concurrency", "3,6", "--num-prompts", 100_000,
                         "--random-output-len", 6)
    wait_for(lambda: line_count(server.truth_path) >= FIRST + 9, "nine answers")
    server.process.kill()
    run = load.finish(process, timeout=60)
    assert run.status == 1
    assert "the server has gone" in run.one_sentence()
    valid("load", run.document)
    level = run.level
    assert level["complete"] is False and "the server has gone" in level["incomplete_reason"]
    assert run.document["complete"] is False
    assert level["completed"] >= 9 and level["failed"] >= 3
    assert set(level["errors_by_class"]) <= {"reset", "refused", "truncated"}
    assert level["ci"]["e2el"]["n"] == level["completed"]
    assert level["num_requests"] == len(run.rows()) < 1000  # it waits longer after each failure


def test_the_server_dies_at_the_end(mock, load):
    """With few requests to go they all fail; the second level is not begun."""
    server = mock(ttft_ms=5, itl_ms=5)
    process = load.start(server.url, *PLAIN, "--max-concurrency", "2,4", "--num-prompts", 40,
                         "--random-output-len", 9)
    wait_for(lambda: line_count(server.truth_path) >= FIRST + 30, "thirty answers")
    server.process.kill()
    run = load.finish(process, timeout=60)
    assert run.status == 1 and "the server has gone" in run.one_sentence()
    assert run.level["num_requests"] == 40 and run.level["completed"] >= 28
    assert run.level["completed"] + run.level["failed"] == 40


def full_disk(bytes_):
    """Files of the child grow no larger: what a write beyond gives is an error, as on a full disk."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))

    return {"preexec_fn": limit, "restore_signals": False}


def test_a_full_disk_keeps_the_rows_that_fitted(mock, load, valid):
    server = mock(ttft_ms=3, itl_ms=1)
    run = load(server.url, *PLAIN, "--max-concurrency", "2,4", "--num-prompts", 4000, "--random-output-len", 20,
               **full_disk(16384))
    assert run.status == 1
    assert str(run.rows_path) in run.one_sentence()
    valid("load", run.document)
    assert run.document["complete"] is False and run.level["complete"] is False
    text = run.rows_path.read_text()
    assert len(text) <= 16384
    whole = [Row(json.loads(line)) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    assert run.level["num_requests"] == len(whole) >= 10
    assert run.level["completed"] == sum(row.ok for row in whole)


def test_a_disk_limit_does_not_kill(mock, load):
    """With the signal's own default, as `ulimit -f` leaves it."""
    run = load(mock(ttft_ms=3, itl_ms=1).url, *PLAIN, "--max-concurrency", 2, "--num-prompts", 4000,
               "--random-output-len", 20,
               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384)))
    assert run.status == 1, (run.status, run.errors)
    run.one_sentence()


def test_no_memory_is_a_sentence(mock, load):
    """Prompts of five million tokens in an address space of 300 MB."""
    run = load(mock(ttft_ms=1, itl_ms=1, max_model_len=10_000_000).url, *PLAIN, "--max-concurrency", 16, "--num-prompts", 32,
               "--random-output-len", 4, input_len=5_000_000, keep_rows=False,
               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20)))
    assert run.status == 1, (run.status, run.errors)
    assert "no memory is left" in run.errors


def test_rows_on_a_full_device(mock, load):
    run = load(mock().url, *PLAIN, "--max-concurrency", 1, "--num-prompts", 3, "--random-output-len", 3,
               "--rows", "/dev/full", keep_rows=False)
    assert run.status == 1 and "No space left on device" in run.one_sentence()


@pytest.mark.parametrize("option", ["--csv", "--output-file"])
def test_a_full_device_keeps_the_rows(mock, load, option, tmp_path):
    """What could not be written is said, the document is printed all the same, and the rows are kept."""
    run = load(mock().url, *PLAIN, "--max-concurrency", 1, "--num-prompts", 3, "--random-output-len", 3,
               option, "/dev/full", "--save-result", "--result-dir", tmp_path / "results", keep_rows=False)
    assert run.status == 1 and "No space left on device" in run.one_sentence()
    assert run.level["completed"] == 3
    kept = [word.rstrip(";") for word in run.errors.split() if str(tmp_path) in word]
    assert len(kept) == 1 and line_count(kept[0]) >= 3
    assert len(list((tmp_path / "results").glob("*.json"))) == 1  # the other output was written


@pytest.mark.parametrize("words", [("--json",), ()])
def test_standard_output_on_a_full_device(binary, mock, tmp_path, words):
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [binary, "load", "--base-url", mock().url, *map(str, PLAIN), "--max-concurrency", "1", "--num-prompts",
             "2", "--random-output-len", "3", "--random-input-len", "4", *words], stdout=full,
            stderr=subprocess.PIPE, text=True, timeout=60, env=environment(tmp_path))
    assert result.returncode == 1
    assert "No space left on device" in result.stderr and result.stderr.count("\n") == 1


class Metrics(FakeServer):
    """A metrics page that a test can break while a load runs on the mock."""

    def __init__(self):
        self.text = "vllm:num_requests_running 3\nvllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc 0.25\n"
        self.status = 200
        self.scrapes = 0
        super().__init__(page=self.page)

    def page(self, path):
        if path != "/metrics":
            return None
        self.scrapes += 1
        return self.status, self.text() if callable(self.text) else self.text


class Watched:
    """Loads with signals take seconds of waiting each: they run side by side, and tests look at what came."""

    def __init__(self, binary, folder):
        self.binary = binary
        self.folder = folder
        self.begin = time.monotonic()
        self.closing = []
        self.processes = {}

    def start(self, name, *words, duration=1.5, **script):
        folder = self.folder / name
        server = Mock(self.binary, folder / "mock", **script)
        self.closing.append(server.stop)
        load = Loader(self.binary, folder)
        self.processes[name] = load.start(
            server.url, "--self-audit", "off", "--num-warmups", 0, "--no-gpu", "--max-concurrency", 2, "--duration",
            duration, "--random-output-len", 20, *words)
        return server

    def with_page(self, name, **options):
        page = Metrics()
        self.closing.append(lambda: page.__exit__())
        self.start(name, "--server-metrics", page.url, **options)
        return page

    def with_watch(self, name):
        watch = subprocess.Popen([self.binary, "watch", "--listen", "0", "--json"], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        self.closing += [watch.kill, watch.communicate]
        self.address = watch.stderr.readline().split()[-1]
        server = self.start(name, "--no-server-metrics", "--telemetry", self.address, duration=2.5)
        wait_for(lambda: line_count(server.truth_path) >= FIRST + 4, "four answers")
        watch.kill()

    def run_all(self):
        odd = self.with_page("odd")
        odd.text += ('DCGM_FI_NEW_FIELD{gpu="0",x="a\\"b"} 1e999\nvllm:of_next_year NaN\n'
                     "vllm:num_preemptions_total -Inf\nnot a line at all {{{\n")
        clock = self.with_page("clock", duration=2.5)
        clock.text = lambda: f"vllm:num_requests_running {time.monotonic() - self.begin:.6f}\n"
        down, rubbish = self.with_page("down", duration=2.5), self.with_page("rubbish", duration=2.5)
        self.start("quoted", metrics_style="llamacpp_quoted", itl_ms=10)
        self.start("queue", duration=2.5, ttft_ms=50, itl_ms=10, capacity=1)
        self.start("nothing", "--telemetry", f"{HOST}:9", metrics_style="none")
        self.with_watch("watch")
        wait_for(lambda: min(down.scrapes, rubbish.scrapes) >= 2, "two scrapes")
        down.status, rubbish.text = 500, "<html>it works</html>"
        return {name: Loader.finish(process) for name, process in self.processes.items()}


@pytest.fixture(scope="module")
def watched(binary, tmp_path_factory):
    all_ = Watched(binary, tmp_path_factory.mktemp("watched"))
    try:
        all_.runs = all_.run_all()
        yield all_
    finally:
        for close in all_.closing:
            close()


WATCHED = ("odd", "clock", "down", "rubbish", "quoted", "queue", "nothing", "watch")


@pytest.mark.parametrize("name", WATCHED)
def test_t20_whatever_signals_do_the_load_is_measured(watched, valid, name):
    run = watched.runs[name].well()
    valid("load", run.document)
    assert run.level["complete"] is True and run.level["completed"] > 0 and run.level["failed"] == 0
    joined = run.level["joined"]
    for field, value in joined.items():  # what is missing says why
        if value is None:
            assert joined["reasons"][field], field


def signals_of(level):
    return {entry["name"]: entry for entry in level["telemetry"]["signals"]}


def failed_source(watched, name, part):
    """The source that failed, as the level's telemetry tells of it."""
    sources = watched.runs[name].level["telemetry"]["sources"]
    source = next(source for source in sources if part in source["name"])
    assert source["failures"] > 0
    return source["last_failure"]


def test_t20_a_watch_that_is_killed_is_named(watched):
    assert watched.address in failed_source(watched, "watch", watched.address)


def test_t20_a_page_that_breaks_is_named(watched):
    assert "500" in failed_source(watched, "down", "server ")
    assert "no name that is known" in failed_source(watched, "rubbish", "server ")


def test_t20_new_fields_and_odd_values_hurt_nobody(watched):
    """A field that nobody knows ended another tool's run (aiperf, DCGM)."""
    level = watched.runs["odd"].level
    signals = signals_of(level)
    assert signals["server.running"]["mean"] == 3 and signals["server.waiting"]["mean"] == 1
    assert level["joined"]["server_running"] == 3 and level["joined"]["server_kv_usage"] == 0.25


def test_t20_a_quoted_page(watched):
    """llama.cpp#17384: the metrics as one JSON string."""
    level = watched.runs["quoted"].level
    assert level["joined"]["server_running"] == pytest.approx(2, abs=1)
    assert next(check for check in level["checks"] if check["id"] == "output_tokens")["holds"] is True


def test_t12_the_servers_own_counts_show_the_queue(watched):
    """Two users, one place: one request runs and one waits."""
    joined = watched.runs["queue"].level["joined"]
    assert joined["server_running"] == pytest.approx(1, abs=0.4)
    assert joined["server_waiting"] == pytest.approx(1, abs=0.4)


def test_t20_nothing_there(watched):
    joined = watched.runs["nothing"].level["joined"]
    assert joined["server_running"] is None and joined["gpu_power_w"] is None


def test_t19_signals_are_on_the_clients_clock(watched):
    """A gauge that says the time, on the clock of the rows: what lies in the window was read in the window."""
    run = watched.runs["clock"]
    first, last = (run.level["telemetry"][name] / 1e9 - watched.begin for name in ("begin_ns", "end_ns"))
    rows = run.rows()
    sent, end = min(row.sent_ns for row in rows), max(row.end_ns for row in rows)
    assert sent / 1e9 - watched.begin <= first < last <= end / 1e9 - watched.begin
    time_told = signals_of(run.level)["server.running"]
    assert time_told["n"] >= 1
    # a scrape is stamped within it; a clock of its own would be off by far more than a busy machine's pauses
    assert first - 0.25 <= time_told["min"] <= time_told["max"] <= last + 0.25
