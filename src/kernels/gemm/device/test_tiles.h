// What the tests of prepacked weights on the host and on a GPU share: random canonical matrices,
// and the tiles read bit by bit as w4a16_layout.h describes them, without its functions.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <span>
#include <utility>
#include <vector>

#include "base/stats.h"
#include "formats/codec.h"
#include "formats/quantized_matrix.h"
#include "kernels/gemm/device/weight_codes.h"

namespace nibble {

struct TestMatrices {
  std::int64_t experts = 1;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  RowOrder order = RowOrder::kPlain;
  bool mxfp4 = false;
  std::vector<std::uint8_t> codes = {};
  std::vector<std::uint8_t> scales = {};
  std::vector<int> shifts = {};

  std::int64_t block() const { return mxfp4 ? 32 : 16; }
  std::int64_t blocks() const { return (columns + block() - 1) / block(); }
  // For code that runs on the host.
  Prepack params(std::vector<std::uint8_t>& tiles) {
    return {.codes = codes.data(),
            .scales = scales.data(),
            .tiles = tiles.data(),
            .shifts = shifts.data(),
            .rows = rows,
            .columns = columns,
            .experts = experts,
            .order = order,
            .mxfp4 = mxfp4};
  }
  // Of one expert, without factors.
  QuantizedMatrix view(std::int64_t expert) const {
    const auto code_bytes = static_cast<std::size_t>(rows * columns / 2);
    const auto scale_bytes = static_cast<std::size_t>(rows * blocks());
    const auto at = static_cast<std::size_t>(expert);
    QuantizedMatrix matrix{
        .format = mxfp4 ? Format::kMxfp4 : Format::kNvfp4, .rows = rows, .columns = columns};
    matrix.codes = std::span(codes).subspan(at * code_bytes, code_bytes);
    matrix.scales = std::span(scales).subspan(at * scale_bytes, scale_bytes);
    return matrix;
  }
  std::vector<QuantizedMatrix> views() const {
    std::vector<QuantizedMatrix> all;
    for (std::int64_t expert = 0; expert < experts; ++expert) all.push_back(view(expert));
    return all;
  }
  std::uint8_t scale_of(std::int64_t expert, std::int64_t row, std::int64_t column) const {
    const std::int64_t at = (expert * rows + row) * blocks() + column / block();
    return scales[static_cast<std::size_t>(at)];
  }
  double value(std::int64_t expert, std::int64_t row, std::int64_t column) const {
    const std::int64_t at = expert * rows + row;
    const std::uint8_t byte = codes[static_cast<std::size_t>((at * columns + column) / 2)];
    const int code = column % 2 == 0 ? byte & 15 : byte >> 4;
    const std::uint8_t scale = scale_of(expert, row, column);
    const double weight = static_cast<double>(e2m1_to_float(static_cast<std::uint8_t>(code)));
    if (mxfp4) return std::ldexp(weight, scale - 127);
    return weight * static_cast<double>(e4m3_to_float(scale));
  }
};

inline TestMatrices random_matrices(TestMatrices matrices, std::uint64_t seed) {
  Random random(seed);
  const std::int64_t all_rows = matrices.experts * matrices.rows;
  matrices.codes.resize(static_cast<std::size_t>(all_rows * matrices.columns / 2));
  matrices.scales.resize(static_cast<std::size_t>(all_rows * matrices.blocks()));
  for (std::uint8_t& byte : matrices.codes) byte = static_cast<std::uint8_t>(random.below(256));
  for (std::uint8_t& scale : matrices.scales) {
    // Neither NaN nor, for MXFP4, above the largest: 120 + expert.
    scale = static_cast<std::uint8_t>(random.below(matrices.mxfp4 ? 121 : 127));
    if (!matrices.mxfp4 && random.below(4) == 0) scale = static_cast<std::uint8_t>(scale + 128);
  }
  for (int expert = 0; expert < matrices.experts; ++expert) {
    matrices.shifts.push_back(134 - 120 - expert);
  }
  return matrices;
}

// ---- the layout, read as its description says
// -----------------------------------------------------

// Sign and the three other bits of weight (row, column) of a tile.
inline int tile_code(const std::uint8_t* tile, int row, int column) {
  const int lane = 32 * (row / 16) + 4 * (row % 8) + column / 16;
  const int j = column % 16 / 4;
  std::uint32_t word = 0;
  for (int byte = 3; byte >= 0; --byte) word = word << 8 | tile[lane * 16 + j * 4 + byte];
  const int half_of_output = column % 2;
  const bool lower_row = row % 16 >= 8;
  const int pair = (lower_row ? 1 : 0) + (column % 4 >= 2 ? 2 : 0);
  const int half = pair == 3 ? 1 - half_of_output : half_of_output;
  const std::uint32_t bits = word >> (16 * half) & 0xffffU;
  constexpr int kSign[] = {15, 12, 14, 13};
  constexpr int kLow[] = {6, 3, 0, 9};
  return static_cast<int>((bits >> kSign[pair] & 1U) * 8 + (bits >> kLow[pair] & 7U));
}

inline double tile_value(const std::uint8_t* tile, bool mxfp4, int shift, int row, int column) {
  const int warp = row / 16;
  const int g = row % 8;
  const int t = column / 16;
  const int half = row % 16 / 8;
  const double weight =
      static_cast<double>(e2m1_to_float(static_cast<std::uint8_t>(tile_code(tile, row, column))));
  if (mxfp4) {
    const int byte = tile[2048 + (16 * warp + 2 * g + t / 2) * 2 + half];
    return std::ldexp(weight, byte - shift - 127);
  }
  const int byte = tile[2048 + (32 * warp + 4 * g + t) * 2 + half];
  return weight * std::ldexp(1 + byte % 8 / 8.0, byte / 8 - 9);
}

// Row of the matrix in row r of block b, or -1.
inline std::int64_t matrix_row(const TestMatrices& matrices, std::int64_t block, int row) {
  const int w = row / 16;
  const int g = row % 8;
  const int half = row % 16 / 8;
  if (matrices.order == RowOrder::kPlain) {
    const std::int64_t found = 64 * block + 16 * w + 2 * g + half;
    return found < matrices.rows ? found : -1;
  }
  const std::int64_t i = 32 * block + 8 * w + g;
  if (i >= matrices.rows / 2) return -1;
  return half == 0 ? i : matrices.rows / 2 + i;
}

inline void expect_all_weights(const TestMatrices& matrices,
                               const std::vector<std::uint8_t>& tiles) {
  const std::int64_t step = matrices.order == RowOrder::kGateUp ? 128 : 64;
  const std::int64_t blocks = (matrices.rows + step - 1) / step * (step / 64);
  const std::int64_t chunks = (matrices.columns + 63) / 64;
  const std::int64_t bytes = matrices.mxfp4 ? 2176 : 2304;
  ASSERT_EQ(static_cast<std::int64_t>(tiles.size()), matrices.experts * blocks * chunks * bytes);
  for (std::int64_t place = 0; place < matrices.experts * blocks * chunks * 4096; ++place) {
    const std::int64_t tile = place / 4096;
    const std::int64_t expert = tile / (blocks * chunks);
    const std::int64_t block = tile / chunks % blocks;
    const int row = static_cast<int>(place / 64 % 64);
    const int in_chunk = static_cast<int>(place % 64);
    const std::int64_t column = tile % chunks * 64 + in_chunk;
    const std::int64_t source = matrix_row(matrices, block, row);
    const bool exists = source >= 0 && column < matrices.columns;
    double expected = exists ? matrices.value(expert, source, column) : 0;
    const int shift = matrices.shifts[static_cast<std::size_t>(expert)];
    if (matrices.mxfp4 && exists && matrices.scale_of(expert, source, column) + shift < 1) {
      expected = 0;  // 2^134 below the expert's largest
    }
    ASSERT_EQ(tile_value(tiles.data() + tile * bytes, matrices.mxfp4, shift, row, in_chunk),
              expected)
        << "expert " << expert << " row " << source << " column " << column;
  }
}

}  // namespace nibble
