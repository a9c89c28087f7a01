#include "diagnose/diff.h"

#include <gtest/gtest.h>

#include "diagnose/read_fixture.h"

namespace nibble::diagnose {
namespace {

Json document_of(std::string_view levels) {
  return json_of(std::string(R"({"schema": "nibble.diagnosis/1",
      "verdicts": [{"class": "scheduler_cap"}], "levels": [)") +
                 std::string(levels) + "]}");
}

constexpr std::string_view kBefore = R"(
  {"name": "1 user", "users": 1, "measured_ms": 10, "output_rate": 100, "verdicts": [],
   "facts": {"rate_noise": {"value": 0.03}}, "waterfall": []},
  {"name": "64 users", "users": 64, "measured_ms": 64, "output_rate": 1000,
   "verdicts": [{"class": "scheduler_cap"}],
   "waterfall": [{"id": "queue", "title": "queue", "ms": 32},
                 {"id": "host", "title": "host", "ms": null},
                 {"id": "old", "title": "old", "ms": 1}]},
  {"name": "8 req/s", "users": 0, "measured_ms": 1, "output_rate": 8, "verdicts": [],
   "waterfall": []})";
constexpr std::string_view kAfter = R"(
  {"name": "1 user", "users": 1, "measured_ms": 9.6, "output_rate": 104, "verdicts": [],
   "facts": {"rate_noise": {"value": 0.04}}, "waterfall": []},
  {"name": "64 users", "users": 64, "measured_ms": 40, "output_rate": 1600,
   "verdicts": [{"class": "at_the_roof"}],
   "waterfall": [{"id": "queue", "title": "queue", "ms": 8},
                 {"id": "host", "title": "host", "ms": 2}]},
  {"name": "128 users", "users": 128, "measured_ms": 80, "output_rate": 1600, "verdicts": [],
   "waterfall": []})";

TEST(DiffTest, NoiseIsOfBothAndOnePercentAtLeast) {
  const Result<DiagnosisDiff> diff =
      diff_of(document_of(kBefore), document_of(kAfter), "a.json", "b.json");
  ASSERT_TRUE(diff.ok()) << diff.error().message;
  ASSERT_EQ(diff->levels.size(), 4U);
  const LevelChange& one = diff->levels[0].name == "1 user" ? diff->levels[0] : diff->levels[1];
  EXPECT_NEAR(one.noise, 0.05, 1e-12);  // 3 % and 4 %
  EXPECT_NEAR(*one.rate.change, 0.04, 1e-12);
  EXPECT_EQ(one.verdict, "within noise");
}

TEST(DiffTest, LevelsAndBarsAreMatched) {
  const Result<DiagnosisDiff> diff =
      diff_of(document_of(kBefore), document_of(kAfter), "a.json", "b.json");
  ASSERT_TRUE(diff.ok());
  const auto found = std::find_if(diff->levels.begin(), diff->levels.end(),
                                  [](const LevelChange& one) { return one.name == "64 users"; });
  ASSERT_NE(found, diff->levels.end());
  EXPECT_EQ(found->verdict, "faster");
  EXPECT_NEAR(*found->rate.change, 0.6, 1e-12);
  EXPECT_NEAR(*found->measured_ms.change, -0.375, 1e-12);
  EXPECT_DOUBLE_EQ(found->noise, 0.01);
  EXPECT_EQ(found->class_before, "scheduler_cap");
  EXPECT_EQ(found->class_after, "at_the_roof");
  ASSERT_EQ(found->bars.size(), 3U);
  EXPECT_NEAR(*found->bars[0].ms.change, -0.75, 1e-12);
  EXPECT_EQ(found->bars[1].note, "only in b.json");  // null before
  EXPECT_EQ(found->bars[2].note, "only in a.json");
  EXPECT_EQ(diff->sentence,
            "1 faster, 0 slower, 1 within noise; most at 64 users: +60.0 % (noise 1.0 %), 1000 to "
            "1600 tok/s.");
}

TEST(DiffTest, LevelsOfOneAreNamed) {
  const Result<DiagnosisDiff> diff =
      diff_of(document_of(kBefore), document_of(kAfter), "a.json", "b.json");
  ASSERT_TRUE(diff.ok());
  for (const LevelChange& level : diff->levels) {
    if (level.name == "8 req/s") {
      EXPECT_EQ(level.verdict, "only in a.json");
    }
    if (level.name == "128 users") {
      EXPECT_EQ(level.verdict, "only in b.json");
      EXPECT_EQ(level.rate.after, 1600);
      EXPECT_FALSE(level.rate.before);
    }
  }
}

TEST(DiffTest, TheSameIsTheSame) {
  const Json json = diff_diagnoses(document_of(kBefore), document_of(kBefore));
  EXPECT_EQ(*json.find("sentence"), Json("All 3 levels are within noise."));
  EXPECT_EQ(*json.find("schema"), Json("nibble.diagnosis_diff/1"));
}

TEST(DiffTest, RefusesOtherDocuments) {
  const Json other = json_of(R"({"schema": "nibble.load/1"})");
  const Result<DiagnosisDiff> diff = diff_of(document_of(kBefore), other, "a.json", "b.json");
  ASSERT_FALSE(diff.ok());
  EXPECT_TRUE(diff.error().message.starts_with("b.json is no nibble.diagnosis/1"));
  EXPECT_NE(diff_diagnoses(Json(7), other).find("error"), nullptr);
  const Result<DiagnosisDiff> odd =
      diff_of(document_of(R"({"name": 7})"), document_of(kAfter), "a.json", "b.json");
  ASSERT_FALSE(odd.ok());
  EXPECT_NE(odd.error().message.find("a.json: levels[0]: \"name\""), std::string::npos);
}

}  // namespace
}  // namespace nibble::diagnose
