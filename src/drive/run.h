// A load test from its first request to its report.
//
//   RunOptions options{.target = {.url = url, .backend = backend}, .make_dataset = make};
//   options.levels = {{.users = 1}, {.users = 8}};
//   NIBBLE_ASSIGN_OR_RETURN(const RunOutcome outcome, run(options, interrupted, events));
//   outcome.report.levels[0].report.all.output_throughput
//
// What was measured is kept whatever ends the run: the rows lie in a file, and the report covers
// the levels so far with the reason why it is only a part.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/backend.h"
#include "base/result.h"
#include "ledger/step.h"
#include "load/dataset.h"
#include "load/metrics.h"
#include "load/run_report.h"
#include "load/schedule.h"
#include "net/http_client.h"
#include "net/url.h"
#include "telemetry/telemetry.h"
#include "text/tokenizer.h"

namespace nibble::drive {

// What every request of a run has in common.
struct Target {
  net::Url url;
  api::Backend backend;
  std::string endpoint;  // path below the URL; empty: the backend's
  std::string model;     // empty: the first that /v1/models names
  net::ClientOptions client;
  Json extra_body;  // an object, or null
  bool ignore_eos = true;
  bool stream = true;
  bool token_ids = true;         // send prompts as ids where backend and server take them
  bool usage = true;             // ask for the server's counts
  bool continuous_usage = true;  // on every event
  std::optional<double> temperature = 0;
  std::optional<double> top_p = std::nullopt;
};

// One level of load. It ends when `requests` were sent and answered; or, when that is 0, after
// `duration`; or, when that is 0 too, when its token rate is known well enough (stop rule).
struct LevelOptions {
  std::optional<std::int64_t> users = std::nullopt;  // closed loop, or the limit of an open one
  std::optional<load::ScheduleOptions> arrivals = std::nullopt;  // open loop
  std::vector<Nanoseconds> trace = {};                           // open loop, recorded
  std::int64_t requests = 0;
  Nanoseconds duration = 0;
  Nanoseconds ramp = 0;  // users of a closed loop start over this time
  // Of a level that ends by the stop rule. Energy counters want the least time.
  Nanoseconds shortest = 10'000'000'000;
  Nanoseconds longest = 60'000'000'000;
  Nanoseconds grace = 30'000'000'000;  // for requests under way when the time is over
  std::int64_t warmups = 1;
  bool open() const { return arrivals.has_value() || !trace.empty(); }
};

// What the first requests told about the wire, for whoever makes prompts.
struct WireFacts {
  bool token_ids = false;                     // backend and server take prompts as token ids
  std::optional<double> tokens_per_word;      // of common words, by the server's usage
  std::int64_t template_tokens = 0;           // that a chat template adds to every prompt
  std::optional<std::int64_t> max_model_len;  // prompt and answer together, as the server tells it
  // Token ids of at least this number are refused. Unset where all are taken that prompts draw
  // from.
  std::optional<std::int64_t> vocabulary;
};

enum class SelfAudit { kOff, kCached, kFresh };

struct RunOptions {
  Target target;
  // Called once the wire is known. The prompts depend on it where no tokenizer counts them.
  std::function<Result<std::shared_ptr<const load::Dataset>>(const WireFacts&)> make_dataset;
  std::vector<LevelOptions> levels;
  std::optional<text::Tokenizer> tokenizer;  // counts answers where the server gives no usage
  load::MetricsOptions metrics;
  load::StopOptions stop;
  std::uint64_t nonce = 0;  // of this run: no prompt of an earlier run comes again
  Nanoseconds ready_timeout = 0;
  std::filesystem::path rows;  // JSONL; replaced
  std::size_t loops = 0;       // 0: by the most users
  SelfAudit self_audit = SelfAudit::kCached;
  bool telemetry = true;
  // servers: instead of the target, whose metrics page is read where none are named.
  telemetry::TelemetryOptions telemetry_options;
  bool server_metrics = true;      // read the target's own page
  bool flush_cache = false;        // POST /flush_cache before each level
  const Ledger* ledger = nullptr;  // regressors and roofs of the physical fit
  load::RunSetup setup;            // what is known before; the run adds the rest
};

// How a level is going, some times a second.
struct Progress {
  std::size_t level = 0;
  std::size_t levels = 0;
  std::int64_t users = 0;  // asked for; 0: no limit
  std::int64_t in_flight = 0;
  std::int64_t done = 0;
  std::int64_t failed = 0;
  std::int64_t requests = 0;  // in all; 0: not known
  double tokens_per_s = 0;    // of the last second
  std::string phase;          // "warm-up", "ramp", "measuring", "draining", "self-audit"
};

struct RunEvents {
  std::function<void(const Progress&)> progress;                 // may be empty
  std::function<void(const load::LevelResult&)> level_finished;  // may be empty
};

struct RunOutcome {
  load::RunReport report;
  // Why the run did not do all that was asked (interrupt, dead server, full disk): exit status 1.
  std::optional<Error> ended_early;
};

// An error only where nothing was measured: nobody listens, the model is not known, the rows cannot
// be written. `interrupted` ends the run: running requests are cancelled, what came is kept.
Result<RunOutcome> run(RunOptions options, const std::atomic<bool>& interrupted,
                       const RunEvents& events);

}  // namespace nibble::drive
