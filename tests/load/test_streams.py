"""What servers put into a stream, and what a client must make of it: T4 to T7, T10, T16 and T17."""
import http.client
import json

import pytest

from loadrun import EARLY_NS, FIRST, FakeServer, answers, lateness_ms, median

CHAT = ("--backend", "openai-chat")


def test_t4_roles_and_empty_deltas_are_no_tokens(mock, load):
    server = mock(ttft_ms=200, itl_ms=5, stream={"role": "at_start", "empty_every": 2, "finish": "separate"})
    run = load.quiet(server.url, *CHAT, "--max-concurrency", 2, "--num-prompts", 4, "--random-output-len", 9).well()
    for row, line in answers(server, run.rows()):
        assert len(row.at) == row.output_tokens == 9
        assert row.at[0] >= line["due_ns"][0] - EARLY_NS
        assert row.first_byte_ns < line["due_ns"][0]  # the role, at once
    level = run.level
    assert level["ci"]["itl"]["n"] == 4 * 8  # tokens - 1
    assert level["min_ttft_ms"] >= 199 and level["mean_ttfr_ms"] < level["min_ttft_ms"]
    assert level["tokens_per_chunk"] == 1


def test_t4_a_usage_chunk_moves_no_stamp(mock, load):
    """The first token's stamp is written once (genai-bench#44), the last one's before the usage."""
    server = mock(ttft_ms=30, itl_ms=3, usage={"when": "last"}, stream={"finish": "separate"})
    run = load.quiet(server.url, *CHAT, "--max-concurrency", 1, "--num-prompts", 3, "--random-output-len", 5).well()
    for row in run.rows():
        assert len(row.at) == 5 and row.output_tokens == 5 and row.token_source == "usage"
        assert row.at[0] < row.at[-1] <= row.end_ns
    assert run.level["mean_e2el_ms"] <= run.level["mean_e2e_latency_ms"]


@pytest.mark.parametrize("when, source, tokens", [
    ("requested", "continuous_usage", 7), ("every", "continuous_usage", 7), ("last", "usage", 7),
    ("same", "usage", 7), ("none", "events", 3), ("zeros", "events", 3)])
def test_t5_where_usage_stands(mock, load, when, source, tokens):
    """7 tokens in 3 chunks: 1 + 3 + 3."""
    run = load.quiet(mock(tokens_per_chunk=3, usage={"when": when}).url, "--max-concurrency", 1,
                     "--num-prompts", 3, "--random-output-len", 7, input_len=11).well()
    level = run.level
    assert level["token_source"] == source
    assert level["total_output_tokens"] == 3 * tokens
    assert level["token_counts"]["chunks"] == 9
    assert [len(row.at) for row in run.rows()] == [3, 3, 3]
    known = source == "continuous_usage"
    assert (level["mean_token_itl_ms"] is not None) is known
    if source == "events":
        assert "one token a chunk is assumed" in run.flags()
        assert level["token_counts"]["usage"] is None
        assert level["output_lengths"]["requests"] == 0  # nothing to compare with what was asked
    else:
        assert level["output_lengths"]["mismatched"] == 0
        assert level["total_input_tokens"] == 33
    assert level["zero_usage"] == (3 if when == "zeros" else 0)
    if when == "zeros":
        assert "not believed" in run.flags()


BYTES = [*range(33, 127), *range(161, 173), *range(174, 256)]  # GPT-2's printable bytes


def tokenizer_of_bytes(folder):
    """A tokenizer without merges: as many tokens as bytes."""
    others = [byte for byte in range(256) if byte not in BYTES]
    letters = {**{byte: chr(byte) for byte in BYTES}, **{byte: chr(256 + n) for n, byte in enumerate(others)}}
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                          "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "merges": [],
                  "vocab": {letters[byte]: byte for byte in range(256)}}}))
    return folder


def word_of(server):
    """What the mock says over and over."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=20)
    connection.request("POST", "/v1/completions", json.dumps({"prompt": "a", "max_tokens": 2}))
    text = json.loads(connection.getresponse().read())["choices"][0]["text"]
    assert text[:len(text) // 2] == text[len(text) // 2:]
    return text[:len(text) // 2]


def test_t5_a_tokenizer_counts_where_the_server_does_not(mock, load, tmp_path):
    server = mock(text={"kind": "repeat"}, usage={"when": "none"})
    folder = tokenizer_of_bytes(tmp_path / "bytes")
    run = load.quiet(server.url, "--tokenizer", folder, "--max-concurrency", 1, "--num-prompts", 2,
                     "--random-output-len", 20).well()
    assert run.level["token_source"] == "tokenizer"
    assert run.level["total_output_tokens"] == 2 * 20 * len(word_of(server).encode())
    assert run.level["degenerate"] == 2 and "repeat one token" in run.flags()  # one word, 20 times
    # beside the server's own count, it is told and not used
    server = mock(text={"kind": "repeat"})
    run = load.quiet(server.url, "--tokenizer", folder, "--max-concurrency", 1, "--num-prompts", 2,
                     "--random-output-len", 20).well()
    assert run.level["token_source"] == "continuous_usage" and run.level["total_output_tokens"] == 40
    assert run.level["total_output_tokens_retokenized"] == 40 * len(word_of(server).encode())


def test_t5_a_server_that_refuses_stream_options_is_asked_without(mock, load):
    server = mock(usage={"stream_options": False})
    run = load.quiet(server.url, "--max-concurrency", 1, "--num-prompts", 2, "--random-output-len", 5).well()
    assert run.level["completed"] == 2 and run.level["token_source"] == "events"
    assert any("the server refuses" in note for note in run.setup["notes"])


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_t6_reasoning_stands_apart(mock, load, field):
    server = mock(ttft_ms=20, itl_ms=4, fields={"reasoning_tokens": 5, "reasoning_field": field})
    run = load.quiet(server.url, *CHAT, "--max-concurrency", 2, "--num-prompts", 4, "--random-output-len", 8).well()
    for row, line in answers(server, run.rows()):
        assert row.kinds == 5 * ["reasoning"] + 3 * ["text"]
        assert row.at[5] >= line["due_ns"][5] - EARLY_NS
        assert row.reasoning_tokens == 5
    level = run.level
    assert level["reasoning_tokens"] == 20 and level["total_output_tokens"] == 32
    # by the script five tokens of 4 ms lie between them
    assert level["mean_ttfo_ms"] - level["mean_ttft_ms"] > 15
    assert level["ci"]["ttfo"]["n"] == level["ci"]["ttft"]["n"] == 4


def test_t6_nothing_but_reasoning(mock, load):
    run = load.quiet(mock(fields={"reasoning_tokens": 99}).url, *CHAT, "--max-concurrency", 1, "--num-prompts", 2,
                     "--random-output-len", 4).well()
    assert run.level["mean_ttfo_ms"] is None and run.level["ci"]["ttfo"]["reason"] == "reasoning tokens only"
    assert run.level["mean_ttft_ms"] > 0 and run.level["total_output_tokens"] == 8


def test_t6_tool_calls_and_text(mock, load):
    # 50 ms between them: a busy machine does not read both at once
    server = mock(itl_ms=50, fields={"tool_calls": True, "reasoning_tokens": 1})
    run = load.quiet(server.url, *CHAT, "--max-concurrency", 1, "--num-prompts", 1, "--random-output-len", 6).well()
    assert run.rows()[0].kinds == ["reasoning"] + 5 * ["tool"]
    assert run.level["completed"] == 1 and run.level["mean_ttfo_ms"] > run.level["mean_ttft_ms"]
    run = load.quiet(mock().url, "--max-concurrency", 1, "--num-prompts", 1, "--random-output-len", 6).well()
    assert run.rows()[0].kinds == 6 * ["text"]  # the completions' own field


@pytest.mark.parametrize("sse, flag", [
    ({"comment_every": 1, "keep_alive_ms": 3}, None),
    ({"event": "message", "id": True, "retry_ms": 10}, None),
    ({"line_end": "crlf", "byte_order_mark": True}, None),
    ({"line_end": "cr", "space_after_colon": False}, None),
    ({"multi_line": True}, None),
    ({"done": "none", "final_newline": False}, "without_done"),
    ({"done": "then_data"}, "data_after_done"),
    ({"cut_bytes": 1}, None),
    ({"cut_bytes": 7, "line_end": "crlf", "multi_line": True, "byte_order_mark": True}, None),
    ({"cut_characters": True, "cut_pause_ms": 1}, None),
    ({"framing": "close", "final_newline": False}, None),
], ids=["comments", "fields", "crlf and mark", "cr", "multi-line", "no done", "after done", "bytes", "all at once",
        "characters", "until it closes"])
def test_t7_the_freedoms_of_the_grammar(mock, load, sse, flag):
    server = mock(ttft_ms=12, itl_ms=2, sse=sse, text={"kind": "utf8"}, tokens_per_chunk=2)
    run = load.quiet(server.url, *CHAT, "--max-concurrency", 2, "--num-prompts", 4, "--random-output-len", 9).well()
    level = run.level
    assert level["completed"] == 4 and level["total_output_tokens"] == 36
    assert level["token_source"] == "continuous_usage"
    for row, line in answers(server, run.rows()):
        assert row.tokens == [1, 2, 2, 2, 2] and row.at[0] >= line["due_ns"][0] - EARLY_NS
        assert row.saw_done is (flag != "without_done")
        assert row.finish_reason == "length"
    for name, words in (("without_done", "ended without [DONE]"), ("data_after_done", "went on after [DONE]")):
        assert level[name] == (4 if name == flag else 0)
        assert (words in run.flags()) is (name == flag)


def test_c_bytes_that_keep_a_body_alive(mock, load):
    """White space before the JSON of an answer that is not streamed (codex2api#696)."""
    run = load.quiet(mock(body_padding_bytes=3000).url, "--disable-stream", "--max-concurrency", 1,
                     "--num-prompts", 2, "--random-output-len", 5).well()
    assert run.level["completed"] == 2 and run.level["total_output_tokens"] == 10


def test_t10_answers_that_end_early_are_told(mock, load):
    """Every request is asked for 20 tokens and ends after 4 or 10."""
    run = load.quiet(mock(early_end={"probability": 1, "tokens": [4, 10]}).url, "--max-concurrency", 1,
                     "--num-prompts", 4, "--random-output-len", 20).well()
    lengths = run.level["output_lengths"]
    assert (lengths["requests"], lengths["mismatched"], lengths["early_eos"]) == (4, 4, 4)
    assert lengths["mean_ratio"] == pytest.approx(28 / 80)
    assert run.level["total_output_tokens"] == 28
    assert "35" in run.flags() and "tokens/s does not compare" in run.flags()
    assert sorted(row.output_tokens for row in run.rows()) == [4, 4, 10, 10]


def test_t16_one_chunk_or_one_body_has_no_first_token(mock, load):
    for words, script in (((), {"stream": {"mode": "one_chunk"}}), ((), {"stream": {"mode": "body"}}),
                          (("--disable-stream",), {})):
        run = load.quiet(mock(ttft_ms=10, itl_ms=2, **script).url, "--max-concurrency", 1, "--num-prompts", 3,
                         "--random-output-len", 6, *words).well()
        level = run.level
        assert level["completed"] == level["not_streamed"] == 3 and level["total_output_tokens"] == 18
        for name in ("ttft", "tpot", "itl", "token_itl", "ttfo"):
            assert level[f"mean_{name}_ms"] is None and level[f"p99_{name}_ms"] is None
            assert level["ci"][name]["reason"] == "not streamed"
            assert level["ci"][name]["n"] == 0
        assert level["min_e2el_ms"] >= 10 + 5 * 2 - 0.1
        assert "not streamed" in run.flags()


def test_t16_one_of_two_answers_in_one_chunk(load):
    """Null is not 0 (evalscope#1694): what has no TTFT is left out of it, and counted."""
    state = {"count": 0}

    def answer(handler, body):
        state["count"] += 1
        if state["count"] <= FIRST or state["count"] % 2:
            return False
        text = ('data: {"choices": [{"index": 0, "text": " a b c d", "finish_reason": "length"}], '
                '"usage": {"prompt_tokens": 4, "completion_tokens": 4}}\n\ndata: [DONE]\n\n')
        handler.say(200, text, "text/event-stream")
        return True

    with FakeServer(answer=answer) as server:
        run = load.quiet(server.url, "--max-concurrency", 1, "--num-prompts", 6, "--random-output-len", 4).well()
    ci = run.level["ci"]["ttft"]
    assert (ci["n"], ci["missing"]) == (3, 3) and run.level["not_streamed"] == 3
    assert run.level["min_ttft_ms"] > 0
    assert "3 answers not streamed" in run.flags()


def test_t17_chunks_of_100_kilobytes(mock, load):
    server = mock(ttft_ms=20, itl_ms=15, text={"chunk_bytes": 100_000})
    run = load.quiet(server.url, "--max-concurrency", 2, "--num-prompts", 4, "--random-output-len", 8).well()
    assert run.level["total_output_tokens"] == 32
    pairs = answers(server, run.rows())
    assert all(len(row.at) == 8 for row, _ in pairs)
    assert median(lateness_ms(pairs)) < 25


def test_t17_a_prompt_of_131072_tokens(mock, load):
    """A megabyte goes up beside an answer that streams: the server counts every token, and nothing stalls."""
    server = mock(ttft_ms=20, itl_ms=5)
    run = load.quiet(server.url, "--max-concurrency", 2, "--num-prompts", 4, "--random-output-len", 12,
                     input_len=131072).well()
    assert run.level["total_input_tokens"] == 4 * 131072
    assert run.level["prompt_lengths"] == {"requests": 4, "mismatched": 0, "early_eos": 0, "mean_ratio": 1}
    pairs = answers(server, run.rows())
    assert [line["prompt_tokens"] for _, line in pairs] == 4 * [131072]
    assert median(lateness_ms(pairs)) < 25


def test_e_a_chat_template_is_told(mock, load):
    """The server counts 20 tokens more than were sent (tt-inference-server#213)."""
    run = load.quiet(mock(usage={"template_tokens": 20}).url, *CHAT, "--max-concurrency", 1, "--num-prompts", 2,
                     "--random-output-len", 3, input_len=50).well()
    assert any("20 tokens more than were sent" in note for note in run.setup["notes"])


@pytest.mark.parametrize("words", [(), ("--no-token-ids",), CHAT], ids=["ids", "text", "chat"])
def test_e_prompts_have_the_length_asked_for(mock, load, words):
    """By the server's own count, as ids and as words (vllm#24937, sglang#15732)."""
    server = mock()
    run = load.quiet(server.url, *words, "--max-concurrency", 2, "--num-prompts", 6, "--random-output-len", 2,
                     input_len=300).well()
    assert run.level["prompt_lengths"]["mean_ratio"] == pytest.approx(1, abs=0.01)
    assert all(abs(line["prompt_tokens"] - 300) <= 3 for line in server.truth()[FIRST:])
    if not words:
        assert run.level["prompt_lengths"]["mismatched"] == 0
