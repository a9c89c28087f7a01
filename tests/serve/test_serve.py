"""nibble serve end to end: the real program with its built-in model, spoken to by Python's own http.client."""
import concurrent.futures
import json
import random
import signal
import socket
import time

import pytest

from serving import HOST, serving

@pytest.fixture(scope="module")
def server(binary):
    with serving(binary, "--max-running-requests", "8") as running:
        yield running


def content(answer):
    return answer["choices"][0]["message"]["content"]


def question(text="Tell me about the sea."):
    return [{"role": "user", "content": text}]


def test_it_says_what_it_is(server):
    assert set(server.first) == {"url", "model", "engine", "server"}
    assert server.first["engine"]["max_running_requests"] == 8
    assert server.first["server"]["host"] == HOST
    info = json.loads(server.ask("/server_info")[1])
    assert info["engine"] == server.first["engine"]
    models = json.loads(server.ask("/v1/models")[1])["data"]
    assert [model["id"] for model in models] == [server.first["model"]["name"]] == ["nibble-tiny"]


def test_a_chat_whole_and_streamed(server):
    asked = dict(messages=question(), max_tokens=24, seed=7, temperature=0.7)
    whole = server.post("/v1/chat/completions", **asked)
    events = server.events("/v1/chat/completions", **asked, stream_options={"include_usage": True})
    text = "".join(choice["delta"].get("content", "") for event in events for choice in event["choices"])
    assert text == content(whole)
    assert events[-1]["usage"] == {**whole["usage"], "prompt_tokens_details":
                                   events[-1]["usage"]["prompt_tokens_details"]}
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}


def test_the_same_seed_gives_the_same_answer_among_others(server):
    asked = dict(messages=question(), max_tokens=16, seed=11)
    alone = content(server.post("/v1/chat/completions", **asked))

    def ask(number):
        seed = 11 if number == 5 else number + 100
        return content(server.post("/v1/chat/completions", **{**asked, "seed": seed}))

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(16)))
    assert answers[5] == alone
    assert len(set(answers)) > 8


def test_logprobs_are_the_same_in_a_stream(server):
    asked = dict(messages=question(), max_tokens=12, temperature=0, logprobs=True, top_logprobs=4)
    whole = server.post("/v1/chat/completions", **asked)["choices"][0]
    events = server.events("/v1/chat/completions", **asked)
    streamed = [entry for event in events for choice in event["choices"]
                for entry in (choice["logprobs"] or {}).get("content", [])]
    assert streamed == whole["logprobs"]["content"]
    assert bytes(byte for entry in streamed for byte in entry["bytes"]).decode() == \
        whole["message"]["content"]
    for entry in streamed:  # greedy: the chosen one is the most probable
        assert entry["top_logprobs"][0]["token"] == entry["token"]
        values = [top["logprob"] for top in entry["top_logprobs"]]
        assert values == sorted(values, reverse=True) and values[0] == entry["logprob"]


def test_tokens_of_a_prompt_are_its_text(server):
    tokens = server.post("/tokenize", prompt="In the beginning")["tokens"]
    asked = dict(max_tokens=8, temperature=0)
    by_ids = server.post("/v1/completions", prompt=tokens, **asked)
    by_text = server.post("/v1/completions", prompt="In the beginning", **asked)
    assert by_ids["choices"] == by_text["choices"]
    assert by_text["usage"]["prompt_tokens"] == len(tokens)


def test_bad_requests(server):
    for body, param in [({"prompt": ""}, "prompt"), ({"prompt": []}, "prompt"), ({}, "prompt"),
                        ({"prompt": "a", "temperature": -1}, "temperature"),
                        ({"prompt": "a", "max_tokens": 0}, "max_tokens"),
                        ({"prompt": "a", "logit_bias": {"999999": 1}}, "logit_bias"),
                        ({"prompt": "word " * 100000}, "prompt"), ("{", None)]:
        status, text = server.ask("/v1/completions", body)
        assert status == 400, text
        assert json.loads(text)["error"]["param"] == param
    assert server.ask("/v1/completions", b"\xff\xfe")[0] == 400
    assert server.ask("/nothing")[0] == 404
    assert server.post("/v1/completions", prompt="a", max_tokens=1)["choices"]


def test_clients_that_leave_take_all_that_is_theirs(server):
    draw = random.Random(5)
    for _ in range(60):
        body = json.dumps({"prompt": "The " * draw.randint(1, 60), "max_tokens": draw.randint(1, 400),
                           "ignore_eos": True, "stream": draw.random() < 0.7, "n": draw.randint(1, 3)})
        with socket.create_connection((HOST, server.port)) as client:
            client.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
                           f"{body}".encode())
            time.sleep(draw.random() * 0.02)
            if draw.random() < 0.5:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    assert server.comes_to_rest()
    assert server.ask("/health/ready")[0] == 200


def test_metrics_are_known_to_watch(server, nibble):
    server.post("/v1/completions", prompt="a", max_tokens=2)
    page = server.ask("/metrics")[1]
    for name in ("num_requests_running", "kv_cache_usage_perc", "generation_tokens_total",
                 "request_success_total", "time_to_first_token_seconds_bucket"):
        assert f"\nnibble:{name}{{" in "\n" + page


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_answers_end(binary, sign):
    with serving(binary) as running, concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(running.post, "/v1/completions", prompt="The", max_tokens=300, ignore_eos=True)
        end = time.monotonic() + 10
        while running.state()["running"] == 0 and not answer.done():
            assert time.monotonic() < end
        running.process.send_signal(sign)
        assert answer.result()["usage"]["completion_tokens"] == 300
        assert running.process.wait(timeout=20) == 0


def test_the_key(binary, tmp_path):
    (tmp_path / "key").write_text("secret\n")
    with serving(binary, "--api-key-file", tmp_path / "key") as running:
        assert running.first["server"]["api_key"] == "set"
        assert running.ask("/v1/models")[0] == 401
        assert running.ask("/v1/models", headers={"Authorization": "Bearer secret"})[0] == 200
        assert running.ask("/health")[0] == 200


@pytest.mark.parametrize("words, says", [
    (["--model", "/nowhere"], "/nowhere"),
    (["--port", "70000"], "--port"),
    (["--kv-cache-dtype", "int4"], "--kv-cache-dtype"),
    (["--kv-blocks", "8", "--kv-cache-memory", "1"], "--kv-cache-memory"),
    (["--api-key-env", "NIBBLE_NO_SUCH_KEY"], "NIBBLE_NO_SUCH_KEY"),
    (["--max-model-len", "1000000"], "max_model_len"),
])
def test_what_cannot_be_served(nibble, words, says):
    result = nibble("serve", *words)
    assert result.returncode == 2
    assert says in result.stderr and result.stdout == ""
    assert result.stderr.count("\n") == 1


def test_a_port_that_is_taken(binary, nibble):
    with socket.create_server((HOST, 0)) as taken:
        result = nibble("serve", "--port", str(taken.getsockname()[1]))
    assert result.returncode != 0
    assert "in use" in result.stderr.lower()
