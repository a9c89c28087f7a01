"""What the tests of `nibble load` share: a mock, a run of the program, and what the run has written.

The server is the real `nibble mock`, or a few lines of Python (FakeServer) where a test must see what the
client sent. Times are never compared with an upper bound of their own: they are compared with what the
mock says that it did (--truth), on the clock that both processes and Python's time.monotonic_ns() read.
"""
import contextlib
import http.server
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import threading
import time

HOST = "127.0.0.1"
# Before the load the client sends three short requests: whether the server takes all fields, and two that
# tell how long a word is. So the first request of the load has this index in the mock (without warm-ups).
FIRST = 3
EARLY_NS = 50_000  # the mock sends tokens that are due within 50 us together (docs/mock.md)
# Signals and the measure of the client itself cost time that most tests have no use for.
QUIET = ("--no-telemetry", "--no-server-metrics", "--self-audit", "off")
KEY_VARIABLE = "OPENAI_API_KEY"


def environment(folder, **changes):
    """Nothing of the user's: no key, no colours, a cache of our own."""
    dropped = (KEY_VARIABLE, "COLUMNS", "NO_COLOR", "TERM")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**kept, "XDG_CACHE_HOME": str(folder / "cache"), **changes}


class Mock:
    """A `nibble mock` until the end of the block: Mock(binary, folder, ttft_ms=5, faults=[...])."""

    def __init__(self, binary, folder, *words, port=0, **script):
        folder.mkdir(parents=True, exist_ok=True)
        self.truth_path = folder / "truth.jsonl"
        path = folder / "script.json"
        path.write_text(json.dumps({"schema": "nibble.mock/1", "ttft_ms": 5, "itl_ms": 1, **script}))
        self.process = subprocess.Popen(
            [binary, "mock", "--port", str(port), "--script", path, "--truth", self.truth_path, *words],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = self.process.stdout.readline()
        match = re.fullmatch(r"nibble mock listens on (https?://\S+)\n", line)
        assert match, (line, self.process.stderr.read())
        self.url = match[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self, sign=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(sign)
        self.process.communicate(timeout=20)

    def truth(self):
        """What it did, an entry an answer, in the order of arrival. Ends the mock."""
        self.stop()
        lines = [json.loads(line) for line in self.truth_path.read_text().splitlines()]
        return sorted(lines, key=lambda line: line["index"])


class FakeServer:
    """An OpenAI server that keeps what it was asked. `answer(handler, body)` may send something else and
    then returns True; `page(path)` gives other pages: the text, or (status, text)."""

    def __init__(self, answer=None, page=None, tokens=4):
        self.requests = []  # (path, headers, body as JSON)
        self.lock = threading.Lock()
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # A head and a body in one packet: with two, the second may wait for 40 ms.
            wbufsize = -1

            def say(self, status, body, kind="application/json"):
                body = body if isinstance(body, bytes) else body.encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                self.wfile.flush()

            def do_GET(self):
                text = page(self.path) if page else None
                if text is not None:
                    status, text = text if isinstance(text, tuple) else (200, text)
                    self.say(status, text, "text/plain")
                elif self.path == "/v1/models":
                    self.say(200, json.dumps({"data": [{"id": "fake"}]}))
                else:
                    self.say(404, "{}")

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"null")
                with fake.lock:
                    fake.requests.append((self.path, dict(self.headers), body))
                if answer and answer(self, body):
                    return
                self.say(200, fake.stream(body, tokens), "text/event-stream")

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):
                pass  # clients may leave

        self.server = Server((HOST, 0), Handler)
        self.url = f"http://{HOST}:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @staticmethod
    def stream(body, tokens, usage=True):
        tokens = min(tokens, body.get("max_tokens") or tokens)
        text = "".join('data: {"choices": [{"index": 0, "text": " w", "finish_reason": null}]}\n\n'
                       for _ in range(tokens))
        count = len(body["prompt"]) if isinstance(body.get("prompt"), list) else 7
        if usage:
            text += ('data: {"choices": [], "usage": {"prompt_tokens": %d, "completion_tokens": %d}}\n\n'
                     % (count, tokens))
        return text + "data: [DONE]\n\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def posts(self):
        return [entry for entry in self.requests if entry[0] != "/flush_cache"]


class Row:
    """A line of the rows file, with its runs written out."""

    def __init__(self, line):
        self.__dict__.update(line)
        self.at = []  # of each event, on the clock
        last = self.sent_ns
        for gap in self.event_ns:
            last += gap
            self.at.append(last)
        self.tokens = [tokens for count, tokens in self.event_tokens for _ in range(count)]
        self.kinds = [kind for count, kind in self.event_kinds for _ in range(count)]
        assert len(self.tokens) == len(self.kinds) == len(self.at)

    @property
    def ok(self):
        return self.outcome == "ok"


class Run:
    """What a `nibble load --json --rows` left behind."""

    def __init__(self, status, output, errors, rows_path):
        self.status = status
        self.output = output
        self.errors = errors
        self.rows_path = rows_path
        self.document = json.loads(output) if output.startswith("{") else None

    @property
    def levels(self):
        return self.document["levels"]

    @property
    def setup(self):
        return self.document["setup"]

    @property
    def level(self):
        assert len(self.levels) == 1
        return self.levels[0]

    def all_rows(self, level=None):
        """Warm-ups included, in the order of their numbers."""
        rows = [Row(json.loads(line)) for line in self.rows_path.read_text().splitlines()]
        return sorted((row for row in rows if level is None or row.level == level),
                      key=lambda row: (row.level, not row.warmup, row.index))

    def rows(self, level=0):
        return [row for row in self.all_rows(level) if not row.warmup]

    def flags(self, level=0):
        return " | ".join(self.levels[level]["flags"])

    def well(self):
        assert self.status == 0, self.errors
        assert self.errors == ""
        return self

    def one_sentence(self):
        assert re.fullmatch(r"nibble: [^\n]+\n", self.errors), self.errors
        return self.errors


class Loader:
    """Runs `nibble load`: Loader(binary, folder)(url, "--max-concurrency", 4, "--num-prompts", 8)."""

    def __init__(self, binary, folder):
        self.binary = binary
        self.folder = folder
        self.count = 0

    def start(self, url, *words, json_document=True, keep_rows=True, input_len=4, env=None, **options):
        self.count += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        rows = self.folder / f"rows{self.count}.jsonl"
        command = [str(self.binary), "load", "--base-url", url]
        if "--dataset-name" not in words:
            command += ["--random-input-len", str(input_len)]
        command += [str(word) for word in words]
        command += ["--json"] if json_document else []
        command += ["--rows", str(rows)] if keep_rows else []
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True,
                                   env=environment(self.folder, **(env or {})), **options)
        process.rows_path = rows
        return process

    @staticmethod
    def finish(process, timeout=60):
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
            raise AssertionError(f"nibble load did not end; it said: {output[-500:]} {errors}") from None
        return Run(process.returncode, output, errors, process.rows_path)

    def __call__(self, url, *words, **options):
        return self.finish(self.start(url, *words, **options))

    def quiet(self, url, *words, **options):
        """Without signals, warm-ups and self-audit."""
        if "--num-warmups" not in words:
            words = ("--num-warmups", 0, *words)
        return self(url, *QUIET, *words, **options)


def slow_from_the_load(ttft_ms, requests=200):
    """TTFTs of a mock that answers the requests before the load at once."""
    return [1] * FIRST + [ttft_ms] * requests


def wait_for(condition, what, patience_s=20):
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {patience_s} s for {what}"
        time.sleep(0.005)


def line_count(path):
    with contextlib.suppress(FileNotFoundError):
        return pathlib.Path(path).read_bytes().count(b"\n")
    return 0


def answers(mock, rows, skip=FIRST):
    """(row, truth) of each request of a level, matched by the order of sending and of arrival. Requests
    that left within microseconds may be exchanged; what is compared are medians."""
    truth = sorted(mock.truth()[skip:], key=lambda line: line["arrival_ns"])
    rows = sorted(rows, key=lambda row: row.sent_ns)
    assert len(rows) == len(truth)
    return list(zip(rows, truth))


def lateness_ms(pairs):
    """How long after the mock had written them the client stamped its events: [per event]."""
    late = []
    for row, line in pairs:
        assert len(row.at) == len(line["written_ns"]), (row.index, len(row.at), line)
        late += [(seen - sent) / 1e6 for seen, sent in zip(row.at, line["written_ns"])]
    return late


def median(values):
    return statistics.median(values)
