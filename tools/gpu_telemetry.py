#!/usr/bin/env python3
"""Whether nibble's GPU telemetry says what is going on, under three loads whose truth is known.

    tools/gpu_telemetry.py build/src/cli/nibble

Needs a GPU and torch. Runs `nibble watch --jsonl` beside a read stream, an 8192^3 bf16 matrix product
and a spinning kernel of one thread block, and prints what each signal said in each of them. What is
expected was measured on an H200 (driver 580) by a program of its own: DRAM active 96 % in the stream,
tensor active 92 % in the product, utilization near 100 % at idle power in the spinner. Exit status 1
where a signal is outside of its tolerance or missing.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch

GPU = "gpu0"
SECONDS = 8.0
SETTLE = 1.5  # clocks and averaged readings after a change of load
# load, signal, lowest and highest mean of a window
EXPECTED = [
    ("idle", "tensor_active", 0, 1),
    ("idle", "dram_active", 0, 2),
    ("read stream", "dram_active", 85, 100),
    ("read stream", "tensor_active", 0, 1),
    ("read stream", "sm_active", 90, 105),
    ("matrix product", "tensor_active", 85, 98),
    ("matrix product", "dram_active", 5, 40),
    ("spinner", "utilization", 90, 100),
    ("spinner", "tensor_active", 0, 1),
    ("spinner", "dram_active", 0, 2),
]
# What an H200 can do at most: bytes a second, and bf16 FLOP a clock and SM (Hopper's tensor cores).
H200_BYTES_S, H200_SMS, SM_FLOP_CLOCK = 4.8e12, 132, 4096
# Activity over share of the peak rate, the same for products of zeros (411 W, 1749 MHz: 91.9 / 82.0 %),
# half zeros (556 W, 1715 MHz: 89.8 / 79.8 %) and random numbers (690 W, 1471 MHz: 92.8 / 82.8 %):
# neither the clock nor the power limit makes it. docs/measured.md.
TENSOR_ACTIVE_FOR_RATE = 1.12
SHOWN = ["power", "power_average", "utilization", "sm_active", "tensor_active", "dram_active",
         "clock_sm", "temperature", "throttle_mask"]


def run_for(seconds, step):
    """Keeps the GPU busy with step(), a few in flight, and gives steps a second."""
    step()
    torch.cuda.synchronize()
    begin, steps = time.monotonic(), 0
    while time.monotonic() - begin < seconds:
        for _ in range(8):
            step()
        torch.cuda.synchronize()
        steps += 8
    return steps / (time.monotonic() - begin)


def loads():
    """Name, what to run, and what a step moves or computes, with the unit to show it in."""
    big = torch.ones(4 << 30, dtype=torch.float32, device="cuda")  # 16 GiB: far beyond the cache
    a = torch.randn(8192, 8192, dtype=torch.bfloat16, device="cuda")
    b = torch.randn(8192, 8192, dtype=torch.bfloat16, device="cuda")
    c = torch.empty_like(a)
    yield "idle", None, None
    yield "read stream", big.sum, (big.numel() * 4, 1e12, "TB/s")
    yield "matrix product", lambda: torch.matmul(a, b, out=c), (2 * 8192**3, 1e12, "TFLOP/s")
    # One block of one thread that looks at the clock: the kernel of torch's own tests.
    yield "spinner", lambda: torch.cuda._sleep(20_000_000), (1, 1, "kernels/s")


def rate_checks(rates, means):
    """Activity against what was done: (load, signal, percent that the rate means)."""
    if "H200" not in torch.cuda.get_device_name(0):
        return
    yield "read stream", "dram_active", 100 * rates["read stream"] / H200_BYTES_S
    clock = means["matrix product", "clock_sm"]
    if clock:
        peak = H200_SMS * SM_FLOP_CLOCK * clock * 1e6
        share = 100 * rates["matrix product"] / peak
        yield "matrix product", "tensor_active", TENSOR_ACTIVE_FOR_RATE * share


def read_samples(path):
    """{signal: [(seconds, value)]} and {signal: reason} of a stream of samples."""
    samples, reasons = {}, {}
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        if "signal" in entry:
            signal = entry["signal"]
            reasons[signal["name"]] = "" if signal["available"] else signal.get("reason", "?")
        for name, value in entry.get("v", {}).items():
            samples.setdefault(name, []).append((entry["t"] * 1e-9, value))
    return samples, reasons


def inside(samples, name, begin, end):
    return [value for at, value in samples.get(name, []) if begin <= at <= end]


def integral(points, begin, end):
    """Of the samples within the window, by trapezoids; an own sum, not nibble's."""
    within = [point for point in points if begin <= point[0] <= end]
    return sum((t1 - t0) * (v0 + v1) / 2 for (t0, v0), (t1, v1) in zip(within, within[1:]))


def energy_check(samples, gpu, begin, end):
    """Counter against integrated power over the span of the counter's readings."""
    counter = [point for point in samples.get(gpu + ".energy", []) if begin <= point[0] <= end]
    power = samples.get(gpu + ".power", [])
    if len(counter) < 2 or not power:
        return None
    first, last = counter[0], counter[-1]
    joules = last[1] - first[1]
    return joules, integral(power, first[0], last[0]), last[0] - first[0]


def record(binary):
    """Runs the loads beside `nibble watch`: its samples, reasons and document, windows and rates."""
    windows, rates = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "watch.jsonl"
        watch = subprocess.Popen([binary, "watch", "--jsonl", str(path), "--json"],
                                 stdout=subprocess.PIPE, text=True)
        try:
            time.sleep(1)
            for name, step, work in loads():
                begin = time.monotonic()  # CLOCK_MONOTONIC, as nibble's stamps
                if step is None:
                    time.sleep(SECONDS)
                else:
                    rates[name] = run_for(SECONDS, step) * work[0]
                    print(f"{name}: {rates[name] / work[1]:.3g} {work[2]}")
                windows[name] = (begin + SETTLE, time.monotonic() - 0.3)
        finally:
            watch.terminate()  # ends it in order, as Ctrl-C does
            document = json.loads(watch.communicate(timeout=20)[0])
        samples, reasons = read_samples(path)
    return samples, reasons, document, windows, rates


def table(samples, windows):
    """Prints and gives the mean of each signal in each load."""
    print(f"{torch.cuda.get_device_name(0)}, means of windows of {SECONDS - SETTLE - 0.3:.1f} s")
    print(f"{'load':<16}" + "".join(f"{name:>15}" for name in SHOWN))
    means = {}
    for load, (begin, end) in windows.items():
        row = f"{load:<16}"
        for name in SHOWN:
            values = inside(samples, f"{GPU}.{name}", begin, end)
            means[load, name] = statistics.fmean(values) if values else None
            row += f"{means[load, name]:>15.1f}" if values else f"{'-':>15}"
        print(row)
    return means


def check_signals(means, reasons, rates):
    for load, name, low, high in EXPECTED:
        value = means[load, name]
        if value is None:
            reason = reasons.get(f"{GPU}.{name}", "never declared") or "no sample in the window"
            yield f"{load}: no {name} ({reason})"
        elif not low <= value <= high:
            yield f"{load}: {name} is {value:.1f}, expected {low} to {high}"
    for load, name, share in rate_checks(rates, means):
        value = means[load, name]
        print(f"{load}: {name} {value or 0:.1f} %, by its rate {share:.1f} %")
        if value is not None and abs(value - share) > 6:
            yield f"{load}: {name} is {value:.1f} %, its rate says {share:.1f} %"


def check_powers(powers, reasons):
    if None in powers.values():
        yield f"no instant power ({reasons.get(GPU + '.power')})"
        return
    # The signature of a kernel that waits: hardly more power than nothing at all.
    if powers["spinner"] > powers["idle"] + 0.25 * (powers["matrix product"] - powers["idle"]):
        yield f"the spinner draws {powers['spinner']:.0f} W"
    if powers["read stream"] < powers["spinner"] + 50:
        yield f"the read stream draws {powers['read stream']:.0f} W"


def check_energies(samples, windows):
    for load, (begin, end) in windows.items():
        energy = energy_check(samples, GPU, begin, end)
        if energy is None or energy[0] <= 0:
            yield f"{load}: no energy"
            continue
        joules, integrated, span = energy
        residual = (integrated - joules) / joules
        print(f"{load:<16}energy {joules:8.0f} J by the counter, {integrated:8.0f} J by "
              f"integration over {span:.1f} s, residual {residual:+.2%}")
        if abs(residual) > 0.05:
            yield f"{load}: the two energies differ by {residual:+.1%}"


def print_sources(document, reasons):
    print("cost of sampling")
    for source in document["sources"]:
        print(f"  {source['name']:<28}each {source['period_ms']:5.0f} ms  mean "
              f"{source['mean_cost_us']:8.0f} us  max {source['max_cost_us']:8.0f} us  "
              f"{source['failures']} failed of {source['samples']}")
    print("not available")
    for name, reason in sorted(reasons.items()):
        if reason:
            print(f"  {name}: {reason}")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    samples, reasons, document, windows, rates = record(sys.argv[1])
    means = table(samples, windows)
    failures = list(check_signals(means, reasons, rates))
    failures += check_powers({load: means[load, "power"] for load in windows}, reasons)
    failures += check_energies(samples, windows)
    print_sources(document, reasons)
    for failure in failures:
        print("FAILED " + failure)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
