"""Writes tests/golden/formats/: what ml_dtypes and numpy say about our number formats.

  formats.py FOLDER

decode_small.txt  FORMAT CODE FP32         every code of e2m1, e4m3 and e8m0 (not NaN)
encode_small.txt  FORMAT FP32 CODE         around every rounding boundary of these
digests.txt       FORMAT WHAT PART CRC32   tables too large to list, in 16 parts; see `digests`
quantize.txt      whole matrices through the NVFP4 and MXFP4 quantizers; see `write_matrix`

All numbers are hexadecimal, fp32 as its bits. None of this shares code with nibble.
"""
import pathlib
import sys
import zlib

import ml_dtypes
import numpy as np

F32 = np.float32
SIGN = np.uint32(0x80000000)


def floats(bits):
    return np.asarray(bits, np.uint32).view(F32)


def bits_of(values):
    return np.asarray(values, F32).view(np.uint32)


# ---- codes, by ml_dtypes ------------------------------------------------------------------------

def encode_e2m1(x):
    return np.clip(x, F32(-6), F32(6)).astype(ml_dtypes.float4_e2m1fn).view(np.uint8) & 15


def encode_e4m3(x):
    return np.clip(x, F32(-448), F32(448)).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


def encode_e8m0(x):
    """The exponent is floored, which ml_dtypes does not do; negative values are NaN."""
    _, exponent = np.frexp(np.asarray(x, np.float64))  # x = m * 2^exponent, m in [.5, 1)
    codes = np.clip(exponent.astype(np.int64) - 1 + 127, 0, 254)
    codes = np.where(x == 0, 0, codes)
    codes = np.where(np.isinf(x), 254, codes)
    return np.where(x < 0, 255, codes).astype(np.uint8)


def encode_bf16(x):
    return x.astype(ml_dtypes.bfloat16).view(np.uint16)


def encode_fp16(x):
    with np.errstate(over="ignore"):
        return x.astype(np.float16).view(np.uint16)


def decode(codes, dtype):
    return codes.view(dtype).astype(F32)


SMALL = {
    "e2m1": (ml_dtypes.float4_e2m1fn, encode_e2m1, 16),
    "e4m3": (ml_dtypes.float8_e4m3fn, encode_e4m3, 256),
    "e8m0": (ml_dtypes.float8_e8m0fnu, encode_e8m0, 256),
}
WIDE = {"bf16": (ml_dtypes.bfloat16, encode_bf16), "fp16": (np.float16, encode_fp16)}


def neighbours(values):
    """The values, and the two fp32 numbers on each side of each."""
    bits = bits_of(values[values > 0]).astype(np.int64)
    near = np.unique(np.concatenate([bits + step for step in (-2, -1, 0, 1, 2)]))
    return floats(near[(near >= 0) & (near <= 0x7f800000)].astype(np.uint32))


def boundary_inputs(name, dtype, count):
    codes = np.arange(count, dtype=np.uint8)
    values = decode(codes, dtype).astype(np.float64)
    values = np.unique(values[np.isfinite(values) & (values >= 0)])
    middles = ((values[1:] + values[:-1]) / 2).astype(F32)
    above = values[-1] * np.array([1.01, 1.0357142857142858, 1.0714285714285714, 1.25, 2, 1e30])
    with np.errstate(over="ignore"):
        above = above.astype(F32)
    inputs = np.concatenate([neighbours(middles), neighbours(values.astype(F32)),
                             neighbours(above), floats([0, 1, 2, 0x7fffff, 0x7f7fffff, 0x7f800000])])
    inputs = np.unique(inputs)
    return np.concatenate([inputs, floats(bits_of(inputs) | SIGN)]) if name != "e8m0" else inputs


def write_small(folder):
    with open(folder / "decode_small.txt", "w") as out:
        for name, (dtype, _, count) in SMALL.items():
            codes = np.arange(count, dtype=np.uint8)
            for code, value in zip(codes, decode(codes, dtype)):
                if not np.isnan(value):
                    out.write(f"{name} {code:x} {bits_of(value):x}\n")
    with open(folder / "encode_small.txt", "w") as out:
        for name, (dtype, encode, count) in SMALL.items():
            inputs = boundary_inputs(name, dtype, count)
            for bits, code in zip(bits_of(inputs), encode(inputs)):
                out.write(f"{name} {bits:x} {code:x}\n")


# ---- tables too large to list -------------------------------------------------------------------

def parts(table):
    return [zlib.crc32(part.tobytes()) for part in np.split(table, 16)]


def digests():
    """(format, what, parts) of little-endian tables, cut in 16 equal parts:

    decode    fp32 bits of each of the 65,536 codes, 0 for NaN
    boundary  codes of 5 inputs for each positive finite code c but the largest, in this order: the
              fp32 numbers at -2, -1, 0, 1, 2 steps from the middle of c and c + 1; padded with zeros
              to 65,536 * 5 codes
    sweep     codes of the fp32 numbers whose bits are h * 65536 + (h * 40503) % 65536, 0 for NaN
    """
    every = np.arange(65536, dtype=np.uint16)
    for name, (dtype, encode) in WIDE.items():
        values = decode(every, dtype)
        yield name, "decode", parts(np.where(np.isnan(values), 0, bits_of(values)).astype("<u4"))
        positive = values[:0x8000]
        finite = positive[np.isfinite(positive)].astype(np.float64)
        # Halved first: bf16's largest would overflow in fp32, though not here.
        middles = (finite[1:] / 2 + finite[:-1] / 2).astype(F32)
        inputs = floats((bits_of(middles).astype(np.int64)[:, None]
                         + np.arange(-2, 3)).astype(np.int64).clip(0).astype(np.uint32).reshape(-1))
        table = np.zeros(65536 * 5, "<u2")
        table[:len(inputs)] = encode(inputs)
        yield name, "boundary", parts(table)
    h = np.arange(65536, dtype=np.uint64)
    inputs = floats((h * 65536 + (h * 40503) % 65536).astype(np.uint32))
    for name, encode in [(n, f[1]) for n, f in SMALL.items()] + [(n, f[1]) for n, f in WIDE.items()]:
        codes = np.where(np.isnan(inputs), 0, encode(np.where(np.isnan(inputs), F32(0), inputs)))
        yield name, "sweep", parts(codes.astype("<u2"))


def write_digests(folder):
    with open(folder / "digests.txt", "w") as out:
        for name, what, crcs in digests():
            for part, crc in enumerate(crcs):
                out.write(f"{name} {what} {part:x} {crc:x}\n")


# ---- quantizers ---------------------------------------------------------------------------------

MAGNITUDES = np.array([0, .5, 1, 1.5, 2, 3, 4, 6], F32)
# ModelOpt's bounds; at an odd bound (counted from 0) the upper code is the even one.
BOUNDS = np.array([.25, .75, 1.25, 1.75, 2.5, 3.5, 5], F32)


def codes_by_bounds(scaled):
    """As ModelOpt's _cast_fp4 does it: count the bounds below, and ties go to the even code."""
    magnitude = np.abs(scaled)
    below = (magnitude[..., None] > BOUNDS).sum(-1)
    tie_up = (magnitude[..., None] == BOUNDS[1::2]).any(-1)
    return (below + tie_up + 8 * np.signbit(scaled)).astype(np.uint8)


def blocks_of(x, size):
    rows, columns = x.shape
    padded = np.zeros((rows, -(-columns // size) * size), F32)
    padded[:, :columns] = x
    return padded.reshape(rows, -1, size)


def pack(codes, columns):
    codes = codes.reshape(codes.shape[0], -1)[:, :columns]
    return codes[:, 0::2] | codes[:, 1::2] << 4


def quantize_nvfp4(x, factor):
    if factor is None:
        finite = x[np.isfinite(x)]
        factor = np.abs(finite).max(initial=F32(0)) / F32(2688)
        factor = factor if factor > 0 else F32(1)
    factor = F32(factor)
    blocks = blocks_of(x, 16)
    broken = ~np.isfinite(blocks).all(-1)
    blocks = np.where(broken[..., None], F32(0), blocks)
    with np.errstate(over="ignore", under="ignore"):
        scales = encode_e4m3(np.abs(blocks).max(-1) / F32(6) / factor)
        steps = decode(scales, ml_dtypes.float8_e4m3fn) * factor
        scales = np.where(steps == 0, np.uint8(0x38), scales)
        steps = np.where(steps == 0, factor, steps)
        codes = codes_by_bounds(blocks / steps[..., None])
    scales = np.where(broken, np.uint8(0x7f), scales)
    scale_values = decode(scales, ml_dtypes.float8_e4m3fn)
    return factor, codes, scales, scale_values


def quantize_mxfp4(x):
    blocks = blocks_of(x, 32)
    broken = ~np.isfinite(blocks).all(-1)
    blocks = np.where(broken[..., None], F32(0), blocks)
    amax = np.abs(blocks).max(-1).astype(np.float64)
    with np.errstate(divide="ignore"):
        exponent = np.where(amax > 0, np.floor(np.log2(amax)) - 2, -127)
    exponent = np.clip(exponent, -127, 127).astype(np.int64)
    codes = codes_by_bounds((blocks.astype(np.float64) / 2.0**exponent[..., None]).astype(F32))
    scales = np.where(broken, 255, exponent + 127).astype(np.uint8)
    return F32(1), codes, scales, decode(scales, ml_dtypes.float8_e8m0fnu)


def write_matrix(out, name, x, factor=None):
    """name format rows columns given-factor(0: none) used-factor, then a line each of x (fp32 bits),
    codes (packed bytes), scales (bytes) and the dequantized values (fp32 bits, 0 for NaN)."""
    rows, columns = x.shape
    for kind in ("nvfp4", "mxfp4"):
        if kind == "mxfp4" and factor is not None:
            continue
        used, codes, scales, scale_values = quantize_nvfp4(x, factor) if kind == "nvfp4" \
            else quantize_mxfp4(x)
        signed = np.where(codes & 8, -MAGNITUDES[codes & 7], MAGNITUDES[codes & 7])
        with np.errstate(over="ignore", under="ignore"):
            values = (signed * scale_values[..., None]).astype(F32) * used
        values = values.reshape(rows, -1)[:, :columns]
        value_bits = np.where(np.isnan(values), 0, bits_of(values))
        out.write(f"{name} {kind} {rows:x} {columns:x} {bits_of(factor or 0):x} {bits_of(used):x}\n")
        for line, digits in ((bits_of(x), 8), (pack(codes, columns), 2), (scales, 2), (value_bits, 8)):
            out.write("".join(f"{value:0{digits}x}" for value in line.reshape(-1)) + "\n")


def order_matters(factor):
    """Rows whose scale depends on the order of amax / 6 / factor: near a middle of two scales the
    division by 6 * factor, or the product with 1 / 6, gives the other one."""
    scales = decode(np.arange(1, 127, dtype=np.uint8), ml_dtypes.float8_e4m3fn).astype(np.float64)
    middles = (scales[1:] + scales[:-1]) / 2
    amax = neighbours((middles * 6 * float(factor)).astype(F32))
    ours = encode_e4m3(amax / F32(6) / factor)
    other = encode_e4m3(amax / (F32(6) * factor))
    third = encode_e4m3(amax * (F32(1) / F32(6)) / factor)
    chosen = np.concatenate([amax[ours != other][:12], amax[ours != third][:12]])
    assert len(chosen) == 24
    x = np.zeros((24, 16), F32)
    x[:, 5] = chosen
    return x


def write_quantized(folder):
    random = np.random.Generator(np.random.PCG64(20250101))

    def normal(rows, columns, scale=1.0):
        return (random.standard_normal((rows, columns)) * scale).astype(F32)

    with open(folder / "quantize.txt", "w") as out:
        write_matrix(out, "normal", normal(8, 64, 0.02))
        spread = normal(16, 32) * (F32(2) ** random.integers(-20, 20, (16, 1)).astype(F32))
        write_matrix(out, "rows_of_all_sizes", spread.astype(F32))
        outliers = normal(4, 96, 0.02)
        outliers[random.random(outliers.shape) < 0.02] *= F32(300)
        write_matrix(out, "outliers", outliers)
        write_matrix(out, "partial_block", normal(5, 50))
        write_matrix(out, "one_pair", normal(3, 2))
        zeros = normal(3, 48)
        zeros[0], zeros[1, 16:32], zeros[2, ::3] = 0, -0.0, 0
        write_matrix(out, "zero_blocks", zeros)
        write_matrix(out, "all_zero", np.zeros((2, 32), F32))
        write_matrix(out, "tiny", normal(2, 32, 1e-30))
        write_matrix(out, "subnormal", normal(2, 32, 1e-41))
        write_matrix(out, "smallest", floats(random.integers(0, 4, (2, 32), dtype=np.uint32)))
        write_matrix(out, "huge", normal(2, 32, 3e37))
        broken = normal(2, 64)
        broken[0, 3], broken[1, 20], broken[1, 60] = np.nan, np.inf, -np.inf
        write_matrix(out, "not_finite", broken)
        # On a grid of eighths with powers of two as block maxima: half of the values are ties.
        ties = (random.integers(-48, 49, (4, 64)) / 8).astype(F32)
        ties[:, ::16] = 6
        write_matrix(out, "ties", ties, F32(1))
        write_matrix(out, "factor_too_small", normal(2, 32), F32(1e-4))
        write_matrix(out, "factor_too_large", normal(2, 32), F32(90))
        write_matrix(out, "order_of_division", order_matters(F32(0.00037)), F32(0.00037))
        write_matrix(out, "factor_odd", normal(4, 48), F32(0.00037))


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    write_small(folder)
    write_digests(folder)
    write_quantized(folder)


if __name__ == "__main__":
    main()
