#include <gtest/gtest.h>
#include <set>

#include "base/file.h"
#include "diagnose/diagnosis.h"
#include "diagnose/read_evidence.h"
#include "diagnose/read_fixture.h"

namespace nibble::diagnose {
namespace {

Json schema_of_diagnosis() {
  const std::filesystem::path path =
      std::filesystem::path(NIBBLE_SOURCE_DIR) / "docs/schemas/nibble.diagnosis.1.json";
  return json_of(read_file(path, 1 << 20).value());
}

Diagnosis of_the_case() {
  Evidence evidence;
  const std::string text(built_in_case("glm5_rtxpro6000").value());
  EXPECT_TRUE(read_case(json_of(text), {.name = "case"}, evidence).ok());
  return conclude(std::move(evidence));
}

std::set<std::string> strings_in(const Json& list) {
  std::set<std::string> all;
  for (const Json& item : list.as_array()) {
    if (item.is_string()) all.insert(item.as_string());
  }
  return all;
}

std::set<std::string> members_of(const Json& object) {
  std::set<std::string> all;
  for (const auto& [name, value] : object.as_object()) all.insert(name);
  return all;
}

const Json& at(const Json& json, std::initializer_list<std::string_view> path) {
  const Json* found = &json;
  for (const std::string_view key : path) {
    found = found->find(key);
    EXPECT_NE(found, nullptr) << key;
    if (found == nullptr) return json;
  }
  return *found;
}

TEST(DiagnosisJsonTest, MembersAreThoseOfTheSchema) {
  const Json schema = schema_of_diagnosis();
  const Json json = to_json(of_the_case());
  EXPECT_EQ(members_of(json), strings_in(at(schema, {"required"})));
  EXPECT_EQ(members_of(json), members_of(at(schema, {"properties"})));
  EXPECT_EQ(members_of(at(json, {"setting"})),
            strings_in(at(schema, {"properties", "setting", "required"})));
  const Json& level = at(json, {"levels"}).as_array()[0];
  EXPECT_EQ(members_of(level),
            strings_in(at(schema, {"properties", "levels", "items", "required"})));
  EXPECT_EQ(members_of(at(json, {"verdicts"}).as_array()[0]),
            strings_in(at(schema, {"$defs", "verdict", "required"})));
  EXPECT_EQ(members_of(at(json, {"waterfall"}).as_array()[0]),
            strings_in(at(schema, {"$defs", "waterfall", "items", "required"})));
}

TEST(DiagnosisJsonTest, TheSchemaNamesEveryClassAndFact) {
  const Json schema = schema_of_diagnosis();
  std::set<std::string> classes;
  for (const ClassInfo& info : class_infos()) classes.emplace(info.name);
  EXPECT_EQ(classes, strings_in(at(schema, {"$defs", "class", "enum"})));
  const Json json = to_json(of_the_case());
  EXPECT_EQ(at(at(json, {"levels"}).as_array()[0], {"facts"}).as_object().size(), kFacts);
}

// Every null of a fact and a bar has its reason.
TEST(DiagnosisJsonTest, NullsHaveReasons) {
  Evidence evidence;
  ASSERT_TRUE(read_load(json_of(kLoadText), {.name = "load"}, evidence).ok());
  evidence.levels.emplace_back();  // of which nothing at all is known
  const Json json = to_json(conclude(std::move(evidence)));
  for (const Json& level : at(json, {"levels"}).as_array()) {
    for (const auto& [name, fact] : at(level, {"facts"}).as_object()) {
      EXPECT_EQ(at(fact, {"value"}).is_null(), at(fact, {"reason"}).is_string()) << name;
    }
    for (const Json& bar : at(level, {"waterfall"}).as_array()) {
      EXPECT_EQ(at(bar, {"ms"}).is_null(), at(bar, {"reason"}).is_string()) << bar.dump(0);
    }
    const bool none = at(level, {"waterfall"}).as_array().empty();
    EXPECT_EQ(none, at(level, {"waterfall_reason"}).is_string());
    for (const char* joules : {"joules", "joules_floor"}) {
      const std::string value = std::string(joules) == "joules" ? "joules_per_token" : joules;
      EXPECT_EQ(at(level, {value}).is_null(),
                at(level, {std::string(joules) + "_reason"}).is_string())
          << joules;
    }
  }
}

TEST(DiagnosisJsonTest, RatesWithoutABarFollowFromLittlesLaw) {
  Diagnosis diagnosis;
  diagnosis.evidence.levels.emplace_back();
  diagnosis.evidence.levels[0][Fact::kOutputRate] = recorded(1000, "t");
  LevelDiagnosis level{.name = "64 users", .users = 64, .measured_ms = 64};
  level.waterfall = {{.id = "queue", .title = "queue", .ms = 32},
                     {.id = "host", .title = "host", .ms = std::nullopt, .reason = "unknown"}};
  diagnosis.levels = {level};
  const Json json = to_json(diagnosis);
  const Json& bars = at(json, {"waterfall"});
  EXPECT_EQ(at(bars.as_array()[0], {"tokens_per_s_without"}), Json(2000.0));  // 64 / 32 ms
  EXPECT_TRUE(at(bars.as_array()[1], {"tokens_per_s_without"}).is_null());
  EXPECT_EQ(at(json, {"headline"}), Json("64 users"));
}

TEST(DiagnosisJsonTest, TheSameEvidenceIsTheSameText) {
  EXPECT_EQ(to_json(of_the_case()).dump(), to_json(of_the_case()).dump());
}

}  // namespace
}  // namespace nibble::diagnose
