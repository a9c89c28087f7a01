// A whole load test: its levels joined with what else was seen, where throughput stops growing and
// why, and what it was measured with. From it come the document, the CSV, the table and the plots.
//
//   RunReport report{.setup = setup, .levels = levels};
//   analyze_sweep(report, ledger_or_null);
//   write_file(path, to_json(report).dump());       // nibble.load/1
//   fmt::print("{}", sweep_table(report).render(style));
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/table.h"
#include "ledger/step.h"
#include "load/client_audit.h"
#include "load/joined.h"
#include "load/knee.h"
#include "load/level_report.h"
#include "load/series.h"
#include "load/server_limit.h"
#include "load/step_fit.h"
#include "load/usl.h"

namespace nibble::load {

// What the run was made with: enough to make it again.
struct RunSetup {
  std::string date;  // "20261130-101500", as vLLM writes it
  std::string started_utc;
  std::string command;  // the command line, secrets left out
  std::string base_url;
  std::string endpoint;  // "/v1/completions"
  std::string backend;   // as it was named
  std::string model_id;
  std::string tokenizer_id;                                   // empty: none was used
  std::string dataset;                                        // "random", ...
  std::vector<std::pair<std::string, Json>> dataset_options;  // "random_input_len" -> 1024, ...
  std::vector<std::pair<std::string, std::string>> metadata;  // --metadata K=V
  std::string label;                                          // --label
  std::optional<std::int64_t> num_prompts;  // a level was asked for; nullopt: ended otherwise
  std::int64_t seed = 0;
  bool ignore_eos = true;
  Json timeouts;  // {"connect_s", "first_byte_s", "idle_s", "total_s"}
  Json server;    // what it says of itself: {"version": ..., "models": ..., "server_info": ...}
  Json host;      // this machine: cores, kernel, GPU names
  std::vector<std::string> notes;  // what the client had to do otherwise than asked, and why
};

struct LevelResult {
  LevelReport report;
  ClientAudit audit;
  Joined joined;
  Json telemetry;      // all signals of the window, with reasons
  std::string window;  // what the joined numbers are of: "steady window" or "whole level"
  Window span;         // likewise, on the clock of the rows
};

// The ledger's floor of decode where a level ran, at the context that it had.
struct RoofLevel {
  std::size_t level = 0;   // index into RunReport::levels
  double concurrency = 0;  // sequences
  double context = 0;      // tokens
  double step_ms = 0;
  double tokens_per_s = 0;
  std::optional<double> reached;  // measured output tokens/s over it
};
struct Roof {
  std::string of;  // "GLM-5 on 8 x H200 SXM, TP8"
  std::vector<RoofLevel> levels;
};

struct RunReport {
  RunSetup setup;
  std::vector<LevelResult> levels;
  std::string incomplete;           // why the run is only a part; empty: whole
  std::optional<RunSeries> series;  // nullopt: nothing was sent, or this is one level of a run
  // Filled by analyze_sweep().
  std::optional<Knee> knee;
  std::string knee_reason;  // why there is none: too few levels, open loops
  std::optional<ServerLimit> server_limit;
  std::optional<UslFit> usl;
  std::optional<StepFit> step_fit;  // nullopt: no model was given
  std::string step_note;            // what the roofs leave out, or why there is no fit
  std::optional<Roof> roof;         // nullopt: no model was given
};

// Knee and USL over the closed loops, physical fit over all levels that count: complete, or with a
// steady window, and not limited by the client's CPU. The ledger gives regressors and roofs;
// nullptr: no model was given. An error is the ledger's alone; all that needs none is filled then,
// too.
Result<> analyze_sweep(RunReport& report, const Ledger* ledger);

// Which numbers tables, fits and plots show. Rates: of the steady window where there is one;
// latencies: likewise if it was long enough to be fair to long requests. Else of the whole level.
const LevelMetrics& rates_of(const LevelResult& level);
const LevelMetrics& latencies_of(const LevelResult& level);
// Users of a closed loop; nullopt: an open loop, or all requests at once.
std::optional<double> users_of(const LevelPlan& plan);
// "64 users", "8 req/s", "8 req/s, at most 64", "all at once".
std::string level_name(const LevelPlan& plan);

// The complete document, nibble.load/1. With one level its numbers also stand at the top, as in a
// file of `vllm bench serve --save-result`. Metadata are merged as vLLM does: over what identifies
// the run, under what was measured.
Json to_json(const RunReport& report);

// One header and a line a level: numbers of the level, then of the joined signals, then the audit.
std::string run_csv(const RunReport& report);

// The joined table of the sweep, a row a level: tok/s, req/s, goodput, TTFT, TPOT, ITL, E2E,
// running, queued, KV, power, activities, clock, J/token. Columns that no level has are left out.
// Percentiles that the sample does not carry are '-', or marked with '*' when they were asked for;
// what was seen beside a whole level instead of its steady window is marked with '~'.
Table sweep_table(const RunReport& report);
// One level as `vllm bench serve` prints it, for a run with a single level: a number a row with its
// value over the whole level and over the steady window, and what it means.
Table level_table(const LevelResult& level);
// All levels side by side, a row a number: the value that the sweep's table would show.
Table levels_table(const RunReport& report);
// What a reader must know beside the numbers: first what came out (why a run is only a part, then
// where the sweep stops scaling and why, or the one level's numbers), then a sentence a topic:
// failures, checks, the client, fits, windows, percentiles, flags, signals, notes.
std::vector<std::string> sentences(const RunReport& report);

}  // namespace nibble::load
