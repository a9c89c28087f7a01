#!/usr/bin/env python3
"""Trains the embedded model on a GPU and writes it as a checkpoint (tools/train_tiny.sh does all).

    python3 tools/train_tiny.py DATA OUT [--epochs N] [--dropout P] [--seed N] [--quantized-from X]

DATA has what tools/tiny/tokens.py wrote. OUT gets model.safetensors (NVFP4, ModelOpt's names),
bf16-0.safetensors ..., config.json, hf_quant_config.json and training.json: loss by step, and bits per
character of the held-out text in bf16, with 4-bit weights (W4A16) and with 4-bit weights and
activations (W4A4). Needs torch with CUDA.
"""
import argparse
import json
import math
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "tiny"))

import torch  # noqa: E402

import export  # noqa: E402
from network import Network, Shape  # noqa: E402

ROWS = 64  # sequences of a step
END_OF_TEXT = 0


def read_tokens(path):
    return torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint16).to(torch.int64).cuda()


def batches(tokens, length, epochs, generator):
    """Random cuts: each epoch shifts the windows and shuffles them."""
    for _ in range(epochs):
        shift = int(torch.randint(length, (1,), generator=generator))
        windows = tokens[shift:]
        count = (len(windows) - 1) // length
        order = torch.randperm(count, generator=generator)
        for first in range(0, count - ROWS + 1, ROWS):
            starts = order[first:first + ROWS].cuda() * length
            yield windows[starts[:, None] + torch.arange(length + 1, device="cuda")]


@torch.no_grad()
def nats(network, tokens):
    """Of all tokens, in windows of the model's context, each begun by an end of text."""
    network.eval()
    length, total = network.shape.context - 1, 0.0
    for start in range(0, len(tokens), length):
        window = tokens[start:start + length]
        window = torch.cat((torch.tensor([END_OF_TEXT], device="cuda"), window))[None]
        total += network.loss(window, balance=0).item() * (window.shape[1] - 1)
    network.train()
    return total


def train(network, tokens, options):
    steps = options.epochs * ((len(tokens) - network.shape.context) // network.shape.context // ROWS)
    decayed = [p for p in network.parameters() if p.dim() > 1]
    others = [p for p in network.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": options.decay},
                                   {"params": others, "weight_decay": 0.0}],
                                  lr=options.rate, betas=(0.9, 0.95), fused=True)
    generator, log, begun = torch.Generator().manual_seed(options.seed), [], time.time()
    for step, batch in enumerate(batches(tokens, network.shape.context, options.epochs, generator)):
        part = step / steps
        network.quantizer.weights = part >= options.quantized_from
        for group in optimizer.param_groups:
            group["lr"] = options.rate * min(1, (step + 1) / 100) * \
                (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1, part))))
        with torch.autocast("cuda", torch.bfloat16):
            loss = network.loss(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 100 == 0:
            log.append({"step": step, "loss": round(loss.item(), 4)})
            print(f"step {step} of {steps}, loss {loss.item():.3f}, {time.time() - begun:.0f} s", flush=True)
    network.quantizer.weights = False
    return log, steps, time.time() - begun


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--decay", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quantized-from", type=float, default=0.8,
                        help="the part of the steps after which products see 4-bit weights; 1: never")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    tokens, held_out = read_tokens(options.data / "train.u16"), read_tokens(options.data / "held_out.u16")
    counts = json.loads((options.data / "counts.json").read_text())
    network = Network(Shape(), options.dropout).cuda()
    log, steps, seconds = train(network, tokens, options)
    with torch.no_grad():
        for parameter in network.parameters():  # what is written is bf16
            parameter.copy_(parameter.bfloat16().float())
    bits = {}
    per_character = 1 / math.log(2) / counts["held_out_characters"]
    bits["bf16"] = nats(network, held_out) * per_character
    scales = export.input_scales(network, tokens)
    network.quantizer.weights = True
    bits["w4a16"] = nats(network, held_out) * per_character
    network.quantizer.input_scales = scales
    bits["w4a4"] = nats(network, held_out) * per_character
    report = {"parameters": sum(p.numel() for p in network.parameters()), "steps": steps,
              "tokens_per_step": ROWS * network.shape.context, "seconds": round(seconds, 1),
              "options": {k: v for k, v in vars(options).items() if not isinstance(v, Path)},
              "bits_per_character": bits, "counts": counts, "loss": log}
    options.out.mkdir(parents=True, exist_ok=True)
    export.write(network, scales, options.out)
    (options.out / "training.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({k: v for k, v in report.items() if k != "loss"}))


if __name__ == "__main__":
    main()
