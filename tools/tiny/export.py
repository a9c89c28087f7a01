"""A trained network as checkpoints: bf16, and NVFP4 in ModelOpt's dialect.

    scales = input_scales(network, tokens)    # of each product, from training text
    write(network, scales, folder)

Experts and attention are NVFP4; router, embedding (which is the output's matrix too) and norms bf16.
"""
import json
import struct

import torch

import nvfp4

NAMES = {torch.bfloat16: "BF16", torch.float32: "F32", torch.uint8: "U8", torch.float8_e4m3fn: "F8_E4M3"}
SHARD_BYTES = 15 << 20


@torch.no_grad()
def input_scales(network, tokens):
    """The factors of static NVFP4 activations: the largest value over 64 windows of training text."""
    length = network.shape.context
    network.eval()
    network.quantizer.observed = {}
    for window in tokens[:64 * length].view(-1, 8, length):
        network(window)
    observed, network.quantizer.observed = network.quantizer.observed, None
    network.train()
    return {name: largest / nvfp4.LARGEST for name, largest in observed.items()}


def matrices(network):
    """(name, weight, the key of its input scale, whether it becomes 4-bit) in Hugging Face's names."""
    for number, layer in enumerate(network.layers):
        path = f"model.layers.{number}"
        yield f"{path}.input_layernorm", layer.input_norm, None
        yield f"{path}.post_attention_layernorm", layer.post_norm, None
        yield f"{path}.self_attn.q_norm", layer.q_norm, None
        yield f"{path}.self_attn.k_norm", layer.k_norm, None
        for name in "qkv":
            yield f"{path}.self_attn.{name}_proj", getattr(layer, name), f"{number}.qkv"
        yield f"{path}.self_attn.o_proj", layer.o, f"{number}.o"
        yield f"{path}.mlp.gate", layer.router, None
        for expert in range(network.shape.experts):
            for name in ("gate", "up"):
                yield f"{path}.mlp.experts.{expert}.{name}_proj", getattr(layer, name)[expert], f"{number}.gate_up"
            yield f"{path}.mlp.experts.{expert}.down_proj", layer.down[expert], f"{number}.down"
    yield "model.embed_tokens", network.embedding, None
    yield "model.norm", network.final_norm, None


def nvfp4_tensors(network, scales):
    tensors = {}
    for name, weight, key in matrices(network):
        if key is None:
            tensors[f"{name}.weight"] = weight.detach().bfloat16()
            continue
        codes, blocks, factor = nvfp4.quantize(weight.detach())
        tensors |= {f"{name}.weight": codes, f"{name}.weight_scale": blocks,
                    f"{name}.weight_scale_2": torch.tensor(factor), f"{name}.input_scale": torch.tensor(scales[key])}
    return tensors


def save(tensors, path):
    """A safetensors file: the header's length, the header, the bytes."""
    header, offset, parts = {}, 0, []
    for name in sorted(tensors):
        tensor = tensors[name].contiguous().cpu()
        data = tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        parts.append(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def save_shards(tensors, folder, stem):
    shard, size, count = {}, 0, 0
    for name in sorted(tensors):
        size += tensors[name].numel() * tensors[name].element_size()
        if size > SHARD_BYTES:
            save(shard, folder / f"{stem}-{count}.safetensors")
            shard, size, count = {}, tensors[name].numel() * tensors[name].element_size(), count + 1
        shard[name] = tensors[name]
    save(shard, folder / f"{stem}-{count}.safetensors")


def config(shape):
    return {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "torch_dtype": "bfloat16",
            "vocab_size": shape.vocabulary, "hidden_size": shape.hidden, "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads,
            "head_dim": shape.head_dim, "intermediate_size": shape.intermediate,
            "moe_intermediate_size": shape.intermediate, "num_experts": shape.experts,
            "num_experts_per_tok": shape.top_k, "norm_topk_prob": True, "decoder_sparse_step": 1,
            "mlp_only_layers": [], "hidden_act": "silu", "rms_norm_eps": shape.eps, "rope_theta": shape.theta,
            "rope_scaling": None, "max_position_embeddings": shape.context, "tie_word_embeddings": True,
            "attention_bias": False, "use_sliding_window": False, "bos_token_id": 0, "eos_token_id": 2}


def write(network, scales, folder):
    save(nvfp4_tensors(network, scales), folder / "model.safetensors")
    save_shards({f"{name}.weight": weight.detach().bfloat16() for name, weight, _ in matrices(network)},
                folder, "bf16")
    (folder / "config.json").write_text(json.dumps(config(network.shape), indent=1) + "\n")
    (folder / "hf_quant_config.json").write_text(json.dumps(
        {"producer": {"name": "nibble tools/train_tiny.py"},
         "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": None, "group_size": 16,
                          "exclude_modules": ["lm_head", "model.embed_tokens",
                                              "model.layers.*.mlp.gate"]}}, indent=1) + "\n")
