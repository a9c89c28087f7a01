"""The official openai client talks to nibble serve with its built-in model.

    python tools/oracle/openai_serve.py NIBBLE
"""
import asyncio
import contextlib
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

import openai

MODEL = "nibble-tiny"
QUESTION = [{"role": "user", "content": 'What does "courage" mean?'}]
ASK = {"model": MODEL, "messages": QUESTION, "max_tokens": 24, "seed": 5, "temperature": 0.7}
ENDLESS = {**ASK, "max_tokens": 900, "extra_body": {"ignore_eos": True}}


class Served:
    def __init__(self, url):
        self.url = url

    def client(self, key="none"):
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, timeout=60)

    def state(self):
        with urllib.request.urlopen(f"{self.url}/debug/state", timeout=10) as response:
            return json.load(response)

    def comes_to_rest(self):
        end = time.monotonic() + 10
        while time.monotonic() < end:
            state = self.state()
            if not any(state[key] for key in ("running", "waiting", "blocks_in_use", "active_requests")):
                assert state["fault"] is None
                return
            time.sleep(0.01)
        raise AssertionError(state)


@contextlib.contextmanager
def serving(nibble, *words):
    process = subprocess.Popen([nibble, "serve", "--port", "0", "--json", *words], stdout=subprocess.PIPE, text=True)
    try:
        yield Served(json.loads(process.stdout.readline())["url"])
    finally:
        process.terminate()
        process.communicate(timeout=20)
        assert process.returncode == 0


def content(answer):
    return answer.choices[0].message.content


def streamed(chunks):
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def check_chat(served):
    client = served.client()
    assert [model.id for model in client.models.list()] == [MODEL]
    answer = client.chat.completions.create(**ASK)
    assert answer.object == "chat.completion" and answer.model == MODEL
    assert answer.choices[0].message.role == "assistant" and content(answer)
    assert answer.choices[0].message.tool_calls is None
    assert answer.choices[0].finish_reason in ("stop", "length")
    usage = answer.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert content(client.chat.completions.create(**ASK)) == content(answer)
    parts = [{"role": "user", "content": [{"type": "text", "text": QUESTION[0]["content"]}]}]
    assert content(client.chat.completions.create(**{**ASK, "messages": parts})) == content(answer)


def check_stream(served):
    client = served.client()
    whole = client.chat.completions.create(**ASK)
    chunks = list(client.chat.completions.create(**ASK, stream=True, stream_options={"include_usage": True}))
    assert streamed(chunks) == content(whole)
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices]
    assert reasons == [None] * (len(reasons) - 1) + [whole.choices[0].finish_reason]
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    with client.chat.completions.stream(**ASK) as events:  # the client puts the answer together itself
        final = events.get_final_completion()
    assert content(final) == content(whole)


def check_completions(served):
    client = served.client()
    ask = {"model": MODEL, "prompt": "And it came to pass", "max_tokens": 12, "seed": 1, "temperature": 0.7}
    whole = client.completions.create(**ask)
    assert whole.object == "text_completion" and whole.usage.completion_tokens <= 12
    chunks = list(client.completions.create(**ask, stream=True))
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == whole.choices[0].text
    ids = json.load(urllib.request.urlopen(urllib.request.Request(
        f"{served.url}/tokenize", json.dumps({"prompt": ask["prompt"]}).encode()), timeout=10))["tokens"]
    assert client.completions.create(**{**ask, "prompt": ids}).choices[0].text == whole.choices[0].text
    echoed = client.completions.create(**ask, echo=True).choices[0].text
    assert echoed == ask["prompt"] + whole.choices[0].text
    several = client.completions.create(**{**ask, "prompt": [ask["prompt"], "The river"]})
    assert [choice.index for choice in several.choices] == [0, 1]
    assert several.choices[0].text == whole.choices[0].text
    scored = client.completions.create(**ask, logprobs=2).choices[0].logprobs
    assert len(scored.tokens) == len(scored.token_logprobs) == len(scored.top_logprobs) == len(scored.text_offset)
    assert "".join(scored.tokens) == whole.choices[0].text


def check_logprobs(served):
    client = served.client()
    ask = {**ASK, "temperature": 0, "logprobs": True, "top_logprobs": 5}
    whole = client.chat.completions.create(**ask)
    entries = whole.choices[0].logprobs.content
    assert bytes(byte for entry in entries for byte in entry.bytes).decode() == content(whole)
    for entry in entries:
        assert len(entry.top_logprobs) == 5
        assert entry.top_logprobs[0].token == entry.token  # greedy
        assert sum(math.exp(top.logprob) for top in entry.top_logprobs) <= 1 + 1e-6
    chunks = client.chat.completions.create(**ask, stream=True)
    told = [entry for chunk in chunks for choice in chunk.choices if choice.logprobs
            for entry in choice.logprobs.content]
    assert told == entries


def check_stop(served):
    client = served.client()
    ask = {**ASK, "temperature": 0, "max_tokens": 40}
    whole = content(client.chat.completions.create(**ask))
    stop = whole[len(whole) // 2:len(whole) // 2 + 3]
    for stops in (stop, ["\x00never", stop]):
        answer = client.chat.completions.create(**ask, stop=stops)
        assert content(answer) == whole[:whole.index(stop)]
        assert answer.choices[0].finish_reason == "stop"
        assert streamed(client.chat.completions.create(**ask, stop=stops, stream=True)) == content(answer)


def check_n(served):
    client = served.client()
    answer = client.chat.completions.create(**ASK, n=4)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    for choice in answer.choices:  # choice i has seed + i
        alone = client.chat.completions.create(**{**ASK, "seed": ASK["seed"] + choice.index})
        assert content(alone) == choice.message.content
    texts = ["", "", "", ""]
    for chunk in client.chat.completions.create(**ASK, n=4, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == [choice.message.content for choice in answer.choices]


def check_cancel(served):
    for read in (0, 1, 5):
        stream = served.client().chat.completions.create(**ENDLESS, stream=True)
        for _, _ in zip(range(read), stream):
            pass
        assert served.state()["active_requests"] == 1
        stream.close()
        served.comes_to_rest()
    with contextlib.suppress(openai.APITimeoutError):
        served.client().with_options(timeout=0.3).chat.completions.create(**{**ENDLESS, "n": 16})
        raise AssertionError("14,400 tokens took less than 0.3 s")
    served.comes_to_rest()
    assert served.state()["choices"]["abort"] == 3 + 16


def refused(error, ask, *says):
    try:
        ask()
    except error as found:
        assert all(word in str(found) for word in says), found
        return found
    raise AssertionError(f"{says} was taken")


def check_errors(served):
    client = served.client()
    chat, text = client.chat.completions.create, client.completions.create
    found = refused(openai.BadRequestError, lambda: chat(**{**ASK, "temperature": -1}), "temperature")
    assert (found.status_code, found.param, found.type) == (400, "temperature", "BadRequestError")
    refused(openai.BadRequestError, lambda: chat(**{**ASK, "max_tokens": 0}), "max_tokens")
    refused(openai.BadRequestError, lambda: chat(**{**ASK, "top_p": 0}, stream=True), "top_p")
    refused(openai.BadRequestError, lambda: chat(**{**ASK, "messages": []}), "messages")
    refused(openai.BadRequestError, lambda: chat(**ASK, n=0), "\"n\"")
    refused(openai.BadRequestError, lambda: text(model=MODEL, prompt=""), "prompt")
    refused(openai.BadRequestError, lambda: text(model=MODEL, prompt=[1, 4096]), "4096")
    refused(openai.BadRequestError, lambda: text(model=MODEL, prompt=[5] * 1025), "1025", "1024")
    refused(openai.BadRequestError, lambda: chat(**ASK, response_format={"type": "json_object"}),
            "response_format")
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    refused(openai.BadRequestError, lambda: chat(**ASK, tools=[tool]), "tools")
    refused(openai.NotFoundError, lambda: chat(**{**ASK, "model": "gpt-4"}), "gpt-4")
    refused(openai.NotFoundError, lambda: client.embeddings.create(model=MODEL, input="a"))
    assert content(chat(**ASK))


def check_many(served):
    async def ask_all():
        asynchronous = openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0)

        async def one(seed):
            stream = await asynchronous.chat.completions.create(**{**ASK, "seed": seed}, stream=True)
            return streamed([chunk async for chunk in stream])

        return await asyncio.gather(*(one(seed % 20) for seed in range(40)))

    texts = asyncio.run(ask_all())
    assert texts[:20] == texts[20:] and len(set(texts)) > 5
    served.comes_to_rest()


def check_limits(nibble):
    """What needs a server of its own: a key, and a queue of one."""
    with tempfile.TemporaryDirectory() as folder:
        key = pathlib.Path(folder) / "key"
        key.write_text("sesame")
        with serving(nibble, "--api-key-file", key) as served:
            refused(openai.AuthenticationError, lambda: served.client("wrong").chat.completions.create(**ASK))
            assert content(served.client("sesame").chat.completions.create(**ASK))
    with serving(nibble, "--max-running-requests", "1", "--max-queued-requests", "1") as served:
        client = served.client()
        streams = [client.chat.completions.create(**ENDLESS, stream=True) for _ in range(2)]
        found = refused(openai.InternalServerError, lambda: client.chat.completions.create(**ASK))
        assert found.status_code == 503 and int(found.response.headers["retry-after"]) >= 1
        for stream in streams:
            stream.close()
        served.comes_to_rest()
        assert content(client.chat.completions.create(**ASK))


CHECKS = (check_chat, check_stream, check_completions, check_logprobs, check_stop, check_n, check_cancel,
          check_errors, check_many)


def main():
    nibble = sys.argv[1]
    with serving(nibble) as served:
        for check in CHECKS:
            check(served)
            print(f"openai {openai.__version__}, nibble serve: {check.__name__} ok")
    check_limits(nibble)
    print(f"openai {openai.__version__}, nibble serve: check_limits ok")


if __name__ == "__main__":
    main()
