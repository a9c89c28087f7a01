#!/usr/bin/env python3
"""Writes a checkpoint of real proportions whose data are holes: headers, index and factors are real,
other values are zero and take no room on the disk. For measuring how fast headers are read.

  large.py FOLDER [--layers 64] [--experts 256] [--shards 80]

The names are those of a Qwen3-MoE in ModelOpt's NVFP4 form; the defaults make 197,000 tensors.
"""
import argparse
import json
import math
import pathlib
import struct

HIDDEN, INTERMEDIATE, HEADS, KV_HEADS, HEAD_DIM, VOCABULARY = 2048, 768, 32, 4, 128, 151936
BYTES = {"U8": 1, "F8_E4M3": 1, "F32": 4, "BF16": 2}


def nvfp4(name, rows, columns):
    return [(name + ".weight", "U8", (rows, columns // 2)),
            (name + ".weight_scale", "F8_E4M3", (rows, columns // 16)),
            (name + ".weight_scale_2", "F32", ()),
            (name + ".input_scale", "F32", ())]


def layer(number, experts):
    at = f"model.layers.{number}."
    tensors = [(at + name + ".weight", "BF16", (size,)) for name, size in
               (("input_layernorm", HIDDEN), ("post_attention_layernorm", HIDDEN),
                ("self_attn.q_norm", HEAD_DIM), ("self_attn.k_norm", HEAD_DIM))]
    query, key = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    for name, rows, columns in (("q_proj", query, HIDDEN), ("k_proj", key, HIDDEN),
                                ("v_proj", key, HIDDEN), ("o_proj", HIDDEN, query)):
        tensors += nvfp4(f"{at}self_attn.{name}", rows, columns)
    tensors.append((at + "mlp.gate.weight", "BF16", (experts, HIDDEN)))
    for expert in range(experts):
        below = f"{at}mlp.experts.{expert}."
        tensors += nvfp4(below + "gate_proj", INTERMEDIATE, HIDDEN)
        tensors += nvfp4(below + "up_proj", INTERMEDIATE, HIDDEN)
        tensors += nvfp4(below + "down_proj", HIDDEN, INTERMEDIATE)
    return tensors


def write_shard(path, tensors):
    """A header as the safetensors package writes it: wide types first, then by name."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, shape in sorted(tensors, key=lambda t: (-BYTES[t[1]], t[0])):
        begin, end = end, end + BYTES[dtype] * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        floats = sum(math.prod(shape) for _, dtype, shape in tensors if dtype == "F32")  # the first
        file.write(struct.pack("<f", 1e-4) * floats)
        file.truncate(8 + len(text) + end)
    return end


def write(folder, layers=64, experts=256, shards=80):
    """Returns the number of tensors."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = [("model.embed_tokens.weight", "BF16", (VOCABULARY, HIDDEN)),
               ("model.norm.weight", "BF16", (HIDDEN,)), ("lm_head.weight", "BF16", (VOCABULARY, HIDDEN))]
    for number in range(layers):
        tensors += layer(number, experts)
    weight_map, total = {}, 0
    each = -(-len(tensors) // shards)
    for number in range(shards):
        part = tensors[number * each:(number + 1) * each]
        name = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        total += write_shard(folder / name, part)
        weight_map.update({tensor[0]: name for tensor in part})
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
    config = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": HIDDEN,
              "num_hidden_layers": layers, "vocab_size": VOCABULARY, "num_attention_heads": HEADS,
              "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "intermediate_size": 6144,
              "moe_intermediate_size": INTERMEDIATE, "num_experts": experts, "num_experts_per_tok": 8,
              "tie_word_embeddings": False, "torch_dtype": "bfloat16",
              "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16,
                                      "ignore": ["lm_head"] + [f"model.layers.{n}.mlp.gate"
                                                               for n in range(layers)]}}
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    return len(tensors)


def main():
    parser = argparse.ArgumentParser(description="Writes a large checkpoint whose data are holes.")
    parser.add_argument("folder")
    parser.add_argument("--layers", type=int, default=64)
    parser.add_argument("--experts", type=int, default=256)
    parser.add_argument("--shards", type=int, default=80)
    arguments = parser.parse_args()
    count = write(arguments.folder, arguments.layers, arguments.experts, arguments.shards)
    print(f"{count} tensors in {arguments.shards} files")


if __name__ == "__main__":
    main()
