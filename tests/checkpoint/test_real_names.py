"""Checkpoints with the names, types and shapes of real models, a few layers of each and their values
holes, are read without a fault. The names are written here from the models' published headers, apart
from what src/model knows."""
import json

import pytest

import large

LAYERS = 4


def model(source_dir, name, **changes):
    """(config, hf_quant_config or None) of the catalog, cut to a few layers."""
    entry = json.loads((source_dir / "data/models" / f"{name}.json").read_text())
    config = {**entry["config"], "num_hidden_layers": LAYERS, **changes}
    return config, entry.get("hf_quant_config")


def bf16(name, *shape):
    return [(name, "BF16", shape)]


def f32(name, *shape):
    return [(name, "F32", shape)]


def plain(name, rows, columns):
    return bf16(name + ".weight", rows, columns)


def fp8_blocks(name, rows, columns):
    return [(name + ".weight", "F8_E4M3", (rows, columns)),
            (name + ".weight_scale_inv", "F32", (-(-rows // 128), -(-columns // 128)))]


def mla(at, c, linear):
    heads, latent, rope = c["num_attention_heads"], c["kv_lora_rank"], c["qk_rope_head_dim"]
    nope, value, hidden = c["qk_nope_head_dim"], c["v_head_dim"], c["hidden_size"]
    return [*linear(at + "q_a_proj", c["q_lora_rank"], hidden),
            *bf16(at + "q_a_layernorm.weight", c["q_lora_rank"]),
            *linear(at + "q_b_proj", heads * (nope + rope), c["q_lora_rank"]),
            *linear(at + "kv_a_proj_with_mqa", latent + rope, hidden),
            *bf16(at + "kv_a_layernorm.weight", latent),
            *linear(at + "kv_b_proj", heads * (nope + value), latent),
            *linear(at + "o_proj", hidden, heads * value)]


def indexer(at, c):
    size = c["index_head_dim"]
    return [*plain(at + "wq_b", c["index_n_heads"] * size, c["q_lora_rank"]),
            *plain(at + "wk", size, c["hidden_size"]),
            *plain(at + "weights_proj", c["index_n_heads"], c["hidden_size"]),
            *bf16(at + "k_norm.weight", size), *bf16(at + "k_norm.bias", size)]


def mlp(at, hidden, intermediate, linear):
    return [*linear(at + "gate_proj", intermediate, hidden), *linear(at + "up_proj", intermediate, hidden),
            *linear(at + "down_proj", hidden, intermediate)]


def norms(at, hidden):
    return [*bf16(at + "input_layernorm.weight", hidden),
            *bf16(at + "post_attention_layernorm.weight", hidden)]


def outer(c):
    return [*plain("model.embed_tokens", c["vocab_size"], c["hidden_size"]),
            *bf16("model.norm.weight", c["hidden_size"]),
            *plain("lm_head", c["vocab_size"], c["hidden_size"])]


def deepseek_experts(at, c, expert, shared):
    hidden, size = c["hidden_size"], c["moe_intermediate_size"]
    tensors = [*plain(at + "gate", c["n_routed_experts"], hidden),
               *f32(at + "gate.e_score_correction_bias", c["n_routed_experts"]),
               *mlp(at + "shared_experts.", hidden, size, shared)]
    for number in range(c["n_routed_experts"]):
        tensors += mlp(f"{at}experts.{number}.", hidden, size, expert)
    return tensors


def deepseek_layer(number, c, attention, dense, expert, shared, with_indexer=False):
    at, hidden = f"model.layers.{number}.", c["hidden_size"]
    tensors = norms(at, hidden) + mla(at + "self_attn.", c, attention)
    if with_indexer:
        tensors += indexer(at + "self_attn.indexer.", c)
    if number < c["first_k_dense_replace"]:
        return tensors + mlp(at + "mlp.", hidden, c["intermediate_size"], dense)
    return tensors + deepseek_experts(at + "mlp.", c, expert, shared)


def mtp_extras(number, c):
    """What an MTP layer has beside a layer; the table and the head repeat the model's."""
    at, hidden = f"model.layers.{number}.", c["hidden_size"]
    return [*bf16(at + "enorm.weight", hidden), *bf16(at + "hnorm.weight", hidden),
            *plain(at + "eh_proj", hidden, 2 * hidden), *bf16(at + "shared_head.norm.weight", hidden),
            *plain(at + "shared_head.head", c["vocab_size"], hidden),
            *plain(at + "embed_tokens", c["vocab_size"], hidden)]


def glm_5_nvfp4(source_dir):
    config, quantization = model(source_dir, "glm-5-nvfp4")
    exclude = quantization["quantization"]["exclude_modules"]
    exclude[exclude.index("model.layers.78*")] = f"model.layers.{LAYERS}*"
    tensors = outer(config)
    for number in range(LAYERS):
        tensors += deepseek_layer(number, config, plain, plain, large.nvfp4, plain, with_indexer=True)
    tensors += deepseek_layer(LAYERS, config, plain, plain, plain, plain, with_indexer=True)
    tensors += mtp_extras(LAYERS, config)
    return config, quantization, tensors, {"routed experts": "nvfp4", "attention": "bf16", "mtp": "bf16"}, 2


def deepseek_r1_nvfp4(source_dir):
    config, quantization = model(source_dir, "deepseek-r1-nvfp4", num_nextn_predict_layers=0)
    tensors = outer(config)
    for number in range(LAYERS):
        tensors += deepseek_layer(number, config, plain, large.nvfp4, large.nvfp4, large.nvfp4)
    formats = {"routed experts": "nvfp4", "attention": "bf16", "dense mlp": "nvfp4"}
    return config, quantization, tensors, formats, 0


def deepseek_r1(source_dir):
    config, quantization = model(source_dir, "deepseek-r1")
    tensors = outer(config)
    for number in range(LAYERS + 1):
        tensors += deepseek_layer(number, config, fp8_blocks, fp8_blocks, fp8_blocks, fp8_blocks)
    tensors += mtp_extras(LAYERS, config)
    formats = {"routed experts": "fp8-block128", "attention": "fp8-block128", "router": "bf16"}
    return config, quantization, tensors, formats, 2


def minimax_m2(source_dir):
    config, quantization = model(source_dir, "minimax-m2")
    hidden, size, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    query, key = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    tensors = outer(config)
    for number in range(LAYERS):
        at = f"model.layers.{number}."
        tensors += norms(at, hidden)
        tensors += [*fp8_blocks(at + "self_attn.q_proj", query, hidden),
                    *fp8_blocks(at + "self_attn.k_proj", key, hidden),
                    *fp8_blocks(at + "self_attn.v_proj", key, hidden),
                    *fp8_blocks(at + "self_attn.o_proj", hidden, query),
                    *bf16(at + "self_attn.q_norm.weight", query), *bf16(at + "self_attn.k_norm.weight", key),
                    *f32(at + "block_sparse_moe.gate.weight", config["num_local_experts"], hidden),
                    *f32(at + "block_sparse_moe.e_score_correction_bias", config["num_local_experts"])]
        for expert in range(config["num_local_experts"]):
            below = f"{at}block_sparse_moe.experts.{expert}."
            tensors += [*fp8_blocks(below + "w1", size, hidden), *fp8_blocks(below + "w3", size, hidden),
                        *fp8_blocks(below + "w2", hidden, size)]
    return config, quantization, tensors, {"routed experts": "fp8-block128", "router": "fp32"}, 0


def gpt_oss_20b(source_dir):
    config, quantization = model(source_dir, "gpt-oss-20b")
    hidden, size, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, experts = config["num_attention_heads"], config["num_local_experts"]
    query, key = heads * head, config["num_key_value_heads"] * head
    tensors = outer(config)
    for number in range(LAYERS):
        at = f"model.layers.{number}."
        tensors += norms(at, hidden)
        for name, rows, columns in (("q_proj", query, hidden), ("k_proj", key, hidden),
                                    ("v_proj", key, hidden), ("o_proj", hidden, query)):
            tensors += [*plain(f"{at}self_attn.{name}", rows, columns),
                        *bf16(f"{at}self_attn.{name}.bias", rows)]
        tensors += [*bf16(at + "self_attn.sinks", heads), *plain(at + "mlp.router", experts, hidden),
                    *bf16(at + "mlp.router.bias", experts)]
        for name, rows, columns in (("gate_up_proj", 2 * size, hidden), ("down_proj", hidden, size)):
            below = f"{at}mlp.experts.{name}"
            tensors += [(below + "_blocks", "U8", (experts, rows, columns // 32, 16)),
                        (below + "_scales", "U8", (experts, rows, columns // 32)),
                        *bf16(below + "_bias", experts, rows)]
    return config, quantization, tensors, {"routed experts": "mxfp4", "attention": "bf16"}, 0


@pytest.mark.parametrize("make", [glm_5_nvfp4, deepseek_r1_nvfp4, deepseek_r1, minimax_m2, gpt_oss_20b],
                         ids=lambda make: make.__name__)
def test_a_real_model_has_no_fault(nibble, source_dir, tmp_path, make):
    config, quantization, tensors, formats, ignored = make(source_dir)
    large.write_shard(tmp_path / "model.safetensors", tensors)
    (tmp_path / "config.json").write_text(json.dumps(config))
    if quantization:
        (tmp_path / "hf_quant_config.json").write_text(json.dumps(quantization))
    result = nibble("inspect", str(tmp_path), "--json")
    document = json.loads(result.stdout)
    assert document["faults"] == []
    assert result.returncode == 0
    assert document["tensors"] == len(tensors)
    found = {}
    for row in document["scope"]:
        assert row["agrees"], row
        found.setdefault(row["part"], set()).add(row["found"])
    for part, form in formats.items():
        assert found[part] == {form}
    assert sum(entry["tensors"] for entry in document["ignored"]) == ignored
    described = document["parameters"]["described"]
    repeated = 2 * config["vocab_size"] * config["hidden_size"] if ignored else 0
    assert document["parameters"]["found"] == described["total"] + described["mtp"] + repeated
