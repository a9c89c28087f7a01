#include "diagnose/evidence.h"

#include <gtest/gtest.h>
#include <set>

#include "diagnose/classify.h"

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

TEST(EvidenceTest, OriginsAreKeptAndNamed) {
  EXPECT_EQ(to_string(measured(1, "").origin), "measured");
  EXPECT_EQ(to_string(recorded(1, "").origin), "recorded");
  EXPECT_EQ(to_string(derived(1, "").origin), "derived");
  EXPECT_EQ(to_string(Origin::kDataSheet), "data sheet");
}

TEST(EvidenceTest, EveryFactHasItsNameOnce) {
  ASSERT_EQ(fact_infos().size(), kFacts);
  std::set<std::string_view> names, titles;
  for (std::size_t index = 0; index < kFacts; ++index) {
    const FactInfo& info = fact_infos()[index];
    EXPECT_EQ(static_cast<std::size_t>(info.fact), index) << info.name;
    EXPECT_EQ(&info_of(info.fact), &info);
    EXPECT_EQ(fact_from_name(info.name), info.fact);
    names.insert(info.name);
    titles.insert(info.title);
  }
  EXPECT_EQ(names.size(), kFacts);
  EXPECT_EQ(titles.size(), kFacts);
  EXPECT_FALSE(fact_from_name("no_such_fact"));
}

TEST(EvidenceTest, FactsReadAsPeopleWriteThem) {
  EXPECT_EQ(fact_text(Fact::kKvUsage, 0.12), "12 %");
  EXPECT_EQ(fact_text(Fact::kPowerShare, 0.2333), "23.3 %");
  EXPECT_EQ(fact_text(Fact::kPower, 445), "445 W");
  EXPECT_EQ(fact_text(Fact::kRunning, 32), "32");
  EXPECT_EQ(fact_text(Fact::kUsers, 1024), "1,024");
  EXPECT_EQ(fact_text(Fact::kServerStep, 10.5), "10.5 ms");
  EXPECT_EQ(fact_text(Fact::kServerStep, 0.397), "0.397 ms");
  EXPECT_EQ(fact_text(Fact::kOutputRate, 1601.4), "1,601 tok/s");
  EXPECT_EQ(fact_text(Fact::kBusiestExpert, 7), "7 x");
  EXPECT_EQ(fact_text(Fact::kSmClock, 2430), "2,430 MHz");
}

TEST(EvidenceTest, TheFloorIsTheSumOfItsParts) {
  const FloorParts parts{.expert_weights = 1,
                         .other_weights = 2,
                         .kv = 3,
                         .activations = 4,
                         .compute = 5,
                         .collectives = 6,
                         .launches = 7,
                         .pipeline_bubble = 8};
  EXPECT_EQ(parts.total(), 36);
}

TEST(ClassesTest, EveryClassHasItsNameWordsAndClues) {
  ASSERT_EQ(class_infos().size(), kClasses);
  std::set<std::string_view> names, claims;
  for (std::size_t index = 0; index < kClasses; ++index) {
    const ClassInfo& info = class_infos()[index];
    EXPECT_EQ(static_cast<std::size_t>(info.cls), index) << info.name;
    EXPECT_EQ(class_from_name(info.name), info.cls);
    EXPECT_FALSE(info.means.empty());
    EXPECT_FALSE(words_of(info.cls).experiment.empty());
    EXPECT_GE(clues_of(info.cls).size(), 3U) << info.name;
    names.insert(info.name);
    claims.insert(words_of(info.cls).claim);
  }
  EXPECT_EQ(names.size(), kClasses);
  EXPECT_EQ(claims.size(), kClasses);
  EXPECT_FALSE(class_from_name("gremlins"));
  EXPECT_EQ(to_string(Certainty::kLikely), "likely");
}

TEST(ClassesTest, CluesAreToldApartAndCountForSomething) {
  for (const ClassInfo& info : class_infos()) {
    std::set<std::string_view> ids;
    double needed = 0;
    for (const ClueDef& clue : clues_of(info.cls)) {
      EXPECT_TRUE(ids.insert(clue.id).second) << info.name << ": " << clue.id;
      EXPECT_GE(clue.weight, 1) << clue.id;
      EXPECT_NE(clue.hear, nullptr) << clue.id;
      EXPECT_TRUE(clue.settles.substr(0, 2) == "wh" || clue.settles.substr(0, 3) == "how")
          << clue.id;
      if (clue.role == Role::kNeeded) needed += clue.weight;
    }
    // Any fault has what it cannot do without.
    if (is_fault(info.cls)) {
      EXPECT_GE(needed, 3) << info.name;
    }
  }
}

}  // namespace
}  // namespace nibble::diagnose
