#!/usr/bin/env python3
"""`nibble diagnose` against llama-cpp-python's server: its time per output token against the server's own.

    tools/real_server/time_per_token.py NIBBLE URL FOLDER       FOLDER/server.log is the server's output

llama.cpp prints of every answer the time of its prompt, of its steps and their number ("eval time = ... ms / ... runs"), and of
all of it ("total time"), in which the Python server samples and writes between the steps, too. One request runs at a time, so
that a token takes (total - prompt) / steps, by the server; the steps alone are printed beside it.
"""
import json
import pathlib
import re
import subprocess
import sys

import jsonschema

from check import ServerLog, prompts

ROOT = pathlib.Path(__file__).resolve().parents[2]
REQUESTS = 12
TOKENS = 64
MOST_APART = 0.05


class TimedLog(ServerLog):
    def answers_ms(self):
        """(prompt, steps, all in ms, number of steps) of every answer since the last look."""
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            text = file.read().decode(errors="replace")
        self.offset += len(text.encode())
        found = re.findall(r"prompt eval time =\s+([0-9.]+) ms.*\n.*? eval time =\s+([0-9.]+) ms /\s*(\d+) runs.*\n"
                           r".*total time =\s+([0-9.]+) ms", text)
        return [(float(prompt), float(steps), float(total), int(runs)) for prompt, steps, runs, total in found]


def main():
    nibble, url, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    path = folder / "diagnose.jsonl"
    path.write_text("".join(json.dumps({"prompt": text, "output_tokens": TOKENS}) + "\n" for text in prompts(REQUESTS)))
    log = TimedLog(folder / "server.log")
    done = subprocess.run([nibble, "diagnose", "--server", url, "--dataset-name", "custom", "--dataset-path", str(path),
                           "--max-concurrency", "1", "--num-prompts", str(REQUESTS), "--num-warmups", "0", "--json"],
                          capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        return 1
    document = json.loads(done.stdout)
    schema = json.loads((ROOT / "docs/schemas/nibble.diagnosis.1.json").read_text())
    faults = [fault.message[:200] for fault in jsonschema.Draft202012Validator(schema).iter_errors(document)]
    # Short answers are those of the requests that find out what the server takes.
    answers = [answer for answer in log.answers_ms() if answer[3] >= TOKENS // 2]
    runs = sum(answer[3] for answer in answers)
    server = sum(total - prompt for prompt, _, total, _ in answers) / runs
    steps = sum(steps for _, steps, _, _ in answers) / runs
    ours = document["levels"][0]["facts"]["tpot"]["value"]
    apart = ours / server - 1
    print(f"diagnose: {document['verdicts'][0]['sentence']}")
    print(f"time per output token: {ours:.3f} ms by nibble, {server:.3f} ms by the server's own timings of {len(answers)} "
          f"answers: {apart:+.1%} (at most {MOST_APART:.0%}); its steps alone take {steps:.3f} ms")
    for fault in faults:
        print(f"FAILED the document does not fit its schema: {fault}")
    return 0 if not faults and abs(apart) <= MOST_APART and len(answers) >= REQUESTS else 1


if __name__ == "__main__":
    sys.exit(main())
