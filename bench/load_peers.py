#!/usr/bin/env python3
"""What a streamed token costs the client: nibble load beside load testers from PyPI.

    bench/load_peers.py NIBBLE                              aiperf, and vLLM's if it is installed
    bench/load_peers.py NIBBLE --clients nibble,aiperf --output docs/measured/load_peers.json
    bench/load_peers.py NIBBLE --install aiperf,vllm        10 GB for vllm

All clients ask the same `nibble mock` on this machine for the same answers, one after the other, in
rounds. What is counted is the user and system time of all processes that a client started, dead or
alive, orphans included, from its first request to the last token: the cost of tokens. What it takes to
start (Python and its packages) and to report is told beside it. Tokens are those that the mock wrote.
The clients live in environments of their own under build/load_peers.
"""
import argparse
import ctypes
import datetime
import json
import os
import pathlib
import re
import resource
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
PR_SET_CHILD_SUBREAPER = 36
PROMPT_WORDS = 11
LONGEST_RUN_S = 300
MODEL = "nibble-mock"

# A tokenizer that splits at blanks: no tokenizer can be had without a network, and the mock counts so.
TOKENIZER = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
words = {word: id for id, word in enumerate(["<unk>", "<s>", "</s>"] + [f"w{i}" for i in range(1000)])}
split = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
split.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
PreTrainedTokenizerFast(tokenizer_object=split, unk_token="<unk>", bos_token="<s>",
                        eos_token="</s>").save_pretrained(sys.argv[1])
open(sys.argv[1] + "/config.json", "w").write('{"model_type": "gpt2"}')
"""


def descendants(root):
    """Of a process: {pid: fields of its /proc/PID/stat from the third on}."""
    stats = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            stats[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
    found = {}
    front = [root]
    while front:
        front = [pid for pid, fields in stats.items() if int(fields[1]) in front]
        found.update((pid, stats[pid]) for pid in front)
    return found


def cpu_so_far(root):
    """Seconds of a process's descendants and of those that they have outlived."""
    ticks = sum(sum(map(int, fields[11:15])) for fields in descendants(root).values())
    return ticks / os.sysconf("SC_CLK_TCK")


def measure_child(words, log, environment, write):
    """In a process of its own that inherits orphans, so that nothing escapes the count."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.setpgid(0, 0)
    status = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                              env=environment).wait()
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    os.write(write, json.dumps([status, used.ru_utime, used.ru_stime]).encode())
    os._exit(0)


def run_measured(words, log, environment, phase):
    """Runs a command to its end: its status, and the CPU seconds of all that it started, in all and
    until phase() said 1 (begun) and 2 (all tokens are out)."""
    read, write = os.pipe()
    deadline = time.monotonic() + LONGEST_RUN_S
    pid = os.fork()
    if pid == 0:
        measure_child(words, log, environment, write)
    os.close(write)
    until = []
    while not select.select([read], [], [], 0.02)[0]:
        if len(until) < 2 and phase() > len(until):
            until.append(cpu_so_far(pid))
        if time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
    text = os.read(read, 4096)
    os.close(read)
    os.waitpid(pid, 0)
    if not text:
        return {"status": None}
    status, user, system = json.loads(text)
    total = user + system
    begun, streamed = (until + [total, total])[:2]
    return {"status": status, "start_cpu_s": begun, "stream_cpu_s": streamed - begun,
            "report_cpu_s": total - streamed, "user_s": user, "system_s": system}


class Mock:
    def __init__(self, nibble, options):
        words = [nibble, "mock", "--port", "0", "--model", MODEL, "--ttft-ms", str(options.ttft_ms),
                 "--itl-ms", str(options.itl_ms)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self.url = re.search(r"http://[0-9.:]+", self.process.stdout.readline()).group()

    def ask(self, path, method="GET"):
        request = urllib.request.Request(self.url + path, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())

    def end(self):
        self.process.terminate()
        self.process.wait(timeout=20)


class Nibble:
    name = "nibble"
    # The others sample nothing either.
    more = ["--no-telemetry", "--no-server-metrics", "--self-audit", "off", "--num-warmups", "0"]

    def __init__(self, options, folder):
        self.options, self.folder = options, folder

    def version(self):
        return subprocess.run([self.options.nibble, "--version"], capture_output=True, text=True,
                              check=True).stdout.split()[1]

    def words(self, url, requests):
        return [self.options.nibble, "load", "--base-url", url, "--backend", "openai-chat",
                "--model", MODEL, "--dataset-name", "random",
                "--random-input-len", str(PROMPT_WORDS),
                "--random-output-len", str(self.options.tokens),
                "--max-concurrency", str(self.options.streams), "--num-prompts", str(requests),
                "--save-result", "--result-dir", str(self.folder), "--result-filename", "nibble.json",
                *self.more]

    def times(self):
        result = json.loads((self.folder / "nibble.json").read_text())
        names = {"ttft": "ttft", "tpot": "tpot", "chunk_gap": "itl"}
        return {name: {"median_ms": result[f"median_{metric}_ms"], "p99_ms": result[f"p99_{metric}_ms"]}
                for name, metric in names.items()}


class NibbleWithSignals(Nibble):
    name = "nibble, with signals and self-audit"
    more = ["--self-audit", "fresh"]


class Peer:
    package = requirement = ""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.bin = options.environments / self.package / "bin"

    def installed(self):
        return (self.bin / self.package).exists()

    def install(self):
        environment = self.bin.parent
        print(f"installing {self.package} from PyPI into {environment}", flush=True)
        subprocess.run([self.options.python, "-m", "venv", "--clear", environment], check=True)
        subprocess.run([self.bin / "pip", "install", "--quiet", "--no-compile",
                        "--disable-pip-version-check", self.requirement], check=True)

    def prepare(self):
        tokenizer = self.folder / "tokenizer"
        if not tokenizer.exists():
            subprocess.run([self.bin / "python", "-c", TOKENIZER, tokenizer], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return str(tokenizer)

    def version(self):
        text = subprocess.run([self.bin / "pip", "show", self.package], capture_output=True, text=True,
                              check=True).stdout
        return re.search(r"^Version: (\S+)", text, re.MULTILINE).group(1)


class Aiperf(Peer):
    name = package = requirement = "aiperf"

    def words(self, url, requests):
        prompts = self.folder / "aiperf_prompts.jsonl"
        prompts.write_text("".join(
            json.dumps({"text": " ".join(f"w{(i + j) % 1000}" for j in range(PROMPT_WORDS))}) + "\n"
            for i in range(requests)))
        return [str(self.bin / "aiperf"), "profile", "--model", MODEL, "--url", url,
                "--endpoint-type", "chat", "--streaming", "--use-legacy-max-tokens",
                "--use-server-token-count", "--concurrency", str(self.options.streams),
                "--request-count", str(requests), "--input-file", str(prompts),
                "--custom-dataset-type", "single_turn", "--osl", str(self.options.tokens),
                "--tokenizer", self.prepare(), "--ui", "none", "--no-gpu-telemetry",
                "--no-server-metrics", "--output-artifact-dir", str(self.folder / "aiperf")]

    def times(self):
        result = json.loads((self.folder / "aiperf/profile_export_aiperf.json").read_text())
        names = {"ttft": "time_to_first_token", "tpot": "inter_token_latency",
                 "chunk_gap": "inter_chunk_latency"}
        return {name: {"median_ms": result[metric]["p50"], "p99_ms": result[metric]["p99"]}
                for name, metric in names.items()}


class Vllm(Peer):
    name, package, requirement = "vllm bench serve", "vllm", "vllm[bench]"

    def words(self, url, requests):
        prompts = self.folder / "vllm_prompts.jsonl"
        prompts.write_text("".join(
            json.dumps({"prompt": " ".join(f"w{(i + j) % 1000}" for j in range(PROMPT_WORDS))}) + "\n"
            for i in range(requests)))
        return [str(self.bin / "vllm"), "bench", "serve", "--backend", "openai-chat", "--base-url", url,
                "--endpoint", "/v1/chat/completions", "--model", MODEL,
                "--tokenizer", self.prepare(), "--dataset-name", "custom",
                "--dataset-path", str(prompts), "--custom-output-len", str(self.options.tokens),
                "--skip-chat-template", "--disable-shuffle",
                "--num-prompts", str(requests), "--max-concurrency", str(self.options.streams),
                "--ignore-eos", "--disable-tqdm", "--num-warmups", "0", "--save-result",
                "--percentile-metrics", "ttft,tpot,itl", "--metric-percentiles", "50,99",
                "--result-dir", str(self.folder), "--result-filename", "vllm.json"]

    def times(self):
        result = json.loads((self.folder / "vllm.json").read_text())
        names = {"ttft": "ttft", "tpot": "tpot", "chunk_gap": "itl"}
        return {name: {"median_ms": result[f"median_{metric}_ms"], "p99_ms": result[f"p99_{metric}_ms"]}
                for name, metric in names.items()}


CLIENTS = {"nibble": Nibble, "nibble-signals": NibbleWithSignals, "aiperf": Aiperf, "vllm": Vllm}


def measure(client, options):
    """One run against a fresh mock."""
    mock = Mock(options.nibble, options)
    asked = options.requests * options.tokens

    def phase():
        stats = mock.ask("/mock/stats")
        return (stats["requests"] > 0) + (stats["generation_tokens"] >= asked)

    try:
        words = client.words(mock.url, options.requests)
        log_path = client.folder / "log"
        environment = {**os.environ, "DO_NOT_TRACK": "1", "VLLM_NO_USAGE_STATS": "1"}
        with open(log_path, "w", encoding="utf-8") as log:
            run = run_measured(words, log, environment, phase)
        stats = mock.ask("/mock/stats")
    finally:
        mock.end()
    tokens = stats["generation_tokens"]
    if run["status"] != 0 or tokens < asked:
        text = log_path.read_text(errors="replace")[-3000:]
        sys.exit(f"{text}\nload_peers.py: {client.name} ended with status {run['status']} after "
                 f"{tokens} of {asked} tokens; the end of what it said is above")
    return {**run, "tokens": tokens, "mock_error_us": stats["error_us"], **client.times(),
            "cpu_us_per_token": 1e6 * run["stream_cpu_s"] / tokens,
            "whole_cpu_us_per_token": 1e6 * (run["user_s"] + run["system_s"]) / tokens,
            "command": " ".join(words)}


def summary(client, runs, options):
    def middle(value):
        return statistics.median(map(value, runs))

    costs = sorted(run["cpu_us_per_token"] for run in runs)
    places = {str(client.folder) + "/": "", str(options.environments) + "/": "", options.nibble: "nibble"}
    for run in runs:
        for place, word in places.items():
            run["command"] = run["command"].replace(place, word)
    return {
        "client": client.name, "version": client.version(),
        "cpu_us_per_token": statistics.median(costs), "cpu_us_per_token_range": [costs[0], costs[-1]],
        "whole_cpu_us_per_token": middle(lambda run: run["whole_cpu_us_per_token"]),
        "start_cpu_s": middle(lambda run: run["start_cpu_s"]),
        "report_cpu_s": middle(lambda run: run["report_cpu_s"]),
        "ttft_error_ms": middle(lambda run: run["ttft"]["median_ms"] - options.ttft_ms),
        "ttft_p99_error_ms": middle(lambda run: run["ttft"]["p99_ms"] - options.ttft_ms),
        "tpot_error_ms": middle(lambda run: run["tpot"]["median_ms"] - options.itl_ms),
        "chunk_gap_error_ms": middle(lambda run: run["chunk_gap"]["median_ms"] - options.itl_ms),
        "chunk_gap_p99_error_ms": middle(lambda run: run["chunk_gap"]["p99_ms"] - options.itl_ms),
        "mock_late_median_us": middle(lambda run: run["mock_error_us"]["p50"]),
        "mock_late_p99_us": middle(lambda run: run["mock_error_us"]["p99"]),
        "runs": runs,
    }


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return f"{model.group(1) if model else 'unknown processor'}, {os.cpu_count()} processors"


def table(clients):
    first, whole = clients[0]["cpu_us_per_token"], clients[0]["whole_cpu_us_per_token"]
    lines = ["| client | CPU a token | of the first's | start, report | whole run, a token "
             "| of the first's | TTFT off, median, p99 | TPOT off | gap off, median, p99 "
             "| mock late, median, p99 |", "|---|" + "---|" * 9]
    for one in clients:
        low, high = one["cpu_us_per_token_range"]
        lines.append(
            f"| {one['client']} {one['version']} | {one['cpu_us_per_token']:.1f} us "
            f"({low:.1f} to {high:.1f}) | {one['cpu_us_per_token'] / first:.1f} "
            f"| {one['start_cpu_s']:.2f}, {one['report_cpu_s']:.2f} s "
            f"| {one['whole_cpu_us_per_token']:.1f} us | {one['whole_cpu_us_per_token'] / whole:.1f} "
            f"| {one['ttft_error_ms']:+.2f}, {one['ttft_p99_error_ms']:+.2f} ms "
            f"| {one['tpot_error_ms']:+.3f} ms "
            f"| {one['chunk_gap_error_ms']:+.3f}, {one['chunk_gap_p99_error_ms']:+.3f} ms "
            f"| {one['mock_late_median_us']:.0f}, {one['mock_late_p99_us']:.0f} us |")
    return "\n".join(lines)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nibble", type=os.path.abspath)
    parser.add_argument("--clients", default="", help=f"some of {','.join(CLIENTS)}; the first is the "
                        "measure of the others. Otherwise: nibble, aiperf, and others as installed")
    parser.add_argument("--install", default="", help="packages to install first: aiperf,vllm")
    parser.add_argument("--environments", type=pathlib.Path, default=ROOT / "build/load_peers")
    parser.add_argument("--python", default="/usr/bin/python3", help="makes the environments")
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--ttft-ms", type=float, default=50)
    parser.add_argument("--itl-ms", type=float, default=20)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--least", type=float, default=0,
                        help="exit 1 when a peer costs less than so many times what nibble costs")
    parser.add_argument("--output", type=pathlib.Path, help="keep everything as JSON")
    return parser.parse_args()


def chosen_clients(options, folder):
    asked = [name for name in options.clients.split(",") if name]
    wanted = [name for name in options.install.split(",") if name]
    unknown = [name for name in asked + wanted if name not in CLIENTS]
    if unknown:
        sys.exit(f"load_peers.py: {unknown[0]} is none of {', '.join(CLIENTS)}")
    clients = []
    for name in asked or CLIENTS:
        client_folder = folder / name
        client_folder.mkdir()
        client = CLIENTS[name](options, client_folder)
        if isinstance(client, Peer) and (name in wanted or not client.installed()):
            if not asked and not wanted and name == "vllm":
                print("vllm is not installed: left out (--install vllm, 10 GB)")
                continue
            client.install()
        clients.append(client)
    return clients


def main():
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="load_peers_") as name:
        clients = chosen_clients(options, pathlib.Path(name))
        runs = {client.name: [] for client in clients}
        for number in range(options.rounds):
            for client in clients:
                run = measure(client, options)
                runs[client.name].append(run)
                print(f"round {number + 1}, {client.name}: {run['cpu_us_per_token']:.1f} us a token, "
                      f"{run['tokens']} tokens, start {run['start_cpu_s']:.2f} s, report "
                      f"{run['report_cpu_s']:.2f} s", flush=True)
        results = [summary(client, runs[client.name], options) for client in clients]
    print("\n" + table(results))
    if options.output:
        git = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True,
                             text=True, check=False)
        document = {"schema": "nibble.load_peers/1", "machine": machine(),
                    "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
                    "commit": git.stdout.strip(), "streams": options.streams,
                    "tokens": options.tokens, "ttft_ms": options.ttft_ms, "itl_ms": options.itl_ms,
                    "clients": results}
        options.output.write_text(json.dumps(document, indent=1) + "\n")
        print(f"\n{options.output}: {len(results)} clients")
    own = results[0]["cpu_us_per_token"]
    cheap = [one["client"] for one in results
             if not one["client"].startswith("nibble") and one["cpu_us_per_token"] < options.least * own]
    if cheap:
        print(f"less than {options.least:g} times {own:.1f} us: {', '.join(cheap)}", file=sys.stderr)
    return 1 if cheap else 0


if __name__ == "__main__":
    sys.exit(main())
