#include "base/finding.h"

#include <gtest/gtest.h>
#include <limits>

namespace nibble {
namespace {

TEST(Finding, WritesEverythingItRestsOn) {
  const Finding finding{.id = "intensity.16x2048x6144",
                        .point = 1,
                        .title = "Arithmetic intensity",
                        .value = 54.5,
                        .unit = "FLOP/B",
                        .verdict = "memory",
                        .formula = "2*M*N*K / bytes",
                        .inputs = {{"m", 16, "rows", "kernels[1].m"}},
                        .assumptions = {"weights are read once"},
                        .confidence = Confidence::kLikely,
                        .sentence = "It is bound by memory."};
  EXPECT_EQ(to_json(finding).dump(0),
            R"({"id":"intensity.16x2048x6144","point":1,"headline":true,)"
            R"("title":"Arithmetic intensity","value":54.5,"unit":"FLOP/B","verdict":"memory",)"
            R"("missing":null,"formula":"2*M*N*K / bytes",)"
            R"("inputs":[{"name":"m","value":16,"unit":"rows","source":"kernels[1].m"}],)"
            R"("assumptions":["weights are read once"],"confidence":"likely",)"
            R"("sentence":"It is bound by memory."})");
}

TEST(Finding, HasEveryMemberWhateverIsEmpty) {
  Finding finding;
  finding.id = "power";
  finding.missing = "the case gives no power";
  EXPECT_EQ(to_json(finding).dump(0),
            R"({"id":"power","point":0,"headline":true,"title":"","value":null,"unit":"",)"
            R"("verdict":null,"missing":"the case gives no power","formula":"","inputs":[],)"
            R"("assumptions":[],"confidence":"derived","sentence":""})");
}

TEST(Finding, AValueThatJsonCannotHoldIsMissing) {
  Finding finding;
  finding.id = "ratio";
  finding.value = std::numeric_limits<double>::infinity();
  const Json json = to_json(finding);
  EXPECT_TRUE(json.find("value")->is_null());
  ASSERT_NE(json.find("missing"), nullptr);
  EXPECT_EQ(json.find("missing")->as_string(), "the result is not a finite number");
}

TEST(Confidence, HasWords) {
  EXPECT_EQ(to_string(Confidence::kDerived), "derived");
  EXPECT_EQ(to_string(Confidence::kLikely), "likely");
  EXPECT_EQ(to_string(Confidence::kPossible), "possible");
}

}  // namespace
}  // namespace nibble
