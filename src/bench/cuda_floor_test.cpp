#include "bench/cuda_floor.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

BenchShape glm_5() {
  return {.op = BenchOp::kMoe,
          .name = "moe",
          .format = Format::kNvfp4,
          .experts = 256,
          .top_k = 8,
          .n = 2048,
          .k = 6144};
}

ExpertCounts balanced(std::int64_t per_expert, std::int64_t experts = 256) {
  return {.tokens = std::vector<std::int64_t>(static_cast<std::size_t>(experts), per_expert),
          .slots = per_expert * experts,
          .distinct = experts,
          .most = per_expert};
}

// By hand: 256 x 3 x 6144 x 2048 weights of 9/16 byte are 5,435,817,984 bytes. A token for each
// expert is 32 tokens and 256 slots: x and y 32 x 6144, the intermediate twice 256 x 2048, rows
// twice 256 x 6144, two bytes each: 9,175,040 bytes.
TEST(CudaFloor, ALayersBytesAndFlop) {
  const CudaWork work = moe_work(glm_5(), 32, balanced(1));
  EXPECT_EQ(work.weight_bytes, 5435817984.0);
  EXPECT_EQ(work.activation_bytes, 9175040.0);
  EXPECT_EQ(work.flop, 2.0 * 256 * 3 * 6144 * 2048);
  EXPECT_EQ(work.distinct, 256);
}

// The table of the measured H200: floors at 4.70 TB/s and 774 TFLOP/s.
TEST(CudaFloor, TheTableOfTheH200) {
  const std::pair<std::int64_t, double> table[] = {{1, 1158},  {2, 1160},  {4, 1164},  {8, 1172},
                                                   {16, 1188}, {32, 1219}, {64, 1598}, {128, 3196}};
  for (const auto& [tokens, us] : table) {
    const CudaWork work = moe_work(glm_5(), 32 * tokens, balanced(tokens));
    const CudaFloor floor = floor_of(work, {.read_gb_s = 4700, .matrix_tflops = 774});
    EXPECT_NEAR(floor.us(), us, 1) << tokens;
    EXPECT_EQ(floor.memory_us > floor.compute_us, tokens <= 32) << tokens;
  }
}

// MXFP4 stores 17/32 byte a weight: a 128 x 64 matrix is 4,352 bytes.
TEST(CudaFloor, ADenseProduct) {
  const BenchShape shape{.format = Format::kMxfp4, .n = 128, .k = 64};
  const CudaWork work = dense_work(shape, 3);
  EXPECT_EQ(work.weight_bytes, 4352);
  EXPECT_EQ(work.activation_bytes, 2 * 3 * (128 + 64));
  EXPECT_EQ(work.flop, 2 * 3 * 128 * 64);
}

TEST(CudaFloor, PartsOfALayerAreItsWeightsAndFlop) {
  const ExpertCounts counts = balanced(2);
  const CudaWork layer = moe_work(glm_5(), 64, counts);
  const CudaWork gate_up = part_work(glm_5(), ProductPart::kGateUp, 64, counts);
  const CudaWork down = part_work(glm_5(), ProductPart::kDown, 64, counts);
  EXPECT_EQ(layer.weight_bytes, gate_up.weight_bytes + down.weight_bytes);
  EXPECT_EQ(layer.flop, gate_up.flop + down.flop);
  EXPECT_EQ(gate_up.weight_bytes, 2 * down.weight_bytes);
  EXPECT_EQ(gate_up.activation_bytes, 2.0 * (64 * 6144 + 512 * 2048));
  EXPECT_EQ(down.activation_bytes, 2.0 * 512 * (2048 + 6144));
}

TEST(CudaFloor, HotWeightsCostNoMemory) {
  const CudaFloor floor = floor_of(moe_work(glm_5(), 32, balanced(1)),
                                   {.read_gb_s = 4700, .matrix_tflops = 774}, false);
  EXPECT_EQ(floor.memory_us, 0);
  EXPECT_NEAR(floor.us(), 2.0 * 256 * 3 * 6144 * 2048 / 774e6, 1e-6);
}

}  // namespace
}  // namespace nibble
