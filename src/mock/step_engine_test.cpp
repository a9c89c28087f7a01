// Steps computed by hand: every part of them is a round number of milliseconds.
#include "mock/step_engine.h"

#include <cmath>
#include <gtest/gtest.h>

#include "mock/test_time.h"

namespace nibble::mock {
namespace {

// 10 ms of weights, 1 ms a row that decodes, 1 ms a token of a prompt, nothing else.
MockScript plain_script() {
  MockScript script;
  script.steps = StepsScript{.prefill_chunk_tokens = 100,
                             .weights_ms = 10,
                             .kv_ms_per_1k_tokens = 0,
                             .per_sequence_ms = 1,
                             .prefill_ms_per_token = 1};
  return script;
}

Arrival arrival(Nanoseconds at, std::int64_t prompt, std::int64_t output) {
  return {.at = at, .asked = {.prompt_tokens = prompt, .max_tokens = output}};
}

std::vector<Nanoseconds> dues(const SimulatedAnswer& answer) {
  std::vector<Nanoseconds> times;
  for (const Chunk& chunk : answer.chunks) times.push_back(chunk.due);
  return times;
}

std::vector<Nanoseconds> ms(std::initializer_list<Nanoseconds> times) {
  std::vector<Nanoseconds> all;
  for (const Nanoseconds time : times) all.push_back(time * kMs);
  return all;
}

TEST(StepEngine, OneRequestByHand) {
  const StepsRun run = simulate_steps(plain_script(), std::vector{arrival(5 * kMs, 4, 3)});
  // Prompt: 10 + 4. Then 10 + 1 for each further token.
  EXPECT_EQ(dues(run.answers[0]), ms({19, 30, 41}));
  EXPECT_EQ(run.answers[0].start, 5 * kMs);
  EXPECT_EQ(run.answers[0].end, 41 * kMs);
  EXPECT_TRUE(run.answers[0].chunks[2].last);
  EXPECT_FALSE(run.answers[0].chunks[1].last);
  ASSERT_EQ(run.steps.size(), 3U);
  EXPECT_EQ(run.steps[0].prompt_tokens, 4);
  EXPECT_EQ(run.steps[0].decode_rows, 0);
  EXPECT_EQ(run.steps[2].decode_rows, 1);
}

TEST(StepEngine, SimulateIsTheSame) {
  const std::vector arrivals = {arrival(0, 4, 3), arrival(kMs, 2, 2)};
  const auto answers = simulate(plain_script(), arrivals);
  const StepsRun run = simulate_steps(plain_script(), arrivals);
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(dues(answers[1]), dues(run.answers[1]));
  EXPECT_FALSE(answers[1].chunks.empty());
}

TEST(StepEngine, PromptsShareStepsWithDecoding) {
  // The second comes in the first's second step and waits for its end.
  const StepsRun run =
      simulate_steps(plain_script(), std::vector{arrival(0, 5, 4), arrival(16 * kMs, 7, 2)});
  // 15; 15 + 11 = 26; then a row and seven tokens: 26 + 10 + 1 + 7 = 44; two rows: 56.
  EXPECT_EQ(dues(run.answers[0]), ms({15, 26, 44, 56}));
  EXPECT_EQ(dues(run.answers[1]), ms({44, 56}));
  EXPECT_EQ(run.answers[1].start, 26 * kMs);
}

TEST(StepEngine, LongPromptsComeInPieces) {
  MockScript script = plain_script();
  script.steps->prefill_chunk_tokens = 4;
  const StepsRun run =
      simulate_steps(script, std::vector{arrival(0, 10, 2), arrival(0, 3, 1), arrival(0, 1, 1)});
  // Pieces: 4 | 4 | 2 of the first and 2 of the second | a row, 1 of the second and 1 of the third.
  EXPECT_EQ(dues(run.answers[0]), ms({42, 42 + 13}));
  EXPECT_EQ(dues(run.answers[1]), ms({55}));
  EXPECT_EQ(dues(run.answers[2]), ms({55}));
  EXPECT_EQ(run.answers[1].start, 28 * kMs);
  EXPECT_EQ(run.answers[2].start, 42 * kMs);
}

TEST(StepEngine, CapacityMakesAQueue) {
  MockScript script = plain_script();
  script.capacity = 1;
  const StepsRun run =
      simulate_steps(script, std::vector{arrival(0, 1, 2), arrival(0, 1, 1), arrival(0, 1, 1)});
  EXPECT_EQ(dues(run.answers[0]), ms({11, 22}));
  EXPECT_EQ(dues(run.answers[1]), ms({33}));
  EXPECT_EQ(dues(run.answers[2]), ms({44}));
}

TEST(StepEngine, TheHostMakesGaps) {
  MockScript script = plain_script();
  script.steps->host_gap_ms = 5;
  const StepsRun run =
      simulate_steps(script, std::vector{arrival(0, 1, 3), arrival(100 * kMs, 1, 1)});
  EXPECT_EQ(dues(run.answers[0]), ms({11, 27, 43}));
  EXPECT_EQ(dues(run.answers[1]), ms({111}));  // the gap was over long ago
}

TEST(StepEngine, TheCacheIsRead) {
  MockScript script = plain_script();
  script.steps->kv_ms_per_1k_tokens = 100;  // 0.1 ms a token
  const StepsRun run = simulate_steps(script, std::vector{arrival(0, 9, 3)});
  // 19; then 10 + 1 + 0.1 x 10 (the prompt and the row's own token); then 0.1 x 11.
  EXPECT_EQ(run.answers[0].chunks[1].due, 31 * kMs);
  EXPECT_EQ(run.answers[0].chunks[2].due, 31 * kMs + 12'100'000);
  EXPECT_EQ(run.steps[1].kv_tokens, 10);
}

TEST(StepEngine, CachedTokensAreNotComputed) {
  MockScript script = plain_script();
  script.usage.cached_share = 0.75;
  const StepsRun run = simulate_steps(script, std::vector{arrival(0, 8, 1)});
  EXPECT_EQ(dues(run.answers[0]), ms({12}));
  EXPECT_EQ(run.steps[0].fresh_tokens, 2);
  EXPECT_EQ(run.steps[0].cached_tokens, 6);
  script.usage.cached_share = 1;  // the last one is computed all the same
  EXPECT_EQ(dues(simulate_steps(script, std::vector{arrival(0, 8, 1)}).answers[0]), ms({11}));
}

TEST(StepEngine, TheNewestIsPreemptedWhenTheCacheIsFull) {
  MockScript script = plain_script();
  script.kv_capacity_tokens = 10;
  const StepsRun run = simulate_steps(script, std::vector{arrival(0, 4, 4), arrival(0, 4, 3)});
  // 0-18: both prompts, 8 of 10 tokens held. 18-30: two rows, 10 held. At 30 no room for two more:
  // the second goes back with its two tokens, and may not come again in the same step. 30-41 and
  // 41-52: the first alone, 6 and 7 held; the second would need 4 + 2 and waits. 52-68: the second
  // computes its 6 tokens again and gets its third.
  EXPECT_EQ(run.preemptions, 1);
  EXPECT_EQ(dues(run.answers[0]), ms({18, 30, 41, 52}));
  EXPECT_EQ(dues(run.answers[1]), ms({18, 30, 68}));
  EXPECT_EQ(run.answers[1].start, 0);
  ASSERT_EQ(run.steps.size(), 5U);
  EXPECT_EQ(run.steps[4].prompt_tokens, 6);
  EXPECT_EQ(run.steps[4].fresh_tokens, 0);
}

TEST(StepEngine, ARequestIsAdmittedOnlyIfItsPromptFits) {
  MockScript script = plain_script();
  script.kv_capacity_tokens = 10;
  const StepsRun run =
      simulate_steps(script, std::vector{arrival(0, 6, 1), arrival(0, 5, 1), arrival(0, 11, 1)});
  EXPECT_EQ(dues(run.answers[0]), ms({16}));
  EXPECT_EQ(dues(run.answers[1]), ms({31}));
  EXPECT_TRUE(run.answers[2].chunks.empty());  // never
  EXPECT_EQ(run.preemptions, 0);
}

TEST(StepEngine, WhoeverFitsIsServedInTheEnd) {
  MockScript script = plain_script();
  script.kv_capacity_tokens = 24;
  script.steps->prefill_chunk_tokens = 3;
  std::vector<Arrival> arrivals;
  for (int request = 0; request < 12; ++request) arrivals.push_back(arrival(0, 9, 16));
  const StepsRun run = simulate_steps(script, arrivals);
  EXPECT_GT(run.preemptions, 0);
  for (const SimulatedAnswer& answer : run.answers) EXPECT_EQ(answer.chunks.size(), 16U);
  std::int64_t fresh = 0;
  for (const Step& step : run.steps) fresh += step.fresh_tokens;
  EXPECT_EQ(fresh, 12 * 9);  // each prompt once, however often it was computed
}

TEST(StepEngine, CollectivesCostLatencyAndBytes) {
  MockScript script = plain_script();
  // 100 x (20 us + rows x 1 MB / 100 GB/s): 2 ms, and 1 ms a row.
  script.steps->collectives = {.count = 100, .latency_us = 20, .bytes_per_row = 1e6, .gb_s = 100};
  script.steps->ranks = 2;
  const StepsRun run = simulate_steps(script, std::vector{arrival(0, 3, 2)});
  EXPECT_EQ(dues(run.answers[0]), ms({10 + 3 + 2 + 3, 18 + 10 + 1 + 2 + 1}));
  for (const RankTimes& rank : run.steps[1].ranks) {
    EXPECT_EQ(rank.memory, 10 * kMs);
    EXPECT_EQ(rank.compute, 1 * kMs);
    EXPECT_EQ(rank.collective, 3 * kMs);
    EXPECT_EQ(rank.waiting, 0);
  }
}

TEST(StepEngine, AWorseLinkCarriesLess) {
  MockScript script = plain_script();
  script.steps->collectives = {.count = 100, .latency_us = 20, .bytes_per_row = 1e6, .gb_s = 100};
  script.gpu.link_generation = 3;  // of 5: a quarter
  script.gpu.link_width = 8;       // of 16: a half
  EXPECT_EQ(link_share(script.gpu), 0.125);
  const StepsRun run = simulate_steps(script, std::vector{arrival(0, 1, 1)});
  EXPECT_EQ(dues(run.answers[0]), ms({10 + 1 + 2 + 8}));
}

TEST(StepEngine, OthersWaitForTheSlowRank) {
  MockScript script = plain_script();
  script.steps->ranks = 3;
  script.steps->slow_rank_factor = 1.5;
  script.steps->kv_ms_per_1k_tokens = 1000;  // 1 ms a token: the cache is not slower
  const StepsRun run = simulate_steps(script, std::vector{arrival(0, 1, 2)});
  // 1.5 x (10 + 1), then the same and two tokens of cache.
  EXPECT_EQ(run.answers[0].chunks[0].due, 16'500'000);
  EXPECT_EQ(run.answers[0].chunks[1].due, 16'500'000 + 18'500'000);
  const Step& step = run.steps[1];
  EXPECT_EQ(step.ranks[2].memory, 17 * kMs);
  EXPECT_EQ(step.ranks[2].compute, 1'500'000);
  EXPECT_EQ(step.ranks[2].waiting, 0);
  for (const std::size_t rank : {0U, 1U}) {
    EXPECT_EQ(step.ranks[rank].memory, 12 * kMs);
    EXPECT_EQ(step.ranks[rank].compute, 1 * kMs);
    EXPECT_EQ(step.ranks[rank].waiting, 5'500'000);
  }
}

TEST(StepEngine, ALowerClockSlowsComputingAlone) {
  MockScript script = plain_script();
  script.steps->clock_factor = 0.5;
  const StepsRun run = simulate_steps(script, std::vector{arrival(0, 3, 2)});
  EXPECT_EQ(dues(run.answers[0]), ms({10 + 6, 16 + 10 + 2}));
}

TEST(StepEngine, APowerCapStretchesComputing) {
  MockScript script = plain_script();
  script.steps->weights_ms = 0.05;
  script.gpu.idle_w = 100;
  script.gpu.matrix_w = 500;
  script.gpu.waiting_w = script.gpu.copy_w = 500;
  script.gpu.power_cap_w = 200;  // a quarter of 400 W above idle: half the clock
  const StepsRun run = simulate_steps(script, std::vector{arrival(0, 50, 1)});
  EXPECT_NEAR(static_cast<double>(run.answers[0].chunks[0].due), 100.05e6, 1e3);
  EXPECT_TRUE(run.steps[0].ranks[0].clock.held_by_power);
  EXPECT_NEAR(run.steps[0].ranks[0].clock.share, 0.5, 1e-9);
}

TEST(StepEngine, NoiseIsSeededAndHasItsDeviation) {
  MockScript script = plain_script();
  script.steps->noise = 0.1;
  script.steps->per_sequence_ms = 0;
  const std::vector arrivals = {arrival(0, 1, 2000)};
  const StepsRun run = simulate_steps(script, arrivals);
  EXPECT_EQ(dues(run.answers[0]), dues(simulate_steps(script, arrivals).answers[0]));
  double sum = 0;
  double squares = 0;
  for (std::size_t step = 1; step < run.steps.size(); ++step) {
    const double length = milliseconds(run.steps[step].end - run.steps[step].start);
    sum += length;
    squares += length * length;
  }
  const double count = 1999;
  const double mean = sum / count;
  // Five standard errors: 1 ms / sqrt(n), and 1 ms / sqrt(2 n).
  EXPECT_NEAR(mean, 10, 0.12);
  EXPECT_NEAR(std::sqrt(squares / count - mean * mean), 1, 0.08);
  script.seed = 2;
  EXPECT_NE(dues(run.answers[0]), dues(simulate_steps(script, arrivals).answers[0]));
}

TEST(StepEngine, WhoLeavesFreesSlotAndCache) {
  MockScript script = plain_script();
  script.capacity = 1;
  StepEngine engine(script, 0);
  for (const std::uint64_t id : {7U, 8U, 9U}) {
    engine.arrive({.id = id, .at = 0, .prompt_tokens = 5, .output_tokens = 10});
  }
  EXPECT_FALSE(engine.advance().has_value());  // the first step begins
  EXPECT_EQ(engine.counts().running, 1);
  EXPECT_EQ(engine.counts().waiting, 2);
  EXPECT_EQ(engine.counts().kv_tokens, 5);
  engine.leave(7);
  engine.leave(8);
  engine.leave(8);
  EXPECT_EQ(engine.counts().running, 0);
  EXPECT_EQ(engine.counts().kv_tokens, 0);
  const auto step = engine.advance();
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->end, 15 * kMs);  // the step goes on, without anyone to take its token
  EXPECT_TRUE(step->tokens.empty());
  EXPECT_EQ(engine.next_event(), 15 * kMs);
  engine.advance();
  EXPECT_EQ(engine.advance()->tokens.front().id, 9U);
  engine.leave(9);
  EXPECT_EQ(engine.next_event(), kEndOfTime);
}

}  // namespace
}  // namespace nibble::mock
