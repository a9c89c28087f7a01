// A grouped product of the tests: both sides in FP4, and its result in double precision.
//
//   const GroupedCase what{.counts = {5, 0, 130}, .n = 40, .k = 96};
//   const GroupedFp4 product(what, 0x7f);
//   product.expected(row, column);   // double
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "capi/test_fp4.h"

namespace nibble::capi {

struct GroupedCase {
  std::vector<int> counts;  // rows of each expert
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool mxfp4 = false;
};

// Scales in 128x4, each expert's rows of a in tiles of their own, padding filled.
struct GroupedFp4 {
  GroupedCase what;
  Fp4Matrix a;
  std::vector<Fp4Matrix> b;
  std::vector<float> alpha;
  std::vector<std::int32_t> offsets = {0};
  std::vector<std::int32_t> sf_offsets;
  std::vector<std::uint8_t> a_scales;
  std::vector<std::uint8_t> b_codes;
  std::vector<std::uint8_t> b_scales;

  GroupedFp4(GroupedCase described, std::uint8_t padding) : what(std::move(described)) {
    Random random(11);
    for (const int count : what.counts) offsets.push_back(offsets.back() + count);
    a = random_fp4(random, {.rows = rows(), .columns = what.k, .mxfp4 = what.mxfp4});
    std::int32_t scale_row = 0;
    for (std::size_t expert = 0; expert < what.counts.size(); ++expert) {
      append(a_scales, swizzled_rows(a, offsets[expert], offsets[expert + 1], padding));
      sf_offsets.push_back(scale_row);
      scale_row += (what.counts[expert] + 127) / 128 * 128;
      b.push_back(random_fp4(random, {.rows = what.n, .columns = what.k, .mxfp4 = what.mxfp4}));
      append(b_codes, b.back().codes);
      append(b_scales, swizzled(b.back(), padding));
      alpha.push_back(0.5F + static_cast<float>(random.uniform()));
    }
  }

  std::int64_t rows() const { return offsets.back(); }
  std::size_t expert_of(std::int64_t row) const {
    std::size_t expert = 0;
    while (row >= offsets[expert + 1]) ++expert;
    return expert;
  }
  // Any other left side than a: x(row, column).
  template <class X>
  double product(const X& x, std::int64_t row, std::int64_t column) const {
    const std::size_t expert = expert_of(row);
    double sum = 0;
    for (std::int64_t at = 0; at < what.k; ++at) sum += x(row, at) * b[expert].value(column, at);
    return sum * static_cast<double>(alpha[expert]);
  }
  double expected(std::int64_t row, std::int64_t column) const {
    return product([this](std::int64_t r, std::int64_t c) { return a.value(r, c); }, row, column);
  }
  // The sum of all magnitudes: what rounding errors are relative to.
  double magnitude(std::int64_t row, std::int64_t column) const {
    const std::size_t expert = expert_of(row);
    double sum = 0;
    for (std::int64_t at = 0; at < what.k; ++at) {
      sum += std::abs(a.value(row, at) * b[expert].value(column, at));
    }
    return sum * static_cast<double>(alpha[expert]);
  }
};

}  // namespace nibble::capi
