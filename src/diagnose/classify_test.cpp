#include "diagnose/classify.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <utility>

#include "diagnose/test_faults.h"

namespace nibble::diagnose {
namespace {

using testing::FaultCase;

std::vector<Verdict> verdicts_of(const Evidence& evidence) {
  std::vector<LevelDiagnosis> levels;
  for (std::size_t index = 0; index < evidence.levels.size(); ++index) {
    levels.push_back(
        {.name = evidence.levels[index].name, .verdicts = classify_level(evidence, index)});
  }
  return classify_whole(evidence, levels);
}

std::string listing(const std::vector<Verdict>& verdicts) {
  std::string text;
  for (const Verdict& verdict : verdicts) {
    text += std::string(info_of(verdict.cls).name) + " " + std::to_string(verdict.confidence) +
            " " + std::string(to_string(verdict.certainty)) + ": " + verdict.sentence + "\n";
  }
  return text;
}

// Each way to know less by one thing.
struct Removal {
  std::string what;
  std::function<void(Evidence&)> take;
};

std::vector<Removal> removals() {
  std::vector<Removal> list;
  for (const FactInfo& info : fact_infos()) {
    list.push_back({std::string(info.name), [fact = info.fact](Evidence& evidence) {
                      for (LevelEvidence& level : evidence.levels) {
                        level[fact] = missing("taken away");
                      }
                    }});
  }
  list.push_back({"tactic", [](Evidence& e) { e.setting.tactic.clear(); }});
  list.push_back({"best tactic", [](Evidence& e) { e.setting.best_tactic.clear(); }});
  list.push_back({"cap", [](Evidence& e) { e.setting.max_running.reset(); }});
  list.push_back({"clock", [](Evidence& e) { e.setting.clock_mhz.reset(); }});
  list.push_back({"generation", [](Evidence& e) { e.setting.link_generation.reset(); }});
  list.push_back({"width", [](Evidence& e) { e.setting.link_width.reset(); }});
  list.push_back({"heat limit", [](Evidence& e) { e.setting.throttle_temperature_c.reset(); }});
  list.push_back({"unique", [](Evidence& e) { e.setting.prompts_unique.reset(); }});
  list.push_back({"trace", [](Evidence& e) { e.trace.reset(); }});
  list.push_back({"prefill floor", [](Evidence& e) {
                    for (LevelEvidence& level : e.levels) level.prefill_floor.reset();
                  }});
  list.push_back(
      {"lower levels", [](Evidence& e) { e.levels.erase(e.levels.begin(), e.levels.end() - 1); }});
  return list;
}

const Verdict* find(const std::vector<Verdict>& verdicts, Class cls) {
  const auto found = std::find_if(verdicts.begin(), verdicts.end(),
                                  [&](const Verdict& verdict) { return verdict.cls == cls; });
  return found == verdicts.end() ? nullptr : &*found;
}

TEST(ClassifyTest, NamesTheFaultFirstAndSurelyEnough) {
  for (const FaultCase& fault : testing::fault_cases()) {
    SCOPED_TRACE(fault.name);
    const std::vector<Verdict> verdicts = verdicts_of(fault.evidence);
    ASSERT_FALSE(verdicts.empty());
    EXPECT_EQ(info_of(verdicts.front().cls).name, info_of(fault.is).name) << listing(verdicts);
    EXPECT_GE(verdicts.front().certainty, fault.least) << listing(verdicts);
    EXPECT_TRUE(verdicts.front().level.empty());
  }
}

// One fault was put in, so that no other is certain; what it brings along may be likely.
TEST(ClassifyTest, NothingElseIsCertain) {
  for (const FaultCase& fault : testing::fault_cases()) {
    SCOPED_TRACE(fault.name);
    for (const Verdict& verdict : verdicts_of(fault.evidence)) {
      if (verdict.cls == fault.is) continue;
      EXPECT_NE(verdict.certainty, Certainty::kCertain) << listing({verdict});
    }
  }
}

TEST(ClassifyTest, HealthyRunsHaveNoFault) {
  for (const FaultCase& run : testing::healthy_cases()) {
    SCOPED_TRACE(run.name);
    const std::vector<Verdict> verdicts = verdicts_of(run.evidence);
    EXPECT_EQ(verdicts.front().cls, Class::kHealthy) << listing(verdicts);
    EXPECT_GE(verdicts.front().certainty, run.least) << listing(verdicts);
    for (const Verdict& verdict : verdicts) {
      EXPECT_FALSE(is_fault(verdict.cls) && is_named(verdict)) << listing(verdicts);
    }
  }
}

TEST(ClassifyTest, KnowingLessNeverMakesTheRightClassSurerNorAnotherOneCertain) {
  for (const FaultCase& fault : testing::fault_cases()) {
    const std::vector<Verdict> before = verdicts_of(fault.evidence);
    const double confidence = before.front().confidence;
    for (const Removal& removal : removals()) {
      SCOPED_TRACE(fault.name + " without " + removal.what);
      Evidence less = fault.evidence;
      removal.take(less);
      const std::vector<Verdict> after = verdicts_of(less);
      for (const Verdict& verdict : after) {
        if (verdict.cls == fault.is) {
          EXPECT_LE(verdict.confidence, confidence) << listing(after);
        } else if (is_fault(verdict.cls)) {
          const Verdict* known = find(before, verdict.cls);
          EXPECT_NE(verdict.certainty, Certainty::kCertain) << listing(after);
          // Without the link's width a degraded link is collectives that take long.
          const bool kin = fault.is == Class::kLinkDegraded && verdict.cls == Class::kCollectives;
          EXPECT_TRUE(kin || !is_named(verdict) || (known != nullptr && is_named(*known)))
              << listing(after);
        }
      }
    }
  }
}

TEST(ClassifyTest, KnowingLessOfAHealthyRunNamesNoFault) {
  const std::vector<Removal> all = removals();
  for (const FaultCase& run : testing::healthy_cases()) {
    if (run.name == "one GPU" || run.name == "recorded") continue;  // as the others, with less
    for (const Removal& first : all) {
      for (const Removal& second : all) {
        if (&second < &first) continue;
        Evidence less = run.evidence;
        first.take(less);
        second.take(less);
        for (const Verdict& verdict : classify_level(less, less.levels.size() - 1)) {
          ASSERT_FALSE(is_fault(verdict.cls) && is_named(verdict))
              << run.name << " without " << first.what << " and " << second.what << "\n"
              << listing({verdict});
        }
      }
    }
  }
}

// Every signal that a clue of the right class rests on is in its verdict, for, against or missing.
TEST(ClassifyTest, AMissingSignalIsToldWithItsReasonAndWhatItWouldSettle) {
  Evidence evidence = testing::cpu_faults().front().evidence;
  evidence.levels.back()[Fact::kKvUsage] = missing("the server has no metrics page");
  const std::vector<Verdict> verdicts = verdicts_of(evidence);
  ASSERT_EQ(verdicts.front().cls, Class::kSchedulerCap);
  EXPECT_EQ(verdicts.front().certainty, Certainty::kLikely);  // a veto is unknown
  ASSERT_EQ(verdicts.front().missing.size(), 1U);
  EXPECT_EQ(
      verdicts.front().missing[0].sentence,
      "Not known: use of the KV cache (the server has no metrics page); it would tell whether "
      "the KV cache is what requests wait for.");
  EXPECT_EQ(verdicts.front().experiment_id, "more_users");
}

// (3 + 2 + 2 + 2 + 1 + 1) / 11, by hand from the table of docs/diagnosis.md.
TEST(ClassifyTest, ConfidenceIsTheShareOfWeightThatHolds) {
  Evidence evidence = testing::cpu_faults().front().evidence;
  EXPECT_DOUBLE_EQ(judge(evidence, 2, Class::kSchedulerCap).confidence, 1.0);
  evidence.levels[2][Fact::kTtft] = missing("");
  EXPECT_DOUBLE_EQ(judge(evidence, 2, Class::kSchedulerCap).confidence, 10.0 / 11);
  evidence.setting.max_running = 5;  // 3.9 of 5: says nothing
  EXPECT_DOUBLE_EQ(judge(evidence, 2, Class::kSchedulerCap).confidence, 8.0 / 11);
  evidence.setting.max_running = 64;  // 3.9 of 64: kills, as does
  EXPECT_EQ(judge(evidence, 2, Class::kSchedulerCap).confidence, 0);
  evidence.setting.max_running = 5;
  evidence.levels[2][Fact::kKvUsage] = measured(0.97, "");
  EXPECT_EQ(judge(evidence, 2, Class::kSchedulerCap).confidence, 0);
}

TEST(ClassifyTest, TheSentenceHasItsNumbers) {
  const std::vector<Verdict> verdicts = verdicts_of(testing::cpu_faults().front().evidence);
  EXPECT_EQ(
      verdicts.front().sentence,
      "At 16 users the scheduler's cap holds requests back. 3.9 of 16 requests in flight run. "
      "12 of 16 requests wait in the server's queue. 3.9 requests run and the configured cap "
      "is 4.");
}

// GLM-5: flat from 1,024 to 2,048 with a cap of 1,024 is consistent with the cap and no more.
TEST(ClassifyTest, AFlatRecordedSweepWithACapIsPossiblyTheCap) {
  Evidence evidence = testing::recorded_case({{256, 704}, {512, 1106}, {1024, 1601}, {2048, 1640}});
  evidence.setting.max_running = 1024;
  const std::vector<Verdict> verdicts = verdicts_of(evidence);
  // Nothing is known that would be surer; what is possible stands first, and is not named.
  ASSERT_EQ(verdicts.front().cls, Class::kSchedulerCap) << listing(verdicts);
  EXPECT_EQ(verdicts.front().certainty, Certainty::kPossible);
  EXPECT_FALSE(verdicts.front().missing.empty());
  for (const Verdict& verdict : verdicts) EXPECT_FALSE(is_fault(verdict.cls) && is_named(verdict));
}

TEST(ClassifyTest, TheReportedCaseIsWaitingAndNotCompute) {
  const Evidence evidence = testing::sparse_faults()[1].evidence;
  const std::vector<Verdict> verdicts = verdicts_of(evidence);
  EXPECT_EQ(verdicts.front().cls, Class::kCollectives);
  EXPECT_EQ(find(verdicts, Class::kKernelInefficiency), nullptr) << listing(verdicts);
  EXPECT_NE(verdicts.front().sentence.find("140 W"), std::string::npos);
  EXPECT_NE(verdicts.front().sentence.find("4.21 x its floor"), std::string::npos)
      << verdicts.front().sentence;
}

TEST(ClassifyTest, WhatInvalidatesTheNumbersComesFirst) {
  Evidence evidence = testing::cpu_faults().front().evidence;
  for (LevelEvidence& level : evidence.levels) {
    level[Fact::kDegenerateShare] = measured(0.08, "by hand");
  }
  const std::vector<Verdict> verdicts = verdicts_of(evidence);
  EXPECT_EQ(verdicts[0].cls, Class::kDegenerateOutput);
  EXPECT_LT(verdicts[0].confidence, verdicts[1].confidence);
  EXPECT_EQ(verdicts[1].cls, Class::kSchedulerCap);
}

// A shared system prompt is cached in every deployment; the same prompts again are not.
TEST(ClassifyTest, ASharedBeginningIsNoInflation) {
  Evidence evidence = testing::cpu_engine();
  evidence.setting.prompts_unique = true;
  for (LevelEvidence& level : evidence.levels) {
    level[Fact::kCachedShare] = measured(0.4, "by hand");
  }
  EXPECT_EQ(verdicts_of(evidence).front().cls, Class::kHealthy);
  for (LevelEvidence& level : evidence.levels) {
    level[Fact::kCachedShare] = measured(0.9, "by hand");  // an earlier run had them
  }
  EXPECT_EQ(verdicts_of(evidence).front().cls, Class::kPrefixCacheInflation);
}

// Weak faults, just beyond what healthy runs do, are named, too.
TEST(ClassifyTest, WeakFaultsAreNamed) {
  Evidence cap = testing::changed_at_top(testing::cpu_engine(), [](LevelEvidence& level) {
    testing::flow(level, 11.8, 3.9, 1.85);  // a cap of 12 for 16
    testing::put(level, {{Fact::kTtft, 25}, {Fact::kKernels, 1.7}, {Fact::kServerStep, 1.8}});
  });
  cap.setting.max_running = 12;
  Evidence stall = testing::changed(testing::cpu_engine(), [](LevelEvidence& level, double users) {
    const double step = *level.get(Fact::kServerStep), wall = 1.4 * step;  // a sixth is common
    testing::flow(level, 0.97 * users, 0, wall);
    testing::put(level, {{Fact::kOccupancy, (users < 2 ? 0.97 : 1) / 1.4}});
  });
  Evidence tactic = testing::changed(testing::cpu_engine(), [](LevelEvidence& level, double users) {
    const double kernels = *level.get(Fact::kKernels);
    testing::flow(level, 0.97 * users, 0, 1.45 * kernels);
    testing::put(level, {{Fact::kServerStep, 1.42 * kernels}});
  });
  tactic.setting.tactic = "avx2";
  tactic.setting.best_tactic = "avx512_vnni";
  Evidence loops = testing::changed(testing::cpu_engine(), [](LevelEvidence& level, double) {
    testing::put(level, {{Fact::kDegenerateShare, 0.07}});
  });
  const std::pair<Class, Evidence> weak[] = {{Class::kSchedulerCap, cap},
                                             {Class::kLaunchHost, stall},
                                             {Class::kWrongTactic, tactic},
                                             {Class::kDegenerateOutput, loops}};
  for (const auto& [cls, evidence] : weak) {
    const std::vector<Verdict> verdicts = verdicts_of(evidence);
    EXPECT_EQ(verdicts.front().cls, cls) << listing(verdicts);
    EXPECT_TRUE(is_named(verdicts.front())) << listing(verdicts);
  }
}

TEST(ClassifyTest, ATraceCanOnlyAdd) {
  Evidence evidence = testing::gpu_machine_faults()[0].evidence;
  const double without = judge(evidence, 2, Class::kCollectives).confidence;
  evidence.trace =
      TraceEvidence{.step_ms = 56, .busy_ms = 55, .ops = {{.op = "moe.all_reduce", .ms = 30}}};
  EXPECT_GE(judge(evidence, 2, Class::kCollectives).confidence, without);
  evidence.trace->ops[0].op = "moe.gate_up";
  EXPECT_LT(judge(evidence, 2, Class::kCollectives).confidence, without);
}

// A host's gap that vanishes among the long steps of the highest level.
TEST(ClassifyTest, AFaultOfMostLevelsIsOneOfTheWhole) {
  Evidence evidence = testing::cpu_faults()[3].evidence;
  const Evidence healthy = testing::cpu_engine();
  evidence.levels[2] = healthy.levels[2];
  const std::vector<Verdict> verdicts = verdicts_of(evidence);
  EXPECT_EQ(verdicts.front().cls, Class::kLaunchHost) << listing(verdicts);
  EXPECT_EQ(verdicts.front().certainty, Certainty::kLikely);
  evidence.levels[1] = healthy.levels[1];
  EXPECT_EQ(verdicts_of(evidence).front().cls, Class::kHealthy);
  EXPECT_EQ(verdicts_of(evidence)[1].cls, Class::kLaunchHost);
  EXPECT_EQ(verdicts_of(evidence)[1].certainty, Certainty::kPossible);
}

TEST(ClassifyTest, LevelsThatDoNotCountAreNotTheHeadline) {
  Evidence evidence = testing::cpu_faults().front().evidence;
  evidence.levels.back().counts = false;
  EXPECT_EQ(headline_level(evidence), 1U);
  EXPECT_EQ(verdicts_of(evidence).front().cls, Class::kHealthy);
}

TEST(ClassifyTest, NothingKnownIsSaidSo) {
  EXPECT_EQ(verdicts_of({}).size(), 1U);
  Evidence evidence;
  evidence.levels.push_back(testing::level_of(8));
  const std::vector<Verdict> verdicts = verdicts_of(evidence);
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_EQ(verdicts[0].certainty, Certainty::kNone);
  EXPECT_EQ(verdicts[0].sentence,
            "At 8 users nothing that is known speaks for a fault, and too little is known to say "
            "more.");
}

TEST(ClassifyTest, NumbersThatCannotBeAreMissingOnes) {
  Evidence evidence = testing::cpu_engine();
  evidence.levels[2][Fact::kRunning] = measured(-3, "by hand");
  const Verdict verdict = judge(evidence, 2, Class::kSchedulerCap);
  ASSERT_FALSE(verdict.missing.empty());
  EXPECT_EQ(
      verdict.missing[0].sentence,
      "Not known: running requests (what is given for it cannot be); it would tell whether all "
      "requests in flight run.");
}

TEST(ClassifyTest, SurvivesEveryNumber) {
  const double values[] = {0.0,
                           -1.0,
                           1e-300,
                           1e300,
                           std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN()};
  std::vector<FaultCase> cases = testing::healthy_cases();
  cases.push_back(testing::cpu_faults()[1]);
  cases.push_back(testing::gpu_machine_faults()[0]);
  for (const FaultCase& fault : cases) {
    for (const FactInfo& info : fact_infos()) {
      for (const double value : values) {
        Evidence evidence = fault.evidence;
        for (LevelEvidence& level : evidence.levels) level[info.fact] = measured(value, "odd");
        for (const Verdict& verdict : verdicts_of(evidence)) {
          ASSERT_TRUE(verdict.confidence >= 0 && verdict.confidence <= 1) << info.name;
          ASSERT_EQ(verdict.sentence.find("nan"), std::string::npos) << verdict.sentence;
          ASSERT_EQ(verdict.sentence.find("inf "), std::string::npos) << verdict.sentence;
        }
      }
    }
  }
}

TEST(ClassifyTest, SettingsOfAnyKindAreSurvived) {
  const double values[] = {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), 1e300};
  for (FaultCase fault : testing::fault_cases()) {
    for (const double value : values) {
      Setting& setting = fault.evidence.setting;
      setting.max_running = setting.clock_mhz = setting.link_width = setting.link_generation =
          setting.throttle_temperature_c = value;
      setting.gpus = 0;
      for (LevelEvidence& level : fault.evidence.levels) level.prefill_floor = value;
      for (const Verdict& verdict : verdicts_of(fault.evidence)) {
        ASSERT_TRUE(std::isfinite(verdict.confidence));
        ASSERT_EQ(verdict.sentence.find("nan"), std::string::npos) << verdict.sentence;
      }
    }
  }
}

// Prompts that take all of the time make a queue, too: it runs more with more users, although
// requests waited already.
TEST(ClassifyTest, AQueueThatLetsMoreRunIsNoCap) {
  Evidence evidence = testing::cpu_faults().front().evidence;
  evidence.setting.max_running.reset();
  ASSERT_GT(judge(evidence, 2, Class::kSchedulerCap).confidence, 0.5);
  LevelEvidence& below = evidence.levels[1];
  const double users = *below.get(Fact::kInFlight), now = *evidence.levels[2].get(Fact::kRunning);
  below[Fact::kRunning] = measured(now / 1.5, "");
  below[Fact::kWaiting] = measured(users - now / 1.5, "");
  EXPECT_EQ(judge(evidence, 2, Class::kSchedulerCap).confidence, 0);
}

}  // namespace
}  // namespace nibble::diagnose
