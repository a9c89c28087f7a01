#!/usr/bin/env python3
"""Records a real trace of torch's profiler for the tests of nibble's reader.

    tools/record_trace.py OUT

Needs torch and a CUDA GPU, and no network. Runs a small mixture-of-experts decode loop (norm, attention
over a cache, router with top-k, two products an expert, lm_head, argmax) under torch.profiler with the
annotation "execute_model" around each step, and writes OUT/torch.trace.json.gz (below 1 MB) and
OUT/torch.expected.json: steps, wall time and the sum of all kernels a step as torch itself tells them.
Without a GPU it says so and ends with exit status 1, having recorded the CPU alone in
OUT/torch.cpu.trace.json.gz.
"""
import gzip
import json
import pathlib
import sys
import tempfile
import time

try:
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function
except ImportError as error:
    sys.exit(f"tools/record_trace.py: needs torch: {error}")

LAYERS, HIDDEN, HEADS, HEAD_DIM, EXPERTS, TOP_K, INNER = 2, 1024, 8, 128, 8, 2, 512
BATCH, CONTEXT, VOCABULARY, STEPS, WARM_UP = 16, 512, 4096, 6, 3
MOST_BYTES = 1_000_000


class Layer:
    def __init__(self, device, dtype):
        def weights(*shape):
            return (torch.randn(*shape, device=device) / shape[-2] ** 0.5).to(dtype)

        self.gain = torch.ones(HIDDEN, device=device, dtype=dtype)
        self.qkv = weights(HIDDEN, 3 * HEADS * HEAD_DIM)
        self.out = weights(HEADS * HEAD_DIM, HIDDEN)
        self.router = weights(HIDDEN, EXPERTS)
        self.gate_up = weights(EXPERTS, HIDDEN, 2 * INNER)
        self.down = weights(EXPERTS, INNER, HIDDEN)
        self.keys, self.values = (weights(BATCH, HEADS, CONTEXT, HEAD_DIM) for _ in range(2))

    def norm(self, x):
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return (x.float() * scale).to(x.dtype) * self.gain

    def attention(self, x):
        q, _, _ = (self.norm(x) @ self.qkv).chunk(3, dim=-1)
        q = q.view(BATCH, HEADS, 1, HEAD_DIM)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, self.keys, self.values)
        return mixed.reshape(BATCH, HEADS * HEAD_DIM) @ self.out

    def experts(self, x):
        x = self.norm(x)
        shares, chosen = torch.softmax((x @ self.router).float(), -1).topk(TOP_K, -1)
        # All experts on all rows as two batched products; rows that were not sent to one weigh 0.
        gate, up = torch.bmm(x.expand(EXPERTS, *x.shape), self.gate_up).chunk(2, dim=-1)
        rows = torch.bmm(torch.nn.functional.silu(gate) * up, self.down)  # [experts, batch, hidden]
        weights = torch.zeros(BATCH, EXPERTS, device=x.device).scatter(1, chosen, shares)
        return torch.einsum("be,ebh->bh", weights.to(x.dtype), rows)

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.experts(x)


def main(folder):
    has_gpu = torch.cuda.is_available()
    device = "cuda" if has_gpu else "cpu"
    dtype = torch.bfloat16
    torch.manual_seed(1)
    layers = [Layer(device, dtype) for _ in range(LAYERS)]
    table = (torch.randn(VOCABULARY, HIDDEN, device=device)).to(dtype)
    tokens = torch.zeros(BATCH, dtype=torch.long, device=device)

    def finish():
        if has_gpu:
            torch.cuda.synchronize()

    def step(ids):
        x = torch.nn.functional.embedding(ids, table)
        for layer in layers:
            x = layer.forward(x)
        return (x @ table.t()).argmax(-1)

    with torch.no_grad():
        for _ in range(WARM_UP):
            tokens = step(tokens)
        finish()
        activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if has_gpu else [])
        with profile(activities=activities) as profiler:
            for _ in range(STEPS):
                with record_function("execute_model"):
                    tokens = step(tokens)
                finish()
                time.sleep(0.001)  # a gap of the host that the reader must see
    folder.mkdir(parents=True, exist_ok=True)
    write(profiler, folder, "torch" if has_gpu else "torch.cpu")
    if not has_gpu:
        sys.exit("tools/record_trace.py: torch sees no CUDA GPU: the CPU alone was recorded")
    kernels = [event for event in profiler.events()
               if event.device_type == torch.autograd.DeviceType.CUDA
               and "execute_model" not in event.name]
    total_us = sum(event.time_range.elapsed_us() for event in kernels)
    expected = {"torch": torch.__version__, "device": torch.cuda.get_device_name(), "steps": STEPS,
                "kernels_and_copies": len(kernels), "kernel_ms_a_step": total_us / 1000 / STEPS}
    (folder / "torch.expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    print(json.dumps(expected))


def write(profiler, folder, name):
    with tempfile.TemporaryDirectory() as scratch:
        plain = pathlib.Path(scratch) / "trace.json"
        profiler.export_chrome_trace(str(plain))
        packed = gzip.compress(plain.read_bytes(), 9, mtime=0)
    if len(packed) > MOST_BYTES:
        sys.exit(f"tools/record_trace.py: the trace has {len(packed)} bytes; lower STEPS")
    (folder / f"{name}.trace.json.gz").write_bytes(packed)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: tools/record_trace.py OUT")
    main(pathlib.Path(sys.argv[1]))
