#include <gtest/gtest.h>

#include "base/json.h"
#include "diagnose/diagnosis.h"
#include "diagnose/test_faults.h"

namespace nibble::diagnose {
namespace {

TEST(ConcludeTest, EveryLevelAndTheWholeHaveAVerdict) {
  for (const testing::FaultCase& fault : testing::fault_cases()) {
    SCOPED_TRACE(fault.name);
    const Diagnosis diagnosis = conclude(fault.evidence);
    ASSERT_EQ(diagnosis.levels.size(), fault.evidence.levels.size());
    for (const LevelDiagnosis& level : diagnosis.levels) EXPECT_FALSE(level.verdicts.empty());
    ASSERT_FALSE(diagnosis.verdicts.empty());
    EXPECT_EQ(diagnosis.verdicts.front().cls, fault.is);
    EXPECT_EQ(diagnosis.headline + 1, diagnosis.levels.size());
    EXPECT_EQ(diagnosis.sentence.find(diagnosis.verdicts.front().claim), 0U);
    EXPECT_EQ(diagnosis.verdicts.front().sentence.find(diagnosis.verdicts.front().claim), 0U);
  }
}

// 3.27 ms a step of which kernels run 0.219 ms: said of a profile that comes without a load.
TEST(ConcludeTest, AProfileAloneIsTold) {
  Evidence evidence;
  evidence.trace = TraceEvidence{.steps = 6,
                                 .step_ms = 3.27,
                                 .busy_ms = 0.219,
                                 .ops = {{.op = "elementwise", .ms = 0.0914}, {.op = "gemm"}}};
  const Diagnosis diagnosis = conclude(evidence);
  EXPECT_EQ(
      diagnosis.sentence,
      "A step of the profile takes 3.27 ms, and kernels run in 0.219 ms of it, most of them "
      "elementwise (0.0914 ms). What holds the server back takes a load test beside it (--from, "
      "--server).");
  EXPECT_TRUE(diagnosis.proposals.empty());
}

// 12 of 100 requests failed: whoever reads the verdict must know it first.
TEST(ConcludeTest, FailuresAreToldWithTheVerdict) {
  Evidence evidence = testing::fault_cases().front().evidence;
  evidence.levels.back()[Fact::kFailedShare] = measured(0.12, "");
  EXPECT_NE(conclude(evidence).sentence.find("12 % of the requests failed: look at these first."),
            std::string::npos);
  evidence.levels.back()[Fact::kFailedShare] = measured(0, "");
  EXPECT_EQ(conclude(evidence).sentence.find("failed"), std::string::npos);
}

TEST(ConcludeTest, TwiceTheSameIsTheSame) {
  for (const testing::FaultCase& fault : testing::fault_cases()) {
    EXPECT_EQ(to_json(conclude(fault.evidence)).dump(), to_json(conclude(fault.evidence)).dump())
        << fault.name;
  }
}

// 256 in flight at 250.88 / 22.4 ms = 11,200 tok/s are 22.857 ms a token and user.
TEST(ConcludeTest, LevelsHaveTheirUsersAndTimeOfAToken) {
  const Diagnosis diagnosis = conclude(testing::gpu_server(8));
  EXPECT_EQ(diagnosis.levels.back().name, "256 users");
  EXPECT_EQ(diagnosis.levels.back().users, 256);
  EXPECT_NEAR(diagnosis.levels.back().measured_ms.value_or(0), 22.857, 0.001);
}

TEST(ConcludeTest, NothingMeasuredIsSaidSo) {
  const Diagnosis diagnosis = conclude({});
  ASSERT_EQ(diagnosis.verdicts.size(), 1U);
  EXPECT_EQ(diagnosis.verdicts[0].certainty, Certainty::kNone);
  EXPECT_EQ(diagnosis.sentence, "No level of load was measured: nothing can be said.");
  EXPECT_TRUE(diagnosis.proposals.empty());
}

}  // namespace
}  // namespace nibble::diagnose
