#include <gtest/gtest.h>

#include "diagnose/diagnosis.h"

namespace nibble::diagnose {
namespace {

// 64 in flight at 1,000 tok/s: 64 ms a token, of which 32 running make 32 and 24 waiting 24. Of the
// floor's 10 ms two are collectives and one launches.
Evidence busy_level() {
  Evidence evidence;
  evidence.setting.gpus = 2;
  evidence.setting.tp = 2;
  evidence.setting.clock_mhz = 2000;
  evidence.setting.copy_power_w = 300;
  evidence.levels.push_back({.name = "64 users"});
  LevelEvidence& level = evidence.levels[0];
  for (std::size_t index = 0; index < kFacts; ++index) {
    level.facts[index] = missing("not measured");
  }
  level[Fact::kUsers] = recorded(64, "t");
  level[Fact::kInFlight] = recorded(64, "t");
  level[Fact::kOutputRate] = recorded(1000, "t");
  level[Fact::kRunning] = recorded(32, "t");
  level[Fact::kWaiting] = recorded(24, "t");
  level[Fact::kOccupancy] = recorded(0.75, "t");
  level[Fact::kKernels] = recorded(12, "t");
  level[Fact::kPromptRate] = recorded(500, "t");
  level[Fact::kPrefillPerToken] = recorded(0.25, "t");
  level[Fact::kSmClock] = recorded(1600, "t");
  level[Fact::kPower] = recorded(320, "t");
  level.joules_per_token = 0.64;
  level.floor = FloorParts{.expert_weights = 3,
                           .other_weights = 2,
                           .kv = 1,
                           .activations = 0,
                           .compute = 1,
                           .collectives = 2,
                           .launches = 1};
  return evidence;
}

LevelDiagnosis waterfall_of(const Evidence& evidence) {
  LevelDiagnosis diagnosis;
  build_waterfall(evidence, 0, diagnosis);
  return diagnosis;
}

const WaterfallBar& bar_of(const LevelDiagnosis& level, std::string_view id) {
  for (const WaterfallBar& bar : level.waterfall) {
    if (bar.id == id) return bar;
  }
  static const WaterfallBar kNone;
  ADD_FAILURE() << "no bar " << id << ": " << level.waterfall_reason;
  return kNone;
}

double ms_of(const LevelDiagnosis& level, std::string_view id) {
  const WaterfallBar& bar = bar_of(level, id);
  EXPECT_TRUE(bar.ms.has_value()) << id << ": " << bar.reason;
  return bar.ms.value_or(-1);
}

void expect_whole(const LevelDiagnosis& level) {
  double sum = 0;
  for (const WaterfallBar& bar : level.waterfall) {
    EXPECT_GE(bar.ms.value_or(0), 0) << bar.id;
    EXPECT_TRUE(bar.ms || !bar.reason.empty()) << bar.id;
    sum += bar.ms.value_or(0);
  }
  EXPECT_NEAR(sum, *level.measured_ms, 1e-9 * *level.measured_ms);
}

TEST(WaterfallTest, BarsByHand) {
  const LevelDiagnosis level = waterfall_of(busy_level());
  EXPECT_DOUBLE_EQ(*level.measured_ms, 64);
  EXPECT_DOUBLE_EQ(ms_of(level, "expert_weights"), 3);
  EXPECT_DOUBLE_EQ(ms_of(level, "launches"), 1);
  EXPECT_DOUBLE_EQ(ms_of(level, "queue"), 24);
  EXPECT_DOUBLE_EQ(ms_of(level, "front_end"), 8);  // 64 - 32 - 24
  EXPECT_DOUBLE_EQ(ms_of(level, "host"), 8);       // a quarter of 32
  EXPECT_DOUBLE_EQ(ms_of(level, "kernels"), 4);    // 12 less the floor of 8 without collectives
  EXPECT_DOUBLE_EQ(ms_of(level, "prefill"), 4);    // 500 tok/s x 32 ms x 0.25 ms
  EXPECT_DOUBLE_EQ(ms_of(level, "clocks"), 0.25);  // 1 ms of compute x (2000 / 1600 - 1)
  EXPECT_FALSE(bar_of(level, "collectives_excess").ms);
  // 64 - 10 - 24 - 8 - 8 - 4 - 4 - 0.25
  EXPECT_DOUBLE_EQ(ms_of(level, "unexplained"), 5.75);
  EXPECT_NE(bar_of(level, "unexplained").note.find("collectives above"), std::string::npos);
  EXPECT_EQ(level.waterfall.front().id, "expert_weights");
  EXPECT_EQ(level.waterfall.back().id, "unexplained");
  expect_whole(level);
}

TEST(WaterfallTest, BarsAreCutWhereTheStepIsFull) {
  Evidence evidence = busy_level();
  evidence.levels[0][Fact::kKernels] = recorded(100, "t");
  const LevelDiagnosis level = waterfall_of(evidence);
  // The step has 32: 10 of floor, 8 of host, and what is left.
  EXPECT_DOUBLE_EQ(ms_of(level, "kernels"), 14);
  EXPECT_NE(bar_of(level, "kernels").note.find("cut from 92"), std::string::npos);
  EXPECT_DOUBLE_EQ(ms_of(level, "prefill"), 0);
  EXPECT_DOUBLE_EQ(ms_of(level, "unexplained"), 0);
  expect_whole(level);
}

TEST(WaterfallTest, AFloorThatDoesNotFitBesideTheQueueCutsIt) {
  Evidence evidence = busy_level();
  evidence.levels[0].floor->expert_weights = 43;  // a floor of 50: 18 more than the step
  const LevelDiagnosis level = waterfall_of(evidence);
  EXPECT_DOUBLE_EQ(ms_of(level, "front_end"), 0);
  EXPECT_DOUBLE_EQ(ms_of(level, "queue"), 14);
  EXPECT_DOUBLE_EQ(ms_of(level, "host"), 0);
  expect_whole(level);
}

TEST(WaterfallTest, AFloorAboveTheMeasuredTimeIsAnAccountingError) {
  Evidence evidence = busy_level();
  evidence.levels[0].floor->expert_weights = 63;  // 70 of 64
  LevelDiagnosis level = waterfall_of(evidence);
  EXPECT_TRUE(level.waterfall.empty());
  EXPECT_NE(level.waterfall_reason.find("accounting error"), std::string::npos);
  EXPECT_EQ(level.measured_ms, 64);
  // Within the noise of the rate it is the roof.
  evidence.levels[0][Fact::kRateNoise] = recorded(0.1, "t");
  level = waterfall_of(evidence);
  EXPECT_EQ(level.waterfall_reason, "");
  EXPECT_DOUBLE_EQ(ms_of(level, "expert_weights"), 57.6);  // 63 x 64 / 70
  EXPECT_DOUBLE_EQ(ms_of(level, "unexplained"), 0);
  expect_whole(level);
}

TEST(WaterfallTest, WhatIsNotCountedIsUnexplained) {
  Evidence evidence = busy_level();
  LevelEvidence& level_facts = evidence.levels[0];
  for (const Fact fact : {Fact::kRunning, Fact::kWaiting, Fact::kOccupancy, Fact::kKernels,
                          Fact::kPrefillPerToken, Fact::kSmClock}) {
    level_facts[fact] = missing("no server metrics");
  }
  const LevelDiagnosis level = waterfall_of(evidence);
  EXPECT_EQ(bar_of(level, "queue").reason, "no server metrics");
  EXPECT_EQ(bar_of(level, "kernels").reason, "no server metrics");
  EXPECT_DOUBLE_EQ(ms_of(level, "unexplained"), 54);  // 64 less the floor
  expect_whole(level);
}

TEST(WaterfallTest, MoreThanTheCapWaits) {
  Evidence evidence = busy_level();
  evidence.setting.max_running = 16;
  evidence.levels[0][Fact::kRunning] = missing("no server metrics");
  evidence.levels[0][Fact::kWaiting] = missing("no server metrics");
  const LevelDiagnosis level = waterfall_of(evidence);
  EXPECT_DOUBLE_EQ(ms_of(level, "queue"), 48);
  EXPECT_FALSE(bar_of(level, "front_end").ms);
  expect_whole(level);
}

TEST(WaterfallTest, AnIdleEngineIsNoHostLoss) {
  Evidence evidence = busy_level();
  LevelEvidence& level_facts = evidence.levels[0];
  level_facts.floor.reset();
  level_facts.floor_reason = "no model";
  level_facts[Fact::kInFlight] = recorded(1, "t");
  level_facts[Fact::kOutputRate] = recorded(100, "t");
  level_facts[Fact::kRunning] = recorded(0.5, "t");
  level_facts[Fact::kWaiting] = recorded(0, "t");
  level_facts[Fact::kOccupancy] = recorded(0.4, "t");
  const LevelDiagnosis level = waterfall_of(evidence);
  EXPECT_DOUBLE_EQ(*level.measured_ms, 10);
  EXPECT_DOUBLE_EQ(ms_of(level, "front_end"), 5);
  // Requests run half of the time, and a tenth of it in no step: 0.1 / 100 s.
  EXPECT_NEAR(ms_of(level, "host"), 1, 1e-12);
  EXPECT_EQ(bar_of(level, "kv").reason, "no model");
  expect_whole(level);
}

TEST(WaterfallTest, ATraceServesKernelsAndCollectives) {
  Evidence evidence = busy_level();
  evidence.levels[0][Fact::kServerStep] = recorded(24, "t");
  evidence.trace = TraceEvidence{.source = "rank0.json",
                                 .engine = "vllm",
                                 .steps = 10,
                                 .step_ms = 26,
                                 .busy_ms = 24,
                                 .ops = {{.op = "moe.gate_up", .ms = 9},
                                         {.op = "attn.all_reduce", .ms = 7},
                                         {.op = "unmapped", .ms = 3}}};
  LevelDiagnosis level = waterfall_of(evidence);
  EXPECT_DOUBLE_EQ(ms_of(level, "kernels"), 5);             // 12 served less 7 of floor
  EXPECT_DOUBLE_EQ(ms_of(level, "collectives_excess"), 5);  // 7 less 2
  EXPECT_DOUBLE_EQ(ms_of(level, "host"), 8);                // above the 1 ms of gaps in the trace
  expect_whole(level);
  evidence.trace->step_ms = 90;  // of another load
  level = waterfall_of(evidence);
  EXPECT_DOUBLE_EQ(ms_of(level, "kernels"), 4);
  EXPECT_NE(bar_of(level, "collectives_excess").reason.find("none of this level"),
            std::string::npos);
}

TEST(WaterfallTest, Energy) {
  const LevelDiagnosis level = waterfall_of(busy_level());
  EXPECT_DOUBLE_EQ(*level.joules_per_token, 0.64);
  // 10 ms x 2 GPUs x 300 W over 32 sequences.
  EXPECT_DOUBLE_EQ(*level.joules_floor, 0.1875);
  Evidence bare = busy_level();
  bare.setting.copy_power_w.reset();
  bare.levels[0].joules_per_token.reset();
  bare.levels[0][Fact::kPower] = missing("no GPU");
  const LevelDiagnosis none = waterfall_of(bare);
  EXPECT_EQ(none.joules_reason, "no GPU");
  EXPECT_NE(none.joules_floor_reason, "");
}

TEST(WaterfallTest, WithoutARateThereIsNone) {
  Evidence evidence = busy_level();
  evidence.levels[0][Fact::kOutputRate] = missing("no output tokens came");
  LevelDiagnosis level = waterfall_of(evidence);
  EXPECT_FALSE(level.measured_ms);
  EXPECT_EQ(level.waterfall_reason, "no output tokens came");
  evidence.levels[0][Fact::kOutputRate] = recorded(0, "t");
  level = waterfall_of(evidence);
  EXPECT_FALSE(level.measured_ms);
  EXPECT_NE(level.waterfall_reason, "");
}

// 10 x 300 us were timed over a floor of 1 ms; another operation with 0.5 ms of floor was not.
TEST(WaterfallTest, APartialSumOfKernelsIsCalledSoAndTheRestStaysUnexplained) {
  Evidence evidence = busy_level();
  LevelEvidence& level = evidence.levels[0];
  level[Fact::kKernels] = missing("no whole step");
  level.cover = KernelCover{
      .ops = {{.op = "attn.q", .count = 10, .tokens = 32, .floor_us = 100, .time_us = 300},
              {.op = "attn.core", .count = 10, .floor_us = 50, .reason = "no kernel"}}};
  const LevelDiagnosis diagnosis = waterfall_of(evidence);
  EXPECT_DOUBLE_EQ(ms_of(diagnosis, "kernels_timed"), 2);
  const WaterfallBar& kernels = bar_of(diagnosis, "kernels_timed");
  EXPECT_EQ(kernels.title, "kernels above their floor, as far as timed");
  EXPECT_NE(kernels.note.find("1 of 2 operations of a step take 3 ms alone"), std::string::npos)
      << kernels.note;
  EXPECT_NE(kernels.note.find("whose floor is 0.500 ms"), std::string::npos) << kernels.note;
  EXPECT_NE(bar_of(diagnosis, "unexplained").note.find("above the floor of 1 operation "),
            std::string::npos)
      << bar_of(diagnosis, "unexplained").note;
  expect_whole(diagnosis);
}

TEST(WaterfallTest, ACoverWithoutATimeIsNoBar) {
  Evidence evidence = busy_level();
  LevelEvidence& level = evidence.levels[0];
  level[Fact::kKernels] = missing("none was timed");
  level.cover = KernelCover{.ops = {{.op = "attn.core", .count = 1, .reason = "no kernel"}}};
  const LevelDiagnosis diagnosis = waterfall_of(evidence);
  EXPECT_FALSE(bar_of(diagnosis, "kernels").ms);
  EXPECT_EQ(bar_of(diagnosis, "kernels").reason, "none was timed");
}

}  // namespace
}  // namespace nibble::diagnose
