"""What the tests of `nibble serve` share: the program until the end of a block, spoken to by http.client."""
import contextlib
import http.client
import json
import subprocess
import sys
import time

import pytest

HOST = "127.0.0.1"


class Server:
    def __init__(self, process, first):
        self.process = process
        self.first = first
        self.port = int(first["url"].rsplit(":", 1)[1])

    def ask(self, path, body=None, method=None, headers=None):
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        data = None if body is None else body if isinstance(body, (str, bytes)) else json.dumps(body)
        connection.request(method or ("GET" if body is None else "POST"), path, data, headers or {})
        response = connection.getresponse()
        return response.status, response.read().decode()

    def post(self, path, **body):
        status, text = self.ask(path, body)
        assert status == 200, text
        return json.loads(text)

    def events(self, path, **body):
        status, text = self.ask(path, {**body, "stream": True})
        assert status == 200, text
        lines = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
        assert lines[-1] == "[DONE]"
        return [json.loads(line) for line in lines[:-1]]

    def state(self):
        return json.loads(self.ask("/debug/state")[1])

    def comes_to_rest(self):
        end = time.monotonic() + 10
        while time.monotonic() < end:
            state = self.state()
            busy = [state[key] for key in ("running", "waiting", "blocks_in_use", "active_requests")]
            if busy == [0, 0, 0, 0]:
                return state["fault"] is None
            time.sleep(0.01)
        return False


@contextlib.contextmanager
def serving(binary, *words):
    process = subprocess.Popen([binary, "serve", "--port", "0", "--json", *words], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield Server(process, json.loads(line))
    finally:
        process.kill()
        process.communicate()


def python_with(source, *modules):
    """A Python that has packages of PyPI: that of make oracle, or our own. Without one the test is skipped."""
    for python in (source / "build/oracle/bin/python", sys.executable):
        with contextlib.suppress(FileNotFoundError):
            if subprocess.run([python, "-c", f"import {', '.join(modules)}"], capture_output=True).returncode == 0:
                return python
    pytest.skip(f"no Python here has {' and '.join(modules)}; make oracle installs them in build/oracle")
