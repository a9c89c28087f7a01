// Whole runs for the tests of documents, tables and sentences: levels made of rows.
#pragma once

#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "load/row_file.h"
#include "load/run_report.h"
#include "load/test_rows.h"

namespace nibble::load {

inline bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Measured as in a run: through a file of rows.
inline LevelResult make_level(const LevelPlan& plan, std::vector<RequestRecord> rows,
                              const MetricsOptions& options = {}) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "rows.jsonl";
  auto writer = RowWriter::create(path);
  EXPECT_TRUE(writer.ok());
  for (std::size_t index = 0; index < rows.size(); ++index) {
    rows[index].level = plan.level;
    rows[index].index = static_cast<std::int64_t>(index);
    EXPECT_TRUE(writer->write(rows[index]).ok());
  }
  EXPECT_TRUE(writer->finish().ok());
  auto report = measure_level(path, plan, options);
  EXPECT_TRUE(report.ok());
  LevelResult level{.report = *report};
  level.window = level.report.inside ? "steady window" : "whole level";
  return level;
}

// `users` streams of `rounds` requests each, one after the other: five tokens, the first after a
// fifth of `latency_ms`, the last at its end. Throughput is 5 users / latency.
inline std::vector<RequestRecord> stream_rows(int users, double latency_ms, int rounds) {
  std::vector<RequestRecord> rows;
  const double step = latency_ms / 5;
  for (int round = 0; round < rounds; ++round) {
    for (int user = 0; user < users; ++user) {
      rows.push_back(make_row({.sent = latency_ms * round,
                               .events = {step, 2 * step, 3 * step, 4 * step, 5 * step},
                               .end = latency_ms,
                               .output = 5,
                               .asked = 5}));
    }
  }
  return rows;
}

inline LevelResult stream_level(std::int32_t level, int users, double latency_ms, int rounds = 60) {
  return make_level({.level = level, .max_concurrency = users},
                    stream_rows(users, latency_ms, rounds));
}

// 8 users are what the server holds: 100 ms a request up to there, then as much longer as there are
// more. 50, 100, 200, 400, 400, 400 tok/s.
inline RunReport make_bent_sweep() {
  RunReport report;
  std::int32_t index = 0;
  for (const int users : {1, 2, 4, 8, 16, 32}) {
    report.levels.push_back(stream_level(index++, users, users <= 8 ? 100 : 12.5 * users));
  }
  report.setup = {.date = "20261130-101500",
                  .started_utc = "2026-11-30T10:15:00Z",
                  .command = "nibble load --max-concurrency 1,2,4,8,16,32",
                  .base_url = "http://127.0.0.1:8000",
                  .endpoint = "/v1/completions",
                  .backend = "openai",
                  .model_id = "toy",
                  .dataset = "random",
                  .dataset_options = {{"random_input_len", 10}},
                  .metadata = {},
                  .timeouts = Json::object().set("total_s", 600),
                  .server = Json::object().set("version", "1"),
                  .host = Json::object().set("cores", 2),
                  .notes = {}};
  return report;
}

inline RunReport bent_sweep() {
  static const RunReport made = make_bent_sweep();
  return made;
}

// All that a GPU and a server can tell.
inline void see_everything(Joined& joined) {
  joined[Seen::kRunning].value = 1023.6;
  joined[Seen::kWaiting].value = 128.25;
  joined[Seen::kKvUsage].value = 0.9951;
  joined[Seen::kPreemptions].value = 3;
  joined[Seen::kPower].value = 3562.5;
  joined[Seen::kTensor].value = 0.0213;
  joined[Seen::kDram].value = 0.9649;
  joined[Seen::kSmActive].value = 0.99;
  joined[Seen::kSmClock].value = 1980;
  joined[Seen::kThrottled].value = 0;
  joined[Seen::kHostCpu].value = 0.5;
  joined[Seen::kEnergyPerOutput].value = 0.7125;
  joined[Seen::kEnergyPerTotal].value = 0.0812;
}

inline Calibration test_calibration() {
  return {.concurrency = 64,
          .itl_ms = 10,
          .ttft_ms = 50,
          .requests = 640,
          .events = 64000,
          .failed = 0,
          .ttft_error_ms = {.p50 = 0.0625, .p99 = 0.5, .max = 1.25},
          .itl_error_ms = {.p50 = 0.03125, .p99 = 0.25, .max = 2},
          .mock_error_p99_ms = 0.125,
          .client_cpu_us_per_event = 4.5,
          .taken_unix_s = 1796033700,
          .age_s = 7200,
          .cached = true};
}

}  // namespace nibble::load
