"""nibble serve end to end: the real program with its built-in model, spoken to by Python's own http.client."""
import concurrent.futures
import json
import random
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

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
    assert set(server.first) == {"version", "url", "model", "sampling", "engine", "server", "inject"}
    assert server.first["server"]["port"] == server.port
    assert server.first["model"]["kv_cache_bytes"] == (
        server.first["model"]["kv_bytes_per_token"] * server.first["engine"]["block_tokens"]
        * server.first["engine"]["kv_blocks"])
    assert server.first["engine"]["max_running_requests"] == 8
    assert server.first["server"]["host"] == HOST
    info = json.loads(server.ask("/server_info")[1])
    assert info == server.first
    models = json.loads(server.ask("/v1/models")[1])["data"]
    assert [model["id"] for model in models] == [server.first["model"]["name"]] == ["nibble-tiny"]


def test_the_printout_says_the_same(binary):
    with subprocess.Popen([binary, "serve", "--port", "0"], text=True, stdout=subprocess.PIPE) as process:
        lines = []
        for line in process.stdout:
            if line.startswith("nibble serve listens on"):
                break
            lines.append(line.split(maxsplit=2))
        url = line.split()[-1]
        info = json.loads(urllib.request.urlopen(url + "/server_info", timeout=20).read())
        process.kill()
    printed = {(part, name): value[0].strip() if value else "" for part, name, *value in lines}
    told = {("nibble", name): value for name, value in info.items() if not isinstance(value, dict)}
    for part, values in info.items():
        if isinstance(values, dict):
            told.update({(part, name): value for name, value in values.items()})
    assert printed == {key: value if isinstance(value, str) else json.dumps(value) for key, value in told.items()}


def changed_model(source_dir, folder, **generation_config):
    shutil.copytree(source_dir / "data/tiny", folder)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 0], **generation_config}))
    return folder


def test_requests_that_do_not_say_are_sampled_as_the_checkpoint_has_it(binary, source_dir, tmp_path):
    """vLLM's default, too: --generation-config auto. top_k 1 is greedy, whatever the seed."""
    model = changed_model(source_dir, tmp_path / "greedy", top_k=1, temperature=0.7)
    asked = dict(prompt="In the beginning", max_tokens=16)
    with serving(binary, "--model", model) as server:
        assert server.first["sampling"] == {"generation_config": "auto", "temperature": 0.7, "top_p": 1, "top_k": 1,
                                            "min_p": 0, "repetition_penalty": 1}
        greedy = server.post("/v1/completions", **asked, temperature=0)["choices"]
        assert server.post("/v1/completions", **asked, seed=1)["choices"] == greedy
        assert server.post("/v1/completions", **asked, seed=2)["choices"] == greedy
        free = dict(top_k=-1, temperature=1)
        own = [server.post("/v1/completions", **asked, **free, seed=seed)["choices"] for seed in (1, 2)]
        assert own[0] != own[1]
    with serving(binary, "--model", model, "--generation-config", "none") as server:
        assert server.first["sampling"]["generation_config"] == "none"
        assert server.first["sampling"]["temperature"] == 1
        assert [server.post("/v1/completions", **asked, seed=seed)["choices"] for seed in (1, 2)] == own


@pytest.mark.parametrize("name, value", [("temperature", -1), ("top_p", 0), ("top_k", 5000), ("min_p", "x"),
                                         ("repetition_penalty", 0)])
def test_bad_defaults_of_a_checkpoint(nibble, source_dir, tmp_path, name, value):
    result = nibble("serve", "--model", changed_model(source_dir, tmp_path / "bad", **{name: value}))
    assert result.returncode == 2 and result.stdout == ""
    assert name in result.stderr and "generation_config.json" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_checkpoint_without_a_tokenizer(nibble, source_dir, tmp_path):
    folder = changed_model(source_dir, tmp_path / "mute")
    (folder / "tokenizer.json").unlink()
    result = nibble("serve", "--model", folder)
    assert result.returncode == 2 and result.stdout == ""
    assert "a server needs the checkpoint's tokenizer.json beside the weights" in result.stderr


def test_a_tokenizer_with_more_tokens_than_the_model(nibble, source_dir, tmp_path):
    folder = changed_model(source_dir, tmp_path / "larger")
    file = folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    tokenizer["added_tokens"].append({**tokenizer["added_tokens"][0], "id": 4096, "content": "<|one more|>"})
    file.write_text(json.dumps(tokenizer))
    result = nibble("serve", "--model", folder)
    assert result.returncode == 2 and result.stdout == ""
    assert "4096" in result.stderr and "tokenizer" in result.stderr
    assert result.stderr.count("\n") == 1


def test_names_that_other_servers_have(binary):
    with serving(binary, "--block-size", "32", "--kv-cache-dtype", "bf16") as server:
        assert server.first["engine"]["block_tokens"] == 32
        assert server.first["model"]["kv_format"] == "bf16"


def test_more_answers_than_there_are_places(binary):
    with serving(binary, "--max-running-requests", "1", "--max-queued-requests", "1") as server:
        status, text = server.ask("/v1/completions", {"prompt": "a", "n": 3, "max_tokens": 1})
        assert status == 400 and json.loads(text)["error"]["param"] == "n"
        assert len(server.post("/v1/completions", prompt="a", n=2, max_tokens=1)["choices"]) == 2
        assert server.state()["choices"]["abort"] == 0


def test_a_huge_prompt_holds_up_nobody(server):
    """15 MB of text, which no context holds: refused without being cut into tokens. So are 128 prompts of it."""
    words = "The quick brown fox jumps over it. " * 430_000
    began = time.monotonic()
    status, text = server.ask("/v1/completions", {"prompt": words})
    assert status == 400 and "at least" in text
    assert server.ask("/v1/completions", {"prompt": [words[:110_000]] * 128})[0] == 400
    assert time.monotonic() - began < 5


def test_an_answer_that_takes_too_long_is_a_timeout(binary):
    with serving(binary, "--request-timeout", "0.05") as server:
        status, _ = server.ask("/v1/completions", {"prompt": "a", "max_tokens": 900, "ignore_eos": True})
        assert status == 504
        assert 'finished_reason="timeout"} 1\n' in server.ask("/metrics")[1]
        assert server.state()["choices"]["abort"] == 0


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


def test_a_page_of_another_origin_has_nothing_computed(server):
    def status(origin, host=f"{HOST}:{server.port}"):
        return server.ask("/v1/completions", {"prompt": "the", "max_tokens": 1},
                          headers={"Origin": origin, "Host": host, "Content-Type": "text/plain"})[0]
    assert status("http://evil.example") == status("null") == 403
    assert status(server.first["url"]) == 200
    assert status("http://evil.example", "evil.example") == 403


def test_a_stop_string_ends_no_answer_before_its_least_tokens(server):
    asked = dict(prompt="the", max_tokens=8, temperature=0, ignore_eos=True)
    free = server.post("/v1/completions", **asked)["choices"][0]["text"]
    stopped = server.post("/v1/completions", **asked, stop=list(set(free))[:16])
    assert stopped["usage"]["completion_tokens"] == 1
    held = server.post("/v1/completions", **asked, stop=list(set(free))[:16], min_tokens=6)
    assert held["usage"]["completion_tokens"] >= 6
    assert free.startswith(held["choices"][0]["text"])


def test_more_messages_than_a_context_has_tokens_are_refused(server):
    status, text = server.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}] * 100000})
    assert status == 400 and json.loads(text)["error"]["param"] == "messages"


@pytest.mark.parametrize("words, says", [
    (["--model", "/nowhere"], '--model is "/nowhere", which is no folder'),
    (["--port", "70000"], "--port"),
    (["--kv-format", "int4"], "--kv-format"),
    (["--generation-config", "vllm"], "--generation-config"),
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
