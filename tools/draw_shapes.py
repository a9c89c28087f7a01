#!/usr/bin/env python3
"""Draws the shapes whose times are predicted before they are measured.

  tools/draw_shapes.py > docs/measured/shapes.json
  tools/draw_shapes.py --seed 20261201 > docs/measured/shapes_second.json
  tools/draw_shapes.py --seed 20261202 > docs/measured/shapes_third.json

The seeds are fixed and the generator is our own, so that the same shapes come out everywhere. The first set
served to give the model its form. The second was committed with the model before it was run, and then showed
what short runs on reference matrices had hidden; the third was committed with the model that has come of it.
"""
import argparse
import json
import math

SEED = 20261130
COUNT = 24
MOST_BYTES = 1.5e9  # of all experts of a shape


class SplitMix64:
    """Steele, Lea, Flood 2014; Vigna's reference splitmix64.c."""

    MASK = (1 << 64) - 1

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & self.MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & self.MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & self.MASK
        return z ^ (z >> 31)

    def uniform(self):
        return (self.next() >> 11) / (1 << 53)

    def pick(self, items):
        return items[int(self.uniform() * len(items))]

    def log_uniform(self, low, high):
        return low * math.exp(self.uniform() * math.log(high / low))


def draw_shape(random):
    experts = random.pick([1, 8, 16, 32, 64, 128])
    return {
        "kind": "gemm",
        "format": random.pick(["nvfp4", "nvfp4", "mxfp4"]),
        "activations": random.pick(["bf16", "int8"]),
        "experts": experts,
        "top_k": random.pick([top_k for top_k in (1, 2, 4, 8) if top_k <= experts]),
        "n": 64 * round(random.log_uniform(512, 6144) / 64),
        "k": 64 * round(random.log_uniform(512, 6144) / 64),
        "tokens": round(random.log_uniform(1, 128)),
    }


def draw(seed=SEED, count=COUNT):
    random = SplitMix64(seed)
    shapes = []
    while len(shapes) < count:
        shape = draw_shape(random)
        if shape["experts"] * shape["n"] * shape["k"] * 9 / 16 <= MOST_BYTES:
            shapes.append(shape)
    return {"schema": "nibble.shapes/1", "seed": seed, "how": "tools/draw_shapes.py",
            "shapes": shapes}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=SEED)
    print(json.dumps(draw(parser.parse_args().seed), indent=1))
