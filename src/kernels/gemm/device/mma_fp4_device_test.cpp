// The software body of the block-scaled FP4 product, run on the host (test_simt.h), against sums
// over the matrices that the fragments stand for. Which lane holds what is written down here anew,
// as CUTLASS's layouts have it (cute/atom/mma_traits_sm120.hpp): A ((4, 8), (8, 2, 2)) :
// ((128, 1), (16, 8, 512)), B ((4, 8), (8, 2)) : ((64, 1), (8, 256)), scales of A
// ((2, 2, 8), 64) : ((8, 0, 1), 16), of B ((4, 8), 64) : ((0, 1), 8).
#include "kernels/device/test_simt.h"
// Keep this line: device code comes after its stand-ins.
#include <cmath>
#include <vector>

#include "base/stats.h"
#include "kernels/ptx/mma_fp4.cuh"

namespace nibble {
namespace {

struct Operands {
  // Column-major, as the layouts number them: A [16, 64], B [8, 64].
  std::vector<int> a = std::vector<int>(16 * 64);
  std::vector<int> b = std::vector<int>(8 * 64);
  std::vector<int> scale_a = std::vector<int>(16 * 4);  // [row, block]
  std::vector<int> scale_b = std::vector<int>(8 * 4);
};

double e2m1_value(int code) {
  constexpr double kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return kValues[code & 7] * (code >= 8 ? -1 : 1);
}

double scale_value(int code, bool mxfp4) {
  if (mxfp4) return std::ldexp(1.0, code - 127);
  const int exponent = code / 8;
  if (exponent == 0) return std::ldexp(code % 8, -9);
  return std::ldexp(1 + code % 8 / 8.0, exponent - 7);
}

Operands random_operands(bool mxfp4, std::uint64_t seed) {
  Random random(seed);
  Operands operands;
  const auto below = [&random](int most) {
    return static_cast<int>(random.below(static_cast<std::uint64_t>(most)));
  };
  for (int& code : operands.a) code = below(16);
  for (int& code : operands.b) code = below(16);
  for (int& code : operands.scale_a) code = mxfp4 ? 120 + below(12) : below(127);
  for (int& code : operands.scale_b) code = mxfp4 ? 120 + below(12) : below(127);
  return operands;
}

// Register `index` of a lane: eight codes; (t, g) are the lane's coordinates of the layouts.
std::uint32_t a_register(const Operands& operands, int lane, int index) {
  std::uint32_t word = 0;
  for (int i = 0; i < 8; ++i) {
    const int at = lane % 4 * 128 + lane / 4 + i * 16 + index % 2 * 8 + index / 2 * 512;
    word |= static_cast<std::uint32_t>(operands.a[static_cast<std::size_t>(at)]) << (4 * i);
  }
  return word;
}
std::uint32_t b_register(const Operands& operands, int lane, int index) {
  std::uint32_t word = 0;
  for (int i = 0; i < 8; ++i) {
    const int at = lane % 4 * 64 + lane / 4 + i * 8 + index * 256;
    word |= static_cast<std::uint32_t>(operands.b[static_cast<std::size_t>(at)]) << (4 * i);
  }
  return word;
}

// The word of a row's scales in the bytes that count; the others are no numbers.
std::uint32_t scale_word(const std::vector<int>& scales, int row, int bytes, int first) {
  std::uint32_t word = 0xffffffffU;
  for (int i = 0; i < bytes; ++i) {
    const auto scale = static_cast<std::uint32_t>(scales[static_cast<std::size_t>(row * 4 + i)]);
    word &= ~(0xffU << (8 * (first + i)));
    word |= scale << (8 * (first + i));
  }
  return word;
}

template <bool kMxfp4, int kSourceA, int kSourceB, int kByte>
void check_product(std::uint64_t seed) {
  const Operands operands = random_operands(kMxfp4, seed);
  constexpr int kBlocks = kMxfp4 ? 2 : 4;
  std::vector<float> sums(16 * 8);
  simt::launch(1, 32, [&] {
    const int lane = static_cast<int>(threadIdx.x);
    uint32_t a[4];
    for (int i = 0; i < 4; ++i) a[i] = a_register(operands, lane, i);
    // A lane that is no source has what is no number.
    uint32_t scale_a = 0xffffffffU;
    if (lane % 4 / 2 == kSourceA) {
      scale_a = scale_word(operands.scale_a, lane / 4 + 8 * (lane % 2), kBlocks, kByte);
    }
    uint32_t scale_b = 0xffffffffU;
    if (lane % 4 == kSourceB) scale_b = scale_word(operands.scale_b, lane / 4, kBlocks, kByte);
    float d[4] = {1, 2, 3, 4};
    if constexpr (kMxfp4) {
      ptx::mma_m16n8k64_mxf4<kSourceA, kSourceB, kByte>(
          d, a, b_register(operands, lane, 0), b_register(operands, lane, 1), scale_a, scale_b);
    } else {
      ptx::mma_m16n8k64_nvf4<kSourceA, kSourceB>(d, a, b_register(operands, lane, 0),
                                                 b_register(operands, lane, 1), scale_a, scale_b);
    }
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8;
      const int column = lane % 4 * 2 + i % 2;
      sums[static_cast<std::size_t>(row * 8 + column)] = d[i] - static_cast<float>(1 + i);
    }
  });
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      double expected = 0;
      double largest = 0;
      for (int k = 0; k < 64; ++k) {
        const int block = k / (64 / kBlocks);
        const double term =
            e2m1_value(operands.a[static_cast<std::size_t>(k * 16 + row)]) *
            e2m1_value(operands.b[static_cast<std::size_t>(k * 8 + column)]) *
            scale_value(operands.scale_a[static_cast<std::size_t>(row * 4 + block)], kMxfp4) *
            scale_value(operands.scale_b[static_cast<std::size_t>(column * 4 + block)], kMxfp4);
        expected += term;
        largest = std::max(largest, std::abs(term));
      }
      // Four roundings of fp32 of sums that are at most 64 times the largest term, and 4 beside.
      EXPECT_NEAR(static_cast<double>(sums[static_cast<std::size_t>(row * 8 + column)]), expected,
                  5 * std::ldexp(64 * largest + 4, -24))
          << row << " " << column;
    }
  }
}

TEST(DeviceFp4Product, Nvfp4WithEverySourceOfScales) {
  check_product<false, 0, 0, 0>(1);
  check_product<false, 1, 0, 0>(2);
  check_product<false, 0, 1, 0>(3);
  check_product<false, 1, 2, 0>(4);
  check_product<false, 0, 3, 0>(5);
}

TEST(DeviceFp4Product, Mxfp4WithEitherPairOfScales) {
  check_product<true, 0, 0, 0>(6);
  check_product<true, 0, 2, 2>(7);
  check_product<true, 1, 3, 2>(8);
}

}  // namespace
}  // namespace nibble
