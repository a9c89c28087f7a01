"""nibble mock end to end: the real program, spoken to by Python's own http.client."""
import concurrent.futures
import contextlib
import http.client
import json
import re
import signal
import socket
import time

import jsonschema
import pytest

HOST = "127.0.0.1"


MESSAGES = [{"role": "user", "content": "one two three"}]


def test_a_chat_stream(start):
    mock = start("--ttft-ms", "30", "--itl-ms", "5")
    begin = time.monotonic_ns()
    events = mock.stream("/v1/chat/completions", messages=MESSAGES, max_tokens=6,
                         stream_options={"include_usage": True})
    assert events[-1][1] == "[DONE]"
    chunks = [json.loads(data) for _, data in events[:-1]]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == {"prompt_tokens": 3, "completion_tokens": 6, "total_tokens": 9}
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    words = [c["choices"][0]["delta"]["content"] for c in chunks[1:7]]
    assert all(re.fullmatch(r" \w+", word) for word in words)
    assert chunks[7]["choices"][0]["finish_reason"] == "length"
    # 30 ms and five times 5: never before its time
    assert events[1][0] - begin >= 29_900_000
    assert events[6][0] - begin >= 54_900_000


def test_one_body(start):
    mock = start("--ttft-ms", "1", "--itl-ms", "1", "--model", "tiny")
    answer = json.loads(mock.post("/v1/completions", prompt=[5, 6, 7, 8], max_tokens=4).read())
    assert answer["usage"]["prompt_tokens"] == 4
    assert len(answer["choices"][0]["text"].split()) == 4
    assert answer["model"] == "tiny"
    assert json.loads(mock.get("/v1/models")[1])["data"][0]["id"] == "tiny"


def test_ends_with_a_summary(start):
    for sign in (signal.SIGINT, signal.SIGTERM):
        mock = start("--ttft-ms", "1", "--itl-ms", "0")
        mock.stream("/v1/completions", prompt="a", max_tokens=3)
        status, output, errors = mock.stop(sign)
        assert (status, errors) == (0, "")
        assert re.fullmatch(r"served 1 requests, 3 tokens; off its due times by .* \(late at most\)\n",
                            output)


def test_ends_at_once_while_streams_run(start):
    mock = start("--ttft-ms", "1", "--itl-ms", "60000")
    connection = mock.connect()
    connection.request("POST", "/v1/completions", json.dumps({"prompt": "a", "stream": True}))
    response = connection.getresponse()
    assert response.readline().startswith(b"data: ")
    begin = time.monotonic()
    assert mock.stop()[0] == 0
    assert time.monotonic() - begin < 3
    with contextlib.suppress(http.client.HTTPException, ConnectionError):
        assert b"[DONE]" not in response.read()


def test_a_port_in_use_is_one_sentence(nibble):
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        result = nibble("mock", "--port", str(port))
    assert result.returncode == 1 and result.stdout == ""
    assert re.fullmatch(rf"nibble: cannot listen on {re.escape(HOST)} port {port}: .*\n", result.stderr)


@pytest.mark.parametrize("words,part", [
    (("--ttft-ms", "soon"), '--ttft-ms is "soon"'),
    (("--itl-ms", "-3"), "--itl-ms is -3"),
    (("--port", "99999"), "--port"),
    (("--host", "nowhere.invalid"), "nowhere.invalid"),
    (("--tls-key", "x"), "--tls-certificate"),
    (("--metrics-style", "tgi"), "llamacpp"),
    (("--script", "/no/such/file"), "/no/such/file"),
])
def test_mistakes(nibble, words, part):
    result = nibble("mock", "--port", "0", *words)
    assert result.returncode == 2 and result.stdout == ""
    assert part in result.stderr and len(result.stderr.splitlines()) == 1


def test_a_script_with_a_typing_error(nibble, script):
    result = nibble("mock", "--script", script(ttft=3))
    assert result.returncode == 2
    assert "did you mean" in result.stderr and "ttft_ms" in result.stderr


def test_the_truth_cannot_be_written(nibble):
    result = nibble("mock", "--port", "0", "--truth", "/no/such/folder/truth")
    assert result.returncode == 1 and "/no/such/folder/truth" in result.stderr


def test_the_script_is_valid_by_its_schema(nibble, source_dir, script):
    schema = json.loads((source_dir / "docs/schemas/nibble.mock.1.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    words = ("--itl-ms", "gamma:10,5", "--ttft-ms", "list:1,2", "--capacity", "3")
    document = json.loads(nibble("mock", "--json", *words).stdout)
    validator.validate(document)
    assert document["itl_ms"] == {"kind": "gamma", "mean": 10, "stddev": 5}
    again = json.loads(nibble("mock", "--json", "--script", script(**document)).stdout)
    assert again == document
    # what the program refuses, the schema refuses; one field each
    for wrong in ({"ttft": 1}, {"itl_ms": -1}, {"sse": {"line_end": "x"}}, {"faults": [{"every": 1}]},
                  {"tokens_per_chunk": 0}, {"itl_ms": {"kind": "beta"}}, {"capacity": -1}):
        assert not validator.is_valid(wrong), wrong
        assert nibble("mock", "--json", "--script", script(**wrong)).returncode == 2


def test_every_field_of_the_schema_is_explained(source_dir):
    schema = json.loads((source_dir / "docs/schemas/nibble.mock.1.json").read_text())
    text = (source_dir / "docs/mock.md").read_text()
    missing = []

    def visit(properties):
        for name, field in properties.items():
            if not re.search(rf"`(\w+\.)?{name}`", text) and f"### {name}" not in text:
                missing.append(name)
            visit(field.get("properties", {}) or field.get("items", {}).get("properties", {}))

    visit({k: v for k, v in schema["properties"].items()})
    missing = [name for name in missing if name not in ("early_end", "slow_start", "text", "fields",
                                                        "stream", "usage")]
    assert missing == []


def test_the_truth_of_many_answers(start, tmp_path, script):
    truth = tmp_path / "truth.jsonl"
    mock = start("--script", script(ttft_ms=20, itl_ms=2, tokens_per_chunk=3, capacity=4),
                 "--truth", str(truth))
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(
            lambda _: mock.stream("/v1/completions", prompt="a", max_tokens=10), range(12)))
    assert all(len(events) == 4 + 2 for events in answers)  # 1 + 3 + 3 + 3, finish, [DONE]
    assert mock.stop()[0] == 0
    rows = sorted((json.loads(line) for line in truth.read_text().splitlines()),
                  key=lambda row: row["index"])
    assert [row["index"] for row in rows] == list(range(12))
    for row in rows:
        assert row["complete"] and row["fault"] is None
        assert row["chunk_tokens"] == [1, 3, 3, 3]
        due = [row["start_ns"] + offset * 1_000_000 for offset in (20, 26, 32, 38)]
        assert row["due_ns"] == due
        assert all(written >= when - 50_000 for written, when in zip(row["written_ns"], due))
    # each after the fourth starts with the due end of the one four before it
    for row, before in zip(rows[4:], rows):
        assert row["start_ns"] == before["due_ns"][-1]


def test_faults_by_index(start, script):
    mock = start("--script", script(ttft_ms=1, itl_ms=0, faults=[
        {"kind": "status", "requests": [0], "status": 429},
        {"kind": "html", "requests": [1]},
        {"kind": "reset", "requests": [2], "after_tokens": 2},
        {"kind": "truncate", "requests": [3], "after_tokens": 2},
        {"kind": "error_event", "requests": [4], "after_tokens": 2}]))
    ask = {"prompt": "a", "max_tokens": 5, "stream": True}
    assert mock.post("/v1/completions", **ask).status == 429
    page = mock.post("/v1/completions", **ask)
    assert page.status == 200 and page.read().startswith(b"<!DOCTYPE html>")
    with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
        mock.post("/v1/completions", **ask).read()
    with pytest.raises(http.client.IncompleteRead):
        mock.post("/v1/completions", **ask).read()
    events = mock.stream("/v1/completions", prompt="a", max_tokens=5)
    assert "error" in json.loads(events[2][1])
    assert mock.stream("/v1/completions", prompt="a", max_tokens=5)[-1][1] == "[DONE]"


@pytest.mark.parametrize("style,running,tokens", [
    ("vllm", "vllm:num_requests_running", "vllm:generation_tokens_total"),
    ("sglang", "sglang:num_running_reqs", "sglang:generation_tokens_total"),
    ("llamacpp", "llamacpp:requests_processing", "llamacpp:tokens_predicted_total"),
])
def test_metrics_while_and_after(start, style, running, tokens):
    mock = start("--metrics-style", style, "--ttft-ms", "1", "--itl-ms", "400")
    connection = mock.connect()
    connection.request("POST", "/v1/completions",
                       json.dumps({"prompt": "a", "stream": True, "max_tokens": 2}))
    response = connection.getresponse()
    assert response.readline().startswith(b"data: ")
    during = mock.counters()
    assert (during[running], during[tokens]) == (1, 1)
    response.read()
    after = mock.counters()
    assert (after[running], after[tokens]) == (0, 2)


def test_metrics_as_a_quoted_string(start):
    mock = start("--metrics-style", "llamacpp_quoted")
    page = json.loads(mock.get("/metrics")[1])
    assert "llamacpp:requests_processing 0" in page


@pytest.mark.parametrize("garbage", [b"GET\r\n\r\n", b"\x16\x03\x01\x02", b"POST / HTTP/9.9\r\n\r\n",
                                     b"\x00" * 70_000],
                         ids=["short", "tls", "version", "zeros"])
def test_garbage_does_not_hurt(start, garbage):
    mock = start()
    with socket.create_connection((HOST, mock.port), timeout=5) as connection:
        connection.sendall(garbage)
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while connection.recv(65536):
                pass
    assert mock.get("/health")[0] == 200


def test_a_client_that_leaves_frees_its_slot(start):
    mock = start("--ttft-ms", "1", "--itl-ms", "30000", "--capacity", "1")
    connection = mock.connect()
    connection.request("POST", "/v1/completions", json.dumps({"prompt": "a", "stream": True}))
    assert connection.getresponse().readline()
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    deadline = time.monotonic() + 5
    while json.loads(mock.get("/mock/stats")[1])["running"] and time.monotonic() < deadline:
        time.sleep(0.01)
    stats = json.loads(mock.get("/mock/stats")[1])
    assert (stats["running"], stats["aborted"]) == (0, 1)
