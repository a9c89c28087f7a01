// The W4A4 product on a GPU against Blackwell's arithmetic in double precision, under the limits of
// sm_120. Where the chip has no block-scaled FP4 instruction its software body runs, and everything
// else is what runs there.
#include <cstddef>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "kernels/gemm/device/test_w4a4.h"

namespace nibble {
namespace {

constexpr W4A4Tactic kTokensWide{.way = Way::kTokensOnM, .m = 128, .n = 256, .k = 128};
constexpr W4A4Tactic kTokensFew{.way = Way::kTokensOnM,
                                .m = 32,
                                .n = 128,
                                .k = 256,
                                .stages = 4,
                                .warps_m = 1,
                                .warps_n = 4,
                                .split = false};
constexpr W4A4Tactic kWeightsNarrow{
    .way = Way::kWeightsOnM, .m = 64, .n = 8, .k = 256, .stages = 3, .warps_m = 2, .warps_n = 1};
constexpr W4A4Tactic kWeightsWide{.way = Way::kWeightsOnM,
                                  .m = 128,
                                  .n = 64,
                                  .k = 512,
                                  .stages = 1,
                                  .warps_m = 4,
                                  .warps_n = 2,
                                  .split = false};

class CudaW4A4 : public GpuTest {
 protected:
  // Both ways round, wide and narrow, with and without splitting.
  void expect_right(const W4A4Case& what, int runs = 1) {
    W4A4Product product(what);
    for (const W4A4Tactic& tactic : {kTokensWide, kTokensFew, kWeightsNarrow, kWeightsWide}) {
      product.expect_right(gpu(), stream(), tactic, runs);
    }
  }
};

const std::vector<int> kRagged = {5, 130, 1, 0, 127, 129};

TEST_F(CudaW4A4, SaysWhichBodyRuns) {
  const W4A4Kernel kernel = value_of(W4A4Kernel::make(gpu(), {.n = 64, .k = 64}, kWeightsNarrow));
  EXPECT_EQ(kernel.software_mma(), gpu().info().major != 12);
}

TEST_F(CudaW4A4, PlainRowsOfAwkwardShapes) {
  expect_right({"one block", {1}, {.n = 1, .k = 16}});
  expect_right({"ragged", {3}, {.n = 37, .k = 80}});
  expect_right({"k beyond a stage", {4, 0, 9}, {.n = 130, .k = 784, .output = W4A4Output::kFp32}});
  expect_right({"no tokens", {0, 0, 0}, {.n = 64, .k = 64}});
  expect_right(
      {"groups straddle tiles", kRagged, {.n = 96, .k = 128, .output = W4A4Output::kFp32}});
  expect_right({"all tokens on one expert", {0, 0, 140}, {.n = 200, .k = 64}});
}

TEST_F(CudaW4A4, GateAndUp) {
  expect_right({"an odd block", {2, 9}, {.n = 2 * 37, .k = 96, .epilogue = Epilogue::kSwiGlu}});
  expect_right({"352 of a shard", {17, 1}, {.n = 704, .k = 128, .epilogue = Epilogue::kSwiGlu}});
  expect_right({"up first",
                {17, 1},
                {.n = 96,
                 .k = 64,
                 .output = W4A4Output::kFp32,
                 .epilogue = Epilogue::kSwiGlu,
                 .up_first = true}});
  expect_right({"clamped, with biases",
                {33, 0, 8},
                {.n = 180,
                 .k = 192,
                 .format = Format::kMxfp4,
                 .output = W4A4Output::kFp16,
                 .epilogue = Epilogue::kClampedSwiGlu,
                 .bias = true}});
}

TEST_F(CudaW4A4, Formats) {
  for (const Format format : {Format::kNvfp4, Format::kMxfp4}) {
    for (const W4A4Output output : {W4A4Output::kBf16, W4A4Output::kFp16, W4A4Output::kFp32}) {
      expect_right({"formats", {7, 20}, {.n = 100, .k = 160, .format = format, .output = output}});
    }
  }
}

TEST_F(CudaW4A4, TokensWhereTheyLie) {
  expect_right({"gathered rows with their own factors",
                kRagged,
                {.n = 96, .k = 272, .output = W4A4Output::kFp32},
                true,
                false,
                true});
  expect_right({"an expert's scales from a multiple of 128 rows on",
                kRagged,
                {.n = 96, .k = 272, .output = W4A4Output::kFp32},
                false,
                true});
}

// Whatever stands in the padding of the scales' layout: 0x7f and 0xff are not numbers.
TEST_F(CudaW4A4, PaddingOfScalesIsNotRead) {
  for (const int poison : {0x00, 0x7f, 0xff}) {
    expect_right({"padding",
                  {3, 0, 37},
                  {.n = 70, .k = 48, .output = W4A4Output::kFp32},
                  false,
                  true,
                  false,
                  true,
                  static_cast<std::uint8_t>(poison)});
  }
}

TEST_F(CudaW4A4, ShapesOfModels) {
  expect_right(
      {"2,880 columns, several experts",
       {3, 1, 20},
       {.n = 128, .k = 2880, .format = Format::kMxfp4, .output = W4A4Output::kFp32, .bias = true}});
  expect_right({"2,880 columns of NVFP4", {3, 1, 20}, {.n = 128, .k = 2880}});
  // Intermediate sizes on ranks: 640 over 2 and 4, 352 over 2, 1,856 over 4; k = 176 and 464 are
  // not whole words of four scales.
  for (const int k : {640, 320, 160, 352, 176, 1856, 464}) {
    expect_right({"down of a rank", {9, 2}, {.n = 72, .k = k, .output = W4A4Output::kFp32}});
  }
  for (const int intermediate : {320, 160, 176, 464}) {
    expect_right({"gate and up of a rank",
                  {9, 2},
                  {.n = 2 * intermediate, .k = 128, .epilogue = Epilogue::kSwiGlu}});
  }
}

TEST_F(CudaW4A4, ManyExperts) {
  for (const std::size_t experts : {512U, 1025U}) {
    std::vector<int> counts(experts, 0);
    for (std::size_t expert = 0; expert < counts.size(); expert += 3) counts[expert] = 1;
    counts.back() = 9;
    expect_right({"many experts", counts, {.n = 32, .k = 64}});
  }
}

TEST_F(CudaW4A4, RepeatedRunsHaveTheSameBits) {
  expect_right({"many steps", {11, 3, 40}, {.n = 640, .k = 1472, .epilogue = Epilogue::kSwiGlu}},
               20);
}

TEST_F(CudaW4A4, QuantizesItsOutput) {
  const W4A4Case what{
      "to nvfp4", {33, 0, 5, 1}, {.n = 2 * 336, .k = 192, .epilogue = Epilogue::kSwiGlu}};
  W4A4Product product(what);
  for (const W4A4Tactic& tactic : {kTokensWide, kTokensFew, kWeightsNarrow, kWeightsWide}) {
    product.expect_fused_quantization(gpu(), stream(), tactic);
  }
}

// Every tactic that sm_120 is offered.
TEST_F(CudaW4A4, EveryTacticOfPlainRows) {
  W4A4Product product({"every tactic",
                       kRagged,
                       {.n = 304, .k = 1360, .output = W4A4Output::kFp32},
                       true,
                       false,
                       true});
  for (const W4A4Tactic& tactic : w4a4_tactics(product.problem(), kSm120Limits)) {
    product.expect_right(gpu(), stream(), tactic, 3);
  }
}

const std::vector<int> kSomeTokens = {5, 60, 1, 0, 127};

TEST_F(CudaW4A4, EveryTacticOfGateAndUp) {
  W4A4Product product(
      {"every tactic", kSomeTokens, {.n = 2 * 272, .k = 336, .epilogue = Epilogue::kSwiGlu}});
  for (const W4A4Tactic& tactic : w4a4_tactics(product.problem(), kSm120Limits)) {
    product.expect_right(gpu(), stream(), tactic);
  }
}

TEST_F(CudaW4A4, EveryTacticOfMxfp4) {
  W4A4Product product({"every tactic",
                       kSomeTokens,
                       {.n = 2 * 144,
                        .k = 544,
                        .format = Format::kMxfp4,
                        .epilogue = Epilogue::kClampedSwiGlu,
                        .bias = true}});
  for (const W4A4Tactic& tactic : w4a4_tactics(product.problem(), kSm120Limits)) {
    product.expect_right(gpu(), stream(), tactic);
  }
}

TEST_F(CudaW4A4, EveryTacticQuantizes) {
  W4A4Product product(
      {"every tactic", kSomeTokens, {.n = 2 * 272, .k = 336, .epilogue = Epilogue::kSwiGlu}});
  W4A4Problem quantized = product.problem();
  quantized.output = W4A4Output::kNvfp4;
  for (const W4A4Tactic& tactic : w4a4_tactics(quantized, kSm120Limits)) {
    product.expect_fused_quantization(gpu(), stream(), tactic);
  }
}

// The same code as PTX of an earlier GPU, without programmatic launch.
TEST_F(CudaW4A4, OfCompute80) {
  W4A4Product product({"compute_80", {5, 60, 1}, {.n = 96, .k = 272}});
  for (const W4A4Tactic& tactic : {kTokensFew, kWeightsNarrow}) {
    product.expect_right(gpu(), stream(), tactic, 1, "compute_80");
  }
}

}  // namespace
}  // namespace nibble
