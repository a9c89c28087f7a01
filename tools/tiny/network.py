"""The embedded model's network in torch: Qwen3-MoE as transformers has it, for training.

    network = Network(Shape())
    loss = network.loss(tokens)      # [batch, length + 1]

Every expert is computed for every token and weighted, mostly by zero: at this size two large products
are faster than a dispatch. Tensors have the names of Hugging Face's checkpoints, experts stacked.
"""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

import nvfp4


@dataclass
class Shape:
    vocabulary: int = 4096
    hidden: int = 256
    layers: int = 8
    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 32
    experts: int = 32
    top_k: int = 4
    intermediate: int = 64
    context: int = 1024
    theta: float = 10000.0
    eps: float = 1e-6


class Quantizer:
    """How products see weights and activations; `observed` keeps the largest activation of each."""

    def __init__(self):
        self.weights = False      # as NVFP4, gradients straight through
        self.input_scales = None  # name -> factor: activations as NVFP4 too
        self.observed = None      # name -> largest seen

    def weight(self, weight):
        if not self.weights:
            return weight
        return weight + (torch.stack([nvfp4.fake_quantize(w) for w in weight.detach()])
                         if weight.dim() == 3 else nvfp4.fake_quantize(weight.detach())) - weight.detach()

    def input(self, name, x):
        if self.observed is not None:
            self.observed[name] = max(self.observed.get(name, 0.0), x.abs().max().item())
        return x if self.input_scales is None else nvfp4.fake_quantize(x, self.input_scales[name])


def norm(x, weight, eps):
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps) * weight).to(x.dtype)


def rotate(x, cosine, sine):
    left, right = x.chunk(2, -1)
    return x * cosine + torch.cat((-right, left), -1) * sine


class Layer(nn.Module):
    def __init__(self, shape, number):
        super().__init__()
        self.shape, self.number = shape, number
        s = shape
        weight = lambda *size: nn.Parameter(torch.randn(*size) * 0.02)  # noqa: E731
        self.input_norm = nn.Parameter(torch.ones(s.hidden))
        self.q = weight(s.heads * s.head_dim, s.hidden)
        self.k = weight(s.kv_heads * s.head_dim, s.hidden)
        self.v = weight(s.kv_heads * s.head_dim, s.hidden)
        self.o = weight(s.hidden, s.heads * s.head_dim)
        self.q_norm = nn.Parameter(torch.ones(s.head_dim))
        self.k_norm = nn.Parameter(torch.ones(s.head_dim))
        self.post_norm = nn.Parameter(torch.ones(s.hidden))
        self.router = weight(s.experts, s.hidden)
        self.gate = weight(s.experts, s.intermediate, s.hidden)
        self.up = weight(s.experts, s.intermediate, s.hidden)
        self.down = weight(s.experts, s.hidden, s.intermediate)

    def attention(self, x, cosine, sine, quantizer):
        s, (batch, length, _) = self.shape, x.shape
        x = quantizer.input(f"{self.number}.qkv", x)
        split = lambda y, heads: y.view(batch, length, heads, s.head_dim)  # noqa: E731
        q = norm(split(x @ quantizer.weight(self.q).T, s.heads), self.q_norm, s.eps)
        k = norm(split(x @ quantizer.weight(self.k).T, s.kv_heads), self.k_norm, s.eps)
        v = split(x @ quantizer.weight(self.v).T, s.kv_heads)
        q, k, v = (y.transpose(1, 2) for y in (q, k, v))
        q, k = rotate(q, cosine, sine), rotate(k, cosine, sine)
        k, v = (y.repeat_interleave(s.heads // s.kv_heads, 1) for y in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.transpose(1, 2).reshape(batch, length, -1)
        return quantizer.input(f"{self.number}.o", y) @ quantizer.weight(self.o).T

    def experts(self, x, quantizer):
        """The experts' sum, and how unevenly they were used (1: evenly)."""
        s = self.shape
        scores = torch.softmax((x @ self.router.T).float(), -1)
        best, ids = scores.topk(s.top_k, -1)
        weights = torch.zeros_like(scores).scatter(-1, ids, best / best.sum(-1, keepdim=True))
        uneven = s.experts * ((weights > 0).float().mean((0, 1)) / s.top_k * scores.mean((0, 1))).sum()
        x = quantizer.input(f"{self.number}.gate_up", x)
        gate = x @ quantizer.weight(self.gate).flatten(0, 1).T
        up = x @ quantizer.weight(self.up).flatten(0, 1).T
        y = (F.silu(gate) * up).unflatten(-1, (s.experts, s.intermediate))
        y = quantizer.input(f"{self.number}.down", y) * weights.unsqueeze(-1).to(x.dtype)
        down = quantizer.weight(self.down).transpose(1, 2).flatten(0, 1)
        return y.flatten(-2) @ down, uneven


class Network(nn.Module):
    def __init__(self, shape, dropout=0.0):
        super().__init__()
        self.shape, self.dropout, self.quantizer = shape, dropout, Quantizer()
        self.embedding = nn.Parameter(torch.randn(shape.vocabulary, shape.hidden) * 0.02)
        self.layers = nn.ModuleList(Layer(shape, at) for at in range(shape.layers))
        self.final_norm = nn.Parameter(torch.ones(shape.hidden))
        with torch.no_grad():  # what is added to the residual: smaller, the deeper the network
            for layer in self.layers:
                layer.o *= (2 * shape.layers) ** -0.5
                layer.down *= (2 * shape.layers) ** -0.5

    def forward(self, tokens):
        s = self.shape
        at = torch.arange(tokens.shape[1], device=tokens.device)
        rates = s.theta ** (-torch.arange(0, s.head_dim, 2, device=tokens.device) / s.head_dim)
        angles = torch.cat((at[:, None] * rates, at[:, None] * rates), -1)
        x, unevenness = self.embedding[tokens], 0
        if torch.is_autocast_enabled():
            x = x.bfloat16()
        cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        drop = lambda y: F.dropout(y, self.dropout, self.training)  # noqa: E731
        for layer in self.layers:
            x = x + drop(layer.attention(norm(x, layer.input_norm, s.eps), cosine, sine, self.quantizer))
            y, uneven = layer.experts(norm(x, layer.post_norm, s.eps), self.quantizer)
            x, unevenness = x + drop(y), unevenness + uneven / s.layers
        return norm(x, self.final_norm, s.eps) @ self.embedding.T, unevenness

    def loss(self, tokens, balance=0.01):
        logits, unevenness = self(tokens[:, :-1])
        return F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten()) + balance * unevenness
