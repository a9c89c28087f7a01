"""nibble watch, end to end: its document, its lines, its pages, and how it ends."""
import http.server
import json
import os
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import jsonschema
import pytest

from conftest import wait_until, when_handled


def validator(source_dir, name):
    document = json.loads((source_dir / "docs/schemas" / f"nibble.{name}.1.json").read_text())
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(document)


@pytest.fixture
def vllm_page():
    """A server whose counter of tokens grows by 100 each second."""
    begin = time.monotonic()

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            tokens = int(100 * (time.monotonic() - begin))
            body = (f"vllm:num_requests_running 3\nvllm:num_requests_waiting 1\n"
                    f"vllm:kv_cache_usage_perc 0.25\nvllm:generation_tokens_total {tokens}\n").encode()
            self.send_response(200 if self.path == "/metrics" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


class Watch:
    """A nibble watch that listens, until the end of the block."""

    def __init__(self, binary, *words):
        self.process = subprocess.Popen([binary, "watch", "--listen", "0", "--json", *words],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        assert line.startswith("nibble watch listens on 127.0.0.1:"), line
        self.address = line.split()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.address}{path}", timeout=10) as answer:
            return answer.read().decode()

    def interrupt(self):
        self.process.send_signal(when_handled(self.process, signal.SIGINT))
        return self.process.communicate(timeout=60)[0]


def window_of(document, name):
    return next(entry for entry in document["window"]["signals"] if entry["name"] == name)


def test_a_document_of_a_server(nibble, source_dir, vllm_page):
    result = nibble("watch", "--duration", "2.5", "--json", "--server", vllm_page)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    validator(source_dir, "watch").validate(document)
    assert window_of(document, "server.running")["mean"] == 3
    assert window_of(document, "server.waiting")["max"] == 1
    assert window_of(document, "server.kv_usage")["p50"] == 0.25
    assert "vllm does not tell it" in window_of(document, "server.forward_occupancy")["reason"]
    assert 0 <= window_of(document, "cpu.utilization")["mean"] <= 100
    costs = {source["name"]: source["mean_cost_us"] for source in document["sources"]}
    assert costs["CPU"] > 0


def test_lines_are_valid_and_monotonic(nibble, source_dir, tmp_path):
    path = tmp_path / "watch.jsonl"
    result = nibble("watch", "--duration", "1", "--jsonl", str(path))
    assert result.returncode == 0, result.stderr
    check = validator(source_dir, "telemetry")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        check.validate(line)
    assert lines[0]["schema"] == "nibble.telemetry/1"
    times = [line["t"] for line in lines if "cpu.utilization" in line.get("v", {})]
    assert len(times) >= 2 and times == sorted(times)
    assert times[-1] / 1e9 == pytest.approx(time.monotonic(), abs=10)  # the clock of Python's too


def test_lines_on_standard_output(nibble):
    result = nibble("watch", "--duration", "0.5", "--jsonl", "-")
    assert result.returncode == 0, result.stderr
    assert all(json.loads(line) for line in result.stdout.splitlines())


def test_pages_and_a_second_watch_that_joins(binary, nibble):
    with Watch(binary) as there:
        wait_until(lambda: 'nibble_utilization_percent{owner="cpu"' in there.get("/metrics"), "the CPU's share")
        clock = json.loads(there.get("/clock"))
        assert clock["received_ns"] <= clock["answered_ns"] <= time.monotonic_ns()
        with pytest.raises(urllib.error.HTTPError):
            there.get("/none")
        result = nibble("watch", "--duration", "2", "--json", "--no-cpu", "--telemetry", there.address)
        assert result.returncode == 0, result.stderr
        document = json.loads(result.stdout)
        joined = window_of(document, there.address + "/cpu.utilization")
        assert joined["n"] >= 2
        own = json.loads(there.interrupt())
        assert own["schema"] == "nibble.watch/1"
        assert there.process.returncode == 0


def test_a_remote_that_is_not_there_ends_nothing(nibble):
    result = nibble("watch", "--duration", "1", "--json", "--telemetry", "127.0.0.1:9",
                    "--server", "http://127.0.0.1:9")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert window_of(document, "server.running")["reason"]
    failed = [source for source in document["sources"] if source["failures"] > 0]
    assert {source["name"] for source in failed} >= {"server 127.0.0.1:9", "remote 127.0.0.1:9"}


class RawServer:
    """Answers each connection with some bytes as they are; None: with nothing, and holds it open."""

    def __init__(self, answer):
        self.answer = answer
        self.held = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:  # closed: the test is over
                return
            self.held.append(connection)
            if self.answer is None:
                continue
            threading.Thread(target=self.send, args=(connection,), daemon=True).start()

    def send(self, connection):
        try:
            connection.recv(4096)
            for part in self.answer():
                connection.sendall(part)
        except OSError:  # the reader has had enough
            pass
        connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        for connection in self.held:
            connection.close()


def endless():
    yield b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    while True:
        yield b"a 1\n" * 16384


def page(status, body):
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return lambda: [head.encode() + body]


@pytest.mark.parametrize("answer, reason", [
    (lambda: [bytes(range(256)) * 100], "the answer is not HTTP/1.1"),
    (endless, "the answer is larger than 16777216 bytes"),
    (page("200 OK", b"<html>\n<body>\n"), "no name that is known here; 2 lines not understood"),
    (page("404 Not Found", b""), "answers status 404; SGLang has metrics with --enable-metrics"),
    (None, "not scraped yet"),
], ids=["rubbish", "endless", "page of something else", "no page", "silent"])
def test_a_bad_server_ends_nothing_and_has_its_reason(nibble, answer, reason):
    with RawServer(answer) as server:
        result = nibble("watch", "--duration", "0.5", "--json", "--server", server.address)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert reason in window_of(document, "server.running")["reason"]
    assert window_of(document, "cpu.utilization")["n"] >= 1


def test_a_remote_that_dies_is_a_reason(binary, nibble):
    with Watch(binary) as there:
        begin = time.monotonic()
        killer = threading.Timer(2.5, there.process.kill)
        killer.start()
        result = nibble("watch", "--duration", "6", "--json", "--no-cpu", "--telemetry", there.address)
        assert time.monotonic() - begin < 30
    assert result.returncode == 0, result.stderr
    signals = {entry["name"]: entry for entry in json.loads(result.stdout)["signals"]}
    lost = signals[there.address + "/cpu.utilization"]
    assert lost["kept"] >= 1 and not lost["available"]
    assert lost["reason"].count(there.address) == 1  # named once


@pytest.mark.parametrize("words", [("--jsonl", "/dev/full"), ("--jsonl", "-"), ("--json",),
                                   ("--interval", "0.1")])
def test_a_full_disk_is_one_sentence(binary, words):
    with open("/dev/full", "w") as full:
        result = subprocess.run([binary, "watch", "--duration", "1", *words], stdout=full,
                                stderr=subprocess.PIPE, text=True, timeout=20)
    assert result.returncode == 1
    assert "No space left on device" in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [("--interval", "0.1"), ("--jsonl", "-")])
def test_a_reader_that_has_seen_enough_ends_it(binary, words):
    process = subprocess.Popen([binary, "watch", *words], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=10) == 0
    assert process.stderr.read() == ""
    process.stderr.close()


def interrupted_watch(binary):
    begin = time.monotonic()
    process = subprocess.Popen([binary, "watch", "--json"], stdout=subprocess.PIPE, text=True)
    process.send_signal(when_handled(process, signal.SIGINT))
    at_once = time.monotonic() - begin < 0.5  # within the 0.6 s that are sampled before the window
    document = json.loads(process.communicate(timeout=60)[0])
    assert process.returncode == 0
    return at_once, document


def test_interrupted_at_once(binary):
    for _ in range(50):  # a machine that stalls may have it begin first
        at_once, document = interrupted_watch(binary)
        if at_once:
            break
    assert at_once and document["duration_s"] == 0


@pytest.mark.parametrize("words", [("--interval", "0.1"), ("--jsonl", "-")])
def test_interrupted_while_nobody_reads(binary, words):
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    try:
        while True:
            os.write(theirs, b"x" * 4096)
    except BlockingIOError:
        pass  # full
    os.set_blocking(theirs, True)
    process = subprocess.Popen([binary, "watch", *words], stdout=theirs, stderr=subprocess.PIPE)
    time.sleep(1.2)  # so long that it waits for its reader
    process.send_signal(when_handled(process, signal.SIGINT))
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 0
    os.close(ours)
    os.close(theirs)


def test_a_port_in_use_is_one_sentence(nibble):
    with RawServer(None) as server:
        result = nibble("watch", "--duration", "1", "--listen", server.address)
    assert result.returncode == 1
    assert "Address already in use" in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [("--listen", "x"), ("--interval", "0"), ("--server", "ftp://x"),
                                   ("--telemetry", "a b"), ("--duration", "-1"), ("--jsonl", "-", "--json"),
                                   ("--jsonl", "/no/such/folder/f"), ("--interval", "1e9"), ("--interval", "nan"),
                                   ("--no-gpu", "--no-cpu"), ("--server", "http://h/metrics"),
                                   ("--server", "h:1", "--server", "http://h:1"),
                                   ("--telemetry", "h:1", "--telemetry", "h:1"), ("--duration", "0")])
def test_usage(nibble, words):
    result = nibble("watch", "--duration", "0.1", *words) if words[0] != "--duration" else nibble(
        "watch", *words)
    assert result.returncode == 2
    assert result.stderr.startswith("nibble: ") and result.stderr.count("\n") == 1


def test_the_table_fits_a_terminal(nibble_in_terminal):
    status, shown = nibble_in_terminal("watch", "--duration", "1.2", "--interval", "0.5", width=80)
    assert status == 0
    assert "cpu:" in shown and "\x1b[J" in shown
