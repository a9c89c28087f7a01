#!/usr/bin/env python3
"""Writes one small trace of each kind that nibble reads, with numbers that can be worked out by hand.

    tools/make_traces.py DIR

Writes DIR/chrome.trace.json, DIR/chrome.trace.json.gz, DIR/nsys.sqlite and DIR/expected.json: the same
run as torch's profiler and as an export of Nsight Systems would tell it, and what a reader must find.

The run: a vLLM server of two layers decodes 8 sequences, with steps at 0, 200, 1400 and 1600 us on the
GPU and a step of 1000 us that holds a prompt at 400 us. A decode step has, one after the other,
per layer:  norm 2, qkv 5, attention 8, out 4, all-reduce 6, top-k 3, experts 20, activation 2,
experts 10, all-reduce 6 us;  then lm_head 12 and argmax 6 us: 2 x 66 + 18 = 150 us. A copy of 4 us on
another stream begins 148 us after the step: the GPU is busy for 152 of 200 us.
"""
import gzip
import json
import pathlib
import sqlite3
import sys

NORM = ("void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, c10::BFloat16*, "
        "c10::BFloat16 const*, float, int, int)")
QKV, OUT, HEAD = (f"nvjet_tst_{tile}_v_bz_TNT" for tile in
                  ("64x8_64x16_4x1", "128x8_64x12_2x1", "512x8_64x3_2x1"))
ATTENTION = ("void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<"
             "flash::CollectiveMainloopFwdSm90<2>>>>(flash::FlashAttnFwdSm90<>::Params)")
ALL_REDUCE = ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*, "
              "vllm::RankSignals, vllm::Signal*, __nv_bfloat16*, int, int)")
TOP_K = "void vllm::moe::topkGatingSoftmax<8, 128, 4, 16, int>(float const*, bool const*, float*)"
EXPERTS = "fused_moe_kernel"
ACTIVATION = "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>"
ARGMAX = ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
          "at::native::ArgMaxOps<float>, unsigned int, long, 4>>")
COPY = "Memcpy DtoH (Device -> Pinned)"

LAYERS = 2
LAYER = [(NORM, 2), (QKV, 5), (ATTENTION, 8), (OUT, 4), (ALL_REDUCE, 6), (TOP_K, 3), (EXPERTS, 20),
         (ACTIVATION, 2), (EXPERTS, 10), (ALL_REDUCE, 6)]
LAST = [(HEAD, 12), (ARGMAX, 6)]
STEPS = [(0, False), (200, False), (400, True), (1400, False), (1600, False)]  # us, holds a prompt
LAG = 60  # us that the GPU runs behind the host
MAIN, SIDE = 7, 21  # streams

EXPECTED = {
    "engine": "vllm", "device": "NVIDIA H200", "steps": 4, "step_ms": 0.2, "busy_ms": 0.152,
    "ops": {  # ms and kernels a step
        "moe.gate_up": [0.040, 2], "gemm": [0.030, 5], "all_reduce": [0.024, 4],
        "moe.down": [0.020, 2], "attn.core": [0.016, 2], "moe.routing": [0.006, 2],
        "sampling": [0.006, 1], "norm": [0.004, 2], "activation": [0.004, 2], "copy": [0.004, 1],
    },
}


def timeline():
    """(annotations, launches, gpu): (name, at, length); (correlation, at);
    (name, at, length, stream, correlation), all in us."""
    annotations, launches, gpu = [], [], []
    for index, (start, prompt) in enumerate(STEPS):
        host = start - LAG
        graph, sampler, copy = 3 * index + 1, 3 * index + 2, 3 * index + 3
        name = f"execute_context_{'1(512)' if prompt else '0(0)'}_generation_8(8)"
        annotations.append((name, host, 30))
        launches += [(graph, host + 10), (sampler, host + 35), (copy, host + 40)]
        if prompt:
            gpu.append((QKV, start, 900, MAIN, graph))
            continue
        at = start
        for kernel, length in LAYERS * LAYER + LAST:
            # The whole model is one CUDA graph; sampling is launched behind it.
            gpu.append((kernel, at, length, MAIN, sampler if kernel in (HEAD, ARGMAX) else graph))
            at += length
        gpu.append((COPY, start + 148, 4, SIDE, copy))
    return annotations, launches, gpu


def chrome():
    annotations, launches, gpu = timeline()
    base = 5_763_437_478_651.125  # us, as of a machine that has run for two months
    host = {"pid": 4321, "tid": 4321}
    events = [{"ph": "X", "cat": "user_annotation", "name": name, **host, "ts": base + at, "dur": length,
               "args": {"External id": index + 1, "Ev Idx": index}}
              for index, (name, at, length) in enumerate(annotations)]
    events += [{"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", **host, "ts": base + at,
                "dur": 4.5, "args": {"cbid": 311, "correlation": correlation}}
               for correlation, at in launches]
    for name, at, length, stream, correlation in gpu:
        events.append({"ph": "X", "cat": "gpu_memcpy" if name == COPY else "kernel", "name": name,
                       "pid": 0, "tid": stream, "ts": base + at, "dur": length,
                       "args": {"device": 0, "context": 1, "stream": stream,
                                "correlation": correlation, "grid": [132, 1, 1]}})
    events.append({"name": "process_name", "ph": "M", "ts": base, "pid": 0, "tid": 0,
                   "args": {"name": "python3"}})
    return {"schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150109880320,
                                  "computeMajor": 9, "computeMinor": 0, "numSms": 132}],
            "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2, "pg_count": 1},
            "traceEvents": events, "traceName": "rank0.trace.json"}


TABLES = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_GPU (name TEXT NOT NULL, id INTEGER NOT NULL, cuDevice INTEGER, smCount INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
  correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL,
  graphNodeId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
  correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL,
  eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL,
  returnValue INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,
  rangeId INTEGER, text TEXT, globalTid INTEGER, textId INTEGER, domainId INTEGER);
"""


def nsys(path):
    """Both ranks in one report; rank 1 stops after the prompt, so that rank 0 has more kernels."""
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    database.executescript(TABLES)
    strings = {}

    def string(text):
        return strings.setdefault(text, len(strings) + 1)

    def add(table, *values):
        database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)

    base = 1_000_000_000  # ns
    annotations, launches, gpu = timeline()
    for rank, end in ((0, 10_000), (1, 1_300)):
        process = (5000 + rank) << 24
        thread = process | 5000
        for name, at, length in annotations:
            if at < end:
                add("NVTX_EVENTS", base + 1000 * at, base + 1000 * (at + length), 59, None, None, thread,
                    string(name), 0)
        for correlation, at in launches:
            if at < end:
                add("CUPTI_ACTIVITY_KIND_RUNTIME", base + 1000 * at, base + 1000 * at + 4500, 0, thread,
                    correlation, string("cudaGraphLaunch_v10000"), 0)
        for name, at, length, stream, correlation in gpu:
            times = (base + 1000 * at, base + 1000 * (at + length), rank, 1, stream, correlation, process)
            if at >= end:
                continue
            if name == COPY:
                add("CUPTI_ACTIVITY_KIND_MEMCPY", *times, 32, 2)
            else:
                add("CUPTI_ACTIVITY_KIND_KERNEL", *times, string(name), string(name[:20]), None)
        add("TARGET_INFO_GPU", "NVIDIA H200", rank, rank, 132)
    database.executemany("INSERT INTO StringIds VALUES (?, ?)", [(i, s) for s, i in strings.items()])
    database.commit()
    database.close()


def write(folder):
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(chrome())
    (folder / "chrome.trace.json").write_text(text)
    with open(folder / "chrome.trace.json.gz", "wb") as file:
        file.write(gzip.compress(text.encode(), mtime=0))
    nsys(folder / "nsys.sqlite")
    (folder / "expected.json").write_text(json.dumps(EXPECTED, indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: tools/make_traces.py DIR")
    write(pathlib.Path(sys.argv[1]))
