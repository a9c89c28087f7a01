"""Faults in the real engine: `nibble serve` with one thing wrong, or a load that is."""
import contextlib
import json
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time
import urllib.request

from .trial import HEALTHY, LONGEST_S, Trial, ask

# Short prompts and long answers: decoding is what is looked at, unless the fault says otherwise.
LOAD = {"--max-concurrency": "1,4,16,32", "--duration": "4", "--grace": "4", "--random-input-len": "16",
        "--random-output-len": "64", "--temperature": "server", "--num-warmups": "1"}

CYCLE_S = 0.4

# Two sets that share no strength and no seed.
STRENGTHS = {
    "calibration": {
        "scheduler_cap": (2, 6, 12), "kv_capacity": (20, 44, 72), "slow_tactic": ("fp32", "bf16", "int8"),
        "host_stall": (2, 5, 12), "front_end": (1, 2, 4), "prefill": (200, 400, 700), "hot_expert": (4, 8, 16),
        "client": (60, 75, 90), "degenerate": (4, 8, 20), "same_prompts": (60, 80, 100), "healthy": (1, 2, 3, 4)},
    "published": {
        "scheduler_cap": (3, 5, 10), "kv_capacity": (24, 36, 64), "slow_tactic": ("fp32", "bf16", "int8"),
        "host_stall": (3, 7, 15), "front_end": (1.5, 3, 5), "prefill": (260, 480, 600), "hot_expert": (5, 10, 20),
        "client": (65, 80, 85), "degenerate": (5, 6, 12), "same_prompts": (70, 90, 95), "healthy": (11, 12, 13, 14, 15, 16)},
}


@contextlib.contextmanager
def serving(program, *words):
    process = subprocess.Popen([program, "serve", "--port", "0", "--json", *map(str, words)], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(process.communicate()[1])
        yield json.loads(line)["url"]
    finally:
        process.terminate()
        process.wait(30)


def words_of(program, url, seed, changes):
    load = {**LOAD, **changes, "--seed": str(seed)}
    return [program, "diagnose", "--server", url, "--json", *(word for pair in load.items() for word in pair)]


def plain(serve, changes, seed):
    """A server with options, asked with a load."""
    def diagnose(program):
        with serving(program, *serve) as url:
            return ask(words_of(program, url, seed, changes))
    return diagnose


def generated(url):
    """Tokens that the server has made since it started."""
    with urllib.request.urlopen(url + "/debug/state", timeout=10) as page:
        return json.load(page)["generation_tokens"]


def throttled(percent, seed):
    """The client has the processor only a part of the time, as in a container with a quota: it is stopped for the rest of
    each CYCLE_S, from the first token of its load on."""
    def diagnose(program):
        with serving(program) as url:
            process = subprocess.Popen(words_of(program, url, seed, {}), text=True, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            ended = threading.Event()

            def stop_and_go():
                while not ended.is_set() and generated(url) == 0:
                    time.sleep(0.1)
                while not ended.is_set():
                    process.send_signal(signal.SIGSTOP)
                    time.sleep(CYCLE_S * percent / 100)
                    process.send_signal(signal.SIGCONT)
                    time.sleep(CYCLE_S * (1 - percent / 100))

            thread = threading.Thread(target=stop_and_go)
            thread.start()
            try:
                out, said = process.communicate(timeout=LONGEST_S)
            finally:
                ended.set()
                thread.join()
                process.send_signal(signal.SIGCONT)
        if process.returncode != 0:
            raise RuntimeError(said)
        return json.loads(out)
    return diagnose


def model_folder(url):
    with urllib.request.urlopen(url + "/server_info", timeout=10) as page:
        return pathlib.Path(json.load(page)["model"]["path"])


TOKEN = 300  # any that is common enough to be met


def broken_row(factor, seed):
    """A checkpoint in which one row of the embedding, which is also the output's, is so many times too large: once the token
    comes it brings itself back, over and over."""
    def diagnose(program):
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place) / "broken"
            with serving(program) as url:
                shutil.copytree(model_folder(url), folder)
            scale_row(folder / "model.safetensors", "model.embed_tokens.weight", TOKEN, factor)
            with serving(program, "--model", folder) as url:
                return ask(words_of(program, url, seed, {}))
    return diagnose


def scale_row(path, name, row, factor):
    """Multiplies one row of a bf16 matrix in a safetensors file."""
    data = bytearray(path.read_bytes())
    (size,) = struct.unpack_from("<Q", data)
    tensor = json.loads(data[8:8 + size])[name]
    assert tensor["dtype"] == "BF16", tensor
    columns = tensor["shape"][1]
    begin = 8 + size + tensor["data_offsets"][0] + 2 * columns * row
    for at in range(begin, begin + 2 * columns, 2):
        (value,) = struct.unpack("<f", b"\0\0" + data[at:at + 2])
        data[at:at + 2] = struct.pack("<f", factor * value)[2:]
    path.write_bytes(data)


def same_prompts(percent, seed):
    """So many of a hundred prompts are one and the same: the prefix cache answers for the prefill."""
    def diagnose(program):
        drawn = random.Random(seed)
        words = "river stone light voice garden winter horse bread quiet mountain letter answer".split()

        def text():
            return " ".join(drawn.choice(words) for _ in range(300))

        same = text()
        with tempfile.TemporaryDirectory() as place, serving(program) as url:
            path = pathlib.Path(place) / "prompts.jsonl"
            lines = [{"prompt": same if drawn.random() * 100 < percent else text(), "max_tokens": 48} for _ in range(4000)]
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            load = {**LOAD, "--dataset-name": "custom", "--dataset-path": str(path), "--seed": str(seed)}
            for name in ("--random-input-len", "--random-output-len"):
                del load[name]
            return ask([program, "diagnose", "--server", url, "--json", *(word for pair in load.items() for word in pair)])
    return diagnose


def trials(which):
    strengths = STRENGTHS[which]
    base = 100 if which == "calibration" else 7000
    made = []

    def add(fault, expected, make, text):
        for number, strength in enumerate(strengths[fault]):
            seed = base + 10 * len(made) + number
            made.append(Trial(fault, text.format(strength), seed, expected, make(strength, seed)))

    add("healthy", HEALTHY, lambda _, seed: plain((), {}, seed), "seed {}")
    add("scheduler_cap", "scheduler_cap", lambda n, seed: plain(("--max-running-requests", n), {}, seed), "{} requests")
    add("kv_capacity", "kv_capacity", lambda n, seed: plain(("--kv-blocks", n), {}, seed), "{} blocks")
    add("slow_tactic", "wrong_tactic",
        lambda form, seed: plain(("--isa", "portable", "--activations", form), {}, seed), "portable, {}")
    add("host_stall", "launch_host", lambda ms, seed: plain(("--inject", f"step_stall_ms={ms}"), {}, seed), "{} ms a step")
    add("front_end", "front_end", lambda ms, seed: plain(("--inject", f"front_end_block_ms={ms}"), {}, seed), "{} ms")
    add("prefill", "prefill_interference",
        lambda n, seed: plain(("--no-prefix-caching",), {"--random-input-len": str(n)}, seed), "{} tokens")
    add("hot_expert", "expert_imbalance", lambda bias, seed: plain(("--inject", f"router_bias={bias}"), {}, seed), "bias {}")
    add("client", "client_limited", throttled, "stopped {} % of the time")
    add("degenerate", "degenerate_output", broken_row, "row x {}")
    add("same_prompts", "prefix_cache_inflation", same_prompts, "{} % the same")
    return made
