// fp32 to NVFP4, MXFP4 and bf16, and back; and MXFP4 to NVFP4 without loss.
//
//   const QuantizedBytes bytes = quantize_nvfp4(weights, rows, columns);
//   const QuantizedMatrix matrix = bytes.view();           // borrows from bytes
//   const std::vector<float> again = dequantize(matrix);   // [rows, columns]
//   quantize_nvfp4_row(token, input_scale, codes, scales); // activations: the same arithmetic
//
// Every step is one IEEE fp32 operation in the order given below, so that a kernel that divides
// with
// __fdiv_rn and does not fuse gives the same bits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/format.h"
#include "formats/quantized_matrix.h"

namespace nibble {

inline constexpr std::int64_t kNvfp4Block = 16;
inline constexpr std::int64_t kMxfp4Block = 32;
// The largest magnitude of NVFP4 before its factor: the largest code times the largest scale.
inline constexpr float kNvfp4Largest = 6.0F * 448.0F;

// A matrix that owns its bytes; the layout is that of QuantizedMatrix.
struct QuantizedBytes {
  Format format = Format::kNvfp4;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales;
  float factor = 1;  // of NVFP4, for all rows

  // Valid as long as the vectors are neither destroyed nor changed.
  QuantizedMatrix view() const;
};

// amax / (6 * 448) over the finite values of x, as ModelOpt takes it; 1 where that is zero (x is
// zero, empty or too small for fp32 to divide).
float nvfp4_factor(std::span<const float> x);

// Why a factor read from a file cannot be a multiplier of weights or activations, as the end of a
// sentence: "is not finite", "is not above 0", "is above 100 ..."; empty for one that can. Real
// ones are 1e-6 to 1e-2; a divisor taken for a multiplier is above 1e2.
std::string_view factor_fault(float factor);

// One row of weights or of activations, in blocks of 16; the last may be shorter.
//   scale = e4m3((amax of the block / 6) / factor)             saturates at 448
//   code  = e2m1(value / (scale * factor))                     saturates at 6
// - A scale that comes out as zero (zeros, or values below 2^-10 * 6 * factor) is stored as 1, as
//   ModelOpt stores that of a zero block; the codes are then zeros, with the values' signs.
// - A block that holds NaN or an infinity has the scale NaN and zeros as codes: it stays visible.
// x has an even number of values; codes takes x.size() / 2 bytes, scales ceil(x.size() / 16). The
// factor is finite and above 0: for activations the static input_scale, or nvfp4_factor(x).
void quantize_nvfp4_row(std::span<const float> x, float factor, std::uint8_t* codes,
                        std::uint8_t* scales);

// x is row-major [rows, columns], columns even. The factor is nvfp4_factor(x) unless given.
QuantizedBytes quantize_nvfp4(std::span<const float> x, std::int64_t rows, std::int64_t columns,
                              std::optional<float> factor = {});

// OCP MX 1.0, section 6.3, in blocks of 32; the last may be shorter:
//   scale = 2^(floor(log2(amax of the block)) - 2)             clamped to e8m0's 2^-127
//   code  = e2m1(value / scale)                                saturates at 6
// A zero block has the scale 2^-127; one with NaN or an infinity has the scale NaN and codes zero.
void quantize_mxfp4_row(std::span<const float> x, std::uint8_t* codes, std::uint8_t* scales);
QuantizedBytes quantize_mxfp4(std::span<const float> x, std::int64_t rows, std::int64_t columns);

// Two bytes a value, little-endian, to nearest even.
QuantizedBytes quantize_bf16(std::span<const float> x, std::int64_t rows, std::int64_t columns);

// Whether sizes, segments and format of a matrix fit together; the values are not looked at.
Result<> check_matrix(const QuantizedMatrix& matrix);

// [rows, columns] of (code * scale) * factor. The first product is exact in fp32 (save that MXFP4's
// largest overflow to infinity), the second rounds once. The matrix must pass check_matrix.
std::vector<float> dequantize(const QuantizedMatrix& matrix);

// The same values in NVFP4: codes unchanged, factor 2^(kmax - 8), each block's scale 2^k becomes
// 2^(k - kmax + 8) for both halves, kmax the largest k of a block that is not all zeros. Blocks of
// zeros get the scale 1. Refused, with the count, when blocks with k < kmax - 17 fall below e4m3's
// 2^-9; when a scale is NaN; and when the factor would be above what factor_fault accepts.
Result<QuantizedBytes> mxfp4_to_nvfp4(const QuantizedMatrix& matrix);

}  // namespace nibble
