"""What the tests of `nibble diagnose` share: a mock that batches in steps, and its diagnosis."""
import contextlib
import json
import subprocess

# Steps of 13 ms, as GLM-5 takes on eight H200s (docs/mock.md).
STEPS = {"weights_ms": 12.6, "kv_ms_per_1k_tokens": 0.015, "per_sequence_ms": 0.006, "prefill_ms_per_token": 0.006,
         "collectives": {"count": 156, "latency_us": 8, "bytes_per_row": 12288, "gb_s": 450}, "host_gap_ms": 0.2, "ranks": 8}
FLOOR = ["--model-config", "glm-5-nvfp4", "--gpu", "h200", "--tp", "8"]
# Long enough for a steady window and two samples of the server's page.
LOAD = ["--max-concurrency", "8,32", "--duration", "4", "--grace", "5", "--num-warmups", "0", "--random-input-len", "32",
        "--random-output-len", "32", "--self-audit", "off"]


@contextlib.contextmanager
def mocking(binary, folder, **script):
    path = folder / "script.json"
    path.write_text(json.dumps({"schema": "nibble.mock/1", "metrics_style": "sglang", "steps": STEPS, **script}))
    process = subprocess.Popen([binary, "mock", "--port", "0", "--script", str(path)], text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    try:
        line = process.stdout.readline()
        assert "http://" in line, line + process.communicate()[1]
        yield "http://" + line.split("http://", 1)[1].strip()
    finally:
        process.terminate()
        process.communicate(timeout=30)


def first_class(diagnosis):
    return diagnosis["verdicts"][0]["class"]
