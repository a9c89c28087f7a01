// Which GPU a cache is of, against the one that was asked for and against other caches.
#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "tactics/logs/conclusions.h"

namespace nibble::logs {
namespace {

constexpr BlockLimits kLimitsOfB200{.major = 10, .minor = 0, .shared_per_block = 232448};

const Finding* finding_named(const std::vector<Finding>& findings, std::string_view start) {
  const auto found = std::find_if(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.id.starts_with(start);
  });
  return found == findings.end() ? nullptr : &*found;
}

std::string sentence_named(const std::vector<Finding>& findings, std::string_view start) {
  const Finding* finding = finding_named(findings, start);
  return finding == nullptr ? "" : finding->sentence;
}

TacticLog cache_of(std::string_view gpu, int tactic, std::string_view name) {
  return *read_tactic_text(
      fmt::format(
          R"json({{"_metadata": {{"gpu": "{}"}}, "('op', 'R', ((8, 4),))": ["R", {}]}})json", gpu,
          tactic),
      name);
}

TEST(ConcludeGpus, ACacheOfAnotherGpu) {
  const TacticLog log = cache_of("NVIDIA B200", 1, "c.json");
  const auto said = [&](const AskedChip& asked, const BlockLimits& limits = kSm120Limits) {
    return sentence_named(conclusions({&log, 1}, limits, asked), "tactics.log.other_chip");
  };
  EXPECT_NE(said({.named = true, .machine = "NVIDIA RTX PRO 6000 Blackwell Server Edition"})
                .find("another chip (NVIDIA B200) than NVIDIA RTX PRO 6000"),
            std::string::npos);
  EXPECT_NE(said({.named = true, .machine = ""}).find("(NVIDIA B200) than sm_120"),
            std::string::npos);
  EXPECT_EQ(said({.named = true, .machine = ""}, kLimitsOfB200), "");
  EXPECT_EQ(said({.named = true, .machine = "NVIDIA B200"}, kLimitsOfB200), "");
  EXPECT_EQ(said({}), "");  // nobody named a chip
}

TEST(ConcludeGpus, ACacheOfAnotherGpuOfTheSameChip) {
  const TacticLog log = cache_of("NVIDIA GeForce RTX 5090", 1, "c.json");
  EXPECT_NE(sentence_named(
                conclusions({&log, 1}, kSm120Limits, {.named = true, .machine = "NVIDIA GB10"}),
                "tactics.log.other_chip")
                .find("another GPU (NVIDIA GeForce RTX 5090) than NVIDIA GB10"),
            std::string::npos);
}

TEST(ConcludeGpus, CachesOfTwoGpusAreNoRanks) {
  const std::vector<TacticLog> logs = {cache_of("NVIDIA B200", 1, "a.json"),
                                       cache_of("NVIDIA GB10", 2, "b.json"),
                                       cache_of("NVIDIA GB10", 2, "c.json")};
  const std::vector<Finding> findings = conclusions(logs, kSm120Limits);
  EXPECT_EQ(finding_named(findings, "tactics.log.ranks"), nullptr);
  EXPECT_NE(sentence_named(findings, "tactics.log.gpus").find("they are no ranks of one run"),
            std::string::npos);
  // Two of one GPU are.
  const std::vector<TacticLog> ranks = {cache_of("NVIDIA GB10", 1, "a.json"),
                                        cache_of("NVIDIA GB10", 2, "b.json")};
  EXPECT_NE(finding_named(conclusions(ranks, kSm120Limits), "tactics.log.ranks"), nullptr);
  EXPECT_EQ(finding_named(conclusions(ranks, kSm120Limits), "tactics.log.gpus"), nullptr);
}

}  // namespace
}  // namespace nibble::logs
