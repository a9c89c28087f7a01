#!/usr/bin/env python3
"""How exact `nibble load` is with many streams, client and mock sharing two cores.

    bench/load_streams.py build/src/cli/nibble [--cores 4,6] [--seconds 15] [CASE ...]

A case is STREAMSxITL_MS; without any 1,000 x 10 ms, 1,000 x 20 ms and 4,000 x 50 ms. The mock answers with a TTFT of
50 ms and constant gaps, users start over one request's length, and the first and last second are left out. Errors are
of the client's rows against the script: TTFT - 50 ms, |gap - ITL|. CPU is that of each whole process by the kernel's
count, over the tokens that came. Prints a table and, last, one line of JSON.
"""
import argparse
import json
import os
import pathlib
import resource
import signal
import statistics
import subprocess
import sys
import tempfile

TTFT_MS = 50
TOKENS = 100


def quantile(values, q):
    return statistics.quantiles(values, n=1000, method="inclusive")[round(q * 1000) - 1]


def start_mock(nibble, itl_ms, prefix):
    mock = subprocess.Popen([*prefix, nibble, "mock", "--port", "0", "--ttft-ms", str(TTFT_MS), "--itl-ms", str(itl_ms)],
                            stdout=subprocess.PIPE, text=True)
    line = mock.stdout.readline()
    return mock, line.split()[-1]


def errors(rows, itl_ms, begin_ns, end_ns):
    ttft, gaps = [], []
    for line in rows:
        row = json.loads(line)
        if row["warmup"] or row["outcome"] != "ok" or row["sent_ns"] < begin_ns or row["end_ns"] > end_ns:
            continue
        steps = row["event_ns"]
        ttft.append(steps[0] / 1e6 - TTFT_MS)
        gaps += [abs(step / 1e6 - itl_ms) for step in steps[1:]]
    return ttft, gaps


def run_case(nibble, streams, itl_ms, seconds, prefix):
    mock, url = start_mock(nibble, itl_ms, prefix)
    with tempfile.TemporaryDirectory() as folder:
        rows = pathlib.Path(folder) / "rows.jsonl"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        length_s = (TTFT_MS + TOKENS * itl_ms) / 1e3
        client = subprocess.run(
            [*prefix, nibble, "load", "--base-url", url, "--random-input-len", "16", "--random-output-len", str(TOKENS),
             "--max-concurrency", str(streams), "--ramp", str(length_s), "--duration", str(seconds + length_s),
             "--self-audit", "off", "--rows", rows, "--json"], stdout=subprocess.PIPE, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        mock_cpu = sum(float(t) for t in pathlib.Path(f"/proc/{mock.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13])
        mock.send_signal(signal.SIGINT)
        said = mock.communicate()[0].strip()
        if client.returncode != 0:
            sys.exit(f"{streams} x {itl_ms} ms: nibble load ended with status {client.returncode}")
        level = json.loads(client.stdout)["levels"][0]
        with open(rows, encoding="utf-8") as lines:
            stamps = [json.loads(line)["sent_ns"] for line in lines]
        begin = min(s for s in stamps if s) + int((length_s + 1) * 1e9)
        with open(rows, encoding="utf-8") as lines:
            ttft, gaps = errors(lines, itl_ms, begin, begin + int((seconds + length_s) * 1e9))
    tokens = max(1, level["total_output_tokens"])
    client_cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"streams": streams, "itl_ms": itl_ms, "requests": level["num_requests"], "failed": level["failed"],
            "tokens": tokens, "output_throughput": level["output_throughput"],
            "ttft_error_ms": {"p50": quantile(ttft, .5), "p99": quantile(ttft, .99)},
            "itl_error_ms": {"p50": quantile(gaps, .5), "p99": quantile(gaps, .99)},
            "client_cpu_us_per_token": client_cpu / tokens * 1e6,
            "loops_cpu_us_per_event": level["client_overhead"]["cpu_us_per_event"],
            "loop_lag_p99_ms": level["client_overhead"]["loop_lag_p99_ms"],
            "mock_cpu_us_per_token": mock_cpu / os.sysconf("SC_CLK_TCK") / tokens * 1e6, "mock": said}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("nibble")
    parser.add_argument("cases", nargs="*", default=["1000x10", "1000x20", "4000x50"])
    parser.add_argument("--cores", help="of both, as taskset takes them")
    parser.add_argument("--seconds", type=float, default=15)
    options = parser.parse_intermixed_args()
    prefix = ["taskset", "-c", options.cores] if options.cores else []
    print(f"{'streams x gap':>14} {'failed':>6} {'TTFT error, median, p99':>24} {'ITL error, median, p99':>23} "
          f"{'client, mock: CPU a token':>26}")
    found = []
    for case in options.cases:
        streams, itl_ms = case.split("x")
        row = run_case(options.nibble, int(streams), float(itl_ms), options.seconds, prefix)
        found.append(row)
        print(f"{case:>11} ms {row['failed']:>6} {row['ttft_error_ms']['p50']:>13.3f} {row['ttft_error_ms']['p99']:>7.1f} ms "
              f"{row['itl_error_ms']['p50']:>12.3f} {row['itl_error_ms']['p99']:>7.2f} ms "
              f"{row['client_cpu_us_per_token']:>14.1f} {row['mock_cpu_us_per_token']:>8.1f} us", flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
