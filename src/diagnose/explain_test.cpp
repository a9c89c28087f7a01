#include "diagnose/explain.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

TEST(ExplainTest, Dump) {
  const Result<Case> found = load_case("glm5_rtxpro6000");
  ASSERT_TRUE(found.ok()) << found.error().message;
  const Result<CaseAnalysis> analysis = explain_case(*found, {});
  ASSERT_TRUE(analysis.ok()) << analysis.error().message;
  for (const Finding& f : analysis->findings) {
    fmt::print("{:2} {} = {} {} [{}] {}\n", f.point, f.id, f.value.value_or(-1), f.unit, f.verdict, f.sentence);
  }
  for (const auto& s : analysis->missing_signals) fmt::print("missing {}\n", s);
}

}  // namespace
}  // namespace nibble
