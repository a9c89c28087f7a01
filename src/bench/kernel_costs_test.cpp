#include "bench/kernel_costs.h"

#include <cmath>
#include <gtest/gtest.h>

namespace nibble {
namespace {

TEST(Overlapped, LiesBetweenTheLongerAndTheSum) {
  EXPECT_DOUBLE_EQ(overlapped(3, 4, 0), 4);
  EXPECT_DOUBLE_EQ(overlapped(3, 4, 0.5), 5);  // p = 2: the root of 9 + 16
  EXPECT_DOUBLE_EQ(overlapped(4, 3, 1), 7);
  EXPECT_DOUBLE_EQ(overlapped(0, 3, 1), 3);
  EXPECT_DOUBLE_EQ(overlapped(4, 4, 2), 16);  // p = 1/2: (2 + 2) squared
}

TEST(Overlapped, IsFoundFromTheTimeOfBoth) {
  EXPECT_NEAR(overlap_of(3, 4, 5), 0.5, 1e-9);
  EXPECT_NEAR(overlap_of(4, 3, 7), 1, 1e-9);
  EXPECT_EQ(overlap_of(3, 4, 3.9), 0);
  EXPECT_EQ(overlap_of(4, 4, 100), 2);  // more than two times their sum is not believed
}

TEST(SharedSeconds, IsThatOfTheLongestThread) {
  EXPECT_EQ(shared_seconds({}, 2), 0);
  EXPECT_EQ(shared_seconds({1, 1, 1, 1}, 1), 4);
  EXPECT_EQ(shared_seconds({1, 1, 1, 1}, 2), 2);
  // Shares of four and five: one of the five is left when both have done four.
  EXPECT_EQ(shared_seconds(std::vector<double>(9, 1), 2), 5);
  // The first thread has two long ones; the second is done after 2 and takes one of them, which is
  // the later one's end.
  EXPECT_EQ(shared_seconds({4, 4, 1, 1}, 2), 6);
}

KernelCosts costs_for_test() {
  return {.cut = {.tile_rows = 16, .unit_rows = 64, .pass_rows = 32, .passing_rows = 4},
          .points = {{1, 1000, 10, 0, 0}, {5, 3000, 30, 1, 400}, {32, 3000, 300, 1, 400}}};
}

TEST(KernelCosts, AreLinearBetweenThePoints) {
  const KernelCosts costs = costs_for_test();
  EXPECT_EQ(costs.at(1).column, 10);
  const UnitCost between = costs.at(3);  // half way from 1 to 5
  EXPECT_DOUBLE_EQ(between.unit, 2000);
  EXPECT_DOUBLE_EQ(between.column, 20);
  EXPECT_DOUBLE_EQ(between.overlap, 0.5);
  EXPECT_DOUBLE_EQ(between.start_bytes, 200);
  EXPECT_EQ(costs.at(32).column, 300);
}

TEST(KernelCosts, CountUnitsTilesAndPasses) {
  const KernelCosts costs = costs_for_test();
  // 144 rows are 9 tiles: two units of four and one of a single tile. A unit of one row takes
  // 1000 + 100 x 10 = 2000 operations, 2 ns at 1 Tera a second.
  const Product one{.rows = 1, .n = 144, .k = 100, .weight_bytes = 9000};
  EXPECT_NEAR(costs.gemm_s({.products = {one}}, {.tops = 1}, 1), 4.5e-9, 1e-18);
  // Two threads: a unit for the first, 2 ns; a unit and a tile for the second, 2.5 ns.
  EXPECT_NEAR(costs.gemm_s({.products = {one}}, {.tops = 1}, 2), 2.5e-9, 1e-18);
  // 33 rows are a pass of 32 and one of 1: 3000 + 30000 operations a unit, and the 2000 of before.
  const Product passes{.rows = 33, .n = 144, .k = 100, .weight_bytes = 9000};
  EXPECT_NEAR(costs.gemm_s({.products = {passes}}, {.tops = 1}, 1), 2.25 * 35e-9, 1e-17);
}

TEST(KernelCosts, ReadTheFirstPassFromMemory) {
  const KernelCosts costs = costs_for_test();
  // One unit of 5 rows: 3000 + 100 x 30 operations, 6 ns; 4000 bytes at 1 GB/s are 4 us, beside
  // which nothing of the arithmetic is hidden, and 400 bytes of start.
  const Product product{.rows = 5, .n = 64, .k = 100, .weight_bytes = 4000};
  const GemmCall call{.products = {product}};
  EXPECT_NEAR(costs.gemm_s(call, {1, 1}, 1), 4.406e-6, 1e-12);
  // A thread of two has half of the bandwidth, whatever the other one does.
  EXPECT_NEAR(costs.gemm_s(call, {1, 1}, 2), 8.806e-6, 1e-12);
  // 37 rows: the pass of 32 rows reads, 33,000 operations are 33 ns; that of 5 does not.
  const Product passes{.rows = 37, .n = 64, .k = 100, .weight_bytes = 4000};
  EXPECT_NEAR(costs.gemm_s({.products = {passes}}, {1, 1}, 1), 4.439e-6, 1e-12);
}

TEST(KernelCosts, AddUpARun) {
  KernelCosts costs = costs_for_test();
  costs.section_s = 1e-6;
  costs.entry_s = 2e-9;
  costs.start_s = 3e-6;
  costs.value_s = 1e-9;
  costs.quantize = 500;
  costs.quantize_alone = 1000;
  const RoofsNow roofs{.tops = 1};
  // 1000 values: 1 us alone, 1.5 us with a section; 4000 values: 4 us alone, 3 us with one.
  EXPECT_NEAR(costs.quantize_s(1000, roofs), 1e-6, 1e-15);
  EXPECT_NEAR(costs.quantize_s(4000, roofs), 3e-6, 1e-15);
  // 1 us of section, 1 of the list, 0.1 of the values, 3 of start and 2 ns.
  const GemmCall call{.list = 500, .values = 100, .products = {{1, 64, 100, 4000}}};
  EXPECT_NEAR(costs.gemm_s(call, roofs, 1), 5.102e-6, 1e-15);
  const Work work{.quantized = {1000, 4000}, .calls = {call, call}, .sections = 2};
  EXPECT_NEAR(costs.predict_s(work, roofs, 1), (1 + 3 + 2 * 5.102 + 2) * 1e-6, 1e-15);
}

}  // namespace
}  // namespace nibble
