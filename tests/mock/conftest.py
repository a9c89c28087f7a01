"""What the tests of nibble mock share: the real program on a free port, spoken to by http.client."""
import http.client
import json
import re
import signal
import subprocess
import time

import pytest

HOST = "127.0.0.1"


class Mock:
    def __init__(self, process, port):
        self.process = process
        self.port = port

    def connect(self):
        return http.client.HTTPConnection(HOST, self.port, timeout=20)

    def get(self, path):
        connection = self.connect()
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()

    def post(self, path, **body):
        connection = self.connect()
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return connection.getresponse()

    def stream(self, path, **body):
        """The data of every event, with the time at which its line was read."""
        response = self.post(path, stream=True, **body)
        assert response.status == 200
        events = []
        for line in response:
            if line.startswith(b"data: "):
                events.append((time.monotonic_ns(), line[6:].strip().decode()))
        return events

    def counters(self):
        """The numbers of /metrics by name; of several series of a name the last."""
        found = {}
        for line in self.get("/metrics")[1].decode().splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                found[name.split("{")[0]] = float(value)
        return found

    def stop(self, sign=signal.SIGINT):
        self.process.send_signal(sign)
        output, errors = self.process.communicate(timeout=10)
        return self.process.returncode, output, errors


@pytest.fixture
def start(binary):
    """start("--ttft-ms", "5") runs nibble mock on a free port."""
    running = []

    def run(*words):
        process = subprocess.Popen([binary, "mock", "--port", "0", *words], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        running.append(process)
        line = process.stdout.readline()
        match = re.fullmatch(r"nibble mock listens on http://127\.0\.0\.1:(\d+)\n", line)
        assert match, (line, process.stderr.read() if process.poll() is not None else "")
        return Mock(process, int(match[1]))

    yield run
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def script(tmp_path):
    """script(capacity=3) is the path of a script with these fields."""

    def write(**fields):
        path = tmp_path / "script.json"
        path.write_text(json.dumps({"schema": "nibble.mock/1", **fields}))
        return str(path)

    return write
