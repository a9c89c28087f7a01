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

// The same for an engine of steps.
constexpr std::string_view kSteps = R"({
  "steps": {"prefill_chunk_tokens": 512, "weights_ms": 8, "kv_ms_per_1k_tokens": 0.1,
            "per_sequence_ms": 0.05, "prefill_ms_per_token": 0.03,
            "collectives": {"count": 120, "latency_us": 12, "bytes_per_row": 12288, "gb_s": 60},
            "host_gap_ms": 2, "ranks": 8, "slow_rank_factor": 1.4, "clock_factor": 0.9,
            "noise": 0.02},
  "gpu": {"name": "NVIDIA B200", "idle_w": 150, "copy_w": 500, "matrix_w": 900, "waiting_w": 200,
          "limit_w": 1000, "power_cap_w": 600,
          "heat": {"ambient_c": 25, "c_per_w": 0.07, "seconds": 20, "limit_c": 80},
          "clock_mhz": 1965, "link_generation": 4, "link_generation_max": 6, "link_width": 4,
          "link_width_max": 8}})";

void expect_no_default(const Json& given, const Json& written, const Json& defaults) {
  EXPECT_EQ(given.as_object().size(), written.as_object().size());
  for (const Json::Member& member : written.as_object()) {
    const Json* found = given.find(member.first);
    ASSERT_NE(found, nullptr) << member.first;
    if (member.second.is_object()) {
      expect_no_default(*found, member.second, *defaults.find(member.first));
    } else {
      EXPECT_EQ(*found, member.second) << member.first;
      EXPECT_NE(*defaults.find(member.first), member.second) << member.first;
    }
  }
}

TEST(MockScriptFile, EveryFieldOfStepsIsReadAndWritten) {
  const auto script = parsed_script(kSteps);
  ASSERT_TRUE(script.ok()) << script.error().message;
  const Json written = to_json(*script);
  const auto given = Json::parse(kSteps, "s.json");
  MockScript plain;
  plain.steps.emplace();
  const Json defaults = to_json(plain);
  for (const char* part : {"steps", "gpu"}) {
    expect_no_default(*given->find(part), *written.find(part), *defaults.find(part));
  }
  // What scripts the times of a request is not there, and without steps neither are these.
  for (const char* key : {"ttft_ms", "itl_ms", "load_curve", "slow_start"}) {
    EXPECT_EQ(written.find(key), nullptr);
  }
  EXPECT_EQ(to_json(MockScript{}).find("gpu"), nullptr);
  const auto again = parse_script(written, "again");
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(to_json(*again), written);
}

TEST(MockScriptFile, StepsStandAlone) {
  EXPECT_EQ(fault_of(R"({"steps": {}, "itl_ms": 10})"),
            "s.json: \"itl_ms\" contradicts \"steps\", from which all times follow; leave one out");
  EXPECT_EQ(fault_of(R"({"gpu": {"idle_w": 100}})"),
            "s.json: \"gpu\" belongs to an engine with \"steps\"; give both or neither");
  for (const char* text :
       {R"({"steps": {}, "load_curve": {"kind": "knee"}})", R"({"steps": {}, "ttft_ms": 1})",
        R"({"steps": {}, "tokens_per_chunk": 2})",
        R"({"steps": {}, "slow_start": {"requests": 1}})",
        R"({"steps": {}, "stream": {"empty_every": 2}})",
        R"({"steps": {}, "faults": [{"kind": "hang", "every": 2}]})",
        R"({"steps": {"weights_ms": 0}})", R"({"steps": {"slow_rank_factor": 2}})",
        R"({"steps": {"ranks": 2, "slow_rank_factor": 0.5}})", R"({"steps": {"clock_factor": 0}})",
        R"({"steps": {"prefill_chunk_tokens": 0}})", R"({"steps": {"collectives": {"gb_s": 0}}})",
        R"({"steps": {"weight_ms": 3}})", R"({"steps": {}, "gpu": {"copy_w": 50}})",
        R"({"steps": {}, "gpu": {"power_cap_w": 117}})",
        R"({"steps": {}, "gpu": {"link_generation": 6}})",
        R"({"steps": {}, "gpu": {"link_width": 17}})",
        R"({"steps": {}, "gpu": {"heat": {"seconds": 0}}})"}) {
    EXPECT_FALSE(parsed_script(text).ok()) << text;
  }
  EXPECT_TRUE(parsed_script(R"({"steps": null, "itl_ms": 10})").ok());
  EXPECT_TRUE(parsed_script(R"({"steps": {}, "gpu": {"power_cap_w": null}})").ok());
  MockScript script;
  script.steps.emplace();
  script.itl_ms = Distribution::constant(3);  // as a flag of the command line would
  EXPECT_FALSE(parse_script(to_json(script), "flags").ok());
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
