#include <gtest/gtest.h>

#include "diagnose/read_evidence.h"
#include "diagnose/read_fixture.h"

namespace nibble::diagnose {
namespace {

Evidence read_text(std::string_view text, Origin origin = Origin::kRecorded) {
  Evidence evidence;
  const Result<> read = read_load(json_of(text), {.name = "load.json", .origin = origin}, evidence);
  EXPECT_TRUE(read.ok()) << (read.ok() ? "" : read.error().message);
  return evidence;
}

std::string replaced_in(std::string_view from, std::string_view to) {
  std::string text(kLoadText);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

std::string load_refusal(const std::string& text) {
  Evidence evidence;
  const Result<> read = read_load(json_of(text), {.name = "load.json"}, evidence);
  return read.ok() ? "accepted" : read.error().message;
}

void expect_fact(const LevelEvidence& level, Fact fact, double value) {
  ASSERT_TRUE(level[fact].known()) << info_of(fact).name << ": " << level[fact].reason;
  EXPECT_DOUBLE_EQ(*level.get(fact), value) << info_of(fact).name;
}

TEST(ReadLoadTest, RatesAndLatenciesAreOfTheSteadyWindow) {
  const Evidence evidence = read_text(kLoadText);
  ASSERT_EQ(evidence.levels.size(), 1U);
  const LevelEvidence& level = evidence.levels[0];
  EXPECT_EQ(level.name, "64 users");
  EXPECT_TRUE(level.counts);
  expect_fact(level, Fact::kUsers, 64);
  expect_fact(level, Fact::kInFlight, 64);
  expect_fact(level, Fact::kOutputRate, 1000);
  EXPECT_EQ(level[Fact::kOutputRate].source, "load.json: levels[0].steady.output_throughput");
  EXPECT_EQ(level[Fact::kOutputRate].origin, Origin::kRecorded);
  expect_fact(level, Fact::kRateNoise, 0.02);
  expect_fact(level, Fact::kRequestRate, 4);
  expect_fact(level, Fact::kTtft, 800);
  expect_fact(level, Fact::kItlP99, 90);
  expect_fact(level, Fact::kPromptTokens, 100);      // 4000 / 40
  expect_fact(level, Fact::kOutputTokens, 250);      // 10000 / 40
  expect_fact(level, Fact::kDegenerateShare, 0.05);  // 2 / 40
  expect_fact(level, Fact::kFailedShare, 0.2);       // 10 / 50
  expect_fact(level, Fact::kCachedShare, 0.5);
  expect_fact(level, Fact::kRepeatedShare, 0.25);
  expect_fact(level, Fact::kRateDrift, -0.1);
  expect_fact(level, Fact::kClientLag, 0.5);
  expect_fact(level, Fact::kClientCpu, 0.25);
}

TEST(ReadLoadTest, AWindowThatIsTooShortGivesRatesAlone) {
  const Evidence evidence = read_text(replaced_in(R"("enough": true)", R"("enough": false)"));
  expect_fact(evidence.levels[0], Fact::kOutputRate, 1000);
  expect_fact(evidence.levels[0], Fact::kTtft, 1);
}

TEST(ReadLoadTest, WithoutAWindowTheWholeLevelTells) {
  const std::string text =
      replaced_in(R"("reason": null, "enough": true)", R"("reason": "too short", "enough": false)");
  const Evidence evidence = read_text(text);
  expect_fact(evidence.levels[0], Fact::kOutputRate, 900);
  expect_fact(evidence.levels[0], Fact::kInFlight, 60);
  expect_fact(evidence.levels[0], Fact::kFailedShare, 0.1);  // 10 / 100
  EXPECT_FALSE(evidence.levels[0][Fact::kPromptTokens].known());
}

TEST(ReadLoadTest, TheMachineIsTheMeanOfItsGpus) {
  const Evidence evidence = read_text(kLoadText);
  const LevelEvidence& level = evidence.levels[0];
  expect_fact(level, Fact::kPower, 320);       // (300 + 340) / 2
  expect_fact(level, Fact::kPowerShare, 0.8);  // 320 / 400
  expect_fact(level, Fact::kUtilization, 0.99);
  expect_fact(level, Fact::kDram, 0.5);
  expect_fact(level, Fact::kGpuSpread, 1.0 / 3);  // (60 - 40) / 60
  expect_fact(level, Fact::kTemperature, 71);
  expect_fact(level, Fact::kLinkGeneration, 3);
  expect_fact(level, Fact::kThrottledPower, 0.3);  // (2 + 4) / 2 of 10 s
  expect_fact(level, Fact::kThrottledHeat, 0);
  EXPECT_EQ(level[Fact::kTensor].reason, "not from Hopper on");
  EXPECT_EQ(level[Fact::kLinkWidth].reason, "gpu0.pcie_width was not sampled");
  EXPECT_EQ(evidence.setting.gpus, 2);
  EXPECT_EQ(evidence.setting.power_limit_w, 400);
  EXPECT_EQ(evidence.setting.clock_mhz, 1980);
  EXPECT_EQ(evidence.setting.link_generation, 5);
  EXPECT_EQ(level.joules_per_token, 0.64);
}

TEST(ReadLoadTest, TheEngineByItsCounters) {
  const Evidence evidence = read_text(kLoadText);
  const LevelEvidence& level = evidence.levels[0];
  expect_fact(level, Fact::kRunning, 32);
  expect_fact(level, Fact::kWaiting, 30);
  expect_fact(level, Fact::kPreemptions, 0.25);  // 10 / 40
  expect_fact(level, Fact::kOccupancy, 0.8);     // 8 s of 10 s
  expect_fact(level, Fact::kServerStep, 40);     // 8 s / 200
  expect_fact(level, Fact::kStepRate, 20);
  expect_fact(level, Fact::kPromptRate, 300);  // (5000 - 2000) / 10 s
  expect_fact(level, Fact::kBusiestExpert, 2.5);
}

TEST(ReadLoadTest, WithoutCountersThePromptRateIsWhatTheClientSent) {
  const Evidence evidence = read_text(replaced_in("server.prompt_tokens", "server.other_tokens"));
  expect_fact(evidence.levels[0], Fact::kPromptRate, 200);  // 4 x 100, half of them cached
  EXPECT_EQ(evidence.levels[0][Fact::kPromptRate].origin, Origin::kDerived);
}

TEST(ReadLoadTest, CountersThatStandStillWhileTheMaskNamesACause) {
  std::string text = replaced_in(R"("difference": 2, "per_s": 0.2)", R"("difference": 0)");
  const std::string from = R"("difference": 4, "per_s": 0.4)";
  text.replace(text.find(from), from.size(), R"("difference": 0)");
  const std::string member = R"({"name": "gpu0.clock_sm_max")";
  text.insert(text.find(member), R"({"name": "gpu0.throttle_mask", "mean": 4, "p50": 4},
                                    {"name": "gpu1.throttle_mask", "mean": 0, "p50": 0},)");
  const Evidence evidence = read_text(text);
  expect_fact(evidence.levels[0], Fact::kThrottledPower, 0.5);  // one GPU of two
  expect_fact(evidence.levels[0], Fact::kThrottledHeat, 0);
}

TEST(ReadLoadTest, GpusOfAnotherHostAreThoseThatServe) {
  std::string text(kLoadText);
  for (std::size_t at = text.find("\"gpu1."); at != std::string::npos; at = text.find("\"gpu1.")) {
    text.replace(at, 6, "\"node7:9753/gpu0.");
  }
  const Evidence evidence = read_text(text);
  expect_fact(evidence.levels[0], Fact::kPower, 340);
  EXPECT_EQ(evidence.levels[0][Fact::kGpuSpread].reason, "one GPU has no spread");
}

TEST(ReadLoadTest, SettingSeriesAndWindows) {
  const Evidence evidence = read_text(kLoadText, Origin::kMeasured);
  const Setting& setting = evidence.setting;
  EXPECT_EQ(setting.engine, "sglang");
  EXPECT_EQ(setting.engine_version, "0.5");
  EXPECT_EQ(setting.model, "toy");
  EXPECT_EQ(setting.max_running, 32);
  EXPECT_EQ(setting.tp, 2);
  EXPECT_EQ(setting.prompts_unique, true);
  EXPECT_FALSE(setting.is_cpu);
  EXPECT_EQ(setting.notes, std::vector<std::string>{"a note"});
  ASSERT_EQ(evidence.series.size(), 1U);
  EXPECT_EQ(evidence.series[0].name, "gpu0.power");
  EXPECT_EQ(evidence.series[0].points[1], (std::pair{1.5, 310.0}));
  EXPECT_EQ(evidence.zero_ns, 1'000'000'000);
  EXPECT_DOUBLE_EQ(evidence.levels[0].start_s, 4);  // 5e9 - 1e9 ns
  EXPECT_DOUBLE_EQ(evidence.levels[0].end_s, 14);
  ASSERT_EQ(evidence.phases.size(), 1U);
  EXPECT_EQ(evidence.phases[0].first, "64 users");
  EXPECT_EQ(evidence.levels[0][Fact::kOutputRate].origin, Origin::kMeasured);
  ASSERT_TRUE(evidence.sources.is_array());
  EXPECT_EQ(*evidence.sources.as_array()[0].find("when"), Json("20261130-101500"));
}

TEST(ReadLoadTest, NibbleServeTellsItsLimitsAndItsInstructions) {
  const Evidence evidence = read_text(R"({"model_id": "tiny", "setup": {
      "host": {"cpu": "AMD EPYC"},
      "server": {"engine": null, "models": [{"owned_by": "nibble"}], "server_info": {
        "engine": {"max_running_requests": 64, "kv_blocks": 9},
        "model": {"isa": "scalar", "best_isa": "avx2"}}}},
      "levels": [{"max_concurrency": 1, "request_rate": "inf"}]})");
  EXPECT_EQ(evidence.setting.engine, "nibble");
  EXPECT_EQ(evidence.setting.max_running, 64);
  EXPECT_EQ(evidence.setting.tactic, "scalar");
  EXPECT_EQ(evidence.setting.best_tactic, "avx2");
  EXPECT_TRUE(evidence.setting.is_cpu);
  EXPECT_EQ(evidence.setting.title, "tiny on AMD EPYC");
  EXPECT_EQ(evidence.levels[0].name, "1 user");
}

TEST(ReadLoadTest, EveryFactThatIsNotThereHasAReason) {
  const Evidence evidence = read_text(R"({"levels": [{"max_concurrency": 4}]})");
  for (const FactInfo& info : fact_infos()) {
    const Datum& datum = evidence.levels[0][info.fact];
    if (info.fact == Fact::kUsers) continue;
    EXPECT_FALSE(datum.known()) << info.name;
    EXPECT_NE(datum.reason, "") << info.name;
  }
  EXPECT_NE(evidence.levels[0].floor_reason, "");
}

TEST(ReadLoadTest, OpenLoopsStandBehindClosedOnesAndLevelsAreByUsers) {
  const Evidence evidence = read_text(R"({"levels": [
      {"request_rate": 8}, {"max_concurrency": 16, "request_rate": "inf"},
      {"request_rate": 2, "max_concurrency": 64}, {"max_concurrency": 4, "request_rate": "inf"},
      {"request_rate": "inf"}]})");
  std::vector<std::string> names;
  for (const LevelEvidence& level : evidence.levels) names.push_back(level.name);
  EXPECT_EQ(names, (std::vector<std::string>{"4 users", "16 users", "8 req/s",
                                             "2 req/s, at most 64", "all at once"}));
  EXPECT_FALSE(evidence.levels[3][Fact::kUsers].known());
}

TEST(ReadLoadTest, AWrongKindNamesFileAndMember) {
  EXPECT_EQ(load_refusal(replaced_in(R"("server_running": 32)", R"("server_running": "many")")),
            "load.json: levels[0].joined: \"server_running\" must be a number, found a string");
  EXPECT_NE(load_refusal(replaced_in(R"("difference": 2,)", R"("difference": [],)"))
                .find("load.json: levels[0].telemetry.signals[12]: \"difference\""),
            std::string::npos);
  EXPECT_NE(load_refusal(replaced_in(R"([[0.5, 300])", R"([[0.5])")).find("points"),
            std::string::npos);
  EXPECT_NE(load_refusal(replaced_in(R"("request_rate": "inf")", R"("request_rate": "x")"))
                .find("levels[0].request_rate"),
            std::string::npos);
  EXPECT_NE(load_refusal(R"({"levels": []})").find("levels is empty"), std::string::npos);
  EXPECT_NE(load_refusal(R"([])").find("not an object"), std::string::npos);
  EXPECT_NE(load_refusal(R"({"levels": [7]})").find("levels[0]"), std::string::npos);
  EXPECT_NE(load_refusal(R"({"schema": "nibble.bench/1"})").find("schema"), std::string::npos);
}

TEST(ReadLoadTest, LevelsAreNeverOfTwoDocuments) {
  Evidence evidence = read_text(kLoadText);
  const Result<> again = read_load(json_of(kLoadText), {.name = "other.json"}, evidence);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(
      again.error().message,
      "other.json: levels of load were read from another document already; give one load test "
      "or one case");
  EXPECT_EQ(evidence.levels.size(), read_text(kLoadText).levels.size());
}

}  // namespace
}  // namespace nibble::diagnose
