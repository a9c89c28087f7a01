#include "diagnose/evidence.h"

#include <gtest/gtest.h>

namespace nibble::diagnose {
namespace {

TEST(EvidenceTest, AFactIsANumberOrAReason) {
  LevelEvidence level;
  level[Fact::kRunning] = measured(32, "load: levels[3]");
  level[Fact::kDram] = missing("no GPU");
  EXPECT_EQ(level.get(Fact::kRunning), 32);
  EXPECT_FALSE(level.get(Fact::kDram));
  EXPECT_EQ(level[Fact::kDram].reason, "no GPU");
}

}  // namespace
}  // namespace nibble::diagnose
