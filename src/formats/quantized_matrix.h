// One canonical meaning for a weight matrix, whatever the checkpoint it came from: row-major codes
// and scales, scales that multiply, and one factor for each run of rows (gate and up of an expert
// keep their own).
//
//   value[r, c] = e2m1(code[r, c]) * scale[r, c / block] * factor(r)
//
// A view: who loaded or quantized the bytes owns them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "formats/format.h"

namespace nibble {

// Rows from `row_begin` to the next segment share one fp32 factor.
struct MatrixSegment {
  std::int64_t row_begin = 0;
  float factor = 1;
  friend bool operator==(const MatrixSegment&, const MatrixSegment&) = default;
};

struct QuantizedMatrix {
  Format format = Format::kNvfp4;  // kNvfp4, kMxfp4 or kBf16
  std::int64_t rows = 0;           // N, output features
  std::int64_t columns = 0;        // K, input features; even for the 4-bit formats
  // 4-bit formats: [rows, columns / 2], the low nibble is the even column. bf16: [rows, columns],
  // two bytes each, little-endian.
  std::span<const std::uint8_t> codes;
  // [rows, ceil(columns / block)]: e4m3 for NVFP4 (block 16), e8m0 for MXFP4 (block 32); empty for
  // bf16.
  std::span<const std::uint8_t> scales;
  std::vector<MatrixSegment> segments;  // ascending, the first at row 0; empty: factor 1
  std::optional<float> input_scale;     // static fp32 factor of NVFP4 activations, a multiplier
};

}  // namespace nibble
