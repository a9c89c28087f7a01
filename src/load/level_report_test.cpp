#include "load/level_report.h"

#include <cstdlib>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/testing.h"
#include "base/text.h"
#include "load/row_file.h"
#include "load/run_report.h"
#include "load/test_rows.h"

namespace nibble::load {
namespace {

class LevelReportTest : public testing::Test {
 protected:
  void write(const std::vector<RequestRecord>& rows) {
    auto writer = RowWriter::create(path());
    ASSERT_TRUE(writer.ok());
    for (const RequestRecord& row : rows) ASSERT_TRUE(writer->write(row).ok());
    ASSERT_TRUE(writer->finish().ok());
  }
  std::filesystem::path path() const { return folder_.path() / "rows.jsonl"; }
  std::filesystem::path at(const char* name) const { return folder_.path() / name; }
  LevelReport measure(const LevelPlan& plan, MetricsOptions options = {}) {
    auto report = measure_level(path(), plan, options);
    EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().message);
    return *report;
  }

 private:
  TemporaryFolder folder_;
};

// Two streams, 500 requests each of 100 ms, five tokens 20 ms apart, the second stream 50 ms later.
std::vector<RequestRecord> steady_rows(std::int32_t level) {
  std::vector<RequestRecord> rows;
  for (int index = 0; index < 1000; ++index) {
    rows.push_back(make_row({.sent = 100.0 * (index / 2) + 50 * (index % 2),
                             .events = {20, 40, 60, 80, 100},
                             .end = 100,
                             .output = 5,
                             .asked = 5}));
    rows.back().level = level;
    rows.back().index = index;
  }
  return rows;
}

TEST_F(LevelReportTest, MeasuresItsLevelOnly) {
  auto rows = steady_rows(1);
  RequestRecord other = make_row({.sent = 0, .events = {5000}, .end = 90000, .output = 1});
  other.level = 2;
  rows.push_back(other);
  write(rows);
  const LevelReport report = measure({.level = 1, .max_concurrency = 2});
  EXPECT_EQ(report.all.counts.ok, 1000);
  EXPECT_EQ(report.all[Metric::kTtft].max, 20);
  EXPECT_NEAR(report.all.durations.benchmark, 50.05, 1e-9);
  ASSERT_TRUE(report.inside);
  EXPECT_NEAR(report.inside->durations.benchmark, 49.95, 1e-9);  // 50 ms to 50,000 ms
  EXPECT_NEAR(*report.inside->output_throughput, 100, 0.2);
  EXPECT_NEAR(*report.inside->mean_in_flight, 2, 1e-9);
  EXPECT_TRUE(*check_little(*report.inside, std::nullopt).holds);
  EXPECT_TRUE(report.rate.converged) << report.rate.reason;
  EXPECT_NEAR(report.rate.rate, 100, 0.5);
  EXPECT_FALSE(measure({.level = 7}).inside);
}

// One request of 6 s: 20 tokens in its first third, 10 in the second, 30 in the last.
RequestRecord uneven_row(double stretch = 1) {
  TestRow row{.sent = 0, .events = {}, .end = 6000 * stretch, .output = 60};
  for (int token = 1; token <= 20; ++token) row.events.push_back(100.0 * token * stretch);
  for (int token = 1; token <= 10; ++token) row.events.push_back((2000 + 200.0 * token) * stretch);
  for (int token = 1; token <= 30; ++token) {
    row.events.push_back((4000 + 2000.0 / 30 * token) * stretch);
  }
  return make_row(row);
}

TEST_F(LevelReportTest, DriftIsTheLastThirdOverTheFirst) {
  write({uneven_row()});
  const LevelReport report = measure({.level = 0});
  ASSERT_TRUE(report.rate_drift) << report.rate_drift_reason;
  EXPECT_NEAR(*report.rate_drift, 0.5, 1e-9);  // 30 / 20 - 1
  EXPECT_EQ(to_json(report).find("rate_drift")->as_number(), *report.rate_drift);
}

TEST_F(LevelReportTest, NoDriftOfAShortWindowOrWithoutAFirstThird) {
  write({uneven_row(0.4)});  // 2.4 s
  const LevelReport brief = measure({.level = 0});
  EXPECT_FALSE(brief.rate_drift);
  EXPECT_EQ(brief.rate_drift_reason, "the window is shorter than 3 s");
  EXPECT_TRUE(to_json(brief).find("rate_drift")->is_null());
  write({make_row({.sent = 0, .events = {5000, 5500}, .end = 6000, .output = 2})});
  EXPECT_EQ(measure({.level = 0}).rate_drift_reason,
            "no tokens came in the first third of the window");
}

TEST_F(LevelReportTest, RepeatedPromptsAreAShareOfTheRequests) {
  std::vector<RequestRecord> rows;
  for (int index = 0; index < 4; ++index) {
    rows.push_back(make_row({.sent = 10.0 * index, .events = {1}, .end = 5, .output = 1}));
    rows.back().prompt_repeated = index == 2;
  }
  rows.push_back(failed_row(50, 1, Outcome::kReset));
  rows.back().prompt_repeated = true;
  rows.push_back(make_row({.sent = 70, .events = {1}, .end = 5, .output = 1}));
  rows.back().warmup = true;  // counts nowhere
  write(rows);
  Json level = to_json(measure({.level = 0}));
  EXPECT_EQ(level.find("repeated_prompts")->as_number(), 2.0 / 5);
  EXPECT_TRUE(level.find("repeated_prompts_reason")->is_null());
  rows[0].prompt_repeated.reset();  // a file of an older version
  write(rows);
  level = to_json(measure({.level = 0}));
  EXPECT_TRUE(level.find("repeated_prompts")->is_null());
  EXPECT_EQ(level.find("repeated_prompts_reason")->as_string(),
            "the rows do not tell whether prompts had been sent before");
  write({});
  EXPECT_EQ(to_json(measure({.level = 0})).find("repeated_prompts_reason")->as_string(),
            "no request");
}

TEST_F(LevelReportTest, NamesOfVllmAndSglang) {
  write(steady_rows(0));
  const Json level =
      to_json(measure({.level = 0, .max_concurrency = 2}, {.slo = {.ttft_ms = 200}}));
  // vllm bench serve --save-result, and sglang.bench_serving --output-file, as the facts list them.
  for (const char* name : {"duration",
                           "completed",
                           "failed",
                           "total_input_tokens",
                           "total_output_tokens",
                           "request_throughput",
                           "request_goodput",
                           "output_throughput",
                           "total_token_throughput",
                           "max_output_tokens_per_s",
                           "max_concurrent_requests",
                           "max_concurrency",
                           "request_rate",
                           "burstiness",
                           "input_throughput",
                           "total_throughput",
                           "concurrency",
                           "accept_length",
                           "total_output_tokens_retokenized",
                           "max_itl_ms"}) {
    EXPECT_NE(level.find(name), nullptr) << name;
  }
  for (const char* metric : {"ttft", "tpot", "itl", "e2el", "e2e_latency", "ttfo", "icl",
                             "sched_ttft", "sched_e2el", "token_itl"}) {
    for (const char* statistic : {"mean", "median", "std", "p50", "p90", "p95", "p99"}) {
      const Json* value = level.find(fmt::format("{}_{}_ms", statistic, metric));
      ASSERT_NE(value, nullptr) << statistic << metric;
      EXPECT_TRUE(value->is_number()) << statistic << metric;
    }
  }
  EXPECT_EQ(level.find("mean_tpot_ms")->as_number(), 20);
  EXPECT_EQ(level.find("mean_icl_ms")->as_number(), level.find("mean_itl_ms")->as_number());
  EXPECT_EQ(level.find("request_rate")->as_string(), "inf");
  EXPECT_EQ(level.find("token_source")->as_string(), "usage");
  EXPECT_EQ(level.find("ci")->find("ttft")->find("n")->as_integer(), 1000);
  EXPECT_TRUE(level.find("ci")->find("ttft")->find("p99")->is_array());
}

TEST_F(LevelReportTest, MissingIsNullWithAReason) {
  auto rows = steady_rows(0);
  for (RequestRecord& row : rows) {
    row.streamed = false;
    row.events.resize(1);
  }
  write(rows);
  const Json level = to_json(measure({.level = 0, .max_concurrency = 2}));
  EXPECT_TRUE(level.find("mean_ttft_ms")->is_null());
  EXPECT_TRUE(level.find("p99_ttft_ms")->is_null());
  EXPECT_EQ(level.find("ci")->find("ttft")->find("reason")->as_string(), "not streamed");
  EXPECT_EQ(level.find("ci")->find("ttft")->find("missing")->as_integer(), 1000);
  EXPECT_TRUE(level.find("mean_e2el_ms")->is_number());
  EXPECT_TRUE(level.find("cached_fraction")->is_null());
  EXPECT_TRUE(level.find("request_goodput")->is_null());
}

// T21: what is left of an interrupted run is measured, and the document says what it is.
TEST_F(LevelReportTest, ACutFileIsMeasuredAndSaid) {
  write(steady_rows(0));
  const std::string text = *read_file(path(), 64 << 20);
  ASSERT_TRUE(write_file(path(), text.substr(0, text.size() * 3 / 4 + 11)).ok());
  LevelReport report = measure({.level = 0, .max_concurrency = 2});
  report.incomplete = "interrupted";
  EXPECT_GT(report.all.counts.ok, 700);
  EXPECT_LT(report.all.counts.ok, 800);
  const Json level = to_json(report);
  EXPECT_FALSE(level.find("complete")->as_bool());
  EXPECT_EQ(level.find("incomplete_reason")->as_string(), "interrupted");
  EXPECT_NE(level.find("rows_note")->as_string().find("left out"), std::string::npos);
}

TEST_F(LevelReportTest, CsvHasAColumnForEveryCell) {
  write(steady_rows(0));
  const std::string header = csv_header();
  const std::string row = csv_row(to_json(measure({.level = 0, .max_concurrency = 2})));
  EXPECT_EQ(std::count(header.begin(), header.end(), ','), std::count(row.begin(), row.end(), ','));
  // Every column is a member of a level: a name that is none would be an empty cell for ever.
  const Json level = to_json(measure({.level = 0, .max_concurrency = 2}));
  for (const std::string& column : split(header.substr(0, header.size() - 1), ',')) {
    EXPECT_NE(level.find(column), nullptr) << column;
  }
  EXPECT_EQ(row.back(), '\n');
  EXPECT_EQ(header.substr(0, 22), "level,max_concurrency,");
  EXPECT_EQ(row.substr(0, 4), "0,2,");
  const std::string odd = csv_row(Json::object().set("level", "a,\"b\"").set("duration", nullptr));
  EXPECT_EQ(odd.substr(0, 10), "\"a,\"\"b\"\"\",");
}

TEST_F(LevelReportTest, DetailedLists) {
  auto rows = steady_rows(0);
  rows.resize(2);
  rows.push_back(failed_row(500, 20, Outcome::kReset));
  rows.back().message = "by peer";
  write(rows);
  const auto json = detailed(path(), 0);
  ASSERT_TRUE(json.ok());
  for (const char* name :
       {"input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "errors"}) {
    ASSERT_NE(json->find(name), nullptr) << name;
    EXPECT_EQ(json->find(name)->as_array().size(), 3U) << name;
  }
  EXPECT_NEAR(json->find("ttfts")->as_array()[0].as_number(), 0.020, 1e-12);
  EXPECT_EQ(json->find("itls")->as_array()[0].as_array().size(), 4U);
  EXPECT_NEAR(json->find("start_times")->as_array()[1].as_number(), 0.050, 1e-12);
  EXPECT_TRUE(json->find("ttfts")->as_array()[2].is_null());
  EXPECT_EQ(json->find("errors")->as_array()[2].as_string(), "reset: by peer");
}

// The system's jsonschema against docs/schemas: 0 when it is valid.
int validate(const std::filesystem::path& document, const char* schema) {
  const std::string script =
      "import json, sys, jsonschema\n"
      "schema = json.load(open(sys.argv[2]))\n"
      "jsonschema.Draft202012Validator.check_schema(schema)\n"
      "for line in open(sys.argv[1]):\n"
      "    jsonschema.Draft202012Validator(schema).validate(json.loads(line))\n";
  const std::string command =
      fmt::format("/usr/bin/python3 -c '{}' {} {}/docs/schemas/{} >/dev/null 2>&1", script,
                  document.string(), NIBBLE_SOURCE_DIR, schema);
  return std::system(command.c_str());
}

TEST_F(LevelReportTest, DocumentsAreValid) {
  if (std::system("/usr/bin/python3 -c 'import jsonschema'") != 0) {
    GTEST_SKIP() << "Debian's python3-jsonschema is not installed";
  }
  auto rows = steady_rows(0);
  rows.push_back(make_row({.events = {1, 2}, .end = 3, .output = 1, .tokens = {1, 0}}));
  rows.back().level = 1;
  write(rows);
  EXPECT_EQ(validate(path(), "nibble.load_row.1.json"), 0);
  LevelReport full =
      measure({.level = 0, .max_concurrency = 2}, {.slo = {.ttft_ms = 200, .tpot_ms = 1}});
  full.checks = {check_little(full.all, 2.0), check_requests(full.all, 1000),
                 check_output_tokens(full.all, std::nullopt)};
  const LevelReport empty = measure({.level = 5, .request_rate = 3.5, .burstiness = 0.5});
  RunReport run;
  for (const LevelReport& report : {full, empty}) run.levels.push_back({.report = report});
  std::string lines;
  const auto valid = [&] {
    EXPECT_TRUE(write_file(at("load.jsonl"), lines).ok());
    return validate(at("load.jsonl"), "nibble.load.1.json") == 0;
  };
  const std::vector<KneeLevel> sweep = {{1, 50}, {2, 100}, {4, 150}, {8, 152}, {16, 150}};
  run.knee = find_knee(sweep);
  run.usl = fit_usl(sweep);
  run.step_fit = fit_step({}, {});
  lines = to_json(run).dump(0) + "\n";
  run.knee = find_knee({});
  run.usl = fit_usl({});
  run.step_fit = fit_step({{1, 5, 10, {}}, {2, 6, 10, {}}, {8, 9, 10, {}}}, {});
  Json document = to_json(run);
  lines += document.dump(0) + "\n";
  EXPECT_TRUE(valid());
  // The schema can say no.
  document.find("levels")->as_array()[0].set("mean_ttft_ms", "fast");
  lines = document.dump(0) + "\n";
  EXPECT_FALSE(valid());
}

}  // namespace
}  // namespace nibble::load
