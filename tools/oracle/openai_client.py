"""The official openai client talks to nibble mock: streams, bodies, usage, tools, errors.

    python tools/oracle/openai_client.py NIBBLE
"""
import asyncio
import contextlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import openai


@contextlib.contextmanager
def mock(nibble, **script):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "script.json"
        path.write_text(json.dumps({"ttft_ms": 5, "itl_ms": 1, **script}))
        process = subprocess.Popen([nibble, "mock", "--port", "0", "--script", path],
                                   stdout=subprocess.PIPE, text=True)
        try:
            url = re.search(r"http://\S+", process.stdout.readline()).group()
            yield f"{url}/v1"
        finally:
            process.terminate()
            process.communicate(timeout=10)
            assert process.returncode == 0


def client(url):
    return openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=20)


ASK = {"model": "nibble-mock", "messages": [{"role": "user", "content": "one two"}], "max_tokens": 8}


def check_chat(nibble):
    with mock(nibble, fields={"reasoning_tokens": 3}) as url:
        assert [model.id for model in client(url).models.list()] == ["nibble-mock"]
        answer = client(url).chat.completions.create(**ASK)
        assert len(answer.choices[0].message.content.split()) == 5
        assert len(answer.choices[0].message.reasoning_content.split()) == 3
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (2, 8)
        assert answer.usage.completion_tokens_details.reasoning_tokens == 3
        chunks = list(client(url).chat.completions.create(
            **ASK, stream=True, stream_options={"include_usage": True}))
        deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
        assert deltas[0].role == "assistant"
        assert "".join(delta.content or "" for delta in deltas).count(" ") == 5
        assert sum(hasattr(delta, "reasoning_content") for delta in deltas) == 3
        assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "length"
        assert chunks[-1].usage.completion_tokens == 8


def check_completions(nibble):
    with mock(nibble, tokens_per_chunk=3) as url:
        ask = {"model": "nibble-mock", "prompt": [1, 2, 3], "max_tokens": 7}
        answer = client(url).completions.create(**ask)
        assert answer.usage.prompt_tokens == 3 and len(answer.choices[0].text.split()) == 7
        chunks = list(client(url).completions.create(**ask, stream=True))
        texts = [chunk.choices[0].text for chunk in chunks]
        assert [len(text.split()) for text in texts] == [1, 3, 3, 0]


def check_tools(nibble):
    with mock(nibble, fields={"tool_calls": True}) as url:
        chunks = client(url).chat.completions.create(**ASK, stream=True)
        calls = [c.choices[0].delta.tool_calls for c in chunks if c.choices]
        arguments = "".join(call[0].function.arguments for call in calls if call)
        assert len(arguments.split()) == 8


def check_forms(nibble):
    """Forms that the grammar allows and this client reads (a comment behind an id it takes for an
    empty event)."""
    for sse in ({"line_end": "crlf"}, {"comment_every": 1}, {"id": True}, {"multi_line": True},
                {"cut_bytes": 5}, {"space_after_colon": False}, {"framing": "close"}):
        with mock(nibble, sse=sse, text={"kind": "utf8"}) as url:
            chunks = list(client(url).chat.completions.create(**ASK, stream=True))
            words = [c.choices[0].delta.content for c in chunks if c.choices[0].delta.content]
            assert len(words) == 8, sse


def check_errors(nibble):
    faults = [{"kind": "status", "requests": [0], "status": 429},
              {"kind": "status", "requests": [1], "status": 500},
              {"kind": "error_event", "requests": [2], "after_tokens": 2},
              {"kind": "truncate", "requests": [3], "after_tokens": 2}]
    with mock(nibble, faults=faults) as url:
        for expected in (openai.RateLimitError, openai.InternalServerError, openai.APIError):
            try:
                list(client(url).chat.completions.create(**ASK, stream=True))
            except expected:
                continue
            raise AssertionError(expected)
        try:
            list(client(url).chat.completions.create(**ASK, stream=True))
        except openai.APIConnectionError:
            pass
        else:
            raise AssertionError("a truncated body was taken for whole")
        try:
            client(url).chat.completions.create(**{**ASK, "max_tokens": 0})
        except openai.BadRequestError as error:
            assert "max_tokens" in str(error)
        else:
            raise AssertionError("max_tokens 0 was taken")


def check_many(nibble):
    async def ask_all(url):
        asynchronous = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0)

        async def one():
            stream = await asynchronous.chat.completions.create(**ASK, stream=True)
            return [chunk async for chunk in stream]

        return await asyncio.gather(*(one() for _ in range(40)))

    with mock(nibble, capacity=8) as url:
        for chunks in asyncio.run(ask_all(url)):
            assert sum(bool(c.choices and c.choices[0].delta.content) for c in chunks) == 8


def main():
    nibble = sys.argv[1]
    for check in (check_chat, check_completions, check_tools, check_forms, check_errors, check_many):
        check(nibble)
        print(f"openai {openai.__version__}: {check.__name__} ok")


if __name__ == "__main__":
    main()
