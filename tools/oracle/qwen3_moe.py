"""Writes tests/golden/qwen3_moe/: small random checkpoints, and what transformers says of them.

  qwen3_moe.py FOLDER             writes them
  qwen3_moe.py FOLDER --compare   makes them anew and compares: files byte by byte, logits within
                                  1e-5, because the order of fp32 sums depends on the processor

For each model NAME: NAME/config.json and NAME/model.safetensors (bf16), and NAME.safetensors with

  prompt         [prompt]              int32
  prompt_logits  [prompt, vocabulary]  fp32, of one forward pass over the prompt
  greedy         [steps]               int32, each the largest logit after the tokens before it
  greedy_logits  [steps, vocabulary]   fp32, row i after greedy[i]

by transformers on the CPU in fp32 (weights widened from bf16), decoding with its cache.

untied  Qwen3-MoE: 3 layers, the second dense; GQA; renormalised router; an inner width of 48
tied    Qwen3-MoE: tied embeddings, biases, yarn, a router that is not renormalised, decoder_sparse_step
shared  Qwen2-MoE: a shared expert with its gate, biases of q, k and v, no norms of heads
"""
import json
import pathlib
import sys
import tempfile
import warnings

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file, save_file
from safetensors.torch import save_file as save_torch

QWEN3 = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "attention_dropout": 0.0,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
    "use_sliding_window": False,
}
UNTIED = QWEN3 | {
    "attention_bias": False,
    "decoder_sparse_step": 1,
    "head_dim": 32,
    "hidden_size": 64,
    "intermediate_size": 96,
    "max_position_embeddings": 512,
    "mlp_only_layers": [1],
    "moe_intermediate_size": 48,
    "norm_topk_prob": True,
    "num_attention_heads": 4,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 3,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-6,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "vocab_size": 320,
}
TIED = QWEN3 | {
    "attention_bias": True,
    "decoder_sparse_step": 2,
    "head_dim": 16,
    "hidden_size": 32,
    "intermediate_size": 40,
    "max_position_embeddings": 256,
    "mlp_only_layers": [],
    "moe_intermediate_size": 16,
    "norm_topk_prob": False,
    "num_attention_heads": 3,
    "num_experts": 6,
    "num_experts_per_tok": 3,
    "num_hidden_layers": 2,
    "num_key_value_heads": 1,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 1000.0,
        "factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "tie_word_embeddings": True,
    "vocab_size": 96,
}
SHARED = QWEN3 | {
    "architectures": ["Qwen2MoeForCausalLM"],
    "model_type": "qwen2_moe",
    "decoder_sparse_step": 1,
    "hidden_size": 32,
    "intermediate_size": 40,
    "max_position_embeddings": 256,
    "mlp_only_layers": [],
    "moe_intermediate_size": 16,
    "norm_topk_prob": False,
    "num_attention_heads": 2,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "shared_expert_intermediate_size": 24,
    "tie_word_embeddings": False,
    "vocab_size": 96,
}
# name: configuration, seed, tokens of the prompt, steps
MODELS = {
    "untied": (UNTIED, 1, 64, 64),
    "tied": (TIED, 4, 64, 64),
    "shared": (SHARED, 3, 64, 64),
}
# Between the largest logit and the next: far above what two fp32 implementations differ by.
LEAST_MARGIN = 1e-3


def is_sparse(config, layer):
    step = config["decoder_sparse_step"]
    return layer not in config["mlp_only_layers"] and step > 0 and (layer + 1) % step == 0


def shapes(config):
    """Every tensor of the checkpoint, as Hugging Face names them."""
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head = config.get("head_dim", hidden // heads)
    qwen2 = config["model_type"] == "qwen2_moe"
    out = {"model.embed_tokens.weight": [vocabulary, hidden], "model.norm.weight": [hidden]}
    if not config["tie_word_embeddings"]:
        out["lm_head.weight"] = [vocabulary, hidden]

    def mlp(below, width):
        out[f"{below}.gate_proj.weight"] = [width, hidden]
        out[f"{below}.up_proj.weight"] = [width, hidden]
        out[f"{below}.down_proj.weight"] = [hidden, width]

    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        out[f"{at}.input_layernorm.weight"] = [hidden]
        out[f"{at}.post_attention_layernorm.weight"] = [hidden]
        for name, rows in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
            out[f"{at}.self_attn.{name}_proj.weight"] = [rows * head, hidden]
            if qwen2 or config["attention_bias"]:
                out[f"{at}.self_attn.{name}_proj.bias"] = [rows * head]
        out[f"{at}.self_attn.o_proj.weight"] = [hidden, heads * head]
        if not qwen2:
            out[f"{at}.self_attn.q_norm.weight"] = [head]
            out[f"{at}.self_attn.k_norm.weight"] = [head]
            if config["attention_bias"]:
                out[f"{at}.self_attn.o_proj.bias"] = [hidden]
        if not is_sparse(config, layer):
            mlp(f"{at}.mlp", config["intermediate_size"])
            continue
        out[f"{at}.mlp.gate.weight"] = [config["num_experts"], hidden]
        for expert in range(config["num_experts"]):
            mlp(f"{at}.mlp.experts.{expert}", config["moe_intermediate_size"])
        if qwen2:
            mlp(f"{at}.mlp.shared_expert", config["shared_expert_intermediate_size"])
            out[f"{at}.mlp.shared_expert_gate.weight"] = [1, hidden]
    return out


def random_weights(config, seed):
    """Products that keep the size of what goes in, norms that are not all one."""
    random = np.random.Generator(np.random.PCG64(seed))
    weights = {}
    for name, shape in sorted(shapes(config).items()):
        values = random.standard_normal(shape, dtype=np.float64)
        if name.endswith("norm.weight"):
            values = 1.2 + 0.3 * values
        elif name.endswith("bias"):
            values = 0.3 * values
        elif name != "model.embed_tokens.weight":
            values *= 1.5 / np.sqrt(shape[-1])
        elif config["tie_word_embeddings"]:
            values *= 0.1  # else every token would foretell itself
        weights[name] = torch.from_numpy(values.astype(np.float32)).to(torch.bfloat16)
    return weights


def margin(logits):
    top = torch.topk(logits, 2).values
    return float(top[0] - top[1])


def run(folder, config, seed, prompt_tokens, steps):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )
    model.eval()
    random = np.random.Generator(np.random.PCG64(1000 + seed))
    prompt = random.integers(0, config["vocab_size"], prompt_tokens)
    greedy, rows = [], []
    with torch.no_grad():
        out = model(torch.from_numpy(prompt)[None], use_cache=True)
        prompt_logits = out.logits[0]
        last = prompt_logits[-1]
        for _ in range(steps):
            if margin(last) < LEAST_MARGIN:
                sys.exit(f"seed {seed}: two tokens are as good as each other; take another seed")
            greedy.append(int(torch.argmax(last)))
            out = model(torch.tensor([[greedy[-1]]]), past_key_values=out.past_key_values)
            last = out.logits[0, -1]
            rows.append(last)
    return {
        "prompt": prompt.astype(np.int32),
        "prompt_logits": prompt_logits.numpy().astype(np.float32),
        "greedy": np.array(greedy, np.int32),
        "greedy_logits": torch.stack(rows).numpy().astype(np.float32),
    }


def write(folder):
    for name, (config, seed, prompt, steps) in MODELS.items():
        model = folder / name
        model.mkdir(parents=True, exist_ok=True)
        (model / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
        save_torch(random_weights(config, seed), str(model / "model.safetensors"))
        save_file(run(model, config, seed, prompt, steps), str(folder / f"{name}.safetensors"))


def compare(made, committed):
    names = sorted(str(path.relative_to(made)) for path in made.rglob("*") if path.is_file())
    there = sorted(str(path.relative_to(committed)) for path in committed.rglob("*") if path.is_file())
    if names != there:
        sys.exit(f"{committed} holds {there}, the oracle writes {names}")
    for name in names:
        if (made / name).read_bytes() == (committed / name).read_bytes():
            continue
        if "/" in name:
            sys.exit(f"{committed / name} differs from what the oracle writes")
        new, old = load_file(made / name), load_file(committed / name)
        for tensor in sorted(new.keys() | old.keys()):
            if not np.allclose(new[tensor], old[tensor], rtol=1e-5, atol=1e-5):
                sys.exit(f"{committed / name}: {tensor} differs from what the oracle says")


def main():
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=FutureWarning)
    folder = pathlib.Path(sys.argv[1])
    if sys.argv[2:] == ["--compare"]:
        with tempfile.TemporaryDirectory() as made:
            write(pathlib.Path(made))
            compare(pathlib.Path(made), folder)
    elif len(sys.argv) == 2:
        write(folder)
    else:
        sys.exit("give a folder, and --compare to look only")


if __name__ == "__main__":
    main()
