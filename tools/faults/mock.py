"""Faults in the mock: a simulated engine and simulated GPUs whose mechanisms are scripted (docs/mock.md, "steps"). What the
diagnosis looks at, queues, times and telemetry, follows from them.

The deployment is GLM-5 in NVFP4 on eight H200s. At 128 users the ledger's floor of a step is 15.7 ms, of which weights are
12.1 (`nibble analyze --model glm-5-nvfp4 --machine h200 --tp 8 --context 64 --concurrency 128`); a sound server is here 5 to
10 % above it.
"""
import contextlib
import copy
import json
import pathlib
import subprocess
import tempfile
import time

from .trial import HEALTHY, Trial, ask

SOUND = {
    "schema": "nibble.mock/1", "metrics_style": "sglang", "kv_capacity_tokens": 1 << 20, "capacity": 256,
    "steps": {"prefill_chunk_tokens": 2048, "weights_ms": 12.6, "kv_ms_per_1k_tokens": 0.015, "per_sequence_ms": 0.006,
              "prefill_ms_per_token": 0.006, "collectives": {"count": 156, "latency_us": 8, "bytes_per_row": 12288, "gb_s": 450},
              "host_gap_ms": 0.2, "ranks": 8, "slow_rank_factor": 1, "noise": 0.02},
    "gpu": {"name": "NVIDIA H200"},
}
LOAD = {"--max-concurrency": "32,64,128", "--duration": "6", "--grace": "8", "--random-input-len": "32",
        "--random-output-len": "64", "--num-warmups": "0"}
FLOOR = {"--model-config": "glm-5-nvfp4", "--gpu": "h200", "--tp": "8"}

STRENGTHS = {
    "calibration": {"collectives": (60, 120, 240), "host_gap": (6, 12, 24), "slow_rank": (1.6, 2.2, 3),
                    "slots": (24, 48, 80), "kv_pool": (2000, 3500, 6000), "prefill": (1000, 2000, 4000),
                    "power_cap": (300, 330, 360), "heat": (0.16, 0.2, 0.25), "link": (4, 2, 1), "healthy": (1, 2, 3)},
    "published": {"collectives": (80, 160, 320), "host_gap": (8, 16, 30), "slow_rank": (1.8, 2.5, 4),
                  "slots": (20, 40, 64), "kv_pool": (2500, 4500, 7000), "prefill": (1300, 2600, 3500),
                  "power_cap": (310, 340, 350), "heat": (0.17, 0.21, 0.3), "link": (8, 3, 1.5), "healthy": (11, 12, 13)},
}


@contextlib.contextmanager
def mocking(program, script):
    with tempfile.TemporaryDirectory() as place:
        path = pathlib.Path(place) / "script.json"
        path.write_text(json.dumps(script))
        process = subprocess.Popen([program, "mock", "--port", "0", "--script", str(path)], text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        try:
            line = process.stdout.readline()
            if "http://" not in line:
                raise RuntimeError(line + process.communicate()[1])
            yield "http://" + line.split("http://", 1)[1].split()[0].rstrip(".,;")
        finally:
            process.terminate()
            process.wait(30)


def words_of(load):
    return [word for pair in load.items() for word in pair]


def changed(**parts):
    """The sound script with members of steps, gpu or the script itself replaced: steps__host_gap_ms=5."""
    script = copy.deepcopy(SOUND)
    for name, value in parts.items():
        place = script
        *path, last = name.split("__")
        for one in path:
            place = place.setdefault(one, {})
        place[last] = value
    return script


def live(make_script, load=None):
    def make(strength, seed):
        def diagnose(program):
            script = {**make_script(strength), "seed": seed}
            with mocking(program, script) as url:
                return ask([program, "diagnose", "--server", url, "--telemetry", url.split("//")[1], "--json", "--seed", str(seed),
                            *words_of({**LOAD, **FLOOR, **(load(strength) if load else {})})])
        return diagnose
    return make


def recorded(make_script, load=None):
    """The same run as two files, a load test and the telemetry of the server's host beside it, read afterwards."""
    def make(strength, seed):
        def diagnose(program):
            script = {**make_script(strength), "seed": seed}
            with tempfile.TemporaryDirectory() as place, mocking(program, script) as url:
                samples = pathlib.Path(place) / "samples.jsonl"
                watch = subprocess.Popen([program, "watch", "--telemetry", url.split("//")[1], "--jsonl", str(samples)],
                                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                try:
                    time.sleep(1)
                    done = subprocess.run([program, "load", "--base-url", url, "--json", "--seed", str(seed), "--no-gpu",
                                           *words_of({**LOAD, **(load(strength) if load else {})})],
                                          capture_output=True, text=True, timeout=300, check=False)
                    if done.returncode != 0:
                        raise RuntimeError(done.stderr)
                    time.sleep(1)
                finally:
                    watch.terminate()
                    said = watch.communicate()[1]
                if not samples.exists():
                    raise RuntimeError(said)
                document = pathlib.Path(place) / "load.json"
                document.write_text(done.stdout)
                return ask([program, "diagnose", "--from", str(document), str(samples), "--json", *words_of(FLOOR)])
        return diagnose
    return make


def heat(c_per_w):
    """A cooler that has lost its grip: above 87 C the clock falls. A board that computes much, so that the clock counts."""
    return changed(gpu__heat={"ambient_c": 35, "c_per_w": c_per_w, "seconds": 4, "limit_c": 87}, steps__per_sequence_ms=0.06)


def power_cap(watts):
    return changed(gpu__power_cap_w=watts, steps__per_sequence_ms=0.06)


def link(share):
    """PCIe 5 x16 that came up narrower: the ring of a server without NVLink."""
    generation, width = {8: (5, 8), 4: (5, 4), 3: (4, 8), 2: (5, 2), 1.5: (3, 4), 1: (5, 1)}[share]
    return changed(gpu__link_generation=generation, gpu__link_width=width, steps__collectives__gb_s=55)


def add_all(made, which, numbered, kind):
    strengths = STRENGTHS[which]
    base = {"calibration": 300, "published": 9000}[which] + (500 if kind is recorded else 0)

    def add(fault, expected, make_script, text, load=None):
        for strength in strengths[fault]:
            seed = base + len(made)
            made.append(Trial(fault, text.format(strength), seed, expected, kind(make_script, load)(strength, seed)))

    for name in numbered:
        add(*FAULTS[name])


FAULTS = {
    "healthy": ("healthy", HEALTHY, lambda _: changed(), "seed {}"),
    "collectives": ("collectives", "collectives", lambda us: changed(steps__collectives__latency_us=us), "{} us each"),
    "host_gap": ("host_gap", "launch_host", lambda ms: changed(steps__host_gap_ms=ms), "{} ms a step"),
    "slow_rank": ("slow_rank", "expert_imbalance", lambda by: changed(steps__slow_rank_factor=by), "x {}"),
    "slots": ("slots", "scheduler_cap", lambda n: changed(capacity=n), "{} requests"),
    "kv_pool": ("kv_pool", "kv_capacity", lambda n: changed(kv_capacity_tokens=n), "{} tokens"),
    "prefill": ("prefill", "prefill_interference", lambda _: changed(steps__prefill_ms_per_token=0.05), "{} tokens",
                lambda n: {"--random-input-len": str(n)}),
    "power_cap": ("power_cap", "power_cap", power_cap, "{} W"),
    "heat": ("heat", "thermal", heat, "{} C/W"),
    "link": ("link", "link_degraded", link, "1/{} of the link"),
}


def trials(which):
    made = []
    add_all(made, which, ("healthy", "collectives", "host_gap", "slow_rank", "slots", "kv_pool", "prefill"), live)
    return made
