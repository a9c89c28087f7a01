// A checkpoint's tensors as the C API is given them -> canonical matrices of the host.
//
//   const GivenMatrices w2{.names = {"w2", "w2_scale", "w2_factor"}, .format = Format::kNvfp4,
//   .experts = 256, .rows = 6144,
//                          .columns = 2048, .codes = given.w2, .scales = given.w2_scale};
//   NIBBLE_ASSIGN_OR_RETURN(const HostMatrices down, HostMatrices::read(w2, device));
//   MoeWeights{.gate_up = ..., .down = down.views()};
#pragma once

#include <cstdint>
#include <nibble/nibble.h>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cuda/driver.h"
#include "formats/quantized_matrix.h"

namespace nibble::capi {

// As the caller's struct calls them.
struct GivenNames {
  std::string_view codes;
  std::string_view scales;
  std::string_view factors;
};

struct GivenMatrices {
  GivenNames names;
  Format format = Format::kNvfp4;
  std::int64_t experts = 1;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int32_t scale_layout = NIBBLE_SCALES_ROW_MAJOR;
  bool gated = false;  // the rows are gate and up rows, in `row_order`; a factor for each of both
  std::int32_t row_order = NIBBLE_GATE_UP;
  const void* codes = nullptr;     // [experts, rows, columns / 2]
  const void* scales = nullptr;    // [experts] matrices
  const float* factors = nullptr;  // [experts], gated: [experts, 2]; null: 1
};

// The driver where the tensors are in memory of a GPU, whose context is then current; null where
// they are the host's.
using Source = const cuda::Driver*;

// Gate rows first, then up rows; scales row-major. Copies.
class HostMatrices {
 public:
  static Result<HostMatrices> read(const GivenMatrices& given, Source source);
  HostMatrices() = default;  // of nothing
  HostMatrices(HostMatrices&&) = default;
  HostMatrices& operator=(HostMatrices&&) = default;

  // float [experts]: the static factor of the activations that each matrix meets.
  Result<> set_input_scales(std::string_view name, const float* from, Source source);

  std::span<const QuantizedMatrix> views() const { return views_; }

 private:
  std::vector<std::uint8_t> codes_;
  std::vector<std::uint8_t> scales_;
  std::vector<QuantizedMatrix> views_;  // of the two above
};

// Where row `row` of a matrix of gate rows, then up rows, stands in another order.
std::int64_t source_row(std::int32_t row_order, std::int64_t row, std::int64_t rows);

// [experts, rows] floats, in the same order; nothing for a null pointer.
Result<std::vector<float>> read_bias(std::string_view name, const float* from, std::int64_t experts,
                                     std::int64_t rows, std::int32_t row_order, Source source);

}  // namespace nibble::capi
