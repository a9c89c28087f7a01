"""bf16, NVFP4 and MXFP4 for the toy checkpoints, in plain Python and without nibble's help.

Floats are doubles that hold fp32 values. One operation of two fp32 values in double, rounded to fp32,
is the fp32 operation: 53 >= 2 * 24 + 2 bits.
"""
import bisect
import math
import struct
from typing import NamedTuple

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
E4M3 = tuple(2.0**-9 * (code if code < 8 else (8 + code % 8) * 2 ** (code // 8 - 1))
             for code in range(127))  # the positive codes; 127 is NaN
E4M3_ONE = 0x38
E4M3_NAN = 0x7f
E8M0_NAN = 0xff


def fp32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def bf16(value):
    """The nearest bf16, as its 16 bits."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16 & 0xffff


def bf16_value(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def bf16_bytes(values):
    return b"".join(struct.pack("<H", bf16(value)) for value in values)


def nearest(table, value):
    """The index of the nearest entry, ties to the even index; saturates."""
    above = bisect.bisect_left(table, value)
    if above == 0 or above == len(table):
        return min(above, len(table) - 1)
    below = above - 1
    middle = (table[below] + table[above]) / 2
    if value == middle:
        return below if below % 2 == 0 else above
    return below if value < middle else above


class Quantized(NamedTuple):
    """A matrix [rows, columns]: packed codes, the even column low; scales by row and block."""
    rows: int
    columns: int
    codes: bytes
    scales: bytes
    factor: float = 1.0  # a multiplier


class Matrix(NamedTuple):
    """A matrix before it is quantized; row-major."""
    rows: int
    columns: int
    values: list


def _pack(values, step):
    codes = [nearest(E2M1, fp32(abs(value) / step)) | (8 if math.copysign(1, value) < 0 else 0)
             for value in values]
    return bytes(low | high << 4 for low, high in zip(codes[::2], codes[1::2]))


def _quantize(matrix, block, scale_of, step_of, factor):
    codes, scales = [], []
    for row in range(matrix.rows):
        values = matrix.values[row * matrix.columns:(row + 1) * matrix.columns]
        for begin in range(0, matrix.columns, block):
            part = values[begin:begin + block]
            scale = scale_of(max(map(abs, part)))
            scales.append(scale)
            codes.append(_pack(part, step_of(scale)))
    return Quantized(matrix.rows, matrix.columns, b"".join(codes), bytes(scales), factor)


def nvfp4_divisor(matrices):
    """6 * 448 / amax over all of them, in fp32: what compressed-tensors stores."""
    return fp32(2688 / max(max(map(abs, matrix.values)) for matrix in matrices))


def quantize_nvfp4(matrix, factor):
    def scale_of(amax):
        return nearest(E4M3, fp32(fp32(amax / 6) / factor)) or E4M3_ONE

    return _quantize(matrix, 16, scale_of, lambda scale: fp32(E4M3[scale] * factor), factor)


def quantize_mxfp4(matrix):
    def scale_of(amax):
        return max(0, math.frexp(amax)[1] - 1 - 2 + 127) if amax else 0

    return _quantize(matrix, 32, scale_of, lambda scale: 2.0 ** (scale - 127), 1.0)
