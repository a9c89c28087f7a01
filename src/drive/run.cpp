#include "drive/run.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

#include "base/units.h"
#include "drive/calibrate.h"
#include "drive/driver.h"
#include "drive/join.h"
#include "drive/negotiate.h"
#include "drive/run_series.h"
#include "drive/send.h"
#include "load/level_report.h"
#include "machine/roof_cache.h"

namespace nibble::drive {
namespace {

constexpr Nanoseconds kCounterTimeout = 2'000'000'000;
constexpr std::size_t kOtherDescriptors = 256;  // files, telemetry, libraries
// Streams that an open loop without a limit is expected to have at most.
constexpr std::int64_t kOpenStreams = 1000;
constexpr const char* kInterrupted = "interrupted: what was measured until then is kept";
constexpr double kDefaultItl_ms = 10;  // of a self-audit where a level had no gaps

std::int64_t streams_of(const LevelOptions& level) {
  if (level.users) return *level.users;
  return level.requests > 0 ? std::min(level.requests, kOpenStreams) : kOpenStreams;
}

load::LevelPlan plan_of(std::int32_t index, const LevelOptions& level) {
  load::LevelPlan plan{.level = index};
  if (level.users) plan.max_concurrency = static_cast<double>(*level.users);
  if (level.arrivals) {
    plan.request_rate = level.arrivals->request_rate;
    plan.burstiness = level.arrivals->burstiness;
  } else if (!level.trace.empty()) {
    const double length_s = seconds(level.trace.back() - level.trace.front());
    const auto gaps = static_cast<double>(level.trace.size() - 1);
    plan.request_rate = length_s > 0 ? gaps / length_s : std::numeric_limits<double>::infinity();
  }
  return plan;
}

// A short level is scraped more often: its window would hold no sample where a scrape came late.
Nanoseconds scrape_period(const std::vector<LevelOptions>& levels) {
  constexpr Nanoseconds kAtLeast = 10;  // scrapes a level
  constexpr Nanoseconds kShortest = 100'000'000;
  Nanoseconds period = telemetry::kScrapePeriod;
  for (const LevelOptions& level : levels) {
    if (level.duration > 0) period = std::min(period, level.duration / kAtLeast);
  }
  return std::max(period, kShortest);
}

Json seconds_json(Nanoseconds span) {
  return span == 0 ? Json() : Json(seconds(span));
}

Json timeouts_json(const net::Timeouts& timeouts) {
  return Json::object()
      .set("connect_s", seconds_json(timeouts.connect))
      .set("first_byte_s", seconds_json(timeouts.first_byte))
      .set("idle_s", seconds_json(timeouts.idle))
      .set("total_s", seconds_json(timeouts.total));
}

class Run {
 public:
  Run(RunOptions options, const std::atomic<bool>& interrupted, const RunEvents& events)
      : options_(std::move(options)), interrupted_(interrupted), events_(events) {}

  Result<RunOutcome> run() {
    NIBBLE_RETURN_IF_ERROR(prepare());
    NIBBLE_ASSIGN_OR_RETURN(load::RowWriter writer, load::RowWriter::create(options_.rows));
    NIBBLE_RETURN_IF_ERROR(open_telemetry());
    {
      NIBBLE_ASSIGN_OR_RETURN(Driver driver, Driver::make(driver_parts(), writer));
      run_levels(driver);
    }
    if (telemetry_) telemetry_->sampler->stop();
    keep_fault(writer.finish());
    add_series();
    audit_levels();
    const Result<> fitted = load::analyze_sweep(outcome_.report, options_.ledger);
    if (!fitted.ok()) outcome_.report.step_note = fitted.error().message;
    if (outcome_.ended_early) outcome_.report.incomplete = outcome_.ended_early->message;
    return std::move(outcome_);
  }

 private:
  Result<> prepare();
  Result<> open_telemetry();
  DriverParts driver_parts() const;
  void run_levels(Driver& driver);
  void run_level(Driver& driver, std::int32_t index);
  void measure(std::int32_t index, const LevelRun& level, const ServerCounters& before,
               const ServerCounters& after);
  void join_level(load::LevelResult& result, const LevelRun& level) const;
  void flush_cache();
  ServerCounters read_counters();
  void add_series();
  void audit_levels();
  void audit_level(load::LevelResult& result, const LevelOptions& level);
  Result<load::Calibration> calibration_for(const CalibrationAsk& ask) const;
  void tell(Progress progress) const;
  void keep_fault(const Result<>& result);

  RunOptions options_;
  const std::atomic<bool>& interrupted_;
  const RunEvents& events_;
  Wire wire_;
  std::shared_ptr<const load::Dataset> dataset_;
  std::size_t loops_ = 1;
  std::optional<telemetry::Telemetry> telemetry_;
  std::optional<CounterReader> counters_;
  int counter_failures_ = 0;  // in a row
  RunOutcome outcome_;
};

// The first fault is what ended the run.
void Run::keep_fault(const Result<>& result) {
  if (!result.ok() && !outcome_.ended_early) outcome_.ended_early = result.error();
}

void Run::tell(Progress progress) const {
  progress.levels = options_.levels.size();
  if (events_.progress) events_.progress(progress);
}

Result<> Run::prepare() {
  NIBBLE_CHECK(!options_.levels.empty() && options_.make_dataset);
  std::int64_t streams = 1;
  for (const LevelOptions& level : options_.levels) streams = std::max(streams, streams_of(level));
  const auto most = static_cast<std::size_t>(streams);
  NIBBLE_RETURN_IF_ERROR(net::allow_descriptors(most + kOtherDescriptors));
  loops_ = options_.loops > 0 ? options_.loops : net::loops_for(most);
  tell({.phase = "asking the server"});
  NIBBLE_ASSIGN_OR_RETURN(wire_, negotiate(options_.target, options_.ready_timeout, interrupted_));
  NIBBLE_ASSIGN_OR_RETURN(dataset_, options_.make_dataset(wire_.facts));

  load::RunSetup& setup = outcome_.report.setup;
  setup = options_.setup;
  setup.base_url = wire_.target.url.text();
  setup.endpoint =
      wire_.target.endpoint.empty() ? wire_.target.backend.endpoint : wire_.target.endpoint;
  setup.model_id = wire_.target.model;
  setup.ignore_eos = wire_.target.ignore_eos;
  setup.timeouts = timeouts_json(wire_.target.client.timeouts);
  setup.server = wire_.identity.json;
  const CpuStatus cpu = probe_cpu();
  setup.host = Json::object().set("cpu", cpu.title).set("cores", cpu.cores);
  for (const std::string& note : wire_.notes) setup.notes.push_back(note);
  for (const std::string& note : dataset_->notes()) setup.notes.push_back(note);
  return {};
}

Result<> Run::open_telemetry() {
  const net::ClientOptions& client = wire_.target.client;
  telemetry::WebOptions own;
  own.headers = client.headers;
  own.verify_certificate = client.verify_certificate;
  own.ca_file = client.ca_file;
  if (options_.server_metrics) {
    telemetry::WebOptions quick = own;
    quick.timeout = kCounterTimeout;
    NIBBLE_ASSIGN_OR_RETURN(counters_, CounterReader::make(wire_.target.url, quick));
  }
  if (!options_.telemetry) return {};
  telemetry::TelemetryOptions what = options_.telemetry_options;
  // The key is the target's alone: other servers are asked without it.
  if (options_.server_metrics && what.servers.empty()) {
    what.servers.push_back(wire_.target.url.text());
    what.web = own;
  }
  what.scrape_period = scrape_period(options_.levels);
  NIBBLE_ASSIGN_OR_RETURN(telemetry_, telemetry::open_telemetry(what));
  telemetry_->sampler->start();
  return {};
}

DriverParts Run::driver_parts() const {
  return {.target = wire_.target,
          .dataset = dataset_,
          .tokenizer = options_.tokenizer,
          .nonce = options_.nonce,
          .loops = loops_,
          .stop = options_.stop};
}

void Run::run_levels(Driver& driver) {
  for (std::size_t index = 0; index < options_.levels.size(); ++index) {
    if (interrupted_) {
      keep_fault(run_error(kInterrupted));
    }
    if (outcome_.ended_early) break;
    run_level(driver, static_cast<std::int32_t>(index));
  }
}

// A page that failed twice in a row is not waited for again.
ServerCounters Run::read_counters() {
  ServerCounters counters;
  if (!counters_) return counters;
  if (interrupted_) {
    counters.reason = "the run was interrupted";
  } else if (counter_failures_ >= 2) {
    counters.reason = "the server's metrics page could not be read before";
  } else {
    counters = counters_->read_settled();
    const bool failed = !counters.reason.empty() && !counters.output_tokens;
    counter_failures_ = failed ? counter_failures_ + 1 : 0;
  }
  return counters;
}

void Run::flush_cache() {
  const auto prober = Prober::make(wire_.target.url, wire_.target.client, interrupted_);
  const int status = prober.ok() ? (*prober)->post("/flush_cache").exchange.status : 0;
  if (status == 200) return;
  const std::string note =
      fmt::format("the server's prefix cache could not be flushed: /flush_cache gave {}",
                  status == 0 ? "no answer" : fmt::format("status {}", status));
  auto& notes = outcome_.report.setup.notes;
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
}

void Run::run_level(Driver& driver, std::int32_t index) {
  const LevelOptions& level = options_.levels[static_cast<std::size_t>(index)];
  if (options_.flush_cache) flush_cache();
  tell({.level = static_cast<std::size_t>(index),
        .users = level.users.value_or(0),
        .phase = "warm-up"});
  driver.warm_up(index, level, interrupted_);
  if (interrupted_) return keep_fault(run_error(kInterrupted));
  const ServerCounters before = read_counters();
  const LevelRun done = driver.run_level(index, level, interrupted_,
                                         [&](const Progress& progress) { tell(progress); });
  if (done.fault && !outcome_.ended_early) outcome_.ended_early = done.fault;
  const ServerCounters after = read_counters();
  measure(index, done, before, after);
}

void Run::measure(std::int32_t index, const LevelRun& level, const ServerCounters& before,
                  const ServerCounters& after) {
  const LevelOptions& asked = options_.levels[static_cast<std::size_t>(index)];
  load::MetricsOptions metrics = options_.metrics;
  Result<load::LevelReport> report =
      load::measure_level(options_.rows, plan_of(index, asked), metrics, options_.stop);
  if (!report.ok()) return keep_fault(report.error());
  report->incomplete = level.incomplete;
  report->checks = {
      load::check_little(report->all, level.mean_in_flight),
      load::check_requests(report->all, level.sent),
      load::check_output_tokens(report->all, after.output_since(before)),
      load::check_prompt_tokens(report->all, after.prompt_since(before)),
  };
  const std::string why = counters_ ? after.why_not_since(before) : "";
  for (load::Check& check : report->checks) {
    if (!check.holds && !why.empty()) check.sentence += ": " + why;
  }
  load::LevelResult result{.report = std::move(*report)};
  join_level(result, level);
  load::ClientAudit& audit = result.audit;
  Nanoseconds cpu = 0;
  for (const net::LoopAudit& loop : level.loops) {
    cpu += loop.cpu;
    audit.loops.push_back(
        {.lag_p50_ms = milliseconds(loop.lag_p50),
         .lag_p99_ms = milliseconds(loop.lag_p99),
         .lag_max_ms = milliseconds(loop.lag_max),
         .cpu_share =
             loop.wall > 0 ? static_cast<double>(loop.cpu) / static_cast<double>(loop.wall) : 0});
  }
  if (level.events > 0) {
    audit.cpu_us_per_event = static_cast<double>(cpu) * 1e-3 / static_cast<double>(level.events);
  }
  audit.late_sends = level.late;
  outcome_.report.levels.push_back(std::move(result));
  if (events_.level_finished) events_.level_finished(outcome_.report.levels.back());
}

void Run::join_level(load::LevelResult& result, const LevelRun& level) const {
  const load::LevelReport& report = result.report;
  const bool steady = report.steady.valid() && report.inside.has_value();
  const load::Window window = steady ? report.steady.window : load::Window{level.begin, level.end};
  result.window = steady ? "steady window" : "whole level";
  result.span = window;
  if (telemetry_ && !interrupted_) wait_for_samples(window);
  result.joined =
      join(telemetry_ ? &*telemetry_ : nullptr, window, steady ? *report.inside : report.all);
  if (telemetry_) {
    result.telemetry = telemetry::telemetry_json(*telemetry_, {window.start, window.stop});
    Json sources = Json::array();
    for (const telemetry::SourceHealth& source : telemetry_->sampler->health()) {
      sources.push(telemetry::health_json(source));
    }
    result.telemetry.set("sources", std::move(sources));
  }
}

void Run::add_series() {
  auto series = run_series(options_.rows, outcome_.report.levels,
                           telemetry_ ? telemetry_->store.get() : nullptr);
  if (!series.ok()) return keep_fault(series.error());
  outcome_.report.series = std::move(*series);
}

void Run::audit_levels() {
  auto& levels = outcome_.report.levels;
  for (std::size_t index = 0; index < levels.size(); ++index) {
    tell({.level = index, .phase = "self-audit"});
    if (interrupted_) keep_fault(run_error("interrupted during the self-audit: all else is whole"));
    audit_level(levels[index],
                options_.levels[static_cast<std::size_t>(levels[index].report.plan.level)]);
  }
}

void Run::audit_level(load::LevelResult& result, const LevelOptions& level) {
  const load::LevelMetrics& metrics = result.report.all;
  const load::Summary& gaps = metrics[load::Metric::kItl];
  const std::optional<double> itl_ms = gaps.empty() ? std::nullopt : std::optional(gaps.mean);
  load::ClientAudit& audit = result.audit;
  if (options_.self_audit == SelfAudit::kOff) {
    audit.calibration_reason = "switched off by --self-audit off";
  } else if (metrics.counts.ok == 0) {
    audit.calibration_reason = "no request succeeded";
  } else if (interrupted_) {
    audit.calibration_reason = "the run was interrupted";
  } else {
    const std::int64_t streams =
        level.open() ? std::max<std::int64_t>(1, metrics.max_in_flight) : streams_of(level);
    Result<load::Calibration> found = calibration_for(
        {.concurrency = streams, .itl_ms = itl_ms.value_or(kDefaultItl_ms), .loops = loops_});
    if (found.ok()) {
      audit.calibration = std::move(*found);
    } else {
      audit.calibration_reason = found.error().message;
    }
  }
  load::judge(audit, itl_ms);
}

Result<load::Calibration> Run::calibration_for(const CalibrationAsk& ask) const {
  if (options_.self_audit == SelfAudit::kCached) {
    if (auto kept = find_calibration(calibration_path(), ask, unix_now())) return std::move(*kept);
  }
  NIBBLE_ASSIGN_OR_RETURN(load::Calibration fresh, calibrate(ask, interrupted_));
  if (!load::mock_kept_up(fresh)) return fresh;
  // A cache that cannot be written costs the next run some seconds, and this one nothing.
  static_cast<void>(keep_calibration(calibration_path(), fresh));
  return fresh;
}

}  // namespace

Result<RunOutcome> run(RunOptions options, const std::atomic<bool>& interrupted,
                       const RunEvents& events) {
  return Run(std::move(options), interrupted, events).run();
}

}  // namespace nibble::drive
