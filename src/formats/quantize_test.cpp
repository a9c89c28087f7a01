#include "formats/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "formats/codec.h"
#include "formats/test_floats.h"

namespace nibble {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::vector<std::uint32_t> numbers(const std::string& text, std::size_t digits) {
  std::vector<std::uint32_t> values;
  for (std::size_t at = 0; at < text.size(); at += digits) {
    values.push_back(static_cast<std::uint32_t>(std::stoul(text.substr(at, digits), nullptr, 16)));
  }
  return values;
}

Bytes to_bytes(const std::vector<std::uint32_t>& values) {
  return {values.begin(), values.end()};
}

// NaN as 0, as the golden file has it.
std::uint32_t bits_of(float value) {
  return std::isnan(value) ? 0 : std::bit_cast<std::uint32_t>(value);
}

TEST(Quantize, SameBitsAsTheOracle) {
  std::ifstream file(NIBBLE_SOURCE_DIR "/tests/golden/formats/quantize.txt");
  file >> std::hex;
  std::string name;
  std::string format;
  std::string lines[4];
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::uint32_t given = 0;
  std::uint32_t used = 0;
  int matrices = 0;
  while (file >> name >> format >> rows >> columns >> given >> used >> lines[0] >> lines[1] >>
         lines[2] >> lines[3]) {
    SCOPED_TRACE(name + " " + format);
    std::vector<float> x;
    for (const std::uint32_t bits : numbers(lines[0], 8)) x.push_back(std::bit_cast<float>(bits));
    std::optional<float> factor;
    if (given != 0) factor = std::bit_cast<float>(given);
    const QuantizedBytes bytes = format == "nvfp4" ? quantize_nvfp4(x, rows, columns, factor)
                                                   : quantize_mxfp4(x, rows, columns);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(bytes.factor), used);
    EXPECT_EQ(bytes.codes, to_bytes(numbers(lines[1], 2)));
    EXPECT_EQ(bytes.scales, to_bytes(numbers(lines[2], 2)));
    EXPECT_TRUE(check_matrix(bytes.view()).ok());
    std::vector<std::uint32_t> values;
    for (const float value : dequantize(bytes.view())) values.push_back(bits_of(value));
    EXPECT_EQ(values, numbers(lines[3], 8));
    ++matrices;
  }
  EXPECT_TRUE(file.eof());
  EXPECT_EQ(matrices, 12 * 2 + 5);
}

TEST(QuantizeNvfp4, ByHand) {
  // amax 12: the factor is 12 / 2688 = 1/224, the first block's scale 12 / 6 * 224 = 448, so that
  // one step is 2. The second block's amax is 3: scale 3 / 6 * 224 = 112, step 1/2.
  std::vector<float> x(32);
  x[0] = 12;
  x[1] = -1;  // half a step: code 1 and the sign
  x[2] = 5;   // 2.5 steps: a tie, to 2
  x[16] = 3;
  x[31] = -0.75F;  // 1.5 steps
  const QuantizedBytes bytes = quantize_nvfp4(x, 1, 32);
  EXPECT_EQ(bytes.factor, 12.0F / 2688.0F);
  Bytes codes(16);
  codes[0] = 0x97;
  codes[1] = 0x04;
  codes[8] = 0x07;
  codes[15] = 0xb0;
  EXPECT_EQ(bytes.codes, codes);
  EXPECT_EQ(bytes.scales, (Bytes{0x7e, 0x6e}));  // 448; 112 = 1.75 * 2^6: exponent 13, mantissa 6
  const QuantizedMatrix matrix = bytes.view();
  EXPECT_EQ(matrix.segments, (std::vector<MatrixSegment>{{0, bytes.factor}}));
  EXPECT_FALSE(matrix.input_scale);
}

TEST(QuantizeNvfp4, ZeroBlocksHaveTheScaleOne) {
  const QuantizedBytes bytes = quantize_nvfp4(std::vector<float>(32), 2, 16);
  EXPECT_EQ(bytes.factor, 1.0F);
  EXPECT_EQ(bytes.scales, (Bytes{0x38, 0x38}));
  EXPECT_EQ(bytes.codes, Bytes(16));
}

TEST(QuantizeNvfp4, ScaleThatVanishesBecomesOne) {
  // 6 * 2^-10 is a tie between the scales 0 and 2^-9 and goes to 0; a little more keeps 2^-9.
  std::vector<float> x(16, 6 * 0x1p-10F);
  EXPECT_EQ(quantize_nvfp4(x, 1, 16, 1.0F).scales, Bytes{0x38});
  EXPECT_EQ(quantize_nvfp4(x, 1, 16, 1.0F).codes, Bytes(8));
  x[3] = 6.1F * 0x1p-10F;
  EXPECT_EQ(quantize_nvfp4(x, 1, 16, 1.0F).scales, Bytes{0x01});
}

TEST(QuantizeNvfp4, BrokenValuesStayVisible) {
  for (const float broken : {kNan, kInf, -kInf}) {
    std::vector<float> x(48, 1.0F);
    x[20] = broken;
    const QuantizedBytes bytes = quantize_nvfp4(x, 1, 48);
    EXPECT_EQ(bytes.factor, 1.0F / 2688.0F);
    EXPECT_EQ(bytes.scales, (Bytes{0x7e, 0x7f, 0x7e}));
    const std::vector<float> values = dequantize(bytes.view());
    for (std::size_t column = 0; column < 48; ++column) {
      EXPECT_EQ(std::isnan(values[column]), column >= 16 && column < 32) << column;
    }
  }
}

TEST(QuantizeNvfp4, ARowOfActivationsIsARowOfWeights) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> x(3 * 40);
  for (float& value : x) value = normal(random);
  const QuantizedBytes whole = quantize_nvfp4(x, 3, 40, 0.002F);
  for (std::size_t row = 0; row < 3; ++row) {
    Bytes codes(20);
    Bytes scales(3);
    quantize_nvfp4_row(std::span(x).subspan(row * 40, 40), 0.002F, codes.data(), scales.data());
    EXPECT_TRUE(std::ranges::equal(codes, std::span(whole.codes).subspan(row * 20, 20)));
    EXPECT_TRUE(std::ranges::equal(scales, std::span(whole.scales).subspan(row * 3, 3)));
  }
}

TEST(QuantizeMxfp4, ByHand) {
  // amax 7: floor(log2 7) - 2 = 0, scale 1 (code 127), and 7 saturates at 6, as OCP MX has it.
  std::vector<float> x(34);
  x[0] = 7;
  x[1] = -5;   // a tie, to 4
  x[32] = 32;  // the second block: 2^(5 - 2) = 8, code of 4
  const QuantizedBytes bytes = quantize_mxfp4(x, 1, 34);
  EXPECT_EQ(bytes.scales, (Bytes{127, 130}));
  EXPECT_EQ(bytes.codes[0], 0xe7);
  EXPECT_EQ(bytes.codes[16], 0x06);
  EXPECT_TRUE(bytes.view().segments.empty());
}

TEST(QuantizeBf16, LittleEndian) {
  const QuantizedBytes bytes = quantize_bf16(std::vector<float>{1, -2, 0.5F}, 1, 3);
  EXPECT_EQ(bytes.codes, (Bytes{0x80, 0x3f, 0x00, 0xc0, 0x00, 0x3f}));
  EXPECT_TRUE(bytes.scales.empty());
  EXPECT_EQ(dequantize(bytes.view()), (std::vector<float>{1, -2, 0.5F}));
}

TEST(Quantize, NothingIsNothing) {
  for (const auto& [rows, columns] : {std::pair{0, 16}, {3, 0}, {0, 0}}) {
    for (const QuantizedBytes& bytes :
         {quantize_nvfp4({}, rows, columns), quantize_mxfp4({}, rows, columns),
          quantize_bf16({}, rows, columns)}) {
      EXPECT_TRUE(bytes.codes.empty());
      EXPECT_TRUE(check_matrix(bytes.view()).ok());
      EXPECT_TRUE(dequantize(bytes.view()).empty());
    }
  }
}

TEST(FactorFault, WhatCannotBeAMultiplier) {
  for (const float good : {1e-12F, 4e-5F, 1.0F, 100.0F}) EXPECT_EQ(factor_fault(good), "") << good;
  EXPECT_EQ(factor_fault(kNan), "is not finite");
  EXPECT_EQ(factor_fault(kInf), "is not finite");
  EXPECT_EQ(factor_fault(0), "is not above 0");
  EXPECT_EQ(factor_fault(-1), "is not above 0");
  EXPECT_NE(factor_fault(100.1F), "");
  EXPECT_NE(factor_fault(1.0F / 4e-5F), "");  // the reciprocal of a usual one
}

// ---- matrices that others made ------------------------------------------------------------------

TEST(Dequantize, EverySegmentHasItsOwnFactor) {
  QuantizedBytes bytes = quantize_nvfp4(std::vector<float>(3 * 2, 1.0F), 3, 2, 1.0F / 448);
  QuantizedMatrix matrix = bytes.view();
  const float unit = dequantize(matrix)[0] * 448;  // a code times its scale
  matrix.segments = {{0, 0.5F}, {1, 2.0F}};
  EXPECT_EQ(dequantize(matrix),
            (std::vector<float>{unit / 2, unit / 2, unit * 2, unit * 2, unit * 2, unit * 2}));
  matrix.segments.clear();
  EXPECT_EQ(dequantize(matrix), std::vector<float>(6, unit));
}

TEST(Dequantize, ExtremesOfMxfp4) {
  const Bytes codes = {0x71};  // .5 and 6
  Bytes scales = {0};
  QuantizedMatrix matrix{
      .format = Format::kMxfp4, .rows = 1, .columns = 2, .codes = codes, .scales = scales};
  EXPECT_EQ(dequantize(matrix), (std::vector<float>{0x1p-128F, 6 * 0x1p-127F}));
  scales[0] = 254;
  EXPECT_EQ(dequantize(matrix), (std::vector<float>{0x1p126F, kInf}));
}

TEST(CheckMatrix, RefusesWhatDoesNotFit) {
  const Bytes codes(8);
  const Bytes scales(1);
  const QuantizedMatrix good{.rows = 1, .columns = 16, .codes = codes, .scales = scales};
  EXPECT_TRUE(check_matrix(good).ok());
  const auto refuses = [&](auto change, const std::string& words) {
    QuantizedMatrix matrix = good;
    change(matrix);
    const Result<> checked = check_matrix(matrix);
    ASSERT_FALSE(checked.ok()) << words;
    EXPECT_NE(checked.error().message.find(words), std::string::npos) << checked.error().message;
  };
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  refuses([](QuantizedMatrix& m) { m.rows = -1; }, "-1 rows");
  refuses([](QuantizedMatrix& m) { m.columns = -2; }, "-2 columns");
  refuses([](QuantizedMatrix& m) { m.columns = kHuge; }, "columns");
  refuses([](QuantizedMatrix& m) { m.rows = kHuge; }, "8 bytes of codes");
  refuses([](QuantizedMatrix& m) { m.columns = 15; }, "is even");
  refuses([](QuantizedMatrix& m) { m.columns = 18; }, "a row takes 9 and 2");
  refuses([](QuantizedMatrix& m) { m.scales = {}; }, "0 scales");
  refuses([](QuantizedMatrix& m) { m.format = Format::kInt8; }, "int8");
  refuses([](QuantizedMatrix& m) { m.format = Format::kBf16; }, "bf16");
  refuses([](QuantizedMatrix& m) { m.segments = {{1, 1.0F}}; }, "begins at row 1");
  refuses([](QuantizedMatrix& m) { m.segments = {{0, 1.0F}, {0, 1.0F}}; }, "segment 1");
  refuses([](QuantizedMatrix& m) { m.segments = {{0, 1.0F}, {1, 1.0F}}; }, "begins at row 1");
}

// ---- MXFP4 to NVFP4 -----------------------------------------------------------------------------

// Random codes (both zeros among them) with the given scales, one a block of 32.
struct Mxfp4 {
  Bytes codes;
  Bytes scales;
  std::int64_t columns;

  Mxfp4(Bytes with, std::int64_t column_count) : scales(std::move(with)), columns(column_count) {
    std::mt19937 random(11);
    codes.resize(static_cast<std::size_t>(rows() * columns / 2));
    for (std::uint8_t& byte : codes) byte = static_cast<std::uint8_t>(random() & 0xffU);
  }
  std::int64_t rows() const { return std::ssize(scales) / ((columns + 31) / 32); }
  QuantizedMatrix view() const {
    return {.format = Format::kMxfp4,
            .rows = rows(),
            .columns = columns,
            .codes = codes,
            .scales = scales};
  }
};

void expect_same_values(const QuantizedMatrix& before, const QuantizedMatrix& after) {
  std::vector<std::uint32_t> bits[2];
  for (const float value : dequantize(before))
    bits[0].push_back(std::bit_cast<std::uint32_t>(value));
  for (const float value : dequantize(after))
    bits[1].push_back(std::bit_cast<std::uint32_t>(value));
  EXPECT_EQ(bits[0], bits[1]);
}

TEST(Mxfp4ToNvfp4, KeepsEveryValue) {
  // 18 powers of two fit into e4m3, from 2^8 down to 2^-9; rows with whole and partial blocks. At
  // 127 - 127 + 14 the factor is 2^6, the largest that is accepted.
  for (const int largest : {17, 60, 120, 127, 141}) {
    for (const std::int64_t columns : {64, 48, 34}) {
      Bytes scales;
      for (int down = 0; down < 18; ++down)
        scales.push_back(static_cast<std::uint8_t>(largest - down));
      const Mxfp4 before(scales, columns);
      const Result<QuantizedBytes> after = mxfp4_to_nvfp4(before.view());
      ASSERT_TRUE(after.ok()) << after.error().message;
      EXPECT_EQ(after->factor, std::ldexp(1.0F, largest - 127 - 8));
      EXPECT_EQ(after->codes, before.codes);
      EXPECT_EQ(after->scales[0], float_to_e4m3(256));
      EXPECT_TRUE(check_matrix(after->view()).ok());
      expect_same_values(before.view(), after->view());
    }
  }
}

TEST(Mxfp4ToNvfp4, CountsBlocksThatFallOut) {
  const Mxfp4 before({120, 103, 102, 101, 120, 80}, 64);  // 18, 19 and 40 powers down do not fit
  const Result<QuantizedBytes> after = mxfp4_to_nvfp4(before.view());
  ASSERT_FALSE(after.ok());
  EXPECT_EQ(after.error().kind, ErrorKind::kInput);
  EXPECT_EQ(after.error().message.find("3 of 6 blocks"), 0U) << after.error().message;
}

TEST(Mxfp4ToNvfp4, BlocksOfZerosDoNotCount) {
  Mxfp4 before({120, 0, 254, 119}, 64);
  std::fill_n(before.codes.begin() + 16, 32, std::uint8_t{0x80});  // zeros of both signs
  const Result<QuantizedBytes> after = mxfp4_to_nvfp4(before.view());
  ASSERT_TRUE(after.ok()) << after.error().message;
  EXPECT_EQ(after->scales, (Bytes{0x78, 0x78, 0x38, 0x38, 0x38, 0x38, 0x70, 0x70}));
  expect_same_values(before.view(), after->view());

  std::ranges::fill(before.codes, std::uint8_t{0});
  const Result<QuantizedBytes> zero = mxfp4_to_nvfp4(before.view());
  ASSERT_TRUE(zero.ok());
  EXPECT_EQ(zero->factor, 1.0F);
  expect_same_values(before.view(), zero->view());
}

TEST(Mxfp4ToNvfp4, AShortBlockEndsWithItsRow) {
  // Columns 32 and 33 of the first row are zeros; the next row's values are not theirs.
  Mxfp4 before({120, 0, 120, 119}, 34);
  before.codes[16] = 0x08;
  before.codes[17] = 0x77;
  const Result<QuantizedBytes> after = mxfp4_to_nvfp4(before.view());
  ASSERT_TRUE(after.ok()) << after.error().message;
  EXPECT_EQ(after->scales, (Bytes{0x78, 0x78, 0x38, 0x78, 0x78, 0x70}));
  expect_same_values(before.view(), after->view());
}

TEST(Mxfp4ToNvfp4, NothingIsNothing) {
  // Rows of no columns are as empty however many they are.
  for (const std::int64_t rows : {std::int64_t{0}, std::numeric_limits<std::int64_t>::max()}) {
    const Result<QuantizedBytes> after = mxfp4_to_nvfp4({.format = Format::kMxfp4, .rows = rows});
    ASSERT_TRUE(after.ok());
    EXPECT_EQ(after->rows, rows);
    EXPECT_TRUE(after->codes.empty() && after->scales.empty());
    EXPECT_TRUE(dequantize(after->view()).empty());
  }
}

TEST(Mxfp4ToNvfp4, RefusesWithASentence) {
  const auto refuses = [](const QuantizedMatrix& matrix, const std::string& words) {
    const Result<QuantizedBytes> after = mxfp4_to_nvfp4(matrix);
    ASSERT_FALSE(after.ok()) << words;
    EXPECT_NE(after.error().message.find(words), std::string::npos) << after.error().message;
  };
  refuses(Mxfp4({255, 120}, 64).view(), "1 of 2 blocks have the scale NaN");
  refuses(Mxfp4({142}, 32).view(), "above 100");
  refuses(Mxfp4({254}, 32).view(), "above 100");
  const Mxfp4 good({120}, 32);
  QuantizedMatrix matrix = good.view();
  matrix.segments = {{0, 2.0F}};
  refuses(matrix, "has a factor, 2");
  matrix = good.view();
  matrix.format = Format::kNvfp4;
  matrix.columns = 16;
  matrix.codes = matrix.codes.first(8);
  refuses(matrix, "only mxfp4");
  matrix.columns = 17;
  refuses(matrix, "even");
}

}  // namespace
}  // namespace nibble
