#include <gtest/gtest.h>

#include "trace/trace_testing.h"

namespace nibble::trace {
namespace {

TraceSummary a_summary() {
  const Result<TraceSummary> summary =
      load_text(chrome_trace({kernel("nvjet_a", 0, 10, 0), kernel("odd", 20, 1.5, 0)}));
  NIBBLE_CHECK(summary.ok());
  return *summary;
}

TEST(TraceDocument, ReadsBackWhatItWrote) {
  const TraceSummary summary = a_summary();
  const Json written = to_json(summary);
  const Result<TraceSummary> read = parse_trace(written, "a.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(to_json(*read), written);
  EXPECT_EQ(read->ops.size(), 2U);
  EXPECT_EQ(read->ops[0].kernels[0].name, "nvjet_a");
  EXPECT_DOUBLE_EQ(read->busy_ms, 0.0115);
}

// Members that the schema wants, no others, and of the kinds that it names.
void expect_members(const Json& schema, const Json& value) {
  const Json::Object& properties = schema.find("properties")->as_object();
  EXPECT_EQ(schema.find("required")->as_array().size(), properties.size());
  ASSERT_EQ(value.as_object().size(), properties.size());
  for (const Json::Member& property : properties) {
    const Json* member = value.find(property.first);
    ASSERT_NE(member, nullptr) << property.first;
    const Json* kind = property.second.find("type");
    if (kind == nullptr) continue;
    const bool fits = kind->as_string() == "number"  ? member->is_number()
                      : kind->as_string() == "array" ? member->is_array()
                                                     : member->is_string();
    EXPECT_TRUE(fits) << property.first;
  }
}

TEST(TraceDocument, HasWhatItsSchemaSays) {
  const std::string path = NIBBLE_SOURCE_DIR "/docs/schemas/nibble.trace.1.json";
  const Json schema = *Json::parse(*read_file(path, 1 << 20), path);
  const Json document = to_json(a_summary());
  expect_members(schema, document);
  const Json& op = document.find("ops")->as_array().at(0);
  expect_members(*schema.find("$defs")->find("op"), op);
  expect_members(*schema.find("$defs")->find("kernel"), op.find("kernels")->as_array().at(0));
  EXPECT_EQ(*schema.find("properties")->find("schema")->find("const"), *document.find("schema"));
}

TEST(TraceDocument, IsReadInPlaceOfATrace) {
  const TraceSummary summary = a_summary();
  const Result<TraceSummary> read = load_text(to_json(summary).dump(), "summary.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(to_json(*read), to_json(summary));
}

TEST(TraceDocument, RefusesWhatIsWrong) {
  const auto fault_with = [](std::string_view key, Json value) {
    Json json = to_json(a_summary());
    json.set(key, std::move(value));
    const Result<TraceSummary> read = parse_trace(json, "a.json");
    return read.ok() ? "" : read.error().message;
  };
  EXPECT_NE(fault_with("schema", "nibble.case/1").find("nibble.trace/1"), std::string::npos);
  EXPECT_NE(fault_with("kind", "perf").find("kind"), std::string::npos);
  EXPECT_NE(fault_with("steps", 0).find("steps"), std::string::npos);
  EXPECT_NE(fault_with("busy_ms", 5.0).find("busy_ms"), std::string::npos);
  EXPECT_NE(fault_with("step_ms", -1.0).find("step_ms"), std::string::npos);
  EXPECT_NE(fault_with("ops", nullptr).find("ops"), std::string::npos);
  EXPECT_NE(fault_with("ops", Json::array({Json(1)})).find("ops[0]"), std::string::npos);
  EXPECT_NE(fault_with("notes", Json::array({Json(1)})).find("notes"), std::string::npos);
  EXPECT_NE(fault_with("extra", 1).find("extra"), std::string::npos);
  EXPECT_FALSE(parse_trace(Json(1), "a.json").ok());
}

}  // namespace
}  // namespace nibble::trace
