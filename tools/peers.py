#!/usr/bin/env python3
"""Times other libraries' kernels at the shapes of a model, into the JSON that `nibble bench` writes.

  tools/peers.py --ledger ledger.json > peers.json      # what `nibble analyze --json` wrote
  tools/peers.py --experts 256 --top-k 8 --hidden 6144 --intermediate 2048 --tokens 32,256
  tools/peers.py --dense 6144x2048 --tokens 1,8

Peers: torch.mm in bf16, FlashInfer's FP4 product and fused layer, sgl_kernel's FP4 product, vLLM's
Marlin layer. A package that is absent, or a call that fails on this GPU, is a row with the reason; the
others are measured all the same. Weights are random bytes in as many copies as exceed the L2 cache,
tokens choose experts anew for each of some graphs, and each replay of a CUDA graph is timed by events.
Values are not checked: only times are taken.
"""
import argparse
import inspect
import json
import math
import sys
import time

REPLAYS = 60
GRAPHS = 4  # with routings of their own
MOST_COPIES = 16


def parsed_sizes(text):
    sizes = []
    for part in text.split(","):
        rows, _, columns = part.partition("x")
        if not (rows.isdigit() and columns.isdigit() and int(rows) > 0 and int(columns) > 0):
            raise SystemExit(f'peers.py: --dense is "{text}"; give NxK, as 6144x2048')
        sizes.append((int(rows), int(columns)))
    return sizes


def parsed_tokens(text):
    tokens = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() and int(part) > 0 for part in tokens):
        raise SystemExit(f'peers.py: --tokens is "{text}"; give whole numbers, as 1,8,64')
    return [int(part) for part in tokens]


def shapes_of_ledger(document):
    """The dense products and the layer of a nibble.ledger/1 document, each once for its tokens."""
    if document.get("schema") != "nibble.ledger/1":
        raise SystemExit("peers.py: --ledger is no nibble.ledger/1; give what nibble analyze --json prints")
    experts, top_k = document["model"]["experts"], document["model"]["experts_per_token"]
    shapes = []
    for level in document["levels"]:
        parts = {}
        for op in level["ops"]:
            shape = op["shape"]
            if op["flop"] <= 0 or shape["n"] < 1 or shape["k"] < 1:
                continue
            if op["name"] in ("moe.gate_up", "moe.down"):
                parts[op["name"]] = shape
            else:
                shapes.append({"kind": "gemm", "op": op["name"], "n": round(shape["n"]),
                               "k": round(shape["k"]), "tokens": max(1, round(shape["m"])),
                               "experts": 1, "top_k": 1})
        if "moe.gate_up" in parts:
            gate_up = parts["moe.gate_up"]
            tokens = max(1, round(gate_up["groups"] * gate_up["m"] / top_k))
            shapes.append({"kind": "moe", "op": "moe", "n": round(gate_up["n"]) // 2,
                           "k": round(gate_up["k"]), "tokens": tokens, "experts": experts,
                           "top_k": top_k})
    unique = {json.dumps({**shape, "op": ""}, sort_keys=True): shape for shape in reversed(shapes)}
    return list(reversed(list(unique.values())))


def shapes_of_flags(flags):
    tokens = parsed_tokens(flags.tokens)
    shapes = [{"kind": "gemm", "op": "gemm", "n": n, "k": k, "tokens": count, "experts": 1, "top_k": 1}
              for n, k in (parsed_sizes(flags.dense) if flags.dense else []) for count in tokens]
    if flags.experts:
        if not (flags.hidden and flags.intermediate):
            raise SystemExit("peers.py: --experts needs --hidden and --intermediate")
        if not 0 < flags.top_k <= flags.experts:
            raise SystemExit(f"peers.py: --top-k is {flags.top_k}; give 1 to the {flags.experts} of --experts")
        shapes += [{"kind": "moe", "op": "moe", "n": flags.intermediate, "k": flags.hidden,
                    "tokens": count, "experts": flags.experts, "top_k": flags.top_k}
                   for count in tokens]
    if not shapes:
        raise SystemExit("peers.py: nothing to measure; give --ledger, --dense or --experts")
    return shapes


# What a call of a peer needs: torch, the shape, and random tensors of it.
class Bench:
    def __init__(self, torch):
        self.torch = torch
        self.device = torch.device("cuda")
        properties = torch.cuda.get_device_properties(0)
        self.l2_bytes = getattr(properties, "L2_cache_size", 50 << 20)
        self.capability = torch.cuda.get_device_capability()

    def bf16(self, *shape):
        return self.torch.randn(shape, device=self.device, dtype=self.torch.bfloat16)

    def codes(self, *shape):
        return self.torch.randint(0, 256, shape, device=self.device, dtype=self.torch.uint8)

    def scales(self, *shape):  # e4m3 from 0.5 to 2, and no NaN
        return self.torch.randint(48, 64, shape, device=self.device, dtype=self.torch.uint8)

    def ones(self, *shape):
        return self.torch.ones(shape, device=self.device, dtype=self.torch.float32)

    def copies(self, bytes_each):
        free, _ = self.torch.cuda.mem_get_info()
        wanted = math.ceil(4 * self.l2_bytes / max(1, bytes_each)) + 1
        return max(1, min(wanted, MOST_COPIES, int(free / 2 / max(1, bytes_each))))

    def routing(self, shape):
        scores = self.torch.rand(shape["tokens"], shape["experts"], device=self.device)
        weights, ids = scores.topk(shape["top_k"], dim=-1)
        return (weights / weights.sum(-1, keepdim=True)).float(), ids.to(self.torch.int32)

    def times_us(self, calls):
        """Median-ready times of graphs that hold one call each, in turn."""
        torch = self.torch
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        graphs = []
        with torch.cuda.stream(stream):
            for call in calls:
                call()
                call()
                stream.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=stream):
                    call()
                graphs.append(graph)
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            times = []
            for replay in range(REPLAYS + len(graphs)):
                torch.cuda._sleep(100_000)  # clocks: the host enqueues the rest meanwhile
                begin.record(stream)
                graphs[replay % len(graphs)].replay()
                end.record(stream)
                end.synchronize()
                times.append(begin.elapsed_time(end) * 1e3)
        return times[len(graphs):]


# ---- Peers: each makes the calls to be timed, or raises with the reason
def torch_mm(bench, shape):
    torch, n, k = bench.torch, shape["n"], shape["k"]
    x, y = bench.bf16(shape["tokens"], k), bench.bf16(shape["tokens"], n)
    weights = [bench.bf16(n, k) for _ in range(bench.copies(2 * n * k))]
    return [lambda w=w: torch.mm(x, w.t(), out=y) for w in weights]


def need_fp4(bench):
    if bench.capability < (10, 0):
        raise RuntimeError(f"needs FP4 units; this GPU has capability {bench.capability[0]}."
                           f"{bench.capability[1]}")


def flashinfer_mm_fp4(bench, shape):
    import flashinfer
    need_fp4(bench)
    n, k = shape["n"], shape["k"]
    one = bench.ones(1)
    x, x_scales = flashinfer.nvfp4_quantize(bench.bf16(shape["tokens"], k), one)
    y = bench.bf16(shape["tokens"], n)
    weights = [flashinfer.nvfp4_quantize(bench.bf16(n, k), one)
               for _ in range(bench.copies(n * k * 9 // 16))]
    return [lambda w=w, s=s: flashinfer.mm_fp4(x, w.T, x_scales, s.T, one, bench.torch.bfloat16, y)
            for w, s in weights]


def sgl_mm_fp4(bench, shape):
    import sgl_kernel
    need_fp4(bench)
    n, k = shape["n"], shape["k"]
    one = bench.ones(1)
    x, x_scales = sgl_kernel.scaled_fp4_quant(bench.bf16(shape["tokens"], k), one)
    weights = [sgl_kernel.scaled_fp4_quant(bench.bf16(n, k), one)
               for _ in range(bench.copies(n * k * 9 // 16))]
    return [lambda w=w, s=s: sgl_kernel.cutlass_scaled_fp4_mm(x, w, x_scales, s, one,
                                                              bench.torch.bfloat16)
            for w, s in weights]


def sgl_group_fp4(bench, shape):
    import sgl_kernel
    del sgl_kernel
    need_fp4(bench)
    from sglang.srt.layers.moe.cutlass_moe import cutlass_moe_fp4
    from sglang.srt.layers.moe.cutlass_moe_params import CutlassMoEParams, CutlassMoEType
    torch, experts, hidden, inner = bench.torch, shape["experts"], shape["k"], shape["n"]
    x = bench.bf16(shape["tokens"], hidden)
    w1, w2 = bench.codes(experts, 2 * inner, hidden // 2), bench.codes(experts, hidden, inner // 2)
    s1 = bench.scales(experts, 2 * inner, hidden // 16).view(torch.float8_e4m3fn)
    s2 = bench.scales(experts, hidden, inner // 16).view(torch.float8_e4m3fn)
    one = bench.ones(experts)
    params = CutlassMoEParams(CutlassMoEType.BlockscaledFP4, device=bench.device,
                              num_experts=experts, intermediate_size_per_partition=inner,
                              hidden_size=hidden)
    routings = [bench.routing(shape) for _ in range(GRAPHS)]
    return [lambda weights=weights, ids=ids: cutlass_moe_fp4(
        a=x, a1_gscale=one, w1_fp4=w1, w1_blockscale=s1, w1_alphas=one, a2_gscale=one, w2_fp4=w2,
        w2_blockscale=s2, w2_alphas=one, topk_weights=weights, topk_ids=ids, params=params)
        for weights, ids in routings]


def flashinfer_moe(bench, shape):
    """CUTLASS's fused layer: MXFP4 x bf16 on Hopper, NVFP4 x NVFP4 where there are FP4 units."""
    from flashinfer import fused_moe
    torch, experts, hidden, inner = bench.torch, shape["experts"], shape["k"], shape["n"]
    x, y = bench.bf16(shape["tokens"], hidden), bench.bf16(shape["tokens"], hidden)
    w1, w2 = bench.codes(experts, 2 * inner, hidden // 2), bench.codes(experts, hidden, inner // 2)
    fp4 = bench.capability >= (10, 0)
    block = 16 if fp4 else 32
    s1 = bench.scales(experts, 2 * inner, hidden // block).view(torch.int32)
    s2 = bench.scales(experts, hidden, inner // block).view(torch.int32)
    one, ones = bench.ones(1), bench.ones(experts)
    if fp4:
        w1, w2 = w1.view(torch.long), w2.view(torch.long)
        options = {"quant_scales": [one, s1, ones, one, s2, ones]}
    else:
        options = {"quant_scales": [s1, s2], "use_w4_group_scaling": True}
    routings = [bench.routing(shape) for _ in range(GRAPHS)]
    return [lambda weights=weights, ids=ids: fused_moe.cutlass_fused_moe(
        x, ids, weights, w1, w2, torch.bfloat16, output=y, **options) for weights, ids in routings]


def vllm_marlin(bench, shape):
    from vllm.model_executor.layers.fused_moe.fused_marlin_moe import fused_marlin_moe
    from vllm.scalar_type import scalar_types
    torch, experts, hidden, inner = bench.torch, shape["experts"], shape["k"], shape["n"]
    x = bench.bf16(shape["tokens"], hidden)

    # Tiles of 16 x 64, as gptq_marlin_repack makes them: [E, K / 16, 2 N] words of eight codes.
    def words(n, k):
        return bench.codes(experts, k // 16, 8 * n).view(torch.int32)

    taken = inspect.signature(fused_marlin_moe).parameters
    given = {"bias1": None, "bias2": None, "gating_output": None,
             "w1": words(2 * inner, hidden), "w2": words(hidden, inner),
             "w1_scale": bench.scales(experts, hidden // 16, 2 * inner).view(torch.float8_e4m3fn),
             "w2_scale": bench.scales(experts, inner // 16, hidden).view(torch.float8_e4m3fn),
             "global_scale1": bench.ones(experts).bfloat16(),
             "global_scale2": bench.ones(experts).bfloat16(),
             "quant_type_id": scalar_types.float4_e2m1f.id, "global_num_experts": experts}
    given = {name: value for name, value in given.items() if name in taken}
    routings = [bench.routing(shape) for _ in range(GRAPHS)]
    return [lambda weights=weights, ids=ids: fused_marlin_moe(
        hidden_states=x, topk_weights=weights, topk_ids=ids, **given) for weights, ids in routings]


# name, kind, package, format, activations, the calls
PEERS = [
    ("torch.mm", "gemm", "torch", "bf16", "bf16", torch_mm),
    ("flashinfer mm_fp4", "gemm", "flashinfer", "nvfp4", "nvfp4", flashinfer_mm_fp4),
    ("sgl_kernel cutlass_scaled_fp4_mm", "gemm", "sgl_kernel", "nvfp4", "nvfp4", sgl_mm_fp4),
    ("flashinfer cutlass_fused_moe", "moe", "flashinfer", "mxfp4", "bf16", flashinfer_moe),
    ("sgl_kernel cutlass_fp4_group_mm", "moe", "sgl_kernel", "nvfp4", "nvfp4", sgl_group_fp4),
    ("vllm fused_marlin_moe", "moe", "vllm", "nvfp4", "bf16", vllm_marlin),
]


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def interval(values):
    """Of the median, at least 95 % sure: order statistics, as nibble's own."""
    count, tail, low = len(values), 0.0, 0
    while low < count:
        tail += math.comb(count, low) * 0.5 ** count
        if tail > 0.025:
            break
        low += 1
    ordered = sorted(values)
    return [ordered[low - 1], ordered[count - low]] if low > 0 else None


def row_of(peer, shape, times, reason):
    name, kind, _, weights, activations, _ = peer
    timed = times is not None
    us = median(times) if timed else None
    products = 3 if kind == "moe" else 1
    flop = 2 * shape["tokens"] * shape["top_k"] * shape["n"] * shape["k"] * products
    unknown = ("m", "time_modes_us", "floor_us", "memory_us", "compute_us", "bound_by", "roof_share",
               "roof_share_interval", "predicted_us", "predicted_ratio", "predicted_ratio_interval",
               "bytes", "weight_bytes", "distinct_experts", "roof_gb_s", "roof_tops", "reached_gb_s")
    return {"op": shape["op"], "kind": kind, "format": weights, "activations": activations,
            "experts": shape["experts"], "top_k": shape["top_k"], "n": shape["n"], "k": shape["k"],
            "tokens": shape["tokens"], "threads": 1, "cold": True, "kernel": name, "error": reason,
            **{key: None for key in unknown},
            "time_us": us, "time_interval_us": interval(times) if timed else None,
            "samples": len(times) if timed else 0, "stopped": "count" if timed else None,
            "flop": flop if timed else None, "reached_tops": flop / us / 1e6 if timed else None,
            "ring_bytes": 0, "disturbed": False, "flags": [], "imported": None,
            "routing": "random" if kind == "moe" else None, "on": "cuda:0" if timed else None}


def first_line(error):
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200] if text else 'no text'}"


def measure(shapes):
    """Rows of every peer at every shape of its kind, and what the GPU is."""
    try:
        import torch
        if not torch.cuda.is_available():
            raise RuntimeError("torch sees no GPU")
        bench, reason, title = Bench(torch), None, torch.cuda.get_device_name(0)
    except Exception as error:  # an absent or a broken installation: both are reasons
        bench, reason, title = None, first_line(error), "no GPU"
    rows = []
    for shape in shapes:
        for peer in (peer for peer in PEERS if peer[1] == shape["kind"]):
            times, why = None, reason
            if bench is not None:
                try:
                    times = bench.times_us(peer[5](bench, shape))
                except Exception as error:  # what a peer raises is its reason
                    why = first_line(error)
                bench.torch.cuda.empty_cache()
            rows.append(row_of(peer, shape, times, why))
    return rows, title


def document_of(rows, title, command):
    return {"schema": "nibble.bench/1", "version": "peers", "command": command,
            "machine": {"title": title, "cores": 1, "memory_gb": 0, "last_level_cache_mb": None, "isa": []},
            "taken_unix_s": time.time(), "state": None, "roofs": None, "scaling": [], "kernel_rates": [],
            "rows": rows, "notes": []}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ledger", help="a document of nibble analyze --json")
    parser.add_argument("--dense", help="products NxK, separated by commas")
    parser.add_argument("--experts", type=int, default=0)
    parser.add_argument("--top-k", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=0)
    parser.add_argument("--intermediate", type=int, default=0)
    parser.add_argument("--tokens", default="1,8,64")
    flags = parser.parse_args()
    if flags.ledger:
        try:
            with open(flags.ledger, encoding="utf-8") as file:
                shapes = shapes_of_ledger(json.load(file))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise SystemExit(f"peers.py: --ledger {flags.ledger}: {first_line(error)}") from None
    else:
        shapes = shapes_of_flags(flags)
    rows, title = measure(shapes)
    json.dump(document_of(rows, title, "tools/peers.py " + " ".join(sys.argv[1:])), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
