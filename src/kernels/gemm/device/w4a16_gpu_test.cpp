// The grouped product on a GPU against double precision.
#include <cstddef>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "kernels/gemm/device/test_product.h"

namespace nibble {
namespace {

// The list of cases, compiled for the GPU or for `arch`.
class W4A16OnGpu : public GpuTest {
 protected:
  explicit W4A16OnGpu(std::string arch = "") : arch_(std::move(arch)) {}

  // What there is of both families, wide and narrow, with and without splitting.
  std::vector<W4A16Tactic> tactics() const {
    std::vector<W4A16Tactic> all = {
        {.rows = 128, .tokens = 8, .stage_chunks = 1, .stages = 3, .groups = 1},
        {.rows = 256, .tokens = 16, .stages = 2, .groups = 2, .split = false},
        {.rows = 64, .tokens = 40, .stage_chunks = 3, .stages = 2, .groups = 1},
        {.rows = 128, .tokens = 8, .stage_chunks = 4, .stages = 3, .groups = 2}};
    if (gpu().info().major != 9 || !arch_.empty()) return all;
    const std::vector<W4A16Tactic> wgmma = {
        {.family = Family::kWgmma,
         .rows = 512,
         .tokens = 16,
         .stages = 2,
         .groups = 4,
         .cluster = 2},
        {.family = Family::kWgmma,
         .rows = 128,
         .tokens = 24,
         .stage_chunks = 1,
         .stages = 3,
         .groups = 1},
        {.family = Family::kWgmma,
         .rows = 256,
         .tokens = 128,
         .stages = 3,
         .groups = 2,
         .cluster = 2,
         .split = false},
        {.rows = 512, .tokens = 8, .stages = 2, .groups = 4, .cluster = 2},
        {.rows = 640, .tokens = 8, .stage_chunks = 3, .stages = 2, .groups = 5},
        {.rows = 256, .tokens = 8, .stages = 2, .groups = 2, .blocks_per_sm = 3, .split = false},
        // Of two widths: tiles of at most 32 tokens take the narrower instruction.
        {.family = Family::kWgmma,
         .rows = 512,
         .tokens = 64,
         .stages = 2,
         .groups = 2,
         .fragments = 4},
        {.family = Family::kWgmma,
         .rows = 128,
         .tokens = 16,
         .stage_chunks = 4,
         .stages = 2,
         .groups = 1,
         .blocks_per_sm = 3,
         .split = false}};
    all.insert(all.end(), wgmma.begin(), wgmma.end());
    return all;
  }

  void expect_right(const ProductCase& what, int runs = 1) {
    Product product(gpu(), what);
    for (const W4A16Tactic& tactic : tactics()) {
      product.expect_right(gpu(), stream(), tactic, runs, arch_);
    }
  }

  void plain_rows();
  void gate_and_up();
  void formats_and_elements();
  void many_experts();

  const std::string arch_;
};

void W4A16OnGpu::plain_rows() {
  expect_right({"one weight pair", {1}, {.n = 1, .k = 2}});
  expect_right({"ragged", {3}, {.n = 37, .k = 90}});
  expect_right({"k beyond a chunk", {4, 0, 9}, {.n = 130, .k = 272}});
  expect_right({"no tokens", {0, 0}, {.n = 64, .k = 64}});
  expect_right({"groups straddle tiles", {5, 130, 1, 0, 127, 129}, {.n = 96, .k = 128}});
  expect_right({"all tokens on one expert", {0, 0, 140}, {.n = 200, .k = 64}});
}

void W4A16OnGpu::gate_and_up() {
  expect_right({"an odd block", {2, 9}, {.n = 2 * 37, .k = 96, .mode = W4A16Mode::kSwiGlu}});
  expect_right({"352 of a shard", {17, 1}, {.n = 704, .k = 128, .mode = W4A16Mode::kSwiGlu}});
  expect_right({"clamped, with biases",
                {33, 0, 8},
                {.n = 180,
                 .k = 180,
                 .format = Format::kMxfp4,
                 .mode = W4A16Mode::kClampedSwiGlu,
                 .bias = true},
                4});
}

void W4A16OnGpu::formats_and_elements() {
  for (const Format format : {Format::kNvfp4, Format::kMxfp4}) {
    for (const Element activations : {Element::kBf16, Element::kFp16}) {
      for (const Element output : {Element::kBf16, Element::kFp16, Element::kFp32}) {
        expect_right({"elements",
                      {7, 20},
                      {.n = 100,
                       .k = 160,
                       .format = format,
                       .activations = activations,
                       .output = output,
                       .bias = true}});
      }
    }
  }
}

void W4A16OnGpu::many_experts() {
  std::vector<int> counts(1025, 0);
  for (std::size_t expert = 0; expert < counts.size(); expert += 3) counts[expert] = 1;
  counts.back() = 9;
  expect_right({"1,025 experts", counts, {.n = 16, .k = 32}});
}

const ProductCase kManySteps{
    "many steps", {11, 3}, {.n = 640, .k = 1472, .mode = W4A16Mode::kSwiGlu}};

class CudaW4A16 : public W4A16OnGpu {};
TEST_F(CudaW4A16, PlainRowsOfAwkwardShapes) {
  plain_rows();
}
TEST_F(CudaW4A16, GateAndUp) {
  gate_and_up();
}
TEST_F(CudaW4A16, FormatsAndElements) {
  formats_and_elements();
}
TEST_F(CudaW4A16, ManyExperts) {
  many_experts();
}
TEST_F(CudaW4A16, TheSameBitsEveryTime) {
  expect_right(kManySteps, 8);
}

// The mma.sync family as an sm_80 GPU has it, on whatever GPU is here: by PTX for compute_80.
class CudaW4A16Compute80 : public W4A16OnGpu {
 protected:
  CudaW4A16Compute80() : W4A16OnGpu("compute_80") {}
};
TEST_F(CudaW4A16Compute80, PlainRowsOfAwkwardShapes) {
  plain_rows();
}
TEST_F(CudaW4A16Compute80, GateAndUp) {
  gate_and_up();
}
TEST_F(CudaW4A16Compute80, FormatsAndElements) {
  formats_and_elements();
}
TEST_F(CudaW4A16Compute80, ManyExperts) {
  many_experts();
}
TEST_F(CudaW4A16Compute80, TheSameBitsEveryTime) {
  expect_right(kManySteps, 8);
}

// Those that are taken by default on an A100: 163 KiB of shared memory for a block, 164 for an SM.
TEST_F(CudaW4A16Compute80, TacticsOfAnA100) {
  constexpr BlockLimits kA100{
      .major = 8, .minor = 0, .shared_per_block = 166912, .shared_per_sm = 167936};
  const ProductCase what{"tactics", {5, 0, 40}, {.n = 704, .k = 720, .mode = W4A16Mode::kSwiGlu}};
  Product product(gpu(), what);
  const std::vector<W4A16Tactic> all = w4a16_tactics(product.problem(), kA100);
  ASSERT_GE(all.size(), 6U);  // three widths, with and without splitting
  for (const W4A16Tactic& tactic : all) product.expect_right(gpu(), stream(), tactic, 2, arch_);
}

TEST_F(CudaW4A16Compute80, WhatItDoesNotHaveIsRefused) {
  const W4A16Problem problem{.n = 64, .k = 64};
  const auto refusal = [&](const W4A16Tactic& tactic, const char* arch) {
    const auto made = W4A16Kernel::make(gpu(), problem, tactic, arch);
    return made.ok() ? std::string() : made.error().message;
  };
  EXPECT_EQ(refusal({.family = Family::kWgmma}, "compute_80"),
            "tactic wgmma 256x8x128 4 stages 2 groups split: wgmma is an instruction of sm_90a "
            "alone, and this is sm_80");
  EXPECT_EQ(refusal({.cluster = 2}, "compute_80"),
            "tactic mma 256x8x128 4 stages 2 groups cluster 2 split: clusters came with sm_90, and "
            "this is sm_80");
  EXPECT_NE(refusal({}, "compute_999").find("code for compute_999 does not run on "),
            std::string::npos);
}

}  // namespace
}  // namespace nibble
