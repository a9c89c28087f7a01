#!/usr/bin/env python3
"""`nibble load` against llama-cpp-python's server, checked by what the server says of itself.

    tools/real_server/check.py NIBBLE URL FOLDER       FOLDER/server.log is the server's output

The server gives no usage in a stream, so the client counts one token an event. Whether that is true
is asked twice:
- llama.cpp prints after every answer how many steps it made (server.log). The server has one slot and
  answers one request after the other, so that its answers and the rows, by their ends, stand in the
  same order;
- the same requests again, not streamed, have their tokens in `usage`.
Characters of several tokens, as most emoji are, come in one event: only in answers that have such
may the client have counted less.
"""
import json
import pathlib
import re
import subprocess
import sys
import time
import urllib.request

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEVELS = {1: 6, 2: 8, 4: 8, 8: 16}  # requests under way -> requests
TOKENS = 32
MODEL = "smollm2"
MOST_PROBES = 12  # requests that find out what the server takes, before the load
REPLAYED = 8
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
SUBJECTS = ["a river", "two friends", "the old lighthouse", "winter", "a clockmaker", "the sea",
            "an empty house", "a long journey", "the market", "my neighbour's cat", "a lost letter"]
VERBS = ["Tell me a story about", "Describe", "Write a poem about", "Explain to a child", "Ask about"]


def prompts(count):
    """No two begin alike, so that the server finds no prefix that it has read already."""
    return [f"{number + 1}. {VERBS[number % len(VERBS)]} {SUBJECTS[number % len(SUBJECTS)]}, and "
            f"{SUBJECTS[(3 * number + 1) % len(SUBJECTS)]}." for number in range(count)]


def ask(url, path, body):
    request = urllib.request.Request(url + path, json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.loads(answer.read())


class ServerLog:
    """What the server said since the last look."""

    def __init__(self, path):
        self.path, self.offset = path, path.stat().st_size

    def answers(self, endpoint):
        """The steps after the first token, of each answer, and the number of requests it noted."""
        time.sleep(0.3)  # the line of a request is written behind its answer
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            text = file.read().decode(errors="replace")
        self.offset += len(text.encode())
        printed = re.findall(r"prompt eval time =\s+([0-9.]+) ms.*\n.*? eval time =.*?/\s*(\d+) runs", text)
        # A prompt that was known but for one token is read by a step as well.
        steps = [int(runs) - (float(prompt_ms) == 0) for prompt_ms, runs in printed]
        return steps, len(re.findall(rf'"POST {re.escape(endpoint)} HTTP', text))


class Checks:
    def __init__(self):
        self.failed = 0
        self.passed = 0

    def check(self, holds, sentence):
        print(f"  {'ok    ' if holds else 'FAILED'} {sentence}")
        self.failed += not holds
        self.passed += bool(holds)


def tokens_of(row):
    """The client's count: what the server said, else an event for each token."""
    if row["output_tokens"] is not None:
        return row["output_tokens"]
    return len(row["event_ns"])


def server_tokens(row, steps):
    # The first token comes from the prompt, each other from a step; a step more finds the end.
    return steps if row["finish_reason"] == "stop" else steps + 1


def run_load(nibble, url, backend, dataset, folder):
    rows = folder / f"{backend}.jsonl"
    words = [nibble, "load", "--base-url", url, "--backend", backend, *dataset, "--num-warmups", "0",
             "--max-concurrency", ",".join(map(str, LEVELS)),
             "--num-prompts", ",".join(map(str, LEVELS.values())), "--rows", str(rows), "--json"]
    result = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
    if result.returncode != 0:
        print(result.stderr[-3000:], file=sys.stderr)
    return result, rows


def compare_counters(checks, rows, steps, posts, replay):
    """Pairs each row with the answer that the server counted; the probes came before. Gives the
    server's tokens of each level."""
    rows = sorted(rows, key=lambda row: row["end_ns"])
    probes = len(steps) - len(rows)
    checks.check(1 <= probes <= MOST_PROBES, f"the server answered {len(steps)} requests: "
                 f"{len(rows)} rows and {probes} before the load; it noted {posts}")
    if probes < 0:
        return {}
    sums, alike, explained, unlike = {}, 0, 0, []
    for row, step in zip(rows, steps[probes:]):
        ours, theirs = tokens_of(row), server_tokens(row, step)
        sums[row["level"]] = sums.get(row["level"], 0) + theirs
        if ours == theirs:
            alike += 1
        elif ours < theirs and (replay is None or not replay(row)["text"].isascii()):
            explained += 1
        else:
            unlike.append((row["level"], row["index"], ours, theirs))
    checks.check(not unlike and alike > 0.5 * len(rows),
                 f"tokens of {alike} of {len(rows)} requests are those of the server's counters, {explained} "
                 f"have characters of several tokens {unlike[:4] or ''}")
    return sums


def compare_replays(checks, rows, replay):
    unlike, asked = [], sorted(rows, key=lambda row: (row["level"], row["index"]))[:REPLAYED]
    for row in asked:
        whole = replay(row)
        lost = 0 if whole["text"].isascii() else TOKENS
        if not whole["tokens"] - lost <= tokens_of(row) <= whole["tokens"]:
            unlike.append((row["index"], tokens_of(row), whole["tokens"]))
    checks.check(not unlike, f"{len(asked) - len(unlike)} of {len(asked)} requests have as many tokens "
                 f"when they are not streamed {unlike[:4] or ''}")


def replayer(url, backend, texts):
    """Asks for the answer of a row again, whole. Prompts go out in the order of the file."""
    first = [0]
    for requests in LEVELS.values():
        first.append(first[-1] + requests)

    def replay(row):
        text = texts[first[row["level"]] + row["index"]]
        body = {"model": MODEL, "max_tokens": TOKENS, "min_tokens": TOKENS, "temperature": 0}
        if backend == "openai-chat":
            answer = ask(url, CHAT, {**body, "messages": [{"role": "user", "content": text}]})
            said = answer["choices"][0]["message"]["content"]
        else:
            answer = ask(url, COMPLETIONS, {**body, "prompt": text})
            said = answer["choices"][0]["text"]
        return {"text": said, "tokens": answer["usage"]["completion_tokens"]}

    return replay


def check_backend(checks, nibble, url, backend, folder, texts):
    """With the prompts of `texts`; without them the client makes its own."""
    if texts:
        path = folder / "prompts.jsonl"
        path.write_text("".join(json.dumps({"prompt": text, "output_tokens": TOKENS}) + "\n"
                                for text in texts))
        dataset = ["--dataset-name", "custom", "--dataset-path", str(path)]
    else:
        dataset = ["--dataset-name", "random", "--random-input-len", "32", "--random-output-len", str(TOKENS)]
    print(f"{backend}, {dataset[1]} prompts: levels of {', '.join(map(str, LEVELS))}, {TOKENS} tokens")
    log = ServerLog(folder / "server.log")
    result, rows_path = run_load(nibble, url, backend, dataset, folder)
    checks.check(result.returncode == 0, f"exit status {result.returncode}")
    if result.returncode != 0:
        return []
    document = json.loads(result.stdout)
    schema = json.loads((ROOT / "docs/schemas/nibble.load.1.json").read_text())
    faults = [fault.message[:200] for fault in
              jsonschema.Draft202012Validator(schema).iter_errors(document)]
    checks.check(not faults, f"the document fits its schema {faults[:3] or ''}")

    rows = [json.loads(line) for line in rows_path.read_text().splitlines()]
    levels = document["levels"]
    asked = list(LEVELS.values())
    counts = [sum(row["level"] == level for row in rows) for level in range(len(LEVELS))]
    checks.check(counts == asked and [level["num_requests"] for level in levels] == asked,
                 f"requests of the levels: {asked} asked, {counts} rows, "
                 f"{[level['num_requests'] for level in levels]} in the document")
    checks.check(all(level["failed"] == 0 for level in levels), "no request failed")
    checks.check(all(row["finish_reason"] in ("length", "stop") and row["saw_done"] for row in rows),
                 "every stream has a finish_reason and ends with [DONE]")

    steps, posts = log.answers(CHAT if backend == "openai-chat" else COMPLETIONS)
    replay = replayer(url, backend, texts) if texts else None
    sums = compare_counters(checks, rows, steps, posts, replay)
    table = []
    for number, level in enumerate(levels):
        ours, theirs = level["total_output_tokens"], sums.get(number, 0)
        checks.check(0.97 * theirs <= ours <= theirs, f"level {level['max_concurrency']:g}: {ours} "
                     f"tokens in the document, {theirs} by the server's counters")
        in_flight = level["mean_in_flight"]
        checks.check(in_flight is not None and 0.5 * level["max_concurrency"] < in_flight <=
                     level["max_concurrency"] + 1e-9,
                     f"level {level['max_concurrency']:g}: {in_flight} in flight on average")
        table.append([f"{backend}, {dataset[1]}", level, theirs])
    if replay:
        compare_replays(checks, rows, replay)
    return table


def main():
    nibble, url, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    checks = Checks()
    table = []
    texts = prompts(sum(LEVELS.values()))
    for backend in ("openai", "openai-chat"):
        table += check_backend(checks, nibble, url, backend, folder, texts)
    table += check_backend(checks, nibble, url, "openai", folder, None)
    print(f"\n{'backend':19} {'level':>5} {'requests':>8} {'tokens':>7} {'server':>7} {'tok/s':>7} "
          f"{'TTFT ms':>8} {'TPOT ms':>8} {'ITL ms':>7} {'in flight':>9}  tokens by")
    for backend, level, theirs in table:
        print(f"{backend:19} {level['max_concurrency']:5g} {level['completed']:8} "
              f"{level['total_output_tokens']:7} {theirs:7} {level['output_throughput']:7.1f} "
              f"{level['median_ttft_ms']:8.0f} {level['median_tpot_ms']:8.2f} "
              f"{level['median_itl_ms']:7.2f} {level['mean_in_flight']:9.2f}  {level['token_source']}")
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed or not checks.passed else 0


if __name__ == "__main__":
    sys.exit(main())
