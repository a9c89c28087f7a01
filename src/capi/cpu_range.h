// The numbers that the CPU's kernels hold. They multiply whole numbers in units of powers of two
// and turn to fp32 behind that: what is outside would become 0, infinite or inexact without a word,
// so that calls refuse it.
//
//   NIBBLE_RETURN_IF_ERROR(check_weights_held("b", views));                     // once
//   if (const auto found = beyond_range(x, k, kUnitColumns)) {                  // of each call
//     return input_error("{}", beyond_sentence("a[3, 7]", *found));
//   }
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "formats/quantized_matrix.h"

namespace nibble::capi {

// Activations have one unit for so many neighbours (kernels/gemm/gemm.h).
inline constexpr std::int64_t kUnitColumns = 64;

// Where the largest of these is 2^e, their unit is 2^(e - 14) at least; below 2^-100 the kernels
// take them for zeros (quantize_halves(), kSmallestExponent), since units and what is multiplied by
// them would leave fp32's normal numbers.
inline constexpr float kLeastHeld = 0x1p-100F;
// Weights are whole numbers too, in units of their row's factor: a code in halves is at most 12, a
// scale at most 15 * 2^10 (kernels/gemm/layout.h), their product below 2^17.5. Sums of 2^24 of
// these, the most columns, of two halves, end at 2^42.5 times the largest activation; fp32 at
// 2^128. cpu_range.cpp has it as an assertion.
inline constexpr float kMostHeld = 0x1p85F;
// A scale below its row's largest is held as a residual, a whole number times 2^(13 - spread) and
// the unit of the activations, 2^-114 at least: exact while that is 2^-149 or more.
inline constexpr int kMostSpread = 48;
// A static factor of NVFP4 activations: sums are multiples of 2^-14 (e4m3's least, 2^-9, in halves
// of codes, and a residual's 2^-4), and this times that is a normal fp32.
inline constexpr float kLeastInputScale = 0x1p-112F;

// What is not 0, not finite, or whose largest of `together` neighbours lies outside.
struct Beyond {
  std::int64_t row = 0;
  std::int64_t column = 0;
  float value = 0;
  std::int64_t together = 0;
};
// x: [rows, columns]. The first one.
std::optional<Beyond> beyond_range(std::span<const float> x, std::int64_t columns,
                                   std::int64_t together);
// "a[3, 7] is inf; ...".
std::string beyond_sentence(std::string_view where, const Beyond& beyond);

// The first that is not finite of [rows, columns], and an input error that names it.
std::optional<Beyond> not_finite(std::span<const float> x, std::int64_t columns);
Result<> check_finite(std::string_view name, std::span<const float> x, std::int64_t columns);

// That each row's factor and scales are held exactly. 4-bit matrices, one for each expert; `name`
// is what their codes are called.
Result<> check_weights_held(std::string_view name, std::span<const QuantizedMatrix> experts);
Result<> check_input_scales_held(std::string_view name, std::span<const QuantizedMatrix> experts);

// Whether the kernels hold every value of a row exactly, in the unit of its neighbours.
bool is_held_exactly(std::span<const float> row);

}  // namespace nibble::capi
