#include "mock/script.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/testing.h"

namespace nibble::mock {
namespace {

Result<MockScript> parsed_script(std::string_view text) {
  NIBBLE_ASSIGN_OR_RETURN(const Json json, Json::parse(text, "s.json"));
  return parse_script(json, "s.json");
}

std::string fault_of(std::string_view text) {
  const auto result = parsed_script(text);
  return result.ok() ? "" : result.error().message;
}

// A value for every field that is not its default.
constexpr std::string_view kEverything = R"({
  "schema": "nibble.mock/1", "seed": 7, "model": "m", "max_model_len": 4096,
  "ttft_ms": {"kind": "gamma", "mean": 80, "stddev": 20}, "ttft_ms_per_prompt_token": 0.01,
  "itl_ms": [10, 12, 9], "tokens_per_chunk": {"kind": "uniform", "low": 1, "high": 4},
  "first_chunk_tokens": 2, "output_tokens": 64,
  "early_end": {"probability": 0.5, "tokens": 10},
  "slow_start": {"requests": 20, "factor": 10}, "capacity": 32,
  "load_curve": {"kind": "points", "knee": 2, "sigma": 0.1, "kappa": 0.01, "running": [1, 8],
                 "factors": [1, 2], "noise": 0.05, "noise_period_ms": 500},
  "text": {"kind": "utf8", "chunk_bytes": 100000},
  "fields": {"reasoning_tokens": 5, "reasoning_field": "reasoning", "tool_calls": true},
  "stream": {"mode": "one_chunk", "role": "at_start", "empty_every": 3, "finish": "same"},
  "usage": {"when": "every", "cached_share": 0.25, "template_tokens": 9, "stream_options": false},
  "sse": {"line_end": "crlf", "byte_order_mark": true, "space_after_colon": false,
          "multi_line": true, "event": "message", "id": true, "retry_ms": 1000,
          "comment_every": 4, "keep_alive_ms": 15000, "done": "then_data", "final_newline": false,
          "cut_bytes": 7, "cut_characters": true, "cut_pause_ms": 0.5, "framing": "close"},
  "body_padding_bytes": 64,
  "faults": [{"kind": "hang", "requests": [1, 2], "every": 9, "probability": 0.1,
              "after_tokens": 4, "status": 429, "ms": 50, "head": false}],
  "metrics_style": "sglang", "kv_capacity_tokens": 1000})";

TEST(MockScriptFile, EmptyIsTheDefault) {
  const auto script = parsed_script("{}");
  ASSERT_TRUE(script.ok());
  EXPECT_EQ(to_json(*script), to_json(MockScript{}));
}

TEST(MockScriptFile, EveryFieldIsReadAndWritten) {
  const auto script = parsed_script(kEverything);
  ASSERT_TRUE(script.ok()) << script.error().message;
  const Json written = to_json(*script);
  const auto given = Json::parse(kEverything, "s.json");
  const Json defaults = to_json(MockScript{});
  EXPECT_EQ(written.as_object().size(), given->as_object().size());
  for (const Json::Member& member : written.as_object()) {
    const Json* found = given->find(member.first);
    ASSERT_NE(found, nullptr) << member.first;
    EXPECT_EQ(*found, member.second) << member.first;
    if (member.first != "schema") {
      EXPECT_NE(*defaults.find(member.first), member.second) << member.first;
    }
  }
}

TEST(MockScriptFile, FaultsOfTheFileSayWhere) {
  EXPECT_EQ(fault_of(R"({"sse": {"line_end": "lfcr"}})"),
            "s.json: sse: \"line_end\" is \"lfcr\"; it must be one of lf, crlf, cr");
  EXPECT_EQ(fault_of(R"({"faults": [{"kind": "reset"}]})"),
            "s.json: faults[0]: \"kind\" hits no request; give \"requests\", \"every\" or "
            "\"probability\"");
  EXPECT_EQ(fault_of(R"({"itl_ms": -1})"), "s.json: itl_ms is -1; it must be from 0 to 3600000");
  EXPECT_NE(fault_of(R"({"ttft": 1})").find("did you mean"), std::string::npos);
  EXPECT_NE(fault_of(R"({"schema": "nibble.case/1"})").find("nibble.mock/1"), std::string::npos);
}

TEST(MockScriptFile, RefusesWhatCannotBe) {
  for (const char* text :
       {"[]",
        "3",
        R"({"seed": 1.5})",
        R"({"seed": -1})",
        R"({"model": ""})",
        R"({"model": "a\nb"})",
        R"({"capacity": -1})",
        R"({"tokens_per_chunk": 0})",
        R"({"early_end": {"probability": 2}})",
        R"({"load_curve": {"kind": "points"}})",
        R"({"load_curve": {"kind": "points", "running": [2, 1], "factors": [1, 2]}})",
        R"({"load_curve": {"kind": "points", "running": [1, 2], "factors": [1]}})",
        R"({"fields": {"reasoning_field": "thoughts"}})",
        R"({"sse": {"event": "a\nb"}})",
        R"({"faults": [{"kind": "reset", "requests": [0.5]}]})",
        R"({"faults": [{"requests": [0]}]})",
        R"({"faults": [{"kind": "flood", "every": 1}]})",
        R"({"faults": [{"kind": "status", "every": 1, "status": 200}]})",
        R"({"faults": [{"kind": "truncate", "every": 1}], "sse": {"framing": "close"}})",
        R"({"metrics_style": "tgi"})",
        R"({"text": {"chunk_bytes": 1e9}})"}) {
    EXPECT_FALSE(parsed_script(text).ok()) << text;
  }
  std::string many = R"({"faults": [)";
  for (int fault = 0; fault < 65; ++fault) {
    many += (fault == 0 ? "" : ",") + std::string(R"({"kind":"reset","every":2})");
  }
  EXPECT_FALSE(parsed_script(many + "]}").ok());
}

TEST(MockScriptFile, IsLoadedFromADisk) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "s.json";
  EXPECT_FALSE(load_script(path).ok());
  ASSERT_TRUE(write_file(path, R"({"capacity": 3})").ok());
  const auto script = load_script(path);
  ASSERT_TRUE(script.ok());
  EXPECT_EQ(script->capacity, 3);
}

}  // namespace
}  // namespace nibble::mock
