#include "diagnose/read_floor.h"

#include <gtest/gtest.h>

#include "diagnose/read_evidence.h"
#include "ledger/test_deployments.h"

namespace nibble::diagnose {
namespace {

LevelEvidence floor_level(double users, double rate) {
  LevelEvidence level;
  level[Fact::kUsers] = recorded(users, "t");
  level[Fact::kOutputRate] = recorded(rate, "t");
  level[Fact::kPromptTokens] = recorded(1000, "t");
  level[Fact::kOutputTokens] = recorded(400, "t");
  level[Fact::kPromptRate] = recorded(rate * 2.5, "t");
  level[Fact::kPower] = recorded(350, "t");
  return level;
}

Ledger qwen_on_h200() {
  Result<Ledger> ledger = Ledger::make(deployment_of("qwen3-30b-a3b", "h200", {.tp = 2}));
  EXPECT_TRUE(ledger.ok());
  return std::move(ledger).value();
}

TEST(ReadFloorTest, PartsAddUpToTheLedgersStepAtTheLevelsContext) {
  Evidence evidence;
  evidence.levels = {floor_level(64, 4000)};
  fill_floor(qwen_on_h200(), evidence);
  Deployment deployment = deployment_of("qwen3-30b-a3b", "h200", {.tp = 2});
  deployment.context = 1200;  // 1000 + 400 / 2
  const Result<Step> step = decode_step(deployment, 64);
  ASSERT_TRUE(step.ok());
  const LevelEvidence& level = evidence.levels[0];
  ASSERT_TRUE(level.floor.has_value()) << level.floor_reason;
  EXPECT_NEAR(level.floor->total(), step->step_us / 1000, 1e-9 * step->step_us);
  EXPECT_DOUBLE_EQ(*level.get(Fact::kFloor), level.floor->total());
  EXPECT_EQ(evidence.setting.gpus, 2);
  EXPECT_EQ(evidence.setting.tp, 2);
  EXPECT_EQ(evidence.setting.power_limit_w, 700);
  EXPECT_DOUBLE_EQ(*level.get(Fact::kPowerShare), 0.5);
}

TEST(ReadFloorTest, PrefillIsTheShareOfAPassThatComesInAStep) {
  Evidence evidence;
  evidence.levels = {floor_level(64, 4000)};
  fill_floor(qwen_on_h200(), evidence);
  // 2.5 prompt tokens come a token: 160 in a step, of a pass of 2.048 prompts of 1,000.
  const Result<Step> pass =
      prefill_chunk(deployment_of("qwen3-30b-a3b", "h200", {.tp = 2}), 2048, 2.048, 0);
  ASSERT_TRUE(pass.ok());
  EXPECT_NEAR(*evidence.levels[0].prefill_floor, pass->step_us / 1000 * 160 / 2048,
              1e-9 * pass->step_us);
}

TEST(ReadFloorTest, RunningIsCountedElseCapped) {
  Evidence evidence;
  evidence.setting.max_running = 16;
  evidence.levels = {floor_level(64, 4000), floor_level(64, 4000), floor_level(1, 10)};
  evidence.levels[1][Fact::kRunning] = recorded(32, "t");
  evidence.levels[2][Fact::kRunning] = recorded(0.5, "t");
  fill_floor(qwen_on_h200(), evidence);
  const auto floor_of = [](double sequences) {
    Deployment deployment = deployment_of("qwen3-30b-a3b", "h200", {.tp = 2});
    deployment.context = 1200;
    return decode_step(deployment, sequences).value().step_us / 1000;
  };
  EXPECT_NEAR(*evidence.levels[0].get(Fact::kFloor), floor_of(16), 1e-9);
  EXPECT_NEAR(*evidence.levels[1].get(Fact::kFloor), floor_of(32), 1e-9);
  EXPECT_NEAR(*evidence.levels[2].get(Fact::kFloor), floor_of(1), 1e-9);
}

TEST(ReadFloorTest, ARefusalIsAReason) {
  Evidence evidence;
  evidence.levels = {floor_level(64, 4000), floor_level(64, 4000)};
  evidence.levels[0][Fact::kPromptTokens] = missing("no request succeeded");
  evidence.levels[1][Fact::kUsers] = missing("an open loop has no users");
  fill_floor(qwen_on_h200(), evidence);
  EXPECT_NE(evidence.levels[0].floor_reason.find("lengths"), std::string::npos);
  EXPECT_EQ(evidence.levels[0][Fact::kFloor].reason, evidence.levels[0].floor_reason);
  EXPECT_NE(evidence.levels[1].floor_reason.find("sequences"), std::string::npos);
}

}  // namespace
}  // namespace nibble::diagnose
