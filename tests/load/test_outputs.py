"""What a run leaves behind: the files of other benchmarks, the table, the report; whom it speaks to and how."""
import csv
import json
import os
import subprocess
import time

import pytest

import recompute
from loadrun import FIRST, FakeServer, Mock

# sglang.bench_serving --output-file and vllm bench serve --save-result, by the facts' lists of fields.
VLLM = """date backend model_id tokenizer_id num_prompts request_rate burstiness max_concurrency duration completed
failed total_input_tokens total_output_tokens request_throughput request_goodput output_throughput
total_token_throughput max_output_tokens_per_s max_concurrent_requests""".split()
VLLM_LATENCIES = [f"{statistic}_{name}_ms" for name in ("ttft", "tpot", "itl", "e2el")
                  for statistic in ("mean", "median", "std", "p50", "p90", "p95", "p99")]
VLLM_LISTS = "input_lens output_lens ttfts itls latencies start_times errors".split()
SGLANG = """tag backend dataset_name request_rate max_concurrency random_input_len random_output_len
random_range_ratio duration completed total_input_tokens total_output_tokens total_output_tokens_retokenized
request_throughput input_throughput output_throughput total_throughput concurrency accept_length
max_output_tokens_per_s max_concurrent_requests""".split()
SGLANG_LATENCIES = [f"{statistic}_{name}_ms" for name in ("e2e_latency", "ttft", "tpot", "itl")
                    for statistic in ("mean", "median", "std", "p90", "p95", "p99")] + ["max_itl_ms"]


def test_vllms_result_files(mock, load, tmp_path, valid):
    results = tmp_path / "results"
    server = mock(ttft_ms=5, itl_ms=1, faults=[{"kind": "status", "status": 500, "requests": [FIRST + 1]}])
    run = load.quiet(server.url, "--max-concurrency", "1,2", "--num-prompts", 6, "--random-output-len", 5,
                     "--save-result", "--save-detailed", "--result-dir", results, "--metadata", "version=7",
                     "--label", "mine", "--goodput", "ttft:1000").well()
    files = sorted(results.iterdir())
    assert len(files) == 2 and all(path.name.startswith("mine-infqps-concurrency") for path in files)
    for level, path in enumerate(files):
        saved = json.loads(path.read_text())
        valid("load", saved)
        assert [name for name in VLLM + VLLM_LATENCIES + VLLM_LISTS if name not in saved] == []
        rows = run.rows(level)
        assert recompute.compare(saved, recompute.level(rows, {"ttft": 1000})) == []
        assert saved["max_concurrency"] == level + 1 and saved["num_prompts"] == 6
        assert saved["request_rate"] == "inf" and saved["model_id"] == "nibble-mock"
        assert saved["version"] == "7" and saved["label"] == "mine"
        # one entry a request, in seconds as vLLM writes them
        by_start = sorted(rows, key=lambda row: row.sent_ns)
        assert all(len(saved[name]) == 6 for name in VLLM_LISTS)
        assert saved["start_times"] == pytest.approx([(row.sent_ns - by_start[0].sent_ns) / 1e9 for row in rows])
        assert saved["input_lens"] == [4] * 6
        assert saved["output_lens"] == [5 if row.ok else 0 for row in rows]
        assert [bool(error) for error in saved["errors"]] == [not row.ok for row in rows]
        for row, ttft, itls in zip(rows, saved["ttfts"], saved["itls"]):
            if row.ok:
                assert ttft == pytest.approx((row.at[0] - row.sent_ns) / 1e9)
                assert itls == pytest.approx([(b - a) / 1e9 for a, b in zip(row.at, row.at[1:])])
            else:
                assert ttft is None and itls == []


def test_results_are_appended(mock, load, tmp_path):
    path = tmp_path / "results" / "all.jsonl"
    server = mock()
    for _ in range(2):
        load.quiet(server.url, "--max-concurrency", "1,2", "--num-prompts", 2, "--random-output-len", 2,
                   "--append-result", "--result-dir", path.parent, "--result-filename", path.name).well()
    assert [json.loads(line)["max_concurrency"] for line in path.read_text().splitlines()] == [1, 2, 1, 2]


def test_sglangs_lines(mock, load, tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text('{"before": 1}\n')
    run = load.quiet(mock().url, "--backend", "sglang", "--max-concurrency", "1,3", "--num-prompts", 6,
                     "--random-output-len", 5, "--random-range-ratio", 1, "--output-file", path, "--output-details",
                     "--tag", "mine").well()
    before, *lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert before == {"before": 1} and len(lines) == 2
    for level, line in enumerate(lines):
        assert [name for name in SGLANG + SGLANG_LATENCIES if name not in line] == []
        assert recompute.compare(line, recompute.level(run.rows(level))) == []
        assert (line["tag"], line["dataset_name"], line["backend"]) == ("mine", "random", "sglang")
        assert (line["random_input_len"], line["random_output_len"], line["random_range_ratio"]) == (4, 5, 1)
        assert line["max_concurrency"] == (1, 3)[level]
        assert len(line["ttfts"]) == len(line["itls"]) == 6


def test_csv_has_the_documents_numbers(mock, load, tmp_path):
    path = tmp_path / "run.csv"
    run = load.quiet(mock().url, "--max-concurrency", "1,2,4", "--num-prompts", 8, "--random-output-len", 5,
                     "--csv", path).well()
    lines = list(csv.DictReader(path.read_text().splitlines()))
    assert len(lines) == 3 and None not in lines[0]
    for line, level in zip(lines, run.levels):
        checked = 0
        for name, text in line.items():
            if name not in level or isinstance(level[name], (dict, list)):
                continue
            value = level[name]
            if value is None:
                assert text == "", name
            elif isinstance(value, bool) or isinstance(value, str):
                assert text == (str(value).lower() if isinstance(value, bool) else value)
            else:
                assert float(text) == pytest.approx(value, rel=1e-9), name
            checked += 1
        assert checked > 100


def test_one_level_stands_at_the_top(mock, load):
    """So that what plots a file of vLLM's benchmark plots this document."""
    run = load.quiet(mock().url, "--max-concurrency", 2, "--num-prompts", 4, "--random-output-len", 5).well()
    assert [name for name in VLLM + VLLM_LATENCIES if name not in run.document] == []
    for name in VLLM_LATENCIES + ["duration", "completed", "output_throughput"]:
        assert run.document[name] == run.level[name]
    for name in ("ttft", "tpot", "itl", "token_itl", "e2el", "e2e_latency", "percentiles", "duration"):
        assert len(run.document["definitions"][name]) > 20


def test_the_tables(mock, load):
    server = mock()
    one = load.quiet(server.url, "--max-concurrency", 2, "--num-prompts", 4, "--random-output-len", 5,
                     json_document=False).well()
    assert "TTFT" in one.output and "TPOT" in one.output
    sweep = load.quiet(server.url, "--max-concurrency", "1,2,4", "--num-prompts", 8, "--random-output-len", 5,
                       json_document=False).well()
    assert "TTFT" in sweep.output and "tok/s" in sweep.output
    assert "ignore_eos is on" in sweep.output


def test_the_report(mock, load, tmp_path):
    folder = tmp_path / "report"
    load.quiet(mock().url, "--max-concurrency", "1,2,4", "--num-prompts", 8, "--random-output-len", 5,
               "--report", folder).well()
    page = (folder / "report.html").read_text()
    assert "TTFT" in page and "http://127.0.0.1" in page
    assert (folder / "report.md").read_text() and json.loads((folder / "report.json").read_text())


KEY = "sk-nibble-e2e-3f9a77d1c0ffee"


def everything_written(folder, run):
    text = run.output + run.errors
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "the.key":
            text += path.read_text(errors="replace")
    return text


@pytest.mark.parametrize("how", ["file", "env", "usual variable", "header"])
def test_a_key_is_sent_and_never_written(load, tmp_path, how):
    """Not even where the server repeats it: in an error of a request, and in what it says of itself."""
    (tmp_path / "the.key").write_text(KEY + "\n")
    words, env = {
        "file": (("--api-key-file", tmp_path / "the.key"), {}),
        "env": (("--api-key-env", "MY_KEY"), {"MY_KEY": KEY}),
        "usual variable": ((), {"OPENAI_API_KEY": KEY}),
        "header": (("--header", f"Authorization=Bearer {KEY}"), {})}[how]

    def answer(handler, body):
        if len(server.posts()) % 3:
            return False
        handler.say(500, json.dumps({"error": {"message": f"no luck for {handler.headers['Authorization']}"}}))
        return True

    def page(path):
        return json.dumps({"version": "1", "api_key": KEY}) if path in ("/version", "/server_info") else None

    with FakeServer(answer=answer, page=page) as server:
        run = load(server.url, *words, "--self-audit", "off", "--no-gpu", "--max-concurrency", 2, "--num-prompts", 12,
                   "--random-output-len", 3, "--report", tmp_path / "report", "--csv", tmp_path / "run.csv",
                   "--output-file", tmp_path / "run.jsonl", "--output-details", "--save-result", "--save-detailed",
                   "--result-dir", tmp_path / "results", env=env)
        assert run.status == 0, run.errors
        assert all(headers["Authorization"] == f"Bearer {KEY}" for _, headers, _ in server.posts())
    assert run.level["failed"] > 0 and run.level["completed"] > 0
    assert KEY not in everything_written(tmp_path, run)


def test_a_key_stays_with_its_server(load):
    """Another server's metrics page is asked without it."""
    seen = []

    with FakeServer() as server, FakeServer(page=lambda path: seen.append(path) or "vllm:num_requests_running 1\n") as other:
        original = other.server.RequestHandlerClass.do_GET

        def do_get(handler):
            seen.append(handler.headers.get("Authorization"))
            original(handler)

        other.server.RequestHandlerClass.do_GET = do_get
        run = load(server.url, "--api-key-env", "MY_KEY", "--server-metrics", other.url, "--self-audit", "off",
                   "--no-gpu", "--max-concurrency", 1, "--duration", 0.5, "--random-output-len", 3,
                   env={"MY_KEY": KEY})
    assert run.status == 0, run.errors
    assert "/metrics" in seen and KEY not in str(seen)


def test_other_headers_are_sent_and_hidden(load, tmp_path):
    with FakeServer() as server:
        run = load.quiet(server.url, "--header", "X-Team=red", "--header", "X-Secret: blue7", "--max-concurrency", 1,
                         "--num-prompts", 1, "--random-output-len", 2).well()
        headers = server.posts()[-1][1]
    assert headers["X-Team"] == "red" and headers["X-Secret"] == "blue7"
    assert "blue7" not in everything_written(tmp_path, run)
    assert "X-Secret" in run.setup["command"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)
    return folder


def test_https_with_a_certificate_of_ones_own(binary, load, tmp_path, certificate):
    with Mock(binary, tmp_path / "tls", "--tls-certificate", str(certificate / "cert.pem"), "--tls-key",
              str(certificate / "key.pem")) as server:
        assert server.url.startswith("https://")
        words = ("--max-concurrency", 2, "--num-prompts", 4, "--random-output-len", 4, "--num-warmups", 0,
                 "--self-audit", "off", "--no-gpu")
        refused = load(server.url, *words)
        assert refused.status == 2 and refused.output == ""
        assert "certificate" in refused.one_sentence()
        for trust in (("--insecure",), ("--ca-file", certificate / "cert.pem")):
            run = load(server.url, *trust, *words).well()
            assert run.level["completed"] == 4 and run.document["model_id"] == "nibble-mock"
            # the metrics page is read over the same trust
            checks = {check["id"]: check for check in run.level["checks"]}
            assert checks["output_tokens"]["holds"] is True, (trust, checks["output_tokens"])


def test_custom_prompts_in_their_order(load, tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "first one", "output_tokens": 2}\n{"prompt": [7, 8, 9], "max_tokens": 3}\n\n'
                    '{"prompt": "third", "other": [1]}\n')
    with FakeServer() as server:
        run = load.quiet(server.url, "--dataset-name", "custom", "--dataset-path", path, "--max-concurrency", 1,
                         "--num-prompts", 4).well()
        bodies = [body for _, _, body in server.posts()][-4:]
        assert [body["prompt"] for body in bodies] == ["first one", [7, 8, 9], "third", "first one"]
        assert [body["max_tokens"] for body in bodies] == [2, 3, 256, 2]
        assert any("256 output tokens" in note for note in run.setup["notes"])
        run = load.quiet(server.url, "--dataset-name", "custom", "--dataset-path", path, "--max-concurrency", 1,
                         "--num-prompts", 4, "--no-oversample", "--custom-output-len", 2)
    assert run.status == 1 and run.level["num_requests"] == 3 and run.level["complete"] is False
    assert "has no prompt" in run.one_sentence()


def test_sharegpt_prompts_are_the_first_turns(load, tmp_path):
    def talk(prompt, answer):
        return {"id": "x", "conversations": [{"from": "human", "value": prompt}, {"from": "gpt", "value": answer},
                                             {"from": "human", "value": "and then?"}]}

    long, answer = "tell me a long story of a small bit", "once upon a time there was a bit of four"
    path = tmp_path / "sharegpt.json"
    path.write_text(json.dumps([talk(long + " one", answer), talk("hi", answer), talk(long + " two", "no"),
                                talk(long + " three", answer), {"conversations": []}, talk("x" * 9000, answer)]))
    with FakeServer() as server:
        run = load.quiet(server.url, "--dataset-name", "sharegpt", "--dataset-path", path, "--max-concurrency", 1,
                         "--num-prompts", 2).well()
        prompts = [body["prompt"] for _, _, body in server.posts()][-2:]
    # too short a prompt, too short an answer, no turns, too long a prompt: left out, as vLLM does
    assert sorted(prompts) == [long + " one", long + " three"]
    assert any("2 of 6 conversations" in note for note in run.setup["notes"])


def test_chat_requests_have_what_servers_expect(load):
    def answer(handler, body):
        text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in (
            {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
            {"choices": [{"index": 0, "delta": {"content": " w"}}]},
            {"choices": [{"index": 0, "delta": {"content": " w"}, "finish_reason": "length"}]},
            {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}})) + "data: [DONE]\n\n"
        handler.say(200, text, "text/event-stream")
        return True

    with FakeServer(answer=answer) as server:
        run = load.quiet(server.url, "--backend", "openai-chat", "--model", "mine", "--max-concurrency", 1,
                         "--num-prompts", 1, "--random-output-len", 2, "--temperature", 0.5, "--top-p", 0.9,
                         "--extra-body", '{"chat_template_kwargs": {"enable_thinking": false}, "seed": 3}').well()
        path, headers, body = server.posts()[-1]
    assert path == "/v1/chat/completions" and headers["Content-Type"] == "application/json"
    assert body["model"] == "mine" and body["stream"] is True
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert body["messages"][0]["role"] == "user" and isinstance(body["messages"][0]["content"], str)
    assert body["ignore_eos"] is True and (body["temperature"], body["top_p"], body["seed"]) == (0.5, 0.9, 3)
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert 2 in (body.get("max_tokens"), body.get("max_completion_tokens"))
    assert run.level["total_output_tokens"] == 2


def test_the_run_can_be_made_again(mock, load):
    """What it was measured with stands in the document."""
    before = time.time()
    run = load.quiet(mock().url, "--max-concurrency", 1, "--num-prompts", 2, "--random-output-len", 3, "--seed", 5,
                     "--metadata", "gpu=none").well()
    setup = run.setup
    assert run.document["schema"] == "nibble.load/1" and setup["seed"] == 5 and setup["ignore_eos"] is True
    assert setup["endpoint"] == "/v1/completions" and setup["base_url"].startswith("http://127.0.0.1:")
    assert "--max-concurrency 1" in setup["command"] and setup["metadata"] == {"gpu": "none"}
    assert abs(time.mktime(time.strptime(setup["date"], "%Y%m%d-%H%M%S")) - before) < 120
    assert setup["server"]["models"] and setup["host"]["cores"] >= 1
    assert os.path.exists(run.rows_path)


@pytest.mark.parametrize("words, part", [
    ((), "--max-concurrency"), (("--max-concurrency", "x"), "--max-concurrency"),
    (("--max-concurrency", "1", "--num-prompts", "0"), "--num-prompts"),
    (("--request-rate", "-3"), "--request-rate"), (("--num-prompts", "1", "--goodput", "ttft"), "--goodput"),
    (("--num-prompts", "1", "--dataset-name", "sharegpt"), "--dataset-path"),
    (("--num-prompts", "1", "--csv", "/no/such/folder/x"), "/no/such/folder"),
    (("--num-prompts", "1", "--extra-body", "{"), "--extra-body"),
    (("--num-prompts", "1", "--trace", "/no/such/file"), "/no/such/file"),
    (("--max-concurrency", "1,2", "--request-rate", "3"), "--max-concurrency"),
    (("--num-prompts", "1", "--api-key-env", KEY), "variable"),
    (("--num-prompts", "1", "--save-detailed"), "--save-result"),
    (("--num-prompts", "1", "--profile"), "--profile"), (("--num-prompts", "1", "--max-concurency", "2"), "did you")])
def test_mistakes_are_one_sentence(load, words, part):
    run = load("http://127.0.0.1:9", *words)
    assert run.status == 2 and run.output == ""
    assert part in run.one_sentence() and KEY not in run.errors
