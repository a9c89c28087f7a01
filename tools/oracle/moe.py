"""Writes tests/golden/moe/: what numpy, in double precision, says about routers and activations.

  moe.py FOLDER

router.txt      for each case a line
                  NAME KIND EXPERTS TOP_K GROUPS TOP_GROUPS RENORMALISE AFTER SCALING TOKENS BIASED
                (KIND softmax or sigmoid; AFTER: softmax over the chosen; flags 0 or 1), a line of
                correction biases when BIASED, then for each token the lines logits, ids, weights.
activation.txt  KIND GATE UP RESULT   for swiglu and clamped-swiglu (alpha 1.702, limit 7)

Inputs are fp32 numbers as hexadecimal bits, results are decimal. None of this shares code with
nibble: each rule is written down as its makers' published code says it, named at the function.
"""
import pathlib
import sys

import numpy as np

F32 = np.float32


def hexadecimal(values):
    return " ".join(f"{bits:x}" for bits in np.asarray(values, F32).view(np.uint32).reshape(-1))


def decimal(values):
    return " ".join(f"{value:.17g}" for value in np.asarray(values, np.float64).reshape(-1))


def top(scores, count):
    """Largest first, of equal ones the lower index."""
    return np.argsort(-scores, kind="stable")[:count]


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# ---- routers ------------------------------------------------------------------------------------

def qwen3(logits, top_k, renormalise):
    """transformers, modeling_qwen3_moe.py, Qwen3MoeSparseMoeBlock.forward."""
    routing_weights = softmax(logits)
    selected = top(routing_weights, top_k)
    weights = routing_weights[selected]
    return selected, weights / weights.sum() if renormalise else weights


def gpt_oss(logits, top_k):
    """gpt_oss/torch/model.py, MLPBlock.forward."""
    selected = top(logits, top_k)
    return selected, softmax(logits[selected])


def deepseek_v2(logits, top_k, groups, top_groups, scaling):
    """modeling_deepseek.py of DeepSeek-V2, MoEGate.forward, group_limited_greedy."""
    scores = softmax(logits)
    group_scores = scores.reshape(groups, -1).max(-1)
    mask = np.zeros(groups, bool)
    mask[top(group_scores, top_groups)] = True
    masked = np.where(np.repeat(mask, len(scores) // groups), scores, 0.0)
    selected = top(masked, top_k)
    return selected, scores[selected] * scaling


def deepseek_v3(logits, bias, top_k, groups, top_groups, renormalise, scaling):
    """inference/model.py of DeepSeek-V3, Gate.forward."""
    original = sigmoid(logits)
    scores = original + bias
    if groups > 1:
        grouped = np.sort(scores.reshape(groups, -1), -1)
        group_scores = grouped[:, -2:].sum(-1)
        mask = np.ones(groups, bool)
        mask[top(group_scores, top_groups)] = False
        scores = np.where(np.repeat(mask, len(scores) // groups), -np.inf, scores)
    selected = top(scores, top_k)
    weights = original[selected]
    if renormalise:
        weights = weights / weights.sum()
    return selected, weights * scaling


class RouterFile:
    def __init__(self, out, random):
        self.out = out
        self.random = random

    def case(self, name, kind, experts, top_k, rule, *, groups=1, top_groups=1, renormalise=0,
             after=0, scaling=1.0, bias=None, tokens=3, logits=None):
        if logits is None:
            logits = self.random.standard_normal((tokens, experts)) * 2
        logits = np.asarray(logits, F32)
        self.out.write(f"{name} {kind} {experts} {top_k} {groups} {top_groups} {renormalise} {after} "
                       f"{scaling} {len(logits)} {int(bias is not None)}\n")
        if bias is not None:
            self.out.write(hexadecimal(bias) + "\n")
        for row in logits:
            ids, weights = rule(row.astype(np.float64))
            self.out.write(f"{hexadecimal(row)}\n{' '.join(map(str, ids))}\n{decimal(weights)}\n")

    def bias(self, experts, size=0.3):
        return (self.random.standard_normal(experts) * size).astype(F32)

    def deepseek(self, name, experts, top_k, *, groups=1, top_groups=1, renormalise=1, scaling=1.0,
                 size=0.3, **rest):
        bias = self.bias(experts, size)
        self.case(name, "sigmoid", experts, top_k,
                  lambda x: deepseek_v3(x, bias.astype(np.float64), top_k, groups, top_groups,
                                        renormalise, scaling),
                  groups=groups, top_groups=top_groups, renormalise=renormalise, scaling=scaling,
                  bias=bias, **rest)


def write_routers(folder):
    random = np.random.Generator(np.random.PCG64(20250102))
    with open(folder / "router.txt", "w") as out:
        file = RouterFile(out, random)
        file.case("qwen3", "softmax", 128, 8, lambda x: qwen3(x, 8, True), renormalise=1)
        file.case("qwen3-plain", "softmax", 60, 4, lambda x: qwen3(x, 4, False))
        file.case("qwen3-next", "softmax", 512, 10, lambda x: qwen3(x, 10, True), renormalise=1)
        file.case("gpt-oss-20b", "softmax", 32, 4, lambda x: gpt_oss(x, 4), after=1)
        file.case("gpt-oss-120b", "softmax", 128, 4, lambda x: gpt_oss(x, 4), after=1)
        file.case("deepseek-v2", "softmax", 160, 6, lambda x: deepseek_v2(x, 6, 8, 3, 16.0),
                  groups=8, top_groups=3, scaling=16.0)
        file.deepseek("deepseek-v3", 256, 8, groups=8, top_groups=4, scaling=2.5, tokens=4)
        # The bias decides: scores lie between 0 and 1.
        file.deepseek("deepseek-v3-strong-bias", 64, 6, groups=4, top_groups=2, scaling=2.5, size=3)
        file.deepseek("glm-5", 256, 8, scaling=2.5)
        file.deepseek("kimi-k2", 384, 8, scaling=2.827)
        file.deepseek("not-renormalised", 32, 3, renormalise=0)
        file.deepseek("groups-of-two", 16, 4, groups=8, top_groups=2)
        file.case("sigmoid-without-bias", "sigmoid", 40, 5,
                  lambda x: deepseek_v3(x, 0.0, 5, 1, 1, 1, 1.0), renormalise=1)
        # Whole numbers: most are equal to others, and the lower index goes first.
        ties = random.integers(-2, 3, (4, 48))
        file.case("ties", "softmax", 48, 7, lambda x: qwen3(x, 7, True), renormalise=1, logits=ties)
        file.case("ties-sigmoid", "sigmoid", 48, 7,
                  lambda x: deepseek_v3(x, 0.0, 7, 1, 1, 1, 1.0), renormalise=1, logits=ties)
        file.case("one-expert", "softmax", 1, 1, lambda x: qwen3(x, 1, True), renormalise=1)
        file.case("every-expert", "softmax", 17, 17, lambda x: qwen3(x, 17, True), renormalise=1)
        file.deepseek("every-expert-sigmoid", 16, 16)
        file.case("far-apart", "softmax", 16, 4, lambda x: qwen3(x, 4, True), renormalise=1,
                  logits=random.standard_normal((2, 16)) * 200)


# ---- activations --------------------------------------------------------------------------------

def swiglu(gate, up):
    """torch.nn.functional.silu(gate) * up."""
    return gate * sigmoid(gate) * up


def clamped_swiglu(gate, up, alpha=float(F32(1.702)), limit=7.0):
    """gpt_oss/torch/model.py, swiglu."""
    gate = np.clip(gate, None, limit)
    up = np.clip(up, -limit, limit)
    return gate * sigmoid(alpha * gate) * (up + 1)


def write_activations(folder):
    random = np.random.Generator(np.random.PCG64(20250103))
    corners = np.array([0, -0.0, 1e-30, -1e-30, 1, -1, 6.9999995, 7, 7.0000005, 8, -6.9999995, -7,
                        -7.0000005, -20, 20, -87, 87, 1000], F32)
    gate = [np.repeat(corners, len(corners)), (random.standard_normal(400) * 4).astype(F32)]
    up = [np.tile(corners, len(corners)), (random.standard_normal(400) * 4).astype(F32)]
    gate, up = np.concatenate(gate), np.concatenate(up)
    with open(folder / "activation.txt", "w") as out, np.errstate(over="ignore"):
        for name, rule in (("swiglu", swiglu), ("clamped-swiglu", clamped_swiglu)):
            results = rule(gate.astype(np.float64), up.astype(np.float64))
            for g, u, result in zip(gate, up, results):
                out.write(f"{name} {hexadecimal(g)} {hexadecimal(u)} {decimal(result)}\n")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    write_routers(folder)
    write_activations(folder)


main()
