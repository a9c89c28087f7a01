// Activations that AVX2 code made whole numbers of, byte for byte beside the portable code.
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

#include "kernels/gemm/layout.h"
#include "machine/isa.h"

namespace nibble {
namespace {

constexpr std::int64_t kColumns = 2 * kScaleColumns + 7;  // the last scale has few

PackedActivations quantized(const std::vector<float>& x, Format format, Isa isa) {
  ThreadPool pool(1);
  Result<PackedActivations> packed = PackedActivations::make(1, kColumns, format, isa);
  EXPECT_TRUE(packed.ok());
  packed->quantize(x, pool);
  return std::move(*packed);
}

void expect_same_scale(float a, float b) {
  if (std::isnan(a)) {
    EXPECT_TRUE(std::isnan(b));
  } else {
    EXPECT_EQ(a, b);
  }
}

// kPortable and kAvx2 have one layout; kAvx512 has the columns in order and corrections by word.
void expect_same_group(const ActivationGroup& expected, const ActivationGroup& actual, Isa isa) {
  std::int32_t sums[2] = {};
  std::int8_t in_order[kGroupColumns];
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < 4; ++i) {
      const int column = column_of(Isa::kPortable, step, i);
      in_order[column] = expected.values[4 * step + i];
      sums[column / kBlockColumns] += in_order[column];
    }
  }
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(actual.values[4 * step + i], in_order[column_of(isa, step, i)]);
    }
  }
  if (isa == Isa::kAvx512) {
    EXPECT_EQ(actual.correction[0], -kCodeZero * sums[0]);
    EXPECT_EQ(actual.correction[1], -kCodeZero * sums[1]);
  } else {
    EXPECT_EQ(actual.correction[0], expected.correction[0]);
    EXPECT_EQ(actual.correction[1], expected.correction[1]);
  }
  for (int half = 0; half < 2; ++half) expect_same_scale(expected.scale[half], actual.scale[half]);
}

void expect_same(const std::vector<float>& x) {
  if (!is_usable(Isa::kAvx2)) GTEST_SKIP() << "this processor has no AVX2";
  for (const Format format : {Format::kFp32, Format::kBf16, Format::kInt8}) {
    const PackedActivations expected = quantized(x, format, Isa::kPortable);
    for (const Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
      const PackedActivations actual = quantized(x, format, isa);
      for (int half = 0; half < GemmAccess::streams_per_row(expected); ++half) {
        for (std::int64_t group = 0; group < groups_of(kColumns); ++group) {
          expect_same_group(GemmAccess::stream(expected, 0, half)[group],
                            GemmAccess::stream(actual, 0, half)[group], isa);
        }
      }
    }
  }
}

TEST(Quantize, OrdinaryValuesOfEverySize) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int exponent = -130; exponent <= 124; exponent += 3) {
    std::vector<float> x(kColumns);
    for (float& value : x) value = std::ldexp(normal(random), exponent);
    expect_same(x);
  }
}

// Around the largest that two bytes hold, 127 * 256 + 127 of 32768, and ties of both roundings.
TEST(Quantize, TheLargestAndTies) {
  for (const float largest : {1.0F, 0.99609375F, 0.996063F, 0.99605F, 0.998F, 0.99999994F}) {
    std::vector<float> x(kColumns, 0.5F / 32768);
    for (std::size_t at = 0; at < x.size(); at += 3) x[at] = -1.5F / 32768;
    for (std::size_t at = 1; at < x.size(); at += 5) x[at] = 128.5F / 32768;
    x[70] = largest;
    x[3] = -largest;
    expect_same(x);
  }
}

TEST(Quantize, ZeroAndNextToIt) {
  for (const float value : {0.0F, -0.0F, 1e-45F, 1e-38F, 1e-34F, 0x1p-100F, 0x1.fffp-101F}) {
    expect_same(std::vector<float>(kColumns, value));
  }
}

TEST(Quantize, WhatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLargest = std::numeric_limits<float>::max();  // an infinity of bf16
  for (const float value : {kInfinity, -kInfinity, std::nanf(""), kLargest, -kLargest}) {
    std::vector<float> x(kColumns, 1.0F);
    x[67] = value;
    expect_same(x);
  }
}

}  // namespace
}  // namespace nibble
