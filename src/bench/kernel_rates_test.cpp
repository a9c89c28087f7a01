#include "bench/kernel_rates.h"

#include <gtest/gtest.h>

#include "machine/isa.h"

namespace nibble {
namespace {

// Times made by hand from costs: they come out again.
TEST(UnitCost, ComesFromTimesOfTwoMatrices) {
  // 1000 operations a unit and 10 a column: 41,960 and 6,120 of them.
  ReferenceUnits units{.wide_operations = 41'960,
                       .narrow_operations = 6'120,
                       .wide_columns = 4096,
                       .narrow_columns = 512,
                       .bytes_of_column = 5};
  const UnitCost hot = unit_cost(units, 7);
  EXPECT_EQ(hot.rows, 7);
  EXPECT_NEAR(hot.column, 10, 1e-9);
  EXPECT_NEAR(hot.unit, 1000, 1e-6);
  EXPECT_EQ(hot.overlap, 0);
  EXPECT_EQ(hot.start_bytes, 0);
  // Half a byte could be read in the time of an operation. Nothing overlaps, and a start takes 300
  // bytes: 5 x 4096 + 41,960 / 2 + 300, and 5 x 512 + 3060 + 300.
  units.operations_of_byte = 2;
  units.wide_bytes = 41'760;
  units.narrow_bytes = 5'920;
  const UnitCost cold = unit_cost(units, 7);
  EXPECT_NEAR(cold.overlap, 1, 1e-3);
  EXPECT_NEAR(cold.start_bytes, 300, 5);
}

TEST(UnitCost, IsNeverNegative) {
  // A narrow unit that took longer than a wide one, and was faster from memory than from the cache.
  const UnitCost cost = unit_cost({.wide_operations = 4096,
                                   .narrow_operations = 5000,
                                   .wide_bytes = 100,
                                   .narrow_bytes = 100,
                                   .operations_of_byte = 1,
                                   .wide_columns = 4096,
                                   .narrow_columns = 512,
                                   .bytes_of_column = 1},
                                  1);
  EXPECT_EQ(cost.column, 0);
  EXPECT_EQ(cost.unit, 4096);
  EXPECT_EQ(cost.overlap, 0);
  EXPECT_EQ(cost.start_bytes, 0);
}

// The costs are this machine's; what the prediction makes of them is not.
TEST(KernelRates, PredictFromMeasuredCosts) {
  ThreadPool pool(1);
  KernelRates rates({.pool = pool, .isa = best_isa(), .ring_bytes = 4e6, .most_seconds = 0.005});
  const RatesRow row{read_probes().front(), multiply_probes().back(), 4};
  ASSERT_TRUE(rates.begin_row(Format::kNvfp4, Format::kInt8, row).ok());
  rates.sample(1e10, 1e12);
  ASSERT_TRUE(rates.end_row(1).ok());
  const auto predict = [&](const RoofsNow& roofs, std::int64_t rows) {
    const GemmCall call{.products = {{rows, 1024, 1024, 589'824}}};
    return rates.predict_s({.calls = {call}}, roofs);
  };
  // At 1 MB/s little but the bytes counts: at least 0.589 s, and twice as much at half of that.
  EXPECT_GE(predict({1e-3, 1}, 1), 0.589);
  EXPECT_NEAR(predict({5e-4, 1}, 1) / predict({1e-3, 1}, 1), 2, 0.02);
  const double hot = predict({0, 1}, 1);
  EXPECT_GT(hot, 0);
  EXPECT_GT(predict({0, 0.5}, 1), hot);  // a processor half as fast
  EXPECT_GT(predict({0, 1}, 64), hot);
  ASSERT_FALSE(rates.to_json().as_array().empty());
  EXPECT_GT(rates.to_json().as_array().front().find("section_us")->as_number(), 0);
}

}  // namespace
}  // namespace nibble
