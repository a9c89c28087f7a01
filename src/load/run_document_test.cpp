#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/text.h"
#include "ledger/test_deployments.h"
#include "load/test_report.h"

namespace nibble::load {
namespace {

RunReport single() {
  RunReport report = bent_sweep();
  report.levels.resize(1);
  report.setup.num_prompts = 60;
  return report;
}

std::string text_of(const Json& json, const char* name) {
  const Json* found = json.find(name);
  return found != nullptr && found->is_string() ? found->as_string() : "no text";
}

// What scripts read from a file of `vllm bench serve --save-result`, in its order.
TEST(RunDocument, OneLevelReadsAsAFileOfVllm) {
  RunReport report = single();
  report.setup.label = "mine";
  const Json json = to_json(report);
  std::vector<std::string> names;
  for (const auto& [name, value] : json.as_object()) names.push_back(name);
  const std::vector<std::string> first(names.begin(), names.begin() + 11);
  EXPECT_EQ(join(first, " "),
            "schema date endpoint_type backend label model_id tokenizer_id num_prompts "
            "request_rate burstiness max_concurrency");
  EXPECT_EQ(text_of(json, "date"), "20261130-101500");
  EXPECT_EQ(text_of(json, "backend"), "openai");
  EXPECT_EQ(text_of(json, "endpoint_type"), "openai");
  EXPECT_EQ(text_of(json, "label"), "mine");
  EXPECT_EQ(text_of(json, "request_rate"), "inf");
  EXPECT_EQ(json.find("max_concurrency")->as_number(), 1);
  EXPECT_EQ(json.find("num_prompts")->as_integer(), 60);
  EXPECT_EQ(json.find("completed")->as_integer(), 60);
  EXPECT_EQ(json.find("mean_ttft_ms")->as_number(), 20);
  EXPECT_NEAR(json.find("output_throughput")->as_number(), 50, 1e-6);
  for (const char* name : {"steady", "checks", "joined", "client_overhead", "telemetry"}) {
    EXPECT_NE(json.find(name), nullptr) << name;
  }
  EXPECT_EQ(json.find("levels")->as_array().size(), 1U);
}

TEST(RunDocument, ASweepHasNoNumbersAtTheTop) {
  const Json json = to_json(bent_sweep());
  EXPECT_EQ(json.find("mean_ttft_ms"), nullptr);
  EXPECT_TRUE(json.find("max_concurrency")->is_null());  // they differ
  EXPECT_EQ(text_of(json, "request_rate"), "inf");       // alike
  EXPECT_TRUE(json.find("num_prompts")->is_null());
  EXPECT_TRUE(json.find("complete")->as_bool());
}

// vLLM merges them between who and what: they replace the first and are replaced by the second.
TEST(RunDocument, MetadataAreMergedAsVllmDoes) {
  RunReport report = single();
  report.setup.metadata = {{"gpu", "H200"},       {"backend", "my fork"}, {"mean_ttft_ms", "1"},
                           {"request_rate", "9"}, {"schema", "x"},        {"levels", "none"}};
  const Json json = to_json(report);
  EXPECT_EQ(text_of(json, "gpu"), "H200");
  EXPECT_EQ(text_of(json, "backend"), "my fork");
  EXPECT_EQ(json.find("mean_ttft_ms")->as_number(), 20);
  EXPECT_EQ(text_of(json, "request_rate"), "inf");
  EXPECT_EQ(text_of(json, "schema"), "nibble.load/1");
  EXPECT_TRUE(json.find("levels")->is_array());
  EXPECT_EQ(text_of(*json.find("setup")->find("metadata"), "mean_ttft_ms"), "1");
  EXPECT_EQ(text_of(*json.find("setup"), "backend"), "openai");
}

TEST(RunDocument, PartsSayThatTheyAreParts) {
  RunReport report = bent_sweep();
  report.levels[3].report.incomplete = "the server went away";
  Json json = to_json(report);
  EXPECT_FALSE(json.find("complete")->as_bool());
  EXPECT_EQ(text_of(json, "incomplete_reason"), "8 users: the server went away");
  report.incomplete = "interrupted";
  json = to_json(report);
  EXPECT_EQ(text_of(json, "incomplete_reason"), "interrupted");
  json = to_json(RunReport{});
  EXPECT_FALSE(json.find("complete")->as_bool());
  EXPECT_EQ(text_of(json, "incomplete_reason"), "no level was measured");
}

TEST(RunDocument, CsvHasALineALevelAndACellAColumn) {
  RunReport report = bent_sweep();
  see_everything(report.levels[1].joined);
  report.levels[1].audit.calibration = test_calibration();
  report.levels[1].audit.loops = {{.lag_p99_ms = 0.5, .cpu_share = 0.25}};
  const auto lines = split(run_csv(report), '\n');
  ASSERT_EQ(lines.size(), 8U);  // the last one is empty
  const auto names = split(lines[0], ',');
  for (std::size_t line = 1; line < 7; ++line) {
    EXPECT_EQ(split(lines[line], ',').size(), names.size()) << line;
  }
  const auto cell = [&](std::size_t line, std::string_view name) {
    const auto at = std::find(names.begin(), names.end(), name);
    EXPECT_NE(at, names.end()) << name;
    return split(lines[line], ',')[static_cast<std::size_t>(at - names.begin())];
  };
  EXPECT_EQ(cell(2, "max_concurrency"), "2");
  EXPECT_EQ(cell(2, "gpu_power_w"), "3562.5");
  EXPECT_EQ(cell(2, "joules_per_total_token"), "0.0812");
  EXPECT_EQ(cell(2, "client_loop_cpu_share"), "0.25");
  EXPECT_EQ(cell(2, "client_itl_error_ms_p50"), "0.03125");
  EXPECT_EQ(cell(2, "client_client_limited"), "false");
  EXPECT_EQ(cell(2, "client_cpu_limited"), "false");
  EXPECT_EQ(cell(2, "steady_request_throughput").substr(0, 2), "20");  // 2 users, 100 ms each
  EXPECT_EQ(cell(2, "steady_request_goodput"), "");                    // no limits were given
  EXPECT_EQ(cell(1, "gpu_power_w"), "");
  EXPECT_EQ(cell(1, "client_itl_error_ms_p50"), "");
  EXPECT_EQ(cell(1, "joined_window"), "steady window");
  EXPECT_EQ(cell(3, "mean_ttft_ms"), "20");
}

// The system's jsonschema: what is wrong, or an empty text.
class RunSchema : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("/usr/bin/python3 -c 'import jsonschema' 2>/dev/null") != 0) {
      GTEST_SKIP() << "Debian's python3-jsonschema is not installed";
    }
  }
  // One start of Python for all documents: 'line: message' for each that does not fit.
  std::string faults(const std::vector<Json>& documents) {
    std::string text;
    for (const Json& document : documents) text += document.dump(0) + "\n";
    EXPECT_TRUE(write_file(folder_.path() / "runs.jsonl", text).ok());
    const std::string script =
        "import json, sys, jsonschema\n"
        "schema = json.load(open(sys.argv[2]))\n"
        "check = jsonschema.Draft202012Validator(schema)\n"
        "for number, line in enumerate(open(sys.argv[1])):\n"
        "    for error in check.iter_errors(json.loads(line)):\n"
        "        print(number, list(error.path), error.message[:200])\n";
    const auto out = folder_.path() / "faults";
    const std::string command = fmt::format(
        "/usr/bin/python3 -c '{}' {} {}/docs/schemas/nibble.load.1.json > {} 2>&1", script,
        (folder_.path() / "runs.jsonl").string(), NIBBLE_SOURCE_DIR, out.string());
    EXPECT_EQ(std::system(command.c_str()), 0);
    const auto found = read_file(out, 1 << 20);
    return found.ok() ? *found : found.error().message;
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(RunSchema, DocumentsAreValid) {
  RunReport full = bent_sweep();
  full.setup.metadata = {{"gpu", "H200"}, {"num_prompts", "many"}};
  full.setup.notes = {"the server takes no token ids"};
  full.setup.label = "mine";
  full.setup.tokenizer_id = "tok";
  see_everything(full.levels[0].joined);
  full.levels[0].telemetry = Json::object().set("begin_ns", 1);
  for (LevelResult& level : full.levels) {
    level.audit.loops = {{.lag_p99_ms = 0.5, .cpu_share = 0.25}};
    level.audit.calibration = test_calibration();
    level.report.checks = {check_little(level.report.all, std::nullopt)};
    judge(level.audit, 20);
  }
  const auto ledger = Ledger::make(deployment_of("glm-5-nvfp4", "h200", {.tp = 8}));
  ASSERT_TRUE(ledger.ok());
  ASSERT_TRUE(analyze_sweep(full, &*ledger).ok());
  RunReport failed = single();
  failed.levels = {make_level({.max_concurrency = 4}, {failed_row(0, 10, Outcome::kRefused)})};
  failed.incomplete = "the server went away";
  RunReport open = single();
  open.levels = {make_level({.request_rate = HUGE_VAL, .burstiness = HUGE_VAL},
                            stream_rows(4, 100, 2), {.slo = {.ttft_ms = 10}})};
  see_everything(open.levels[0].joined);
  open.server_limit = ServerLimit{.from = 32, .highest = 64, .running = 32, .queue = 32};
  Json line = to_json(single());  // a line of --output-file
  std::erase_if(line.as_object(), [](const Json::Member& m) { return m.first == "levels"; });
  EXPECT_EQ(faults({to_json(full), to_json(single()), to_json(failed), to_json(open),
                    to_json(RunReport{}), line}),
            "");
}

TEST_F(RunSchema, TheSchemaCanSayNo) {
  const auto broken = [](auto change) {
    Json json = to_json(single());
    change(json);
    return json;
  };
  const auto level = [](Json& json) -> Json& { return json.find("levels")->as_array()[0]; };
  const std::string found = faults({
      broken([](Json& json) { json.set("mean_ttft_ms", "fast"); }),
      broken([](Json& json) { json.find("setup")->set("more", 1); }),
      broken([&](Json& json) { level(json).find("joined")->set("gpu_power_w", "hot"); }),
      broken([&](Json& json) { level(json).find("joined")->set("gpu_power", 1); }),
      broken([&](Json& json) { level(json).find("client_overhead")->set("verdict", nullptr); }),
      broken([&](Json& json) { level(json).set("client_overhead", nullptr); }),
      broken([](Json& json) { json.set("complete", "yes"); }),
  });
  for (int number = 0; number < 7; ++number) {
    const std::string start = fmt::format("{} ", number);
    EXPECT_TRUE(found.starts_with(start) || found.find("\n" + start) != std::string::npos)
        << number << " passes:\n"
        << found;
  }
}

}  // namespace
}  // namespace nibble::load
