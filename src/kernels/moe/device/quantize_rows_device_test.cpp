// The kernel that quantizes rows, run on the host (test_simt.h), against formats/quantize.h.
#include "kernels/device/test_simt.h"
// Keep this line: device code comes after its stand-ins.
#include <cmath>
#include <span>
#include <vector>

#include "formats/quantize.h"
#include "formats/test_floats.h"
#include "kernels/moe/device/quantize_rows.cuh"
#include "kernels/moe/test_inputs.h"

namespace nibble {
namespace {

constexpr std::uint8_t kUntouched = 0xee;

// Blocks of every kind that the rules name, by turns, with ordinary ones between.
void spoil(std::vector<float>& x, const QuantizeShape& shape) {
  const auto size = static_cast<std::size_t>(shape.block());
  const auto columns = static_cast<std::size_t>(shape.columns);
  for (std::size_t begin = 0; begin < x.size(); begin += size) {
    const std::span<float> block(x.data() + begin, size);
    const std::size_t kind = begin / size % 11 + begin / columns % 3;
    for (std::size_t at = 0; at < block.size(); ++at) {
      if (kind == 1) block[at] = at % 2 == 0 ? 0.0F : -0.0F;
      if (kind == 3) block[at] *= 0x1p-16F;   // scales below e4m3's normal ones, or none
      if (kind == 5) block[at] *= 0x1p-126F;  // subnormal in bf16, zero in fp16
      if (kind == 7) block[at] *= 3000;
    }
    if (kind == 4) block[5] = kNan;
    if (kind == 6) block[15] = -kInf;
    if (kind == 8) block[0] = kInf;
    if (kind == 9) block[3] = -kNan;
  }
}

template <QuantizeShape kShape>
struct Case {
  using Narrow = Number<kShape.element>;
  static constexpr auto kColumns = static_cast<std::size_t>(kShape.columns);
  static constexpr bool kOwn = kShape.mode == QuantizeMode::kNvfp4Rows;

  std::int64_t rows;
  std::vector<std::uint16_t> bits;  // [rows, columns]
  std::vector<float> x;             // what they are
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales;
  std::vector<float> factors;
  float factor = 3.1e-4F;

  explicit Case(std::int64_t row_count, bool ordinary = false) : rows(row_count) {
    Random random(static_cast<std::uint64_t>(rows + kShape.columns));
    x = gaussian(random, rows * kShape.columns);
    if (!ordinary) spoil(x, kShape);
    for (float& value : x) {
      bits.push_back(Narrow::narrow(value));
      value = Narrow::widen(bits.back());
    }
    codes.assign(x.size() / 2, kUntouched);
    scales.assign(static_cast<std::size_t>(swizzled_bytes(rows, kShape.scales())), kUntouched);
    factors.assign(static_cast<std::size_t>(rows), -1.0F);
  }

  void run(const std::int32_t* count = nullptr, const std::int32_t* token_of = nullptr) {
    const QuantizeRows params{.x = bits.data(),
                              .codes = codes.data(),
                              .scales = scales.data(),
                              .factors = kOwn ? factors.data() : nullptr,
                              .count = count,
                              .token_of = token_of,
                              .factor = factor,
                              .rows = static_cast<std::int32_t>(rows)};
    simt::launch(static_cast<unsigned>(quantize_blocks(kShape, rows)), kQuantizeThreads,
                 [&] { quantize_rows<kShape>(params); });
  }

  std::span<const float> row(std::size_t index) const {
    return std::span(x).subspan(index * kColumns, kColumns);
  }

  // By formats/quantize.h; and how many of its scales the row has.
  void expect_row(std::size_t index) {
    std::vector<std::uint8_t> expected(kColumns / 2);
    std::vector<std::uint8_t> expected_scales(static_cast<std::size_t>(kShape.scales()));
    if (kShape.mode == QuantizeMode::kMxfp4) {
      quantize_mxfp4_row(row(index), expected.data(), expected_scales.data());
    } else {
      const float of_row = kOwn ? nvfp4_factor(row(index)) : factor;
      if (kOwn) {
        ASSERT_EQ(factors[index], of_row) << index;
      }
      quantize_nvfp4_row(row(index), of_row, expected.data(), expected_scales.data());
    }
    for (std::size_t at = 0; at < expected.size(); ++at) {
      ASSERT_EQ(codes[index * expected.size() + at], expected[at]) << index << " " << at;
    }
    for (std::size_t at = 0; at < expected_scales.size(); ++at) {
      const std::int64_t place = swizzled_offset(static_cast<std::int64_t>(index),
                                                 static_cast<std::int64_t>(at), kShape.scales());
      ASSERT_EQ(scales[static_cast<std::size_t>(place)], expected_scales[at]) << index << " " << at;
    }
  }

  // Nothing of a row is written.
  void expect_untouched(std::size_t index) {
    for (std::size_t at = 0; at < kColumns / 2; ++at) {
      ASSERT_EQ(codes[index * (kColumns / 2) + at], kUntouched) << index << " " << at;
    }
    for (std::int64_t at = 0; at < kShape.scales(); ++at) {
      const std::int64_t place =
          swizzled_offset(static_cast<std::int64_t>(index), at, kShape.scales());
      ASSERT_EQ(scales[static_cast<std::size_t>(place)], kUntouched) << index << " " << at;
    }
    EXPECT_EQ(factors[index], -1.0F) << index;
  }

  void expect_padding_untouched() {
    for (std::size_t place = 0; place < scales.size(); ++place) {
      const ScalePosition at = swizzled_position(static_cast<std::int64_t>(place), kShape.scales());
      if (at.row < rows && at.column < kShape.scales()) continue;
      ASSERT_EQ(scales[place], kUntouched) << place;
    }
  }
};

template <QuantizeShape kShape>
void check_quantize_rows(std::int64_t rows, float factor = 3.1e-4F) {
  for (const bool ordinary : {false, true}) {
    SCOPED_TRACE(ordinary ? "ordinary" : "spoiled");
    Case<kShape> some(rows, ordinary);
    some.factor = factor;
    some.run();
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) some.expect_row(row);
    some.expect_padding_untouched();
  }
}

TEST(DeviceQuantize, AFactorOfAllRows) {
  constexpr auto kMode = QuantizeMode::kNvfp4;
  check_quantize_rows<QuantizeShape{Element::kBf16, kMode, 80}>(133);
  check_quantize_rows<QuantizeShape{Element::kFp16, kMode, 176}>(3);
  check_quantize_rows<QuantizeShape{Element::kBf16, kMode, 16}>(300);
  // Scales that saturate, and some that come out as zero.
  check_quantize_rows<QuantizeShape{Element::kBf16, kMode, 352}>(7, 1e-7F);
  check_quantize_rows<QuantizeShape{Element::kFp16, kMode, 352}>(7, 50.0F);
  // scale x factor is subnormal, or nothing.
  check_quantize_rows<QuantizeShape{Element::kBf16, kMode, 352}>(7, 1e-43F);
}

TEST(DeviceQuantize, AFactorOfEachRow) {
  constexpr auto kMode = QuantizeMode::kNvfp4Rows;
  check_quantize_rows<QuantizeShape{Element::kBf16, kMode, 80}>(130);
  check_quantize_rows<QuantizeShape{Element::kFp16, kMode, 1024}>(9);
  check_quantize_rows<QuantizeShape{Element::kBf16, kMode, 1040}>(3);  // a block's
  check_quantize_rows<QuantizeShape{Element::kFp16, kMode, 2880}>(5);
  check_quantize_rows<QuantizeShape{Element::kBf16, kMode, 6144}>(2);
}

TEST(DeviceQuantize, Mxfp4) {
  constexpr auto kMode = QuantizeMode::kMxfp4;
  check_quantize_rows<QuantizeShape{Element::kBf16, kMode, 96}>(131);
  check_quantize_rows<QuantizeShape{Element::kFp16, kMode, 2880}>(4);
  check_quantize_rows<QuantizeShape{Element::kBf16, kMode, 32}>(1);
}

// A row without a number that is finite, and one of zeros, have the factor 1.
TEST(DeviceQuantize, RowsWithoutAFactor) {
  constexpr QuantizeShape kShape{Element::kBf16, QuantizeMode::kNvfp4Rows, 48};
  Case<kShape> some(3);
  for (std::size_t at = 0; at < kShape.columns; ++at) {
    some.bits[at] = at % 2 == 0 ? 0x7fc1 : 0xff80;
    some.x[at] = at % 2 == 0 ? kNan : -kInf;
    some.bits[2 * kShape.columns + at] = 0x8000;
    some.x[2 * kShape.columns + at] = -0.0F;
  }
  some.run();
  for (std::size_t row = 0; row < 3; ++row) some.expect_row(row);
  EXPECT_EQ(some.factors[0], 1.0F);
  EXPECT_EQ(some.factors[2], 1.0F);
  EXPECT_EQ(some.scales[0], 0x7f);  // NaN
  EXPECT_EQ(some.codes[0], 0);
  EXPECT_EQ(some.scales[static_cast<std::size_t>(swizzled_offset(2, 0, 3))], 0x38);  // 1
  EXPECT_EQ(some.codes[2 * kShape.columns / 2], 0x88);                               // two of -0
}

template <QuantizeShape kShape>
void check_rows_that_are_there() {
  constexpr std::int32_t kRows = 40;
  constexpr std::int32_t kThere = 29;
  std::vector<std::int32_t> token_of;
  for (std::int32_t row = 0; row < kRows; ++row) token_of.push_back(row % 8 < 3 ? row : -1);
  Case<kShape> some(kRows);
  some.run(&kThere, token_of.data());
  for (std::size_t row = 0; row < kRows; ++row) {
    const bool there = row < kThere && row % 8 < 3;
    there ? some.expect_row(row) : some.expect_untouched(row);
  }
  Case<kShape> none(kRows);
  const std::int32_t zero = 0;
  none.run(&zero);
  for (std::size_t row = 0; row < kRows; ++row) none.expect_untouched(row);
}

TEST(DeviceQuantize, OnlyRowsThatAreThere) {
  check_rows_that_are_there<QuantizeShape{Element::kBf16, QuantizeMode::kNvfp4, 80}>();
  check_rows_that_are_there<QuantizeShape{Element::kBf16, QuantizeMode::kNvfp4Rows, 80}>();
  check_rows_that_are_there<QuantizeShape{Element::kBf16, QuantizeMode::kNvfp4Rows, 1040}>();
  check_rows_that_are_there<QuantizeShape{Element::kFp16, QuantizeMode::kMxfp4, 64}>();
}

TEST(DeviceQuantize, BlocksOfThreads) {
  using enum QuantizeMode;
  EXPECT_EQ(quantize_blocks({Element::kBf16, kNvfp4, 6144}, 2), 3);      // 2 x 384 / 256
  EXPECT_EQ(quantize_blocks({Element::kBf16, kMxfp4, 6144}, 2), 2);      // 2 x 192 / 256
  EXPECT_EQ(quantize_blocks({Element::kBf16, kNvfp4Rows, 6144}, 5), 5);  // a block a row
  EXPECT_EQ(quantize_blocks({Element::kBf16, kNvfp4Rows, 256}, 17), 3);  // 8 warps
  EXPECT_EQ(quantize_blocks({Element::kBf16, kNvfp4, 256}, 0), 0);
  EXPECT_EQ(quantize_blocks({Element::kBf16, kNvfp4, 6144}, 1 << 24), 25'165'824);
}

}  // namespace
}  // namespace nibble
