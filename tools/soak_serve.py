#!/usr/bin/env python3
"""Mixed load on `nibble serve` with its built-in model: whole answers, streams, choices, cancels at any moment, half
requests, bad requests, prompts that share beginnings, more than the KV cache holds. No answer may be lost or differ,
the integrity checks must find nothing, and resident memory may not grow by 1 MB a minute once it has settled.

    tools/soak_serve.py PROGRAM             600 seconds (make soak)
    tools/soak_serve.py PROGRAM SECONDS     from 10 on; memory is judged from 60 s on
"""
import collections
import contextlib
import http.client
import json
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

from soak_memory import describe, settled_after, slope

HOST = "127.0.0.1"
WORKERS = 24
MOST_MB_A_MINUTE = 1
# 16 run at once, and 3,072 tokens fit: long answers throw each other out and are computed again.
SERVER = ("serve", "--port", "0", "--json", "--max-running-requests", "16", "--kv-blocks", "192",
          "--max-queued-requests", "512")
BEGINNINGS = ["In the beginning God created the heaven and the earth. ", "Courage is a noun: ",
              "And it came to pass in those days, that there went out a decree. " * 6,
              "A hacker is a person who enjoys exploring the details of programmable systems. " * 12, ""]
WORDS = "river stone light voice garden winter horse bread quiet mountain letter answer".split()
# (path, body, field): what must be refused, and by which name
BAD = [("/v1/completions", {"prompt": ""}, "prompt"), ("/v1/completions", {"prompt": "a", "n": 0}, "n"),
       ("/v1/completions", {"prompt": [1] * 1025}, "prompt"), ("/v1/completions", {"prompt": [4096]}, "prompt"),
       ("/v1/chat/completions", {"messages": []}, "messages"), ("/v1/chat/completions", "{", None),
       ("/v1/completions", {"prompt": "a", "top_p": 2, "stream": True}, "top_p"),
       ("/tokenize", {"prompt": 3}, "prompt")]
KNOWN = {"prompt": "The river", "max_tokens": 24, "temperature": 0.7, "seed": 11}


class Fault(Exception):
    """The server did what it must not."""


def ask(port, path, body=None, connection=None):
    connection = connection or http.client.HTTPConnection(HOST, port, timeout=120)
    data = body if body is None or isinstance(body, str) else json.dumps(body)
    connection.request("GET" if body is None else "POST", path, data)
    response = connection.getresponse()
    return response.status, response.read().decode()


class Worker(threading.Thread):
    """Asks one thing after the other, each drawn, and checks what comes."""

    def __init__(self, soak, number):
        super().__init__(daemon=True)
        self.soak, self.port = soak, soak.port
        self.draw = random.Random(number)
        self.connection = None
        self.done = collections.Counter()
        self.fault = None

    def run(self):
        acts = {self.whole: 30, self.stream: 30, self.leave: 22, self.half_a_request: 4, self.bad: 10, self.known: 4}
        try:
            while not self.soak.over.is_set():
                act = self.draw.choices(list(acts), list(acts.values()))[0]
                act()
                self.done[act.__name__] += 1
        except (Fault, OSError, ValueError, KeyError, IndexError, http.client.HTTPException) as error:
            self.fault = f"{type(error).__name__}: {error}"
            self.soak.over.set()

    def kept(self):
        """A connection that is used again, mostly."""
        if self.connection is None or self.draw.random() < 0.3:
            if self.connection:
                self.connection.close()
            self.connection = http.client.HTTPConnection(HOST, self.port, timeout=120)
        return self.connection

    def drawn(self, most_tokens):
        words = " ".join(self.draw.choices(WORDS, k=self.draw.randint(1, 40)))
        text = self.draw.choice(BEGINNINGS) + words
        # Many short ones, few long ones.
        tokens = max(1, int(most_tokens * self.draw.random() ** 3))
        body = {"max_tokens": tokens, "ignore_eos": True, "temperature": self.draw.choice([0, 0.7, 1]),
                "n": self.draw.choice([1, 1, 1, 1, 2, 3])}
        if self.draw.random() < 0.2:
            body["presence_penalty"] = 0.5
        if self.draw.random() < 0.5:
            return "/v1/completions", {**body, "prompt": text}
        return "/v1/chat/completions", {**body, "messages": [{"role": "user", "content": text}]}

    def whole(self):
        path, body = self.drawn(500)
        status, text = ask(self.port, path, body, self.kept())
        if status != 200:
            raise Fault(f"{path} answered {status}: {text[:300]}")
        answer = json.loads(text)
        self.check(body, answer["usage"], [choice["finish_reason"] for choice in answer["choices"]])

    def stream(self):
        path, body = self.drawn(500)
        status, text = ask(self.port, path, {**body, "stream": True, "stream_options": {"include_usage": True}},
                           self.kept())
        events = re.findall(r"^data: (.*)$", text, re.M)
        if status != 200 or events[-1] != "[DONE]":
            raise Fault(f"a stream of {path} ended with {status}: {text[-300:]}")
        events = [json.loads(event) for event in events[:-1]]
        reasons = [choice["finish_reason"] for event in events for choice in event["choices"]
                   if choice["finish_reason"]]
        self.check(body, events[-1]["usage"], reasons)

    def check(self, body, usage, reasons):
        """All that was asked for came: the length is known, since the end is ignored."""
        if usage["completion_tokens"] != body["n"] * body["max_tokens"] or reasons != ["length"] * body["n"]:
            raise Fault(f"{body} was answered with {usage}, {reasons}")
        self.done["choices"] += body["n"]
        self.done["tokens"] += usage["completion_tokens"]

    @contextlib.contextmanager
    def raw(self, head_and_body):
        with socket.create_connection((HOST, self.port), timeout=60) as client:
            client.sendall(head_and_body)
            yield client
            if self.draw.random() < 0.5:  # a reset instead of an end
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    def request(self):
        path, body = self.drawn(900)
        text = json.dumps({**body, "stream": self.draw.random() < 0.7})
        return f"POST {path} HTTP/1.1\r\nHost: soak\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()

    def leave(self):
        with self.raw(self.request()) as client:
            client.settimeout(0.5 * self.draw.random() ** 2 + 1e-3)
            with contextlib.suppress(TimeoutError):
                for _ in range(self.draw.randint(0, 40)):
                    if not client.recv(4096):
                        break

    def half_a_request(self):
        data = self.request()
        with self.raw(data[:self.draw.randint(0, len(data) - 1)]):
            time.sleep(0.02 * self.draw.random())

    def bad(self):
        path, body, field = self.draw.choice(BAD)
        status, text = ask(self.port, path, body, self.kept())
        if status != 400 or json.loads(text)["error"]["param"] != field:
            raise Fault(f"{body} on {path} was answered with {status}: {text[:300]}")

    def known(self):
        status, text = ask(self.port, "/v1/completions", KNOWN, self.kept())
        if status != 200:
            raise Fault(f"{KNOWN} was answered with {status}: {text[:300]}")
        if json.loads(text)["choices"][0]["text"] != self.soak.known_text:
            raise Fault(f"{KNOWN} has another answer than before: {text[:300]}")
        self.done["choices"] += 1


class Soak:
    def __init__(self, process, port):
        self.process, self.port = process, port
        self.over = threading.Event()
        self.samples = []  # seconds, KiB
        self.faults = []
        self.known_text = json.loads(ask(port, "/v1/completions", KNOWN)[1])["choices"][0]["text"]

    def memory_kib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"^VmRSS:\s+(\d+)", status, re.M)[1])

    def state(self):
        return json.loads(ask(self.port, "/debug/state")[1])

    def load(self, seconds):
        workers = [Worker(self, number) for number in range(WORKERS)]
        begin = time.monotonic()
        for worker in workers:
            worker.start()
        while (at := time.monotonic() - begin) < seconds and not self.over.wait(1):
            self.samples.append((at, self.memory_kib()))
            if sys.stdout.isatty():
                print(f"\r{at:4.0f} s, {self.samples[-1][1]} KiB ", end="", flush=True)
            status, text = ask(self.port, "/health/ready")
            if status != 200:
                self.faults.append(f"/health/ready answers {status}: {text}")
                break
        self.over.set()
        for number, worker in enumerate(workers):
            worker.join(timeout=120)
            if worker.is_alive():
                self.faults.append(f"client {number} still waits for its answer")
            if worker.fault:
                self.faults.append(f"client {number}: {worker.fault}")
        return sum((worker.done for worker in workers), collections.Counter())

    def check_rest(self, done):
        end = time.monotonic() + 20
        names = ("running", "waiting", "blocks_in_use", "active_requests")
        while any((state := self.state())[name] for name in names) and time.monotonic() < end:
            time.sleep(0.05)
        print(f"server   {state}")
        if any(state[name] for name in names) or state["fault"] is not None:
            self.faults.append(f"the server does not come to rest: {state}")
        ended = state["choices"]
        if ended["error"] or state["nonfinite_logits"]:
            self.faults.append(f"choices ended with errors: {state}")
        # Those who left may have left behind the end. One more is the known text's.
        if ended["length"] + ended["stop"] < done["choices"] + 1:
            self.faults.append(f"{done['choices'] + 1} choices came whole, the server counts {ended}")

    def check_memory(self, seconds):
        window = [sample for sample in self.samples if sample[0] >= settled_after(seconds)]
        if len(window) < 2:
            return
        print(describe("memory", self.samples, window))
        if seconds >= 60 and slope(window) > MOST_MB_A_MINUTE:
            self.faults.append(f"the server grows by {slope(window):.2f} MB a minute")

    def check_end(self):
        self.process.send_signal(signal.SIGINT)
        try:
            status = self.process.wait(timeout=40)
        except subprocess.TimeoutExpired:
            status = "none within 40 s"
        if status != 0:
            self.faults.append(f"after SIGINT the exit status is {status}: {self.process.stderr.read()[-500:]}")


def main():
    program, seconds = sys.argv[1] if len(sys.argv) > 1 else "", sys.argv[2] if len(sys.argv) > 2 else "600"
    if not program or not re.fullmatch(r"[1-9][0-9]{1,5}", seconds):
        sys.exit("tools/soak_serve.py: give the program and a number of seconds from 10 on")
    seconds = int(seconds)
    process = subprocess.Popen([program, *SERVER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        if not line:
            sys.exit(f"tools/soak_serve.py: the server does not start: {process.stderr.read()}")
        soak = Soak(process, int(json.loads(line)["url"].rsplit(":", 1)[1]))
        done = soak.load(seconds)
        print(f"\nclients  {dict(done)}")
        if process.poll() is None:
            soak.check_rest(done)
            soak.check_memory(seconds)
            soak.check_end()
        else:
            soak.faults.append(f"the server ended with {process.returncode}: {process.stderr.read()[-500:]}")
    finally:
        process.kill()
    for fault in soak.faults:
        print(f"tools/soak_serve.py: {fault}", file=sys.stderr)
    print(f"soak of the server, {seconds} s: {'FAILED' if soak.faults else 'passed'}")
    sys.exit(1 if soak.faults else 0)


if __name__ == "__main__":
    main()
