#include "mock/engine.h"

#include <cmath>
#include <gtest/gtest.h>

#include "mock/test_time.h"

namespace nibble::mock {
namespace {

MockScript script_with(double ttft_ms, double itl_ms) {
  MockScript script;
  script.ttft_ms = Distribution::constant(ttft_ms);
  script.itl_ms = Distribution::constant(itl_ms);
  return script;
}

std::vector<Chunk> all_chunks(const MockScript& script, std::int64_t tokens, Nanoseconds start = 0,
                              std::uint64_t index = 0) {
  const RequestPlan plan = plan_request(script, index, {.max_tokens = tokens});
  ChunkSchedule schedule(script, plan, start);
  std::vector<Chunk> chunks;
  while (const auto chunk = schedule.next(1)) chunks.push_back(*chunk);
  return chunks;
}

std::vector<Nanoseconds> dues(const std::vector<Chunk>& chunks) {
  std::vector<Nanoseconds> times;
  for (const Chunk& chunk : chunks) times.push_back(chunk.due);
  return times;
}

std::vector<std::int64_t> sizes(const std::vector<Chunk>& chunks) {
  std::vector<std::int64_t> counts;
  for (const Chunk& chunk : chunks) counts.push_back(chunk.tokens);
  return counts;
}

std::vector<Arrival> together(std::size_t count, std::int64_t tokens) {
  return std::vector<Arrival>(count, Arrival{.at = 0, .asked = {.max_tokens = tokens}});
}

TEST(Engine, ConstantTimes) {
  const auto chunks = all_chunks(script_with(50, 10), 4, 1000 * kMs);
  EXPECT_EQ(dues(chunks),
            (std::vector<Nanoseconds>{1050 * kMs, 1060 * kMs, 1070 * kMs, 1080 * kMs}));
  EXPECT_TRUE(chunks.back().last);
  EXPECT_FALSE(chunks.front().last);
}

TEST(Engine, ChunksTakeTheTimeOfTheirTokens) {
  MockScript script = script_with(50, 10);
  script.tokens_per_chunk = Distribution::constant(3);
  const auto chunks = all_chunks(script, 9);
  EXPECT_EQ(sizes(chunks), (std::vector<std::int64_t>{1, 3, 3, 2}));
  // (last - first) / (tokens - 1) = (130 - 50) / 8 = 10 ms: the script's ITL.
  EXPECT_EQ(dues(chunks), (std::vector<Nanoseconds>{50 * kMs, 80 * kMs, 110 * kMs, 130 * kMs}));
}

TEST(Engine, ListsArePlayedByTokenAndByRequest) {
  MockScript script;
  script.ttft_ms = {.kind = DistributionKind::kList, .list = {1, 2}};
  script.itl_ms = {.kind = DistributionKind::kList, .list = {5, 0, 7}};
  EXPECT_EQ(dues(all_chunks(script, 5, 0, 0)),
            (std::vector<Nanoseconds>{1 * kMs, 6 * kMs, 6 * kMs, 13 * kMs, 18 * kMs}));
  EXPECT_EQ(all_chunks(script, 1, 0, 3).front().due, 2 * kMs);
}

TEST(Engine, ReasoningEndsAChunk) {
  MockScript script = script_with(1, 1);
  script.tokens_per_chunk = Distribution::constant(4);
  script.fields.reasoning_tokens = Distribution::constant(3);
  EXPECT_EQ(sizes(all_chunks(script, 8)), (std::vector<std::int64_t>{1, 2, 4, 1}));
}

TEST(Engine, PromptTokensTakeTime) {
  MockScript script = script_with(10, 1);
  script.ttft_ms_per_prompt_token = 0.5;
  EXPECT_EQ(plan_request(script, 0, {.prompt_tokens = 100}).ttft, 60 * kMs);
}

TEST(Engine, FirstRequestsAreSlow) {
  MockScript script = script_with(10, 2);
  script.slow_start = {.requests = 2, .factor = 10};
  EXPECT_EQ(dues(all_chunks(script, 2, 0, 1)), (std::vector<Nanoseconds>{100 * kMs, 120 * kMs}));
  EXPECT_EQ(dues(all_chunks(script, 2, 0, 2)), (std::vector<Nanoseconds>{10 * kMs, 12 * kMs}));
}

TEST(Engine, EarlyEnds) {
  MockScript script;
  script.early_end = {.probability = 1, .tokens = Distribution::constant(5)};
  const RequestPlan early = plan_request(script, 0, {.max_tokens = 100});
  EXPECT_EQ(early.output_tokens, 5);
  EXPECT_TRUE(early.ended_early);
  const RequestPlan asked = plan_request(script, 0, {.max_tokens = 5});
  EXPECT_FALSE(asked.ended_early);
  script.early_end.probability = 0.3;
  int count = 0;
  for (std::uint64_t index = 0; index < 1000; ++index) {
    if (plan_request(script, index, {.max_tokens = 100}).ended_early) ++count;
  }
  EXPECT_NEAR(count, 300, 75);  // five standard errors of a binomial
}

TEST(Engine, LengthsComeFromTheRequestFirst) {
  MockScript script;
  script.output_tokens = Distribution::constant(12);
  EXPECT_EQ(plan_request(script, 0, {}).output_tokens, 12);
  EXPECT_EQ(plan_request(script, 0, {.max_tokens = 3}).output_tokens, 3);
  EXPECT_EQ(plan_request(script, 0, {.max_tokens = INT64_MAX}).output_tokens, 10'000'000);
}

TEST(Engine, FaultsHitWhomTheyName) {
  MockScript script;
  script.faults = {{.kind = FaultKind::kReset, .requests = {2}},
                   {.kind = FaultKind::kStatus, .every = 3},
                   {.kind = FaultKind::kHtml, .probability = 1}};
  const auto kind = [&](std::uint64_t index) {
    return plan_request(script, index, {}).fault->kind;
  };
  EXPECT_EQ(kind(0), FaultKind::kHtml);
  EXPECT_EQ(kind(2), FaultKind::kReset);  // also the third, but the first that hits counts
  EXPECT_EQ(kind(5), FaultKind::kStatus);
}

TEST(Engine, FaultsStrikeAfterTheirTokens) {
  MockScript script = script_with(10, 1);
  script.tokens_per_chunk = Distribution::constant(4);
  script.faults = {{.kind = FaultKind::kReset, .every = 1, .after_tokens = 3}};
  const RequestPlan plan = plan_request(script, 0, {.max_tokens = 10});
  ChunkSchedule schedule(script, plan, 0);
  EXPECT_EQ(schedule.next(1)->tokens, 1);
  EXPECT_FALSE(schedule.struck());
  EXPECT_EQ(schedule.next(1)->tokens, 2);
  EXPECT_TRUE(schedule.struck());
  EXPECT_FALSE(schedule.next(1).has_value());
  schedule.delay(100 * kMs);
  schedule.fault_is_over();
  const auto next = schedule.next(1);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->tokens, 4);
  EXPECT_EQ(next->due, 10 * kMs + 2 * kMs + 100 * kMs + 4 * kMs);
}

TEST(Engine, LoadCurves) {
  MockScript script;
  EXPECT_EQ(load_factor(script, 100, 0), 1);
  script.load_curve = {.kind = CurveKind::kKnee, .knee = 32};
  EXPECT_EQ(load_factor(script, 16, 0), 1);
  EXPECT_EQ(load_factor(script, 64, 0), 2);
  script.load_curve = {.kind = CurveKind::kUsl, .sigma = 0.1, .kappa = 0.01};
  EXPECT_DOUBLE_EQ(load_factor(script, 1, 0), 1);
  EXPECT_DOUBLE_EQ(load_factor(script, 11, 0), 1 + 0.1 * 10 + 0.01 * 11 * 10);
  script.load_curve = {.kind = CurveKind::kPoints, .running = {1, 10, 20}, .factors = {1, 2, 8}};
  EXPECT_DOUBLE_EQ(load_factor(script, 1, 0), 1);
  EXPECT_DOUBLE_EQ(load_factor(script, 15, 0), 5);
  EXPECT_DOUBLE_EQ(load_factor(script, 40, 0), 16);  // throughput stays that of the last point
}

TEST(Engine, NoiseIsSharedWithinAPeriod) {
  MockScript script;
  script.load_curve.noise = 0.05;
  const double first = load_factor(script, 1, 0);
  EXPECT_EQ(load_factor(script, 1, 999 * kMs), first);
  EXPECT_NE(load_factor(script, 1, 1000 * kMs), first);
  double sum = 0;
  double squares = 0;
  constexpr int kPeriods = 4000;
  for (int period = 0; period < kPeriods; ++period) {
    const double factor = load_factor(script, 1, period * 1000 * kMs);
    sum += factor;
    squares += factor * factor;
  }
  const double mean = sum / kPeriods;
  EXPECT_NEAR(mean, 1, 0.005);
  EXPECT_NEAR(std::sqrt(squares / kPeriods - mean * mean), 0.05, 0.004);
}

TEST(Engine, SlotsAreTakenInTheOrderOfArrival) {
  Slots slots(2);
  EXPECT_EQ(slots.arrive(1, 10)->at, 10);
  EXPECT_EQ(slots.arrive(2, 11)->at, 11);
  EXPECT_FALSE(slots.arrive(3, 12).has_value());
  EXPECT_FALSE(slots.arrive(4, 13).has_value());
  EXPECT_FALSE(slots.arrive(5, 50).has_value());
  EXPECT_TRUE(slots.abandon(3));
  EXPECT_FALSE(slots.abandon(3));
  const auto next = slots.leave(40);
  EXPECT_EQ(next->id, 4U);
  EXPECT_EQ(next->at, 40);
  EXPECT_EQ(slots.leave(45)->at, 50);  // never before it arrived
  EXPECT_EQ(slots.running(), 2);
  EXPECT_FALSE(slots.leave(60).has_value());
  EXPECT_EQ(slots.running(), 1);
  EXPECT_EQ(slots.waiting(), 0);
}

TEST(Simulate, AQueueInFrontOfTwoSlots) {
  MockScript script = script_with(50, 10);
  script.capacity = 2;
  // Each takes 50 + 2 * 10 = 70 ms.
  const auto answers = simulate(script, together(5, 3));
  const std::vector<Nanoseconds> starts = {0, 0, 70 * kMs, 70 * kMs, 140 * kMs};
  for (std::size_t index = 0; index < starts.size(); ++index) {
    EXPECT_EQ(answers[index].start, starts[index]) << index;
    EXPECT_EQ(answers[index].chunks.front().due, starts[index] + 50 * kMs) << index;
    EXPECT_EQ(answers[index].end, starts[index] + 70 * kMs) << index;
  }
}

TEST(Simulate, ThroughputIsLinearAndThenFlat) {
  MockScript script = script_with(0, 10);
  script.load_curve = {.kind = CurveKind::kKnee, .knee = 4};
  const auto rate = [&](std::size_t running) {
    const auto answers = simulate(script, together(running, 101));
    return static_cast<double>(running) * 100 / seconds(answers.back().end);
  };
  EXPECT_DOUBLE_EQ(rate(1), 100);
  EXPECT_DOUBLE_EQ(rate(4), 400);
  EXPECT_DOUBLE_EQ(rate(8), 400);
  EXPECT_DOUBLE_EQ(rate(16), 400);
}

TEST(Simulate, AHangHoldsItsSlot) {
  MockScript script = script_with(10, 10);
  script.capacity = 1;
  script.faults = {{.kind = FaultKind::kHang, .requests = {0}, .after_tokens = 1, .ms = 500}};
  const auto answers = simulate(script, together(2, 2));
  EXPECT_EQ(dues(answers[0].chunks), (std::vector<Nanoseconds>{10 * kMs, 520 * kMs}));
  EXPECT_EQ(answers[1].start, 520 * kMs);
  script.faults[0].ms = std::nullopt;
  const auto stuck = simulate(script, together(2, 2));
  EXPECT_TRUE(stuck[0].hangs);
  EXPECT_TRUE(stuck[1].chunks.empty());
}

TEST(Simulate, AFaultFreesItsSlot) {
  MockScript script = script_with(10, 10);
  script.capacity = 1;
  script.faults = {{.kind = FaultKind::kReset, .requests = {0}, .after_tokens = 2}};
  const auto answers = simulate(script, together(2, 5));
  EXPECT_EQ(answers[0].chunks.size(), 2U);
  EXPECT_EQ(answers[1].start, 20 * kMs);
}

TEST(Simulate, TheFarthestTimesDoNotOverflow) {
  MockScript script = script_with(kMostMs, kMostMs);
  script.slow_start = {.requests = 1, .factor = 1e4};
  script.tokens_per_chunk = Distribution::constant(1e7);
  const auto chunks = all_chunks(script, INT64_MAX);
  EXPECT_GT(chunks.back().due, chunks.front().due);
}

}  // namespace
}  // namespace nibble::mock
