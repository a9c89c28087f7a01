"""The traces that tools/make_traces.py writes say what their documentation promises, so that what
reads them can be held to expected.json. Numbers here are worked out apart from that tool."""
import gzip
import json
import sqlite3
import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def traces(source_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    subprocess.run([sys.executable, "-B", source_dir / "tools/make_traces.py", folder], check=True)
    return folder


def chrome_gpu(traces):
    """(start, length) in us by name, of GPU work, with the first step at 0."""
    events = json.loads((traces / "chrome.trace.json").read_text())["traceEvents"]
    work = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy")]
    first = min(e["ts"] for e in work)
    return [(e["name"], e["ts"] - first, e["dur"]) for e in work]


def nsys_gpu(traces):
    database = sqlite3.connect(traces / "nsys.sqlite")
    rows = database.execute("SELECT s.value, k.start, k.end FROM CUPTI_ACTIVITY_KIND_KERNEL AS k "
                            "JOIN StringIds AS s ON s.id = k.demangledName WHERE deviceId = 0").fetchall()
    copies = database.execute("SELECT 'Memcpy DtoH', start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY "
                              "WHERE deviceId = 0").fetchall()
    first = min(start for _, start, _ in rows)
    return [(name, (start - first) / 1000, (end - start) / 1000) for name, start, end in rows + copies]


@pytest.mark.parametrize("read", [chrome_gpu, nsys_gpu])
def test_a_decode_step_is_busy_for_152_of_200_us(traces, read):
    gpu = read(traces)
    for start in (0, 200, 1400, 1600):
        step = [(at, at + length) for _, at, length in gpu if start <= at < start + 200]
        assert len(step) == 2 * 10 + 2 + 1
        moments = [start + quarter / 4 for quarter in range(800)]
        busy = sum(any(a <= moment < b for a, b in step) for moment in moments)
        assert busy == 4 * 152


@pytest.mark.parametrize("read", [chrome_gpu, nsys_gpu])
def test_kernels_of_a_step_add_up(traces, read):
    step = [(name, length) for name, at, length in read(traces) if at < 200]
    total = lambda text: sum(length for name, length in step if text in name)
    assert total("fused_moe_kernel") == 2 * (20 + 10)
    assert total("nvjet") == 2 * (5 + 4) + 12
    assert total("FlashAttn") == 2 * 8
    assert total("cross_device_reduce") == 2 * (6 + 6)
    assert sum(length for _, length in step) == 154


def test_expected_rows_add_up_to_the_kernels(traces):
    expected = json.loads((traces / "expected.json").read_text())
    assert sum(ms for ms, _ in expected["ops"].values()) == pytest.approx(0.154)
    assert sum(count for _, count in expected["ops"].values()) == 23
    assert (expected["steps"], expected["step_ms"], expected["busy_ms"]) == (4, 0.2, 0.152)


def test_gzip_holds_the_same(traces):
    packed = gzip.decompress((traces / "chrome.trace.json.gz").read_bytes())
    assert packed == (traces / "chrome.trace.json").read_bytes()


def test_both_kinds_hold_the_same_kernels(traces):
    def kernels(gpu):
        return sorted((at, length) for name, at, length in gpu)

    assert kernels(chrome_gpu(traces)) == pytest.approx(kernels(nsys_gpu(traces)))


def test_launches_tie_kernels_to_annotations(traces):
    events = json.loads((traces / "chrome.trace.json").read_text())["traceEvents"]
    launches = {e["args"]["correlation"]: e["ts"] for e in events if e.get("cat") == "cuda_runtime"}
    for event in events:
        if event.get("cat") == "kernel":
            # The GPU lags behind the host, by more than an annotation is long.
            assert event["ts"] - launches[event["args"]["correlation"]] > 20
