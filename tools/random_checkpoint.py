#!/usr/bin/env python3
"""Writes a checkpoint of random weights with the layer shapes of a Qwen3-MoE of the catalog.

    tools/random_checkpoint.py qwen3-30b-a3b-nvfp4 OUT --layers 3 --vocabulary 4096

For what depends on shapes and formats alone: memory, loading, and `nibble bench step`. Linear layers
are NVFP4 in ModelOpt's names, router, embeddings and norms bf16; values are of a trained model's size
(root mean square about 0.02), and its words are noise. One file a layer. Needs nothing but Python.
"""
import argparse
import json
import os
import struct
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
# e4m3 codes of 64 to 480, the largest left out (NaN): what a byte of noise becomes as a block's scale.
SCALES = bytes(0x68 + value % 23 for value in range(256))
# Root mean square of e2m1 codes 3.0 and of the scales about 190: 3.0 x 190 x factor = 0.02.
FACTOR, INPUT_SCALE = 3.5e-5, 2e-3


def bf16(value):
    return struct.pack("<f", value)[2:]


def bf16_noise(count, size):
    """Values of 0.5 .. 1 times `size`, with random sign: two bytes each."""
    exponent = struct.unpack("<I", struct.pack("<f", size))[0] >> 23
    high = {byte: bytes([(byte & 0x80) | (exponent >> 1)])[0] for byte in range(256)}
    low = bytes(((exponent & 1) << 7) | (byte & 0x7F) for byte in range(256))
    noise = bytearray(os.urandom(2 * count))
    noise[1::2] = noise[1::2].translate(bytes(high[byte] for byte in range(256)))
    noise[0::2] = noise[0::2].translate(low)
    return bytes(noise)


class File:
    """A safetensors file, written tensor by tensor."""

    def __init__(self, path):
        self.path, self.tensors = path, []

    def add(self, name, dtype, shape, data):
        self.tensors.append((name, dtype, shape, data))

    def linear(self, name, rows, columns):
        self.add(f"{name}.weight", "U8", [rows, columns // 2], os.urandom(rows * columns // 2))
        self.add(f"{name}.weight_scale", "F8_E4M3", [rows, columns // 16],
                 os.urandom(rows * columns // 16).translate(SCALES))
        self.add(f"{name}.weight_scale_2", "F32", [], struct.pack("<f", FACTOR))
        self.add(f"{name}.input_scale", "F32", [], struct.pack("<f", INPUT_SCALE))

    def plain(self, name, rows, columns):
        self.add(f"{name}.weight", "BF16", [rows, columns], bf16_noise(rows * columns, 0.02))

    def norm(self, name, size):
        self.add(f"{name}.weight", "BF16", [size], bf16(1.0) * size)

    def close(self):
        header, offset = {}, 0
        for name, dtype, shape, data in self.tensors:
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
            offset += len(data)
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with open(self.path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for _, _, _, data in self.tensors:
                file.write(data)
        return {name: self.path.name for name, _, _, _ in self.tensors}, offset


def write_layer(file, number, config):
    path, hidden, width = f"model.layers.{number}", config["hidden_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    file.norm(f"{path}.input_layernorm", hidden)
    file.norm(f"{path}.post_attention_layernorm", hidden)
    file.norm(f"{path}.self_attn.q_norm", width)
    file.norm(f"{path}.self_attn.k_norm", width)
    for name, rows in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
        file.linear(f"{path}.self_attn.{name}_proj", rows * width, hidden)
    file.linear(f"{path}.self_attn.o_proj", hidden, heads * width)
    file.plain(f"{path}.mlp.gate", config["num_experts"], hidden)
    for expert in range(config["num_experts"]):
        where, size = f"{path}.mlp.experts.{expert}", config["moe_intermediate_size"]
        file.linear(f"{where}.gate_proj", size, hidden)
        file.linear(f"{where}.up_proj", size, hidden)
        file.linear(f"{where}.down_proj", hidden, size)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a name of data/models with model_type qwen3_moe")
    parser.add_argument("out", type=Path)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--vocabulary", type=int, default=4096)
    options = parser.parse_args()
    known = json.loads((SOURCE / "data" / "models" / f"{options.model}.json").read_text())
    config = known["config"]
    if config["model_type"] != "qwen3_moe":
        parser.error(f"{options.model} is a {config['model_type']}, not a qwen3_moe")
    config |= {"num_hidden_layers": options.layers, "vocab_size": options.vocabulary,
               "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "hidden_act": "silu", "eos_token_id": 0}
    options.out.mkdir(parents=True, exist_ok=True)
    places, total, count = {}, 0, options.layers + 1
    for number in range(count):
        file = File(options.out / f"model-{number + 1:05}-of-{count:05}.safetensors")
        if number < options.layers:
            write_layer(file, number, config)
        else:
            file.plain("model.embed_tokens", options.vocabulary, config["hidden_size"])
            file.plain("lm_head", options.vocabulary, config["hidden_size"])
            file.norm("model.norm", config["hidden_size"])
        names, size = file.close()
        places |= names
        total += size
    (options.out / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": places}) + "\n")
    (options.out / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (options.out / "hf_quant_config.json").write_text(json.dumps(
        {"producer": {"name": "nibble tools/random_checkpoint.py"},
         "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": None, "group_size": 16,
                          "exclude_modules": ["model.layers.*.mlp.gate", "lm_head",
                                              "model.embed_tokens"]}}, indent=1) + "\n")
    print(f"{options.out}: {total / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
