// The range of the CPU's kernels: within it results are right to its ends, and outside of it calls
// refuse.
#include "capi/cpu_range.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

#include "capi/test_gemm.h"

namespace nibble::capi {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One row of weights in a format; each code is 1 where nothing else is said.
struct OneRow {
  std::int32_t format = NIBBLE_NVFP4;
  std::vector<std::uint8_t> scales;
  float alpha = 1;
  std::int64_t blocks_of_zeros = 0;  // the first ones: codes 0 and -0

  std::int64_t block() const { return format == NIBBLE_MXFP4 ? 32 : 16; }
  std::int64_t k() const { return static_cast<std::int64_t>(scales.size()) * block(); }
};

class CpuRange : public testing::Test {
 protected:
  void SetUp() override { ASSERT_CALL_OK(nibble_cpu_open(1, &device_)); }
  void TearDown() override {
    nibble_cpu_gemm_destroy(gemm_);
    nibble_device_close(device_);
  }

  // The refusal, or "".
  std::string make(const OneRow& row) {
    nibble_cpu_gemm_destroy(gemm_);
    gemm_ = nullptr;
    constexpr std::uint8_t kOnes = 0x22;
    constexpr std::uint8_t kZeros = 0x80;  // 0 and -0
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(row.k() / 2), kOnes);
    std::fill_n(codes.begin(), row.blocks_of_zeros * row.block() / 2, kZeros);
    auto desc = sized<nibble_fp4_gemm_desc>();
    desc.format = row.format;
    desc.out_dtype = NIBBLE_FP32;
    desc.n = 1;
    desc.k = row.k();
    auto weights = sized<nibble_cpu_gemm_weights>();
    weights.b = codes.data();
    weights.block_scale_b = row.scales.data();
    weights.alpha = &row.alpha;
    const nibble_status status = nibble_cpu_gemm_create(device_, &desc, &weights, &gemm_);
    return status == NIBBLE_OK ? "" : nibble_last_error();
  }
  std::string run(const std::vector<float>& x, float& out) {
    auto args = sized<nibble_cpu_gemm_args>();
    args.a_dtype = NIBBLE_FP32;
    args.rows = 1;
    args.a = x.data();
    args.out = &out;
    const nibble_status status = nibble_cpu_gemm_run(gemm_, &args);
    return status == NIBBLE_OK ? "" : nibble_last_error();
  }
  // One value in front of zeros; 0 of the first block are passed over.
  void expect_product(std::int64_t column, std::int64_t k, float value, float expected) {
    std::vector<float> x(static_cast<std::size_t>(k));
    x[static_cast<std::size_t>(column)] = value;
    float out = NAN;
    ASSERT_EQ(run(x, out), "") << value;
    EXPECT_EQ(out, expected) << value;
  }

  nibble_device* device_ = nullptr;
  nibble_cpu_gemm* gemm_ = nullptr;
};

constexpr std::uint8_t kScaleOne = 0x38;

TEST_F(CpuRange, ActivationsAreRightToBothEnds) {
  ASSERT_EQ(make({.scales = std::vector<std::uint8_t>(4, kScaleOne)}), "");
  for (const float value : {kLeastHeld, -kLeastHeld, 1.0F, kMostHeld, -kMostHeld}) {
    expect_product(5, 64, value, value);
    float out = NAN;
    ASSERT_EQ(run(std::vector<float>(64, value), out), "");
    EXPECT_EQ(out, 64 * value);
  }
  // Of the largest weights too: 64 x 6 x 448 x 2^85, in units of 2^-6.
  std::vector<std::uint8_t> codes(32, 0x77);
  const std::vector<std::uint8_t> scales(4, 0x7e);
  float out = NAN;
  ASSERT_EQ(make({.scales = scales}), "");
  ASSERT_EQ(run(std::vector<float>(64, kMostHeld), out), "");
  EXPECT_EQ(out, 64 * 448 * kMostHeld);
  // A value far below its neighbours is 0, as it may be; they are what counts.
  std::vector<float> x(64, 0x1p-140F);
  x[3] = 1;
  ASSERT_EQ(run(x, out), "");
  EXPECT_EQ(out, 448);
}

TEST_F(CpuRange, ActivationsOutsideAreRefused) {
  ASSERT_EQ(make({.scales = std::vector<std::uint8_t>(8, kScaleOne)}), "");
  const auto refusal = [&](std::size_t column, float value) {
    std::vector<float> x(128);
    x[column] = value;
    float out = NAN;
    const std::string sentence = run(x, out);
    EXPECT_TRUE(std::isnan(out)) << "written, and refused";
    return sentence;
  };
  EXPECT_EQ(refusal(70, 0x1p108F),
            "a[0, 70] is 3.2451855e+32; the CPU takes magnitudes to 2^85 (3.8685626e+25)");
  EXPECT_NE(refusal(1, std::nextafter(-kMostHeld, -kInfinity)).find("magnitudes to 2^85"),
            std::string::npos);
  EXPECT_EQ(refusal(2, kInfinity), "a[0, 2] is inf; the CPU multiplies finite numbers");
  EXPECT_EQ(refusal(127, NAN), "a[0, 127] is nan; the CPU multiplies finite numbers");
  EXPECT_EQ(refusal(64, 0x1p-105F),
            "a[0, 64] is 2.4651903e-32, the largest of its 64 neighbours; the CPU takes zeros "
            "there, or a largest of 2^-100 (7.888609e-31) or more");
  EXPECT_NE(refusal(0, std::nextafter(kLeastHeld, 0.0F)).find("or a largest of 2^-100"),
            std::string::npos);
  EXPECT_NE(refusal(0, 0x1p-149F).find("or a largest of 2^-100"), std::string::npos);
}

// Of codes: NaN and what e8m0 may say beyond the range.
TEST_F(CpuRange, CodesOutsideAreRefused) {
  ASSERT_EQ(make({.format = NIBBLE_MXFP4, .scales = {127, 127}}), "");
  const std::vector<std::uint8_t> codes(32, 0x22);
  float out = NAN;
  const auto status = [&](std::uint8_t scale) {
    std::vector<std::uint8_t> scales(512);
    scales[0] = scale;
    scales[1] = 127;
    auto args = sized<nibble_cpu_gemm_args>();
    args.a_dtype = NIBBLE_FP4;
    args.rows = 1;
    args.a = codes.data();
    args.block_scale_a = scales.data();
    args.out = &out;
    return nibble_cpu_gemm_run(gemm_, &args);
  };
  EXPECT_CALL_OK(status(127 - 100));
  EXPECT_EQ(out, 32);
  EXPECT_CALL_OK(status(127 + 85));
  EXPECT_EQ(out, 32 * kMostHeld);
  for (const int scale : {0, 127 - 101, 127 + 86, 254, 255}) {
    EXPECT_EQ(status(static_cast<std::uint8_t>(scale)), NIBBLE_INVALID_ARGUMENT) << scale;
  }
  EXPECT_STREQ(nibble_last_error(), "a[0, 0] is nan; the CPU multiplies finite numbers");
}

// By hand: in units of a row's largest scale 2^s, a factor is alpha * 2^(s - 3 - 10 - 1).
TEST_F(CpuRange, FactorsThatFp32DoesNotHoldAreRefused) {
  // 2^-112 * 2^-14 is the least normal number, and above it everything is held.
  const OneRow least{.format = NIBBLE_MXFP4, .scales = {127 - 112}, .alpha = 1.3F};
  ASSERT_EQ(make(least), "");
  expect_product(9, 32, 0x1p84F, 1.3F * 0x1p-28F);
  EXPECT_EQ(make({.format = NIBBLE_MXFP4, .scales = {127 - 120}, .alpha = 1.3F}),
            "b of expert 0, row 0 has the factor 1.3 and scales to 2^-120, and the CPU multiplies "
            "by the factor times 2^-134, which fp32 does not hold; move a power of two from one "
            "side of the product to the other");
  // Of a power of two, a subnormal number is exact.
  ASSERT_EQ(make({.format = NIBBLE_MXFP4, .scales = {0}}), "");
  expect_product(9, 32, 0x1p80F, 0x1p-47F);
  EXPECT_NE(make({.format = NIBBLE_MXFP4, .scales = {254}, .alpha = 0x1p15F}), "");
  ASSERT_EQ(make({.format = NIBBLE_MXFP4, .scales = {254}, .alpha = 0x1p14F}), "");
  expect_product(9, 32, 0x1p-50F, 0x1p91F);
  EXPECT_NE(make({.scales = {kScaleOne}, .alpha = 1.17e-38F}), "");
  // Zero is held, and so is every finite number where all weights are zero.
  ASSERT_EQ(make({.scales = {kScaleOne}, .alpha = 0}), "");
  expect_product(9, 16, 3, 0);
  ASSERT_EQ(make({.format = NIBBLE_MXFP4, .scales = {3}, .alpha = 1.3F, .blocks_of_zeros = 1}), "");
  expect_product(9, 32, 3, 0);
  // 3e38 * 2^-14 is fp32's, and the sum is below fp32's unit of alpha.
  ASSERT_EQ(make({.scales = {kScaleOne}, .alpha = 3e38F}), "");
  expect_product(9, 16, 0x1p-100F, 3e38F * 0x1p-100F);
}

TEST_F(CpuRange, ScalesOfARowMayLie2To48Apart) {
  ASSERT_EQ(make({.format = NIBBLE_MXFP4, .scales = {127, 127, 127 - 48, 127}}), "");
  for (const float value : {kLeastHeld, 1.0F, kMostHeld}) {
    expect_product(65, 128, value, value * 0x1p-48F);
    expect_product(97, 128, value, value);
  }
  EXPECT_EQ(make({.format = NIBBLE_MXFP4, .scales = {127, 127 - 49}}),
            "b of expert 0, row 0 has scales from 2^-49 to 2^0, and the CPU holds 2^48 within a "
            "row; use a GPU, or mend the checkpoint");
  // What zeros are scaled by is no matter.
  EXPECT_EQ(make({.format = NIBBLE_MXFP4, .scales = {0, 127}, .blocks_of_zeros = 1}), "");
  // Every scale of NVFP4 beside every other: 2^-9 and 448.
  ASSERT_EQ(make({.scales = {0x7e, 0x01, 0x7e, 0x7e}}), "");
  for (const float value : {kLeastHeld, 1.0F, kMostHeld}) {
    expect_product(17, 64, value, value * 0x1p-9F);
  }
}

// e4m3's ends beside each other on both sides: what one unit of 64 columns cannot hold.
TEST_F(CpuRange, CodesAreExactWhateverTheirNeighboursScalesAre) {
  constexpr std::int64_t kColumns = 320;
  for (const bool mxfp4 : {false, true}) {
    Random random(8);
    GroupedFp4 product({.counts = {3, 0, 130, 6}, .n = 21, .k = kColumns, .mxfp4 = mxfp4}, 0);
    // All that e4m3 has; of e8m0 2^40.
    const auto any_scale = [&] {
      return static_cast<std::uint8_t>(mxfp4 ? 107 + random.below(40) : 1 + random.below(0x7e));
    };
    for (std::size_t at = 0; at < product.a.scales.size(); at += 2) {
      product.a.scales[at] = any_scale();
    }
    product.a_scales.clear();
    product.b_scales.clear();
    for (std::size_t expert = 0; expert < product.b.size(); ++expert) {
      for (std::uint8_t& scale : product.b[expert].scales) scale = any_scale();
      append(product.b_scales, swizzled(product.b[expert], 0));
      append(product.a_scales,
             swizzled_rows(product.a, product.offsets[expert], product.offsets[expert + 1], 0));
    }
    auto desc = sized<nibble_fp4_gemm_desc>();
    desc.format = mxfp4 ? NIBBLE_MXFP4 : NIBBLE_NVFP4;
    desc.out_dtype = NIBBLE_FP32;
    desc.experts = 4;
    desc.n = 21;
    desc.k = kColumns;
    auto weights = sized<nibble_cpu_gemm_weights>();
    weights.scale_layout = NIBBLE_SCALES_128X4;
    weights.b = product.b_codes.data();
    weights.block_scale_b = product.b_scales.data();
    weights.alpha = product.alpha.data();
    ASSERT_CALL_OK(nibble_cpu_gemm_create(device_, &desc, &weights, &gemm_));
    std::vector<float> out(static_cast<std::size_t>(product.rows() * 21), NAN);
    auto args = sized<nibble_cpu_gemm_args>();
    args.a_dtype = NIBBLE_FP4;
    args.rows = product.rows();
    args.a = product.a.codes.data();
    args.block_scale_a = product.a_scales.data();
    args.expert_offsets = product.offsets.data();
    args.sf_offsets = product.sf_offsets.data();
    args.out = out.data();
    ASSERT_CALL_OK(nibble_cpu_gemm_run(gemm_, &args));
    for (std::int64_t row = 0; row < product.rows(); ++row) {
      for (std::int64_t column = 0; column < 21; ++column) {
        // fp32's rounding: of 5 sums of 64 and their residuals, two halves, up to four parts.
        const double bound = product.magnitude(row, column) * (4 * kColumns / 16 + 8) * 0x1p-24;
        ASSERT_NEAR(out[static_cast<std::size_t>(row * 21 + column)], product.expected(row, column),
                    bound)
            << row << ", " << column << (mxfp4 ? " mxfp4" : " nvfp4");
      }
    }
    nibble_cpu_gemm_destroy(gemm_);
    gemm_ = nullptr;
  }
}

// A row of parts whose sum may be a number of fp32's while they are not.
TEST_F(CpuRange, PartsBeyondFp32AreNoSum) {
  ASSERT_EQ(make({.scales = std::vector<std::uint8_t>(4, 0x7e), .alpha = 0x1p110F}), "");
  const std::vector<std::uint8_t> codes(32, 0x77);
  std::vector<std::uint8_t> scales(512);
  std::fill_n(scales.begin(), 4, std::uint8_t{0x7e});
  scales[1] = 0x01;
  float out = NAN;
  auto args = sized<nibble_cpu_gemm_args>();
  args.a_dtype = NIBBLE_FP4;
  args.rows = 1;
  args.a = codes.data();
  args.block_scale_a = scales.data();
  args.out = &out;
  EXPECT_EQ(nibble_cpu_gemm_run(gemm_, &args), NIBBLE_RUN_FAILED);
  EXPECT_STREQ(nibble_last_error(),
               "out[0, 0] has parts beyond fp32, of a row whose scales lie far apart; give a "
               "smaller alpha");
  EXPECT_TRUE(std::isnan(out));
}

}  // namespace
}  // namespace nibble::capi
