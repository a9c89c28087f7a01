// The GEMM of the CPU through the C API, against double precision.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "capi/test_gemm.h"

namespace nibble::capi {
namespace {

class CapiCpuGemm : public testing::Test {
 protected:
  void SetUp() override { ASSERT_CALL_OK(nibble_cpu_open(2, &device_)); }
  void TearDown() override { nibble_device_close(device_); }

  static nibble_fp4_gemm_desc desc_of(const GroupedCase& what, std::int32_t out_dtype) {
    auto desc = sized<nibble_fp4_gemm_desc>();
    desc.format = what.mxfp4 ? NIBBLE_MXFP4 : NIBBLE_NVFP4;
    desc.out_dtype = out_dtype;
    desc.experts = static_cast<std::int32_t>(what.counts.size());
    desc.n = what.n;
    desc.k = what.k;
    return desc;
  }
  static nibble_cpu_gemm_weights weights_of(const GroupedFp4& product) {
    auto weights = sized<nibble_cpu_gemm_weights>();
    weights.scale_layout = NIBBLE_SCALES_128X4;
    weights.b = product.b_codes.data();
    weights.block_scale_b = product.b_scales.data();
    weights.alpha = product.alpha.data();
    return weights;
  }
  nibble_cpu_gemm* make(const GroupedFp4& product, std::int32_t out_dtype) {
    const auto desc = desc_of(product.what, out_dtype);
    const auto weights = weights_of(product);
    nibble_cpu_gemm* gemm = nullptr;
    EXPECT_CALL_OK(nibble_cpu_gemm_create(device_, &desc, &weights, &gemm));
    return gemm;
  }

  // a of codes, with scales that lie near each other; cpu_range_test.cpp has others, and a closer
  // bound.
  void expect_right(const GroupedCase& what, std::uint8_t padding) {
    const GroupedFp4 product(what, padding);
    nibble_cpu_gemm* const gemm = make(product, NIBBLE_FP32);
    std::vector<float> out(static_cast<std::size_t>(product.rows() * what.n), NAN);
    auto args = sized<nibble_cpu_gemm_args>();
    args.a_dtype = NIBBLE_FP4;
    args.rows = product.rows();
    args.a = product.a.codes.data();
    args.block_scale_a = product.a_scales.data();
    args.expert_offsets = product.offsets.data();
    args.sf_offsets = product.sf_offsets.data();
    args.out = out.data();
    ASSERT_CALL_OK(nibble_cpu_gemm_run(gemm, &args));
    nibble_cpu_gemm_destroy(gemm);
    for (std::int64_t row = 0; row < product.rows(); ++row) {
      double largest = 0;
      for (std::int64_t at = 0; at < what.k; ++at) {
        largest = std::max(largest, std::abs(product.a.value(row, at)));
      }
      for (std::int64_t column = 0; column < what.n; ++column) {
        const Fp4Matrix& b = product.b[product.expert_of(row)];
        double weights = 0;
        for (std::int64_t at = 0; at < what.k; ++at) weights += std::abs(b.value(column, at));
        // Alpha below 1.5; and the sums' own rounding.
        const double bound = 1.5 * weights * largest * (0x1p-15 + 0x1p-20);
        ASSERT_NEAR(out[static_cast<std::size_t>(row * what.n + column)],
                    product.expected(row, column), bound)
            << row << ", " << column;
      }
    }
  }

  nibble_device* device_ = nullptr;
};

TEST_F(CapiCpuGemm, CodesOnBothSides) {
  expect_right({.counts = {3}, .n = 37, .k = 96}, 0x7f);
  expect_right({.counts = {5, 130, 1, 0, 127, 129}, .n = 20, .k = 80}, 0xff);
  expect_right({.counts = {2, 7}, .n = 33, .k = 96, .mxfp4 = true}, 0xff);
}

TEST_F(CapiCpuGemm, RowsOfEveryType) {
  const GroupedFp4 product({.counts = {4, 0, 6}, .n = 24, .k = 128}, 0x7f);
  Random random(3);
  const std::vector<float> x = random_bf16(random, product.rows() * 128);
  std::vector<std::uint16_t> bf16;
  for (const float value : x) bf16.push_back(upper_half(value));
  const auto exact = [&](std::int64_t row, std::int64_t column) {
    return static_cast<double>(x[static_cast<std::size_t>(row * 128 + column)]);
  };
  std::vector<float> from_bf16(240, NAN);
  std::vector<float> from_fp32(240, NAN);
  std::vector<std::uint16_t> rounded(240, 0xffff);
  nibble_cpu_gemm* const wide = make(product, NIBBLE_FP32);
  nibble_cpu_gemm* const narrow = make(product, NIBBLE_BF16);
  auto args = sized<nibble_cpu_gemm_args>();
  args.rows = product.rows();
  args.expert_offsets = product.offsets.data();
  args.a_dtype = NIBBLE_BF16;
  args.a = bf16.data();
  args.out = from_bf16.data();
  ASSERT_CALL_OK(nibble_cpu_gemm_run(wide, &args));
  args.out = rounded.data();
  ASSERT_CALL_OK(nibble_cpu_gemm_run(narrow, &args));
  args.a_dtype = NIBBLE_FP32;
  args.a = x.data();
  args.out = from_fp32.data();
  ASSERT_CALL_OK(nibble_cpu_gemm_run(wide, &args));
  for (std::int64_t row = 0; row < product.rows(); ++row) {
    for (std::int64_t column = 0; column < 24; ++column) {
      const auto at = static_cast<std::size_t>(row * 24 + column);
      const double expected = product.product(exact, row, column);
      // x below 2, weights below 6 x 8, alpha below 1.5: 2^-14 and 2^-15 of that for each of 128.
      const double bound = 128 * 2 * 48 * 1.5 * 0x1p-14;
      ASSERT_NEAR(from_bf16[at], expected, bound);
      ASSERT_NEAR(from_fp32[at], expected, bound / 2);
      ASSERT_NEAR(from_upper_half(rounded[at]), static_cast<double>(from_bf16[at]),
                  std::abs(from_bf16[at]) * 0x1p-8);
    }
  }
  nibble_cpu_gemm_destroy(wide);
  nibble_cpu_gemm_destroy(narrow);
}

TEST_F(CapiCpuGemm, BothLayoutsOfScalesGiveTheSameBits) {
  const GroupedFp4 product({.counts = {5}, .n = 140, .k = 48}, 0x7f);
  auto weights = weights_of(product);
  const auto desc = desc_of(product.what, NIBBLE_FP16);
  std::vector<std::vector<std::uint16_t>> outputs;
  Random random(5);
  const std::vector<float> x = random_bf16(random, 5 * 48);
  for (const bool row_major : {false, true}) {
    if (row_major) {
      weights.scale_layout = NIBBLE_SCALES_ROW_MAJOR;
      weights.block_scale_b = product.b.front().scales.data();
    }
    nibble_cpu_gemm* gemm = nullptr;
    ASSERT_CALL_OK(nibble_cpu_gemm_create(device_, &desc, &weights, &gemm));
    auto args = sized<nibble_cpu_gemm_args>();
    args.a_dtype = NIBBLE_FP32;
    args.rows = 5;
    args.a = x.data();
    outputs.emplace_back(5 * 140, std::uint16_t{0xffff});
    args.out = outputs.back().data();
    ASSERT_CALL_OK(nibble_cpu_gemm_run(gemm, &args));
    nibble_cpu_gemm_destroy(gemm);
  }
  EXPECT_EQ(outputs[0], outputs[1]);
  EXPECT_NE(outputs[0], std::vector<std::uint16_t>(5 * 140, 0xffff));
}

TEST_F(CapiCpuGemm, WhatCreateRefuses) {
  const GroupedFp4 product({.counts = {1}, .n = 8, .k = 32}, 0);
  nibble_cpu_gemm* gemm = nullptr;
  const auto refusal = [&](nibble_fp4_gemm_desc desc, nibble_cpu_gemm_weights weights) {
    EXPECT_EQ(nibble_cpu_gemm_create(device_, &desc, &weights, &gemm), NIBBLE_INVALID_ARGUMENT);
    EXPECT_EQ(gemm, nullptr);
    return std::string(nibble_last_error());
  };
  const auto desc = desc_of(product.what, NIBBLE_FP32);
  const auto weights = weights_of(product);
  auto wrong = desc;
  wrong.format = 2;
  EXPECT_EQ(refusal(wrong, weights), "format is 2; give NIBBLE_NVFP4 (0) or NIBBLE_MXFP4 (1)");
  wrong = desc;
  wrong.out_dtype = NIBBLE_FP4;
  EXPECT_EQ(refusal(wrong, weights),
            "out_dtype is 3; give NIBBLE_BF16 (0), NIBBLE_FP16 (1) or NIBBLE_FP32 (2)");
  wrong = desc;
  wrong.k = 33;
  EXPECT_EQ(refusal(wrong, weights), "k is 33; give a multiple of 16 (nvfp4) to 16777216");
  wrong = desc;
  wrong.k = 8;
  EXPECT_EQ(refusal(wrong, weights), "k is 8; give a multiple of 16 (nvfp4) to 16777216");
  wrong.format = NIBBLE_MXFP4;
  wrong.k = 48;
  EXPECT_EQ(refusal(wrong, weights), "k is 48; give a multiple of 32 (mxfp4) to 16777216");
  wrong = desc;
  wrong.n = 0;
  EXPECT_EQ(refusal(wrong, weights), "n is 0; give 1 to 16777216");
  wrong = desc;
  wrong.expected_rows = -3;
  EXPECT_EQ(refusal(wrong, weights), "expected_rows is -3; give 0 to 2147483647");
  wrong = desc;
  wrong.experts = -1;
  EXPECT_EQ(refusal(wrong, weights), "experts is -1; give 0 to 65536");
  auto missing = weights;
  missing.b = nullptr;
  EXPECT_EQ(refusal(desc, missing), "b is null");
  missing = weights;
  missing.block_scale_b = nullptr;
  EXPECT_EQ(refusal(desc, missing), "block_scale_b is null");
  missing = weights;
  missing.scale_layout = 9;
  EXPECT_EQ(refusal(desc, missing),
            "scale_layout is 9; give NIBBLE_SCALES_ROW_MAJOR (0) or NIBBLE_SCALES_128X4 (1)");
  missing = weights;
  missing.alpha =
      reinterpret_cast<const float*>(reinterpret_cast<const std::byte*>(product.alpha.data()) + 1);
  EXPECT_NE(refusal(desc, missing).find("alpha is at 0x"), std::string::npos);
  const float infinite = INFINITY;
  missing.alpha = &infinite;
  EXPECT_EQ(refusal(desc, missing), "alpha of expert 0 is inf; give a finite number");
  missing = weights;
  missing.size = 12;  // half of an address
  EXPECT_EQ(
      refusal(desc, missing),
      "weights->size is 12, which ends inside of b (bytes 8 to 15); set it to the size of the "
      "struct");
  auto nan = product.b_scales;
  nan[0] = 0x7f;
  missing = weights;
  missing.block_scale_b = nan.data();
  EXPECT_NE(refusal(desc, missing).find("the scale of row 0, block 0 is 0x7f"), std::string::npos);
  EXPECT_EQ(nibble_cpu_gemm_create(device_, nullptr, &weights, &gemm), NIBBLE_INVALID_ARGUMENT);
  EXPECT_EQ(nibble_cpu_gemm_create(device_, &desc, nullptr, &gemm), NIBBLE_INVALID_ARGUMENT);
  EXPECT_EQ(nibble_cpu_gemm_create(nullptr, &desc, &weights, &gemm), NIBBLE_INVALID_ARGUMENT);
  EXPECT_EQ(nibble_cpu_gemm_create(device_, &desc, &weights, nullptr), NIBBLE_INVALID_ARGUMENT);
}

TEST_F(CapiCpuGemm, WhatRunRefuses) {
  const GroupedFp4 product({.counts = {1, 2}, .n = 8, .k = 32}, 0);
  nibble_cpu_gemm* const gemm = make(product, NIBBLE_FP32);
  const std::vector<float> x(3 * 32, 1.0F);
  std::vector<float> out(3 * 8);
  auto args = sized<nibble_cpu_gemm_args>();
  args.a_dtype = NIBBLE_FP32;
  args.rows = 3;
  args.a = x.data();
  args.out = out.data();
  args.expert_offsets = product.offsets.data();
  ASSERT_CALL_OK(nibble_cpu_gemm_run(gemm, &args));
  const auto refusal = [&](const nibble_cpu_gemm_args& wrong) {
    EXPECT_EQ(nibble_cpu_gemm_run(gemm, &wrong), NIBBLE_INVALID_ARGUMENT);
    return std::string(nibble_last_error());
  };
  auto wrong = args;
  wrong.rows = -1;
  EXPECT_EQ(refusal(wrong), "rows is -1; give 0 to 16777216");
  wrong = args;
  wrong.rows = 4;
  EXPECT_EQ(refusal(wrong), "expert_offsets ends with 3, and there are 4 rows");
  wrong = args;
  wrong.expert_offsets = nullptr;
  EXPECT_EQ(refusal(wrong), "expert_offsets is null, and the weights have 2 experts");
  wrong = args;
  wrong.a = nullptr;
  EXPECT_EQ(refusal(wrong), "a is null");
  wrong = args;
  wrong.out = nullptr;
  EXPECT_EQ(refusal(wrong), "out is null");
  wrong = args;
  wrong.out = reinterpret_cast<std::byte*>(out.data()) + 2;
  EXPECT_NE(refusal(wrong).find("no multiple of 4 bytes"), std::string::npos);
  wrong = args;
  wrong.a = reinterpret_cast<const std::byte*>(x.data()) + 2;
  EXPECT_NE(refusal(wrong).find("a is at 0x"), std::string::npos);
  wrong = args;
  wrong.a_dtype = 4;
  EXPECT_EQ(refusal(wrong), "a_dtype is 4; give one of nibble_dtype");
  wrong = args;
  wrong.a_dtype = NIBBLE_FP4;
  EXPECT_EQ(refusal(wrong), "block_scale_a is null");
  EXPECT_EQ(nibble_cpu_gemm_run(nullptr, &args), NIBBLE_INVALID_ARGUMENT);
  EXPECT_EQ(nibble_cpu_gemm_run(gemm, nullptr), NIBBLE_INVALID_ARGUMENT);
  args.rows = 0;  // nothing to do, and nothing is asked for
  args.a = nullptr;
  EXPECT_CALL_OK(nibble_cpu_gemm_run(gemm, &args));
  nibble_cpu_gemm_destroy(gemm);
  nibble_cpu_gemm_destroy(nullptr);
}

TEST_F(CapiCpuGemm, OutlivesItsDevice) {
  const GroupedFp4 product({.counts = {1}, .n = 8, .k = 32}, 0);
  nibble_cpu_gemm* const gemm = make(product, NIBBLE_FP32);
  nibble_device_close(device_);
  device_ = nullptr;
  const std::vector<float> x(32, 1.0F);
  std::vector<float> out(8);
  auto args = sized<nibble_cpu_gemm_args>();
  args.a_dtype = NIBBLE_FP32;
  args.rows = 1;
  args.a = x.data();
  args.out = out.data();
  EXPECT_CALL_OK(nibble_cpu_gemm_run(gemm, &args));
  nibble_cpu_gemm_destroy(gemm);
}

}  // namespace
}  // namespace nibble::capi
