// Every small number format of nibble, code by code, to and from fp32. One definition for host C++,
// nvcc and NVRTC; all of it constexpr, bit for bit, without floating-point rounding of its own.
//
//   e2m1_to_float(0x7)      // 6
//   float_to_e2m1(2.5F)     // 0x4, that is 2: a tie goes to the even code
//   float_to_e4m3(1e9F)     // 0x7e, that is 448: it saturates
//   float_to_e8m0(3.0F)     // 128, that is 2: the exponent is floored
//   e2m1_at(row, column)    // the code at a column of a packed row
//
// e2m1: OCP MX 1.0 section 5.3.3; e4m3: OCP OFP8 1.0 (no infinity, one NaN); e8m0: OCP MX 1.0
// section 5.4.1. Rounding is to nearest, ties to the even code, unless a function says otherwise.
#pragma once

#include "formats/host_device.h"

namespace nibble {

namespace codec_detail {

NIBBLE_HOST_DEVICE constexpr uint32_t bits_of(float value) {
  return __builtin_bit_cast(uint32_t, value);
}

NIBBLE_HOST_DEVICE constexpr float float_of(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

inline constexpr uint32_t kMagnitude = 0x7fffffffU;
inline constexpr uint32_t kInfinity = 0x7f800000U;

// `bits` without its lowest `shift` (1..31) bits, to nearest, ties to even.
NIBBLE_HOST_DEVICE constexpr uint32_t drop_bits(uint32_t bits, int shift) {
  const uint32_t below_half = (uint32_t{1} << (shift - 1)) - 1;
  return (bits + below_half + ((bits >> shift) & 1U)) >> shift;
}

// The code of a finite or infinite magnitude (fp32 bits, sign cleared) in a format with
// `mantissa_bits` and `bias`, as if it had exponents without end: the caller saturates. Formats
// whose smallest subnormal is far above fp32's only.
NIBBLE_HOST_DEVICE constexpr uint32_t round_magnitude(uint32_t magnitude, int mantissa_bits,
                                                      int bias) {
  const int dropped = 23 - mantissa_bits;
  const int exponent_field = static_cast<int>(magnitude >> 23);
  const int smallest_normal_field = 128 - bias;
  if (exponent_field >= smallest_normal_field) {
    // Bias and mantissa move together; a carry out of the mantissa raises the exponent.
    return drop_bits(magnitude - (static_cast<uint32_t>(127 - bias) << 23), dropped);
  }
  const int shift = dropped + smallest_normal_field - exponent_field;
  if (shift > 24) return 0;  // below half of the smallest subnormal
  return drop_bits((magnitude & 0x7fffffU) | 0x800000U, shift);
}

// The value of a magnitude code that is neither infinite nor NaN. Exact.
NIBBLE_HOST_DEVICE constexpr float widen_magnitude(uint32_t code, int mantissa_bits, int bias) {
  if ((code >> mantissa_bits) != 0) {
    return float_of((code << (23 - mantissa_bits)) + (static_cast<uint32_t>(127 - bias) << 23));
  }
  const float smallest = float_of(static_cast<uint32_t>(128 - bias - mantissa_bits) << 23);
  return static_cast<float>(code) * smallest;
}

NIBBLE_HOST_DEVICE constexpr float with_sign(float magnitude, bool negative) {
  return float_of(bits_of(magnitude) | (negative ? 0x80000000U : 0U));
}

}  // namespace codec_detail

// ---- e2m1: sign, 2 exponent bits, 1 mantissa bit; 0 .5 1 1.5 2 3 4 6 --------------------------

// Only the low 4 bits of `code` count.
NIBBLE_HOST_DEVICE constexpr float e2m1_to_float(uint8_t code) {
  return codec_detail::with_sign(codec_detail::widen_magnitude(code & 7U, 1, 1), (code & 8U) != 0);
}

// Saturates to 6 of the input's sign, infinities too; keeps the sign of zero. The format has no
// NaN: a NaN of either sign becomes +6, as PTX cvt.rn.satfinite.e2m1x2 does.
NIBBLE_HOST_DEVICE constexpr uint8_t float_to_e2m1(float value) {
  const uint32_t bits = codec_detail::bits_of(value);
  const uint32_t magnitude = bits & codec_detail::kMagnitude;
  if (magnitude > codec_detail::kInfinity) return 7;
  const uint32_t code = codec_detail::round_magnitude(magnitude, 1, 1);
  return static_cast<uint8_t>((code > 7U ? 7U : code) | (bits >> 31 << 3));
}

// Two codes in a byte: the low nibble is the even column.
NIBBLE_HOST_DEVICE constexpr uint8_t pack_e2m1(uint8_t low_even, uint8_t high_odd) {
  return static_cast<uint8_t>((low_even & 15U) | ((high_odd & 15U) << 4));
}

// The code at `column` of a packed row.
NIBBLE_HOST_DEVICE constexpr uint8_t e2m1_at(const uint8_t* packed_row, int64_t column) {
  const uint8_t byte = packed_row[column / 2];
  return static_cast<uint8_t>(column % 2 == 0 ? byte & 15U : byte >> 4);
}

// ---- e4m3 (the "fn" kind): 448 is the largest, 0x7f and 0xff are NaN, no infinity ---------------

NIBBLE_HOST_DEVICE constexpr bool is_e4m3_nan(uint8_t code) {
  return (code & 0x7fU) == 0x7fU;
}

NIBBLE_HOST_DEVICE constexpr float e4m3_to_float(uint8_t code) {
  const bool negative = (code & 0x80U) != 0;
  if (is_e4m3_nan(code)) {
    return codec_detail::float_of(negative ? 0xffc00000U : 0x7fc00000U);
  }
  return codec_detail::with_sign(codec_detail::widen_magnitude(code & 0x7fU, 3, 7), negative);
}

// Saturates to 448 of the input's sign, infinities too. NaN becomes 0x7f with the input's sign
// (PTX cvt drops the sign).
NIBBLE_HOST_DEVICE constexpr uint8_t float_to_e4m3(float value) {
  const uint32_t bits = codec_detail::bits_of(value);
  const uint32_t magnitude = bits & codec_detail::kMagnitude;
  const uint32_t sign = bits >> 31 << 7;
  if (magnitude > codec_detail::kInfinity) return static_cast<uint8_t>(sign | 0x7fU);
  const uint32_t code = codec_detail::round_magnitude(magnitude, 3, 7);
  return static_cast<uint8_t>(sign | (code > 0x7eU ? 0x7eU : code));
}

// ---- e8m0: a power of two from 2^-127 to 2^127; 255 is NaN; no zero, no sign --------------------

NIBBLE_HOST_DEVICE constexpr float e8m0_to_float(uint8_t code) {
  if (code == 255) return codec_detail::float_of(0x7fc00000U);
  if (code == 0) return codec_detail::float_of(0x00400000U);  // 2^-127, an fp32 subnormal
  return codec_detail::float_of(static_cast<uint32_t>(code) << 23);
}

// The largest power of two that is not above the value, as OCP MX 1.0 section 6.3 and PTX
// cvt.rz.satfinite.ue8m0x2 take it. Zero and what lies below 2^-127 become code 0, infinity 254;
// NaN and negative values become 255 (PTX takes the magnitude of a negative value).
NIBBLE_HOST_DEVICE constexpr uint8_t float_to_e8m0(float value) {
  const uint32_t bits = codec_detail::bits_of(value);
  if (bits == 0x80000000U) return 0;  // minus zero
  if (bits > codec_detail::kInfinity) return 255;
  if (bits == codec_detail::kInfinity) return 254;
  return static_cast<uint8_t>(bits >> 23);
}

// ---- bf16 and fp16 ------------------------------------------------------------------------------

NIBBLE_HOST_DEVICE constexpr float bf16_to_float(uint16_t code) {
  return codec_detail::float_of(static_cast<uint32_t>(code) << 16);
}

// Overflows to infinity. NaN keeps its sign and upper payload and is made quiet.
NIBBLE_HOST_DEVICE constexpr uint16_t float_to_bf16(float value) {
  const uint32_t bits = codec_detail::bits_of(value);
  if ((bits & codec_detail::kMagnitude) > codec_detail::kInfinity) {
    return static_cast<uint16_t>((bits >> 16) | 0x40U);
  }
  // A magnitude that rounds up never carries into the sign: the largest is infinity.
  return static_cast<uint16_t>((bits >> 31 << 15) |
                               codec_detail::drop_bits(bits & codec_detail::kMagnitude, 16));
}

// A NaN keeps its sign and payload; a signalling one stays so.
NIBBLE_HOST_DEVICE constexpr float fp16_to_float(uint16_t code) {
  const uint32_t magnitude = code & 0x7fffU;
  const bool negative = (code & 0x8000U) != 0;
  if (magnitude >= 0x7c00U) {
    const uint32_t bits = codec_detail::kInfinity | ((magnitude & 0x3ffU) << 13);
    return codec_detail::float_of(bits | (negative ? 0x80000000U : 0U));
  }
  return codec_detail::with_sign(codec_detail::widen_magnitude(magnitude, 10, 15), negative);
}

// Overflows to infinity from 65520. NaN keeps its sign and upper payload and is made quiet.
NIBBLE_HOST_DEVICE constexpr uint16_t float_to_fp16(float value) {
  const uint32_t bits = codec_detail::bits_of(value);
  const uint32_t magnitude = bits & codec_detail::kMagnitude;
  const uint32_t sign = bits >> 31 << 15;
  if (magnitude > codec_detail::kInfinity) {
    return static_cast<uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x3ffU));
  }
  const uint32_t code = codec_detail::round_magnitude(magnitude, 10, 15);
  return static_cast<uint16_t>(sign | (code > 0x7c00U ? 0x7c00U : code));
}

}  // namespace nibble
