// The left side of the CPU's GEMM: rows of any type as fp32 rows whose values the kernels hold.
//
//   NIBBLE_ASSIGN_OR_RETURN(const CpuRows rows, CpuRows::read(given));
//   gemm({.offsets = rows.offsets(), ...});             // a product of each part
//   NIBBLE_RETURN_IF_ERROR(rows.add_parts(output, n));  // [rows, n] in front
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "capi/elements.h"

namespace nibble::capi {

struct GivenRows {
  std::int32_t dtype = 0;  // nibble_dtype
  const void* a = nullptr;
  CodedRows coded;  // of NIBBLE_FP4
  std::int64_t columns = 0;
  std::span<const std::int32_t> offsets;     // [experts + 1], ascending from 0
  const std::int32_t* sf_offsets = nullptr;  // [experts] or null
};

// Codes have scales for 16 or 32 columns, and the kernels one unit for 64: a row of codes whose
// neighbouring scales lie too far apart becomes parts, each with one block in 64 and zeros
// elsewhere, which are exact. The sum of their products is the row's.
class CpuRows {
 public:
  // An input error for what is not finite, or outside of what the kernels hold (cpu_range.h).
  static Result<CpuRows> read(const GivenRows& given);

  std::span<const float> x() const { return x_; }  // [parts, columns]
  std::int64_t parts() const { return first_.back(); }
  std::span<const std::int32_t> offsets() const { return offsets_; }  // [experts + 1] in parts

  // output: [parts, n]; its first rows become the sums. A run error where a part is not finite, and
  // its sum might have been.
  Result<> add_parts(std::span<float> output, std::int64_t n) const;

 private:
  void append(std::span<const float> row, std::int64_t block);

  std::vector<float> x_;
  std::vector<std::int32_t> first_ = {0};  // [rows + 1]: each row's first part
  std::vector<std::int32_t> offsets_ = {0};
};

}  // namespace nibble::capi
