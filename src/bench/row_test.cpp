#include "bench/row.h"

#include <cmath>
#include <gtest/gtest.h>
#include <regex>

namespace nibble {
namespace {

constexpr double kRunSeconds = 1e-3;

// Takes a millisecond for whatever it claims to do.
class FakeRig final : public Rig {
 public:
  Work claimed;
  bool right = true;
  bool slow_runs = false;  // each third takes four times as long
  int draws = 0;
  std::size_t memory = 1 << 20;

  Result<> set_tokens(std::int64_t) override { return {}; }
  Result<> check() override {
    return right ? Result<>() : Result<>(run_error("the kernel is wrong"));
  }
  void draw() override { ++draws; }
  void run() override {
    const double start = steady_now();
    const double seconds = slow_runs && draws % 3 == 0 ? 4 * kRunSeconds : kRunSeconds;
    while (steady_now() - start < seconds) {
    }
  }
  Work work() const override { return claimed; }
  MemoryParts cold_memory(double) override {
    return {std::span<const std::byte>(bytes_).first(memory)};
  }
  const Ring& ring() const override { return ring_; }
  std::string kernel() const override { return "fake"; }

 private:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(1 << 20);
  Ring ring_{.units = 1, .bytes = 1 << 20};
};

struct RowScene {
  ThreadPool pool{1};
  CpuRoofs roofs;
  KernelRates rates{{.pool = pool, .isa = best_isa(), .ring_bytes = 4e6, .most_seconds = 0.005}};
  FakeRig rig;
  BenchShape shape{.format = Format::kNvfp4,
                   .activations = Format::kInt8,
                   .experts = 8,
                   .top_k = 2,
                   .n = 64,
                   .k = 64,
                   .tokens = {4}};

  RowScene() {
    roofs.read = {.value = 10};
    roofs.rates[Precision::kBf16] = {.value = 0.1};
    roofs.rates[Precision::kInt8] = {.value = 0.2};
    rig.claimed = {.bytes = 1e4, .weight_bytes = 1e4, .flop = 1e4, .distinct = 4};
  }
  BenchRow measure(bool cold, std::size_t least = 8) {
    const RowContext context{.pool = pool,
                             .roofs = roofs,
                             .read = read_probes().front(),
                             .multiply = multiply_probes().back(),
                             .rates = rates,
                             .cache_bytes = 32e6,
                             .rule = {.least = least, .most = 40, .budget_s = 0.1}};
    Result<BenchRow> row = measure_row(rig, shape, 4, cold, context);
    EXPECT_TRUE(row.ok());
    return std::move(row).value();
  }
};

TEST(RoofPrecision, FollowsTheActivations) {
  EXPECT_EQ(roof_precision(Format::kNvfp4, Format::kBf16), Precision::kBf16);
  EXPECT_EQ(roof_precision(Format::kNvfp4, Format::kInt8), Precision::kInt8);
  EXPECT_EQ(roof_precision(Format::kMxfp4, Format::kNvfp4), Precision::kInt8);
  EXPECT_EQ(roof_precision(Format::kBf16, Format::kBf16), Precision::kBf16);
}

TEST(MeasureRow, TimesRunsAndCountsWork) {
  RowScene scene;
  const BenchRow row = scene.measure(true);
  EXPECT_EQ(row.error, "");
  EXPECT_GE(row.time_us.values.size(), 8U);
  EXPECT_EQ(row.time_us.values.size(), row.share.values.size());
  EXPECT_EQ(static_cast<std::size_t>(scene.rig.draws), row.time_us.values.size());
  EXPECT_GE(row.time_us.median, 1000);
  EXPECT_LT(row.time_us.median, 50'000);  // a busy machine
  EXPECT_EQ(row.bytes, 1e4);
  EXPECT_EQ(row.rows_per_expert, 2);  // 4 tokens x 2 of 4 distinct experts
  EXPECT_GT(row.roof_gb_s, 0);
  EXPECT_DOUBLE_EQ(row.memory_us, 1e4 / row.roof_gb_s / 1e3);
  EXPECT_DOUBLE_EQ(row.compute_us, 1e4 / row.roof_tops / 1e6);
  EXPECT_DOUBLE_EQ(row.time_us.median * row.share.median, row.floor_us);
  EXPECT_LT(row.share.median, 1);
}

TEST(MeasureRow, TwoModesHaveTheirUnits) {
  RowScene scene;
  scene.rig.slow_runs = true;
  // Modes need 32 samples; on a busy machine they may run together once.
  BenchRow row = scene.measure(true, 40);
  for (int again = 0; again < 9 && !row.time_us.modes.two; ++again) row = scene.measure(true, 40);
  std::string said;
  for (const std::string& flag : row.flags) said += flag + "\n";
  EXPECT_TRUE(std::regex_search(
      said,
      std::regex("times have two modes: [0-9.]+ ms in [0-9.]+ % of the runs, else [0-9.]+ ms")))
      << said;
}

TEST(MeasureRow, AWrongKernelIsNotTimed) {
  RowScene scene;
  scene.rig.right = false;
  const BenchRow row = scene.measure(true);
  EXPECT_EQ(row.error, "the kernel is wrong");
  EXPECT_TRUE(row.time_us.values.empty());
  EXPECT_EQ(scene.rig.draws, 0);
  const Json json = to_json(row);
  EXPECT_TRUE(json.find("time_us")->is_null());
  EXPECT_EQ(json.find("error")->as_string(), "the kernel is wrong");
}

// More operations in a millisecond than any processor does: the books are wrong.
TEST(MeasureRow, MoreThanTheRoofIsAnAccountingError) {
  RowScene scene;
  scene.rig.claimed.flop = 1e15;
  BenchRow row = scene.measure(false);
  judge_row(row, {});
  EXPECT_NE(row.error.find("accounting error"), std::string::npos);
  EXPECT_TRUE(row.timed());
}

TEST(MeasureRow, HotRowsHaveNoMemoryFloor) {
  RowScene scene;
  scene.rig.claimed.weight_bytes = 64e6;  // more than the cache of 32 MB
  scene.rig.claimed.bytes = 1e12;
  const BenchRow row = scene.measure(false);
  EXPECT_EQ(row.memory_us, 0);
  EXPECT_FALSE(row.memory_bound());
  ASSERT_FALSE(row.flags.empty());
  EXPECT_NE(row.flags.front().find("not hot"), std::string::npos);
}

TEST(MeasureRow, AColdRowThatFitsInTheCacheIsFlagged) {
  RowScene scene;  // the ring is 1 MB
  const BenchRow row = scene.measure(true);
  ASSERT_FALSE(row.flags.empty());
  EXPECT_NE(row.flags.front().find("not cold"), std::string::npos);
}

TEST(MeasureRow, UnitsShorterThanAStepKeepTheRoofOfTheStart) {
  RowScene scene;
  scene.rig.memory = 100;
  const BenchRow row = scene.measure(true);
  ASSERT_TRUE(row.memory_bound());
  EXPECT_TRUE(std::isfinite(row.floor_us));
  EXPECT_GT(row.floor_us, 0);
}

// Medians of pairs: floors 1, 2, 9 and times 2, 8, 10 have shares 0.5, 0.25 and 0.9.
TEST(MakeConsistent, WhatIsShownRecomputesByHand) {
  BenchRow row{.bytes = 80e3, .flop = 4e6};
  row.time_us = {.values = {2, 8, 10}, .median = 8};
  row.share = {.values = {0.5, 0.25, 0.9}, .median = 0.5};
  row.predicted = {.values = {1, 1.25, 1.5}, .median = 1.25};
  row.memory_us = 2;
  row.compute_us = 1;
  make_consistent(row);
  EXPECT_EQ(row.floor_us, 4);  // 8 x 0.5, where the median of the floors is 2
  EXPECT_EQ(row.memory_us, 4);
  EXPECT_EQ(row.compute_us, 2);
  EXPECT_EQ(row.predicted_us, 10);
  EXPECT_DOUBLE_EQ(row.roof_gb_s, 20);       // 80 kB in 4 us
  EXPECT_DOUBLE_EQ(row.roof_tops, 2);        // 4 M in 2 us
  EXPECT_DOUBLE_EQ(row.reached_gb_s(), 10);  // 80 kB in 8 us
  EXPECT_DOUBLE_EQ(row.reached_tops(), 0.5);
  EXPECT_TRUE(row.memory_bound());
}

TEST(JudgeRow, SaysWhyMoreThanTheRoofWasReached) {
  const auto judged = [](double median, double low, StateChange change) {
    BenchRow row;
    row.time_us.values = {1};
    row.share = {.values = {median}, .median = median, .interval = Interval{low, median + 0.1}};
    judge_row(row, change);
    return row;
  };
  const StateChange busy{.steal_share = 0.06, .others_share = 0.08};
  const StateChange quiet{.steal_share = 0.05, .others_share = 0.04};
  EXPECT_TRUE(judged(0.9, 0.8, quiet).flags.empty());
  EXPECT_FALSE(judged(0.9, 0.8, quiet).disturbed);

  const BenchRow slow = judged(0.9, 0.8, busy);
  EXPECT_TRUE(slow.disturbed);
  ASSERT_EQ(slow.flags.size(), 1U);
  EXPECT_TRUE(slow.flags.front().starts_with("busy machine: others took 14.0 %"));

  const BenchRow wide = judged(1.02, 0.95, quiet);  // the interval holds 1
  EXPECT_EQ(wide.error, "");
  ASSERT_EQ(wide.flags.size(), 1U);
  EXPECT_NE(wide.flags.front().find("faster than its roof"), std::string::npos);

  EXPECT_NE(judged(1.2, 1.1, quiet).error.find("please report"), std::string::npos);
  const BenchRow disturbed = judged(1.2, 1.1, busy);
  EXPECT_EQ(disturbed.error, "");
  ASSERT_EQ(disturbed.flags.size(), 2U);
  EXPECT_NE(disturbed.flags.back().find("busy machine"), std::string::npos);
}

TEST(AccountingError, NeedsTheWholeIntervalAboveOne) {
  Sample share{.values = {1.1}, .median = 1.1};
  EXPECT_EQ(accounting_error(share), "");  // no interval, no certainty
  share.interval = Interval{0.99, 1.2};
  EXPECT_EQ(accounting_error(share), "");
  share.interval = Interval{1.01, 1.2};
  EXPECT_NE(accounting_error(share).find("110 %"), std::string::npos);
}

}  // namespace
}  // namespace nibble
