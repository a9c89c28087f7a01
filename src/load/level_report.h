// All that the rows of one level say, the steady part included.
//
//   NIBBLE_ASSIGN_OR_RETURN(LevelReport report, measure_level("rows.jsonl", {.level = 2,
//                                                             .max_concurrency = 64}, {}));
//   report.checks = {check_little(report.all, seen), check_requests(report.all, sent)};
//   Json level = to_json(report);                 // a member of levels[] of nibble.load/1
//   csv += csv_row(level);
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "load/checks.h"
#include "load/metrics.h"
#include "load/steady.h"
#include "load/stop_rule.h"

namespace nibble::load {

// What was asked of the level.
struct LevelPlan {
  std::int32_t level = 0;
  std::optional<double> max_concurrency;  // nullopt: no limit
  std::optional<double> request_rate;     // requests/s; nullopt: closed loop; both this and
                                          // infinity (all at once) are "inf" in the document
  std::optional<double> burstiness;       // infinite: a constant rate; 1 in the document of a
                                          // closed loop
  bool closed_loop() const { return !request_rate.has_value(); }
};

struct LevelReport {
  LevelPlan plan;
  LevelMetrics all;  // every request of the level but warm-up
  Steady steady;
  std::optional<LevelMetrics> inside;  // the same in the steady window, when there is one
  StopState rate;                      // batch means of output tokens/s over the steady window, or
                                       // over everything when there is none
  // Output tokens/s of the last third of that window over those of its first third, minus 1.
  std::optional<double> rate_drift;
  std::string rate_drift_reason;  // why there is none
  std::vector<Check> checks;
  std::string incomplete;  // why the level is only a part (interrupt); empty: whole
  std::string rows_note;   // of RowsRead
};

// Reads the file twice: for the window, then for the numbers. Rows of other levels are passed over.
Result<LevelReport> measure_level(const std::filesystem::path& rows, const LevelPlan& plan,
                                  const MetricsOptions& options, const StopOptions& stop = {});

// vLLM's field names, SGLang's where they differ, and ours: docs/schemas/nibble.load.1.json.
Json to_json(const LevelReport& report);

// Why a latency has no value at all; empty where it has one.
std::string why_missing(const LevelMetrics& metrics, Metric metric);

// vLLM's --save-detailed arrays of the successes of a level: input_lens, output_lens, ttfts, itls,
// latencies, start_times (s from the first send), errors. Holds every gap in memory.
Result<Json> detailed(const std::filesystem::path& rows, std::int32_t level);

// One line a level: the numbers of to_json that stand at the top of a level, null as an empty cell.
std::string csv_header();
std::string csv_row(const Json& level);
// RFC 4180: quotes around what holds a comma, a quote or a line end; empty for null and nullptr.
std::string csv_cell(const Json* value);

}  // namespace nibble::load
