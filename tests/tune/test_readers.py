"""Who reads the file of nibble tune: nibble bench, nibble serve and the C API."""
import ctypes
import json
import signal
import subprocess
import time

import pytest

from conftest import environment
from tuning_files import assert_refused, bench_layer, cache, changed, tune, tuned  # noqa: F401


@pytest.fixture
def next_best(tuned):
    best = json.loads(tuned[0].read_text())["entries"][0]["default"]["isa"]
    if best == "portable":
        pytest.skip("this processor has one instruction set alone")
    return "avx2" if best == "avx512" else "portable"


@pytest.fixture
def chosen(tuned, next_best, tmp_path):
    file = json.loads(tuned[0].read_text())
    for entry in file["entries"]:
        choose(entry, {"op": entry["key"]["op"], "family": "cpu", "isa": next_best, "threads": 1},
               f"cpu {next_best} 1 thread")
    path = tmp_path / "chosen.json"
    path.write_text(json.dumps(file))
    return path


def choose(entry, tactic, text):
    """The entry as nibble tune would have written it, had this tactic taken half of the default's time."""
    for timed in entry["times"]:
        timed["standing"] = "slower"
    entry["times"] = [timed for timed in entry["times"] if timed["text"] != text]
    entry["times"].insert(0, {"tactic": tactic, "text": text, "median_us": 1, "interval_us": None, "rounds": 1,
                              "ratio": 0.5, "ratio_interval": None, "standing": "chosen"})
    entry |= {"choice": tactic, "choice_text": text, "runner_up": None, "gain": 0.5, "regret_of_default": 1, "ties": []}


def test_bench_takes_the_choices(nibble, cache, source_dir, next_best, chosen):
    result = bench_layer(nibble, cache, source_dir, "--tuning", str(chosen))
    assert result.stdout, result.stderr
    document = json.loads(result.stdout)
    assert {f" {next_best} " in row["kernel"] for row in document["rows"]} == {True}
    notes = document["notes"]
    first = notes.index(f"tuning file {chosen}: 2 of 4 keys hit")
    assert notes[first + 1].startswith("moe.gate_up ") and notes[first + 1].endswith(f", 1 token: cpu {next_best} 1 thread")
    assert sum(note.endswith("8 tokens: the file ends at 4 tokens, default taken") for note in notes) == 2


def test_bench_says_why_it_takes_none(nibble, cache, source_dir, chosen):
    path = str(chosen)
    assert_refused(nibble("bench", "gemm", "--tuning", path), 2, "--tuning is of layers")
    assert_refused(bench_layer(nibble, cache, source_dir, "--tuning", path + ".none"), 2, "no such tuning file", path)


# The rule of a GPU's file: another device's is refused, a stale one is a note.
def test_bench_refuses_another_devices_file_and_tells_of_a_stale_one(nibble, cache, source_dir, tuned, tmp_path):
    foreign = changed(tuned, tmp_path, units=4096)
    assert_refused(bench_layer(nibble, cache, source_dir, "--tuning", str(foreign)), 2, "with 4096 units",
                   "nibble tune writes one for this device")
    stale = changed(tuned, tmp_path, kernel_version="nibble 0.0.0 avx2")
    notes = json.loads(bench_layer(nibble, cache, source_dir, "--tuning", str(stale)).stdout)["notes"]
    assert any(f"tuning file {stale} is not used: it was made with kernels nibble 0.0.0 avx2" in note
               and note.endswith("defaults are taken for all 4 keys") for note in notes)


def serve_with(binary, cache, *words):
    process = subprocess.Popen([binary, "serve", "--port", "0", "--json", *words], text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=environment(XDG_CACHE_HOME=str(cache)))
    line = process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[1].splitlines()
    assert line, said
    return json.loads(line)["model"]["tuning"], said


def test_serve_says_at_the_start_which_keys_hit(binary, cache, next_best, chosen, tuned, tmp_path):
    # 1, 2, 4, 8 .. 256 tokens of a step for both products; the file has one to four.
    summary, said = serve_with(binary, cache, "--activations", "bf16", "--tuning", str(chosen))
    assert summary == f"tuning file {chosen}: 6 of 18 keys hit"
    assert said[0] == f"nibble serve: {summary}"
    hits = [line for line in said if line.endswith(f" 1, 2 and 4 tokens: cpu {next_best} 1 thread")]
    misses = [line for line in said
              if line.endswith(" 8, 16, 32, 64, 128 and 256 tokens: the file ends at 4 tokens, default taken")]
    assert len(hits) == len(misses) == 2 and len(said) == 5
    # A server's own fp32 activations meet the same code as bf16's.
    assert serve_with(binary, cache, "--tuning", str(chosen))[0] == summary
    # What was asked for by name stands.
    summary, said = serve_with(binary, cache, "--isa", next_best, "--threads", "1", "--tuning", str(chosen))
    assert summary.endswith("6 of 18 keys hit")
    stale = changed(tuned, tmp_path, kernel_version="nibble 0.0.0 avx2")
    summary, said = serve_with(binary, cache, "--tuning", str(stale))
    assert summary.startswith(f"tuning file {stale} is not used: it was made with kernels nibble 0.0.0 avx2, and these")
    assert summary.endswith("; defaults are taken for all 18 keys")
    assert said == [f"nibble serve: {summary}"]
    assert serve_with(binary, cache)[0] == "none"


# The rule of bench: what was named for this run and cannot be meant is refused before anything listens.
def test_serve_refuses_a_tuning_file_that_is_missing_damaged_or_foreign(nibble, cache, tuned, tmp_path):
    def refused(path, *words):
        result = nibble("serve", "--port", "0", "--tuning", str(path), env=environment(XDG_CACHE_HOME=str(cache)))
        assert_refused(result, 2, *words)

    refused(tmp_path / "none.json", "there is no tuning file", "none.json")
    torn = tmp_path / "torn.json"
    torn.write_text(tuned[0].read_text()[:-2])
    refused(torn, "torn.json")
    refused(changed(tuned, tmp_path, units=4096), "with 4096 units", "nibble tune writes one for this device")


class MoeDesc(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32)] + [(name, ctypes.c_int32) for name in (
        "format", "dtype", "activation", "operand", "experts", "top_k", "reserved")] + [
            ("hidden", ctypes.c_int64), ("intermediate", ctypes.c_int64), ("swiglu_alpha", ctypes.c_float),
            ("swiglu_limit", ctypes.c_float), ("expected_tokens", ctypes.c_int64)]


class MoeWeights(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32)] + [(name, ctypes.c_int32) for name in (
        "on_device", "scale_layout", "row_order")] + [(name, ctypes.c_void_p) for name in (
            "w13", "w13_scale", "w13_factor", "w13_bias", "w2", "w2_scale", "w2_factor", "w2_bias",
            "w13_input_scale", "w2_input_scale")]


class MoeInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("is_gpu", ctypes.c_int32), ("software_mma", ctypes.c_int32),
                ("reserved", ctypes.c_int32), ("layer", ctypes.c_char * 160), ("tactics", ctypes.c_char * 256),
                ("tuning", ctypes.c_char * 1024)]


# The file that nibble tune wrote, read by the library: the two agree on the device, the version and the keys.
def test_the_c_api_takes_the_choices(build_dir, source_dir, next_best, chosen):
    library = ctypes.CDLL(str(build_dir / "libnibble.so"))
    library.nibble_last_error.restype = ctypes.c_char_p
    for end in (library.nibble_moe_destroy, library.nibble_device_close):
        end.restype, end.argtypes = None, [ctypes.c_void_p]
    config = json.loads((source_dir / "data/tiny/config.json").read_text())
    experts, hidden, inner = config["num_experts"], config["hidden_size"], config["moe_intermediate_size"]
    codes = ctypes.create_string_buffer(experts * inner * hidden)
    scales = ctypes.create_string_buffer(b"8" * (experts * 2 * inner * hidden // 16))  # 0x38: 1
    desc = MoeDesc(size=ctypes.sizeof(MoeDesc), experts=experts, top_k=config["num_experts_per_tok"], hidden=hidden,
                   intermediate=inner)
    both, ones = ctypes.addressof(codes), ctypes.addressof(scales)
    weights = MoeWeights(size=ctypes.sizeof(MoeWeights), w13=both, w13_scale=ones, w2=both, w2_scale=ones)
    device, layer, info = ctypes.c_void_p(), ctypes.c_void_p(), MoeInfo(size=ctypes.sizeof(MoeInfo))

    def ok(status):
        assert status == 0, library.nibble_last_error()

    ok(library.nibble_cpu_open(0, ctypes.byref(device)))
    assert library.nibble_device_use_tuning(device, b"/nonexistent.json") == 6
    assert b"there is no tuning file /nonexistent.json" in library.nibble_last_error()
    ok(library.nibble_device_use_tuning(device, str(chosen).encode()))
    ok(library.nibble_moe_create(device, ctypes.byref(desc), ctypes.byref(weights), ctypes.byref(layer)))
    ok(library.nibble_moe_describe(layer, ctypes.byref(info)))
    library.nibble_moe_destroy(layer)
    library.nibble_device_close(device)
    assert info.tuning.decode().startswith(f"tuning file {chosen}: 4 of 4 keys hit; moe.gate_up ")
    assert f" {next_best} " in info.layer.decode()
