"""Edges of the real program: prompts at the limits, and an engine whose thread stands still."""
import concurrent.futures
import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import time

import pytest

from serving import HOST, serving

CONTEXT = 1024
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000  # waitpid: threads too


def prompt(tokens):
    return {"prompt": [300 + number % 97 for number in range(tokens)], "ignore_eos": True, "temperature": 0}


def refusal(server, **body):
    status, text = server.ask("/v1/completions", body)
    assert status == 400, text
    error = json.loads(text)["error"]
    assert error["param"] == "prompt"
    return error["message"]


def test_prompts_of_the_context_and_one_more(binary):
    with serving(binary) as server:
        assert server.first["engine"]["max_model_len"] == CONTEXT
        longest = server.post("/v1/completions", **prompt(CONTEXT - 1), max_tokens=100)
        assert longest["usage"] == {**longest["usage"], "prompt_tokens": CONTEXT - 1, "completion_tokens": 1}
        assert longest["choices"][0]["finish_reason"] == "length"
        # one token short of it is one token more of the answer, the same first
        shorter = server.post("/v1/completions", **prompt(CONTEXT - 2), max_tokens=100)
        assert shorter["usage"]["completion_tokens"] == 2
        for tokens in (CONTEXT, CONTEXT + 1, 5 * CONTEXT):
            says = refusal(server, **prompt(tokens))
            assert str(tokens) in says and str(CONTEXT) in says
        assert server.comes_to_rest()


def test_prompts_of_the_pool_and_one_more(binary):
    """16 blocks of 16 tokens: a quarter of the context. What does not fit is refused, what fits is answered."""
    with serving(binary, "--kv-blocks", "16", "--block-size", "16") as server:
        fits = server.post("/v1/completions", **prompt(255), max_tokens=100)
        assert fits["usage"]["prompt_tokens"] == 255 and fits["choices"][0]["finish_reason"] == "length"
        for tokens in (256, 257, 600):
            says = refusal(server, **prompt(tokens), max_tokens=1)
            assert f"{tokens} tokens" in says and "16 blocks of 16" in says
        # Two that fit alone, and not together: one is computed again, and none is lost or differs.
        alone = server.post("/v1/completions", **prompt(100), max_tokens=100)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(server.post, "/v1/completions", **prompt(100), max_tokens=100) for _ in range(4)]
            assert {answer.result()["choices"][0]["text"] for answer in asked} == {alone["choices"][0]["text"]}
        assert server.comes_to_rest()


@contextlib.contextmanager
def frozen(process, name):
    """A thread of the process stands still, as a debugger stops it."""
    task = next((pathlib.Path(folder) for folder in pathlib.Path(f"/proc/{process.pid}/task").iterdir()
                 if (folder / "comm").read_text().strip() == name), None)
    assert task, f"no thread is named {name}"
    thread = int(task.name)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(PTRACE_SEIZE, thread, None, None) != 0:
        pytest.skip(f"no thread may be stopped here: ptrace says {os.strerror(ctypes.get_errno())}")
    assert libc.ptrace(PTRACE_INTERRUPT, thread, None, None) == 0
    os.waitpid(thread, WALL)
    try:
        yield
    finally:
        assert libc.ptrace(PTRACE_DETACH, thread, None, None) == 0


@contextlib.contextmanager
def frozen_apart(server, name):
    """The same at a moment when the thread holds no lock that the server's other threads need (of the heap, of
    a queue): tried until the server answers beside it. A thread that computes for ever holds none."""
    for _ in range(40):
        with frozen(server.process, name):
            if all(answers(server, path) for path in ("/health/ready", "/debug/state", "/metrics")):
                yield
                return
        time.sleep(0.02)
    pytest.fail(f"{name} could not be stopped without a lock in forty tries")


def answers(server, path):
    connection = http.client.HTTPConnection(HOST, server.port, timeout=2)
    try:
        connection.request("GET", path)
        return bool(connection.getresponse().read())
    except TimeoutError:
        return False
    finally:
        connection.close()


def readiness(server):
    status, text = server.ask("/health/ready")
    return status, json.loads(text)["status"]


def wait_for(condition, patience_s=20):
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_an_engine_that_stands_still_is_not_ready(binary):
    """vllm#36960, #39863: /health says 200 while the engine is dead."""
    with serving(binary, "--ready-timeout", "1") as server, concurrent.futures.ThreadPoolExecutor(1) as pool:
        alone = server.post("/v1/completions", **prompt(8), max_tokens=300)["choices"]
        assert readiness(server) == (200, "ready")
        answer = pool.submit(server.post, "/v1/completions", **prompt(8), max_tokens=300)
        wait_for(lambda: server.state()["running"] == 1 or answer.done())
        with frozen_apart(server, "nibble-engine"):
            wait_for(lambda: readiness(server)[0] == 503)
            assert "no sign of life" in readiness(server)[1]
            assert server.ask("/health")[0] == 503
            assert server.ask("/health/live")[0] == 200  # the program itself answers
            assert server.ask("/metrics")[0] == 200
        wait_for(lambda: readiness(server) == (200, "ready"))
        assert answer.result()["choices"] == alone
        assert server.comes_to_rest()
