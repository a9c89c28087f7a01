"""NVFP4 in torch: blocks of 16 along the last dimension, an e4m3 scale each, one fp32 factor.

    codes, scales, factor = quantize(weight)       # uint8 [rows, K / 2], e4m3 [rows, K / 16], float
    value = dequantize(codes, scales, factor)
    fake = fake_quantize(x, factor)                # what a tensor becomes, in its own type

Rounding is to nearest, ties to the even code, as ModelOpt's.
"""
import torch

BLOCK = 16
LARGEST = 6.0 * 448.0
VALUES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def factor_of(x):
    return max(x.abs().max().item() / LARGEST, 1e-12)


def block_scales(blocks, factor):
    """e4m3 of max / 6 in units of the factor; a block of zeros gets 1."""
    largest = blocks.abs().amax(-1, keepdim=True).float()
    scales = (largest / 6 / factor).clamp(max=448).to(torch.float8_e4m3fn)
    return torch.where(scales.float() == 0, torch.ones_like(scales.float()), scales.float())


def round_codes(x):
    """Magnitudes 0 .. 7 of |x|: midpoints go to the even code."""
    x = x.abs()
    code = torch.zeros(x.shape, dtype=torch.uint8, device=x.device)
    for at, midpoint in enumerate((0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)):
        code += (x > midpoint) if at % 2 == 0 else (x >= midpoint)
    return code


def quantize(weight):
    weight = weight.float()
    factor = factor_of(weight)
    blocks = weight.unflatten(-1, (-1, BLOCK))
    scales = block_scales(blocks, factor)
    codes = round_codes(blocks / (scales * factor)) | (blocks < 0).to(torch.uint8) << 3
    codes = codes.flatten(-2)
    return codes[..., 0::2] | codes[..., 1::2] << 4, scales.squeeze(-1).to(torch.float8_e4m3fn), factor


def dequantize(codes, scales, factor):
    both = torch.stack((codes & 15, codes >> 4), -1).flatten(-2)
    values = VALUES.to(codes.device)[(both & 7).long()] * torch.where(both >= 8, -1.0, 1.0)
    return (values.unflatten(-1, (-1, BLOCK)) * scales.float().unsqueeze(-1)).flatten(-2) * factor


def fake_quantize(x, factor=None):
    shape, dtype = x.shape, x.dtype
    factor = factor_of(x) if factor is None else factor
    blocks = x.float().unflatten(-1, (-1, BLOCK))
    scales = block_scales(blocks, factor) * factor
    values = VALUES.to(x.device)[round_codes(blocks / scales).long()] * blocks.sign()
    return (values * scales).reshape(shape).to(dtype)
