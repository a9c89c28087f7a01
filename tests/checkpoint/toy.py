#!/usr/bin/env python3
"""Writes toy mixture-of-experts checkpoints: one set of random weights in every dialect, whole or
with one fault.

  toy.py FOLDER --dialect modelopt [--fault nan-scale] [--seed 0]
  toy.py --list

  import toy
  toy.write(path, "compressed-tensors", fault="missing-input-scale")
  toy.quantized("modelopt")["model.layers.0.mlp.experts.3.up_proj"].factor

2 layers, 4 experts of which 2 are used, hidden size 64, expert size 32, 4 heads and 2 KV heads of
16, vocabulary 128. `modelopt`, `modelopt-legacy` and `compressed-tensors` hold the same codes,
scales and factors; so do `mxfp4-compressed-tensors` and `gpt-oss` for the experts.
"""
import argparse
import functools
import pathlib
import random
import struct
import sys

import toy_faults
import toy_layout
from toy_layout import tensor
from toy_numbers import (Matrix, bf16, bf16_bytes, bf16_value, fp32, nvfp4_divisor, quantize_mxfp4,
                         quantize_nvfp4)

LAYERS, EXPERTS, HIDDEN, INTERMEDIATE = 2, 4, 64, 32
HEADS, KV_HEADS, HEAD_DIM, VOCABULARY = 4, 2, 16, 128

NVFP4_DIALECTS = ("modelopt", "modelopt-legacy", "compressed-tensors")
MXFP4_DIALECTS = ("mxfp4-compressed-tensors", "gpt-oss")
DIALECTS = NVFP4_DIALECTS + MXFP4_DIALECTS

# Rows and columns of the linear layers that get quantized, by what comes after "model.layers.N.".
ATTENTION = {"self_attn.q_proj": (HEADS * HEAD_DIM, HIDDEN),
             "self_attn.k_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
             "self_attn.v_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
             "self_attn.o_proj": (HIDDEN, HEADS * HEAD_DIM)}


# ---- weights ------------------------------------------------------------------------------------

def _normal(rng, rows, columns, spread=0.05):
    return Matrix(rows, columns, [bf16_value(bf16(rng.gauss(0, spread)))
                                  for _ in range(rows * columns)])


@functools.lru_cache(maxsize=8)
def weights(seed=0, intermediate=INTERMEDIATE):
    """Every matrix before quantization, by module name; values are bf16."""
    rng = random.Random(seed)
    matrices = {"model.embed_tokens": _normal(rng, VOCABULARY, HIDDEN),
                "model.norm": _normal(rng, 1, HIDDEN, 1.0),
                "lm_head": _normal(rng, VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        for name, shape in ATTENTION.items():
            matrices[prefix + name] = _normal(rng, *shape)
        for name, size in (("input_layernorm", HIDDEN), ("post_attention_layernorm", HIDDEN),
                           ("self_attn.q_norm", HEAD_DIM), ("self_attn.k_norm", HEAD_DIM)):
            matrices[prefix + name] = _normal(rng, 1, size, 1.0)
        matrices[prefix + "mlp.gate"] = _normal(rng, EXPERTS, HIDDEN)
        for expert in range(EXPERTS):
            at = f"{prefix}mlp.experts.{expert}."
            matrices[at + "gate_proj"] = _normal(rng, intermediate, HIDDEN)
            matrices[at + "up_proj"] = _normal(rng, intermediate, HIDDEN)
            matrices[at + "down_proj"] = _normal(rng, HIDDEN, intermediate)
    return matrices


def _sharing(name):
    """Modules that read the same activations share their factors, as ModelOpt exports them."""
    for member in ("gate_proj", "up_proj"):
        name = name.replace(member, "gate_up")
    for member in ("q_proj", "k_proj", "v_proj"):
        name = name.replace(member, "qkv")
    return name


def _quantized_weights(seed, intermediate):
    return {name: matrix for name, matrix in weights(seed, intermediate).items()
            if name.endswith("_proj")}


def weight_divisors(seed=0, intermediate=INTERMEDIATE, up_divisor=1.0):
    """6 * 448 / amax of every module, whose fp32 reciprocal is its factor. `up_divisor` multiplies
    those of every up_proj."""
    matrices = _quantized_weights(seed, intermediate)
    groups = {}
    for name, matrix in matrices.items():
        groups.setdefault(_sharing(name), []).append(matrix)
    divisors = {group: nvfp4_divisor(members) for group, members in groups.items()}
    return {name: divisors[_sharing(name)] * (up_divisor if name.endswith("up_proj") else 1.0)
            for name in matrices}


def input_divisors(seed=0):
    """6 * 448 / amax of the activations that enter each module (amax between 1 and 8)."""
    rng = random.Random(seed + 1000)
    by_group = {}
    names = list(_quantized_weights(seed, INTERMEDIATE))
    for name in names:
        by_group.setdefault(_sharing(name), fp32(2688 / rng.uniform(1, 8)))
    return {name: by_group[_sharing(name)] for name in names}


@functools.lru_cache(maxsize=32)
def quantized(dialect, seed=0, intermediate=INTERMEDIATE, up_divisor=1.0):
    """What a reader should find, by module name: Quantized with its factor as a multiplier. gpt-oss
    keeps these modules fused and has no attention among them."""
    matrices = _quantized_weights(seed, intermediate)
    if dialect in MXFP4_DIALECTS:
        return {name: quantize_mxfp4(matrix) for name, matrix in matrices.items()
                if dialect != "gpt-oss" or ".experts." in name}
    # A factor is the reciprocal of a divisor and not the other way round, so that both dialects give
    # the same bits.
    divisors = weight_divisors(seed, intermediate, up_divisor)
    return {name: quantize_nvfp4(matrix, fp32(1 / divisors[name]))
            for name, matrix in matrices.items()}


def input_scales(seed=0):
    """The multipliers that a reader of an NVFP4 dialect should find, by module name."""
    return {name: fp32(1 / divisor) for name, divisor in input_divisors(seed).items()}


# ---- dialects -----------------------------------------------------------------------------------

def _f32(value, shape=()):
    return tensor("F32", shape, struct.pack("<f", value))


def _bf16(values, *shape):
    return tensor("BF16", shape, bf16_bytes(values))


def _plain(name, matrix):
    """norms are vectors."""
    shape = (matrix.columns,) if "norm" in name else (matrix.rows, matrix.columns)
    return _bf16(matrix.values, *shape)


def _nvfp4_tensors(dialect, options):
    modelopt = dialect.startswith("modelopt")
    divisors = weight_divisors(**options)
    inputs = input_divisors(options["seed"])
    tensors = {}
    for name, q in quantized(dialect, **options).items():
        codes = tensor("U8", (q.rows, q.columns // 2), q.codes)
        tensors[name + ".weight_scale"] = tensor("F8_E4M3", (q.rows, -(-q.columns // 16)), q.scales)
        if modelopt:
            tensors[name + ".weight"] = codes
            tensors[name + ".weight_scale_2"] = _f32(fp32(1 / divisors[name]))
            tensors[name + ".input_scale"] = _f32(fp32(1 / inputs[name]))
        else:
            tensors[name + ".weight_packed"] = codes
            tensors[name + ".weight_global_scale"] = _f32(divisors[name], (1,))
            tensors[name + ".input_global_scale"] = _f32(inputs[name], (1,))
    if modelopt:  # scales of the FP8 KV cache
        for layer in range(LAYERS):
            for half in ("k", "v"):
                tensors[f"model.layers.{layer}.self_attn.{half}_proj.{half}_scale"] = _f32(0.5)
    return tensors


def _mxfp4_tensors(options):
    tensors = {}
    for name, q in quantized("mxfp4-compressed-tensors", **options).items():
        tensors[name + ".weight_packed"] = tensor("U8", (q.rows, q.columns // 2), q.codes)
        tensors[name + ".weight_scale"] = tensor("U8", (q.rows, -(-q.columns // 32)), q.scales)
    return tensors


def _interleaved(gate, up):
    """The rows of both in turn, gate first; gate and up are the bytes of rows."""
    return b"".join(row for pair in zip(gate, up) for row in pair)


def _rows(data, count):
    size = len(data) // count
    return [data[row * size:(row + 1) * size] for row in range(count)]


def _gpt_oss_layer(layer, matrices, rng):
    experts = f"model.layers.{layer}.mlp.experts."
    blocks = {"gate_up": [], "down": []}
    scales = {"gate_up": [], "down": []}
    for expert in range(EXPERTS):
        gate, up, down = (matrices[f"{experts}{expert}.{part}_proj"] for part in ("gate", "up", "down"))
        for kept, part in ((blocks, "codes"), (scales, "scales")):
            kept["gate_up"].append(_interleaved(_rows(getattr(gate, part), gate.rows),
                                                _rows(getattr(up, part), up.rows)))
            kept["down"].append(getattr(down, part))
    tensors = {}
    for part, rows, columns in (("gate_up", 2 * INTERMEDIATE, HIDDEN), ("down", HIDDEN, INTERMEDIATE)):
        name, groups = f"{experts}{part}_proj", columns // 32
        tensors[name + "_blocks"] = tensor("U8", (EXPERTS, rows, groups, 16), b"".join(blocks[part]))
        tensors[name + "_scales"] = tensor("U8", (EXPERTS, rows, groups), b"".join(scales[part]))
        bias = _normal(rng, EXPERTS, rows)
        tensors[name + "_bias"] = _bf16(bias.values, EXPERTS, rows)
    return tensors


def _gpt_oss_tensors(options):
    seed = options["seed"]
    rng = random.Random(seed + 2000)
    matrices, tensors = quantized("gpt-oss", seed), {}
    for name, matrix in weights(seed).items():
        if ".experts." in name or name.endswith(("q_norm", "k_norm")):
            continue
        name = name.replace("mlp.gate", "mlp.router")
        tensors[name + ".weight"] = _plain(name, matrix)
        if name.endswith(("_proj", "router")):
            tensors[name + ".bias"] = _bf16(_normal(rng, 1, matrix.rows).values, matrix.rows)
    for layer in range(LAYERS):
        tensors[f"model.layers.{layer}.self_attn.sinks"] = _bf16(_normal(rng, 1, HEADS).values, HEADS)
        tensors.update(_gpt_oss_layer(layer, matrices, rng))
    return tensors


@functools.lru_cache(maxsize=16)
def _tensors(dialect, seed, intermediate, up_divisor):
    options = {"seed": seed, "intermediate": intermediate, "up_divisor": up_divisor}
    if dialect == "gpt-oss":
        return _gpt_oss_tensors(options)
    tensors = (_mxfp4_tensors(options) if dialect in MXFP4_DIALECTS
               else _nvfp4_tensors(dialect, options))
    for name, matrix in weights(seed, intermediate).items():
        if not name.endswith("_proj"):
            tensors[name + ".weight"] = _plain(name, matrix)
    return tensors


# ---- the folder ---------------------------------------------------------------------------------

def _base_config():
    return {"hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "vocab_size": VOCABULARY,
            "num_experts_per_tok": 2, "hidden_act": "silu", "max_position_embeddings": 512,
            "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 1,
            "eos_token_id": 2}


def _qwen3_moe_config(intermediate):
    return {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", **_base_config(),
            "intermediate_size": 128, "moe_intermediate_size": intermediate, "num_experts": EXPERTS,
            "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [],
            "attention_bias": False, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
            "rope_scaling": None, "use_sliding_window": False}


def _gpt_oss_config():
    return {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", **_base_config(),
            "intermediate_size": INTERMEDIATE, "num_local_experts": EXPERTS, "experts_per_token": 2,
            "attention_bias": True, "swiglu_limit": 7.0, "sliding_window": 128,
            "layer_types": ["sliding_attention", "full_attention"], "rms_norm_eps": 1e-5,
            "rope_theta": 150000, "rope_scaling": {
                "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                "truncate": False, "original_max_position_embeddings": 4096}}


def _modelopt_config():
    four_bits = {"num_bits": 4, "type": "float", "group_size": 16, "dynamic": False}
    return {"quant_method": "modelopt", "quant_algo": "NVFP4",
            "config_groups": {"group_0": {"weights": four_bits, "input_activations": dict(four_bits),
                                          "targets": ["Linear"]}},
            "ignore": ["lm_head", "model.layers.0.mlp.gate", "model.layers.1.mlp.gate"],
            "kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": False},
            "producer": {"name": "modelopt", "version": "0.35.0"}}


def _legacy_config():
    return {"producer": {"name": "modelopt", "version": "0.29.0"},
            "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16,
                             "exclude_modules": ["lm_head", "model.layers.*.mlp.gate"]}}


def _compressed_tensors_config(word, group_size):
    form = f"{word}-pack-quantized"
    strategy = "tensor_group" if word == "nvfp4" else "group"
    weights_claim = {"num_bits": 4, "type": "float", "strategy": strategy, "group_size": group_size,
                     "symmetric": True, "dynamic": False}
    inputs = {**weights_claim, "dynamic": "local"} if word == "nvfp4" else None
    return {"quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed",
            "config_groups": {"group_0": {"format": form, "weights": weights_claim,
                                          "input_activations": inputs, "targets": ["Linear"]}},
            "ignore": ["lm_head", "re:.*mlp\\.gate$"], "kv_cache_scheme": None}


def documents_of(dialect, options):
    """The JSON files beside the tensors, by name."""
    if dialect == "gpt-oss":
        claim = {"quant_method": "mxfp4", "modules_to_not_convert": [
            "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}
        return {"config.json": {**_gpt_oss_config(), "quantization_config": claim}}
    config = _qwen3_moe_config(options["intermediate"])
    if dialect == "modelopt-legacy":
        return {"config.json": config, "hf_quant_config.json": _legacy_config()}
    claims = {"modelopt": _modelopt_config,
              "compressed-tensors": lambda: _compressed_tensors_config("nvfp4", 16),
              "mxfp4-compressed-tensors": lambda: _compressed_tensors_config("mxfp4", 32)}
    return {"config.json": {**config, "quantization_config": claims[dialect]()}}


def write(path, dialect, fault=None, seed=0):
    """Writes a checkpoint into the folder `path` (made if need be) and returns it as a Path."""
    if dialect not in DIALECTS:
        raise ValueError(f"no dialect {dialect!r}; there are {', '.join(DIALECTS)}")
    change = toy_faults.find(fault, dialect)
    options = {"seed": seed, "intermediate": INTERMEDIATE, "up_divisor": 1.0, **change.options}
    folder = pathlib.Path(path)
    tensors = dict(_tensors(dialect, **options))
    documents = documents_of(dialect, options)
    change.edit(tensors, documents)
    # Half of the layers in each shard.
    second = {name for name in tensors if name.startswith(("model.layers.1.", "model.norm", "lm_head"))}
    shards = [{n: t for n, t in tensors.items() if n not in second},
              {n: t for n, t in tensors.items() if n in second}]
    toy_layout.write_checkpoint(folder, shards, documents)
    change.spoil(folder)
    return folder


def main():
    parser = argparse.ArgumentParser(description="Writes a toy mixture-of-experts checkpoint.")
    parser.add_argument("folder", nargs="?", help="where to write it")
    parser.add_argument("--dialect", choices=DIALECTS, default="modelopt")
    parser.add_argument("--fault", help="one of those that --list names")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="list dialects and faults, and do nothing")
    arguments = parser.parse_args()
    if arguments.list:
        print("Dialects:", *DIALECTS, sep="\n  ")
        print("Faults:")
        for name in toy_faults.FAULTS:
            print(f"  {name:26} {toy_faults.meaning(name)}")
        return 0
    if not arguments.folder:
        parser.error("give a folder, or --list")
    try:
        write(arguments.folder, arguments.dialect, arguments.fault, arguments.seed)
    except ValueError as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
