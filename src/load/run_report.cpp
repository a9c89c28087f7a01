// What the levels of a sweep say together: knee, USL, physical fit, and the ledger's roof.
#include "load/run_report.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "base/units.h"

namespace nibble::load {
namespace {

bool measured(const LevelResult& level) {
  return level.report.all.counts.ok > 0;
}

bool counts(const LevelResult& level) {
  const bool whole = level.report.incomplete.empty() || level.report.inside.has_value();
  return whole && measured(level) && !level.audit.cpu_limited;
}

std::vector<KneeLevel> knee_levels(const RunReport& report) {
  std::vector<KneeLevel> levels;
  for (const LevelResult& level : report.levels) {
    const std::optional<double> users = users_of(level.report.plan);
    const std::optional<double> throughput = rates_of(level).output_throughput;
    if (!users || !throughput || !counts(level)) continue;
    levels.push_back({.concurrency = *users,
                      .throughput = *throughput,
                      .half_width = level.report.rate.half_width});
  }
  return levels;
}

std::string why_no_knee(const RunReport& report, std::size_t usable) {
  std::size_t open = 0;
  for (const LevelResult& level : report.levels) open += users_of(level.report.plan) ? 0 : 1;
  if (open > 0 && open == report.levels.size()) {
    return "open loops have no knee in concurrency: their throughput is the rate that was offered, "
           "until the server is full";
  }
  if (report.levels.size() < kLeastKneeLevels) {
    return fmt::format("{} level{} no shape; sweep at least {}", report.levels.size(),
                       report.levels.size() == 1 ? " shows" : "s show", kLeastKneeLevels);
  }
  return fmt::format(
      "{} of {} levels count (closed loops that ran to their end, the client with CPU to spare); a "
      "knee takes {}",
      usable, report.levels.size(), kLeastKneeLevels);
}

void find_shape(RunReport& report) {
  const std::vector<KneeLevel> levels = knee_levels(report);
  if (levels.size() < kLeastKneeLevels) {
    report.knee_reason = why_no_knee(report, levels.size());
    return;
  }
  report.knee = find_knee(levels);
  report.usl = fit_usl(levels);
}

double per_request(std::int64_t tokens, const LevelMetrics& metrics) {
  return static_cast<double>(tokens) / static_cast<double>(metrics.counts.ok);
}

// Mean tokens in the cache of a sequence that decodes: its prompt and half of its output.
double context_of(const LevelResult& level) {
  const LevelMetrics& all = level.report.all;
  return per_request(all.tokens.input, all) + per_request(all.tokens.output, all) / 2;
}

// How many sequences decode together: by the server where it tells, else all that were in flight.
double running_of(const LevelResult& level) {
  const std::optional<double> server = level.joined[Seen::kRunning].value;
  if (server && std::isfinite(*server) && *server > 0) return *server;
  return rates_of(level).mean_in_flight.value_or(0);
}

struct StepLevels {
  std::vector<StepPoint> points;
  std::vector<double> running;  // of each, for the ledger: at least one sequence
};

StepLevels step_levels(const RunReport& report) {
  StepLevels levels;
  for (const LevelResult& level : report.levels) {
    if (!counts(level)) continue;
    const Summary& tpot = latencies_of(level)[Metric::kTpot];
    const double running = running_of(level);
    if (tpot.empty() || !(running > 0)) continue;
    levels.points.push_back({.running = running,
                             .tpot_ms = tpot.mean,
                             .context = context_of(level),
                             .distinct_share = {}});
    levels.running.push_back(std::max(1.0, running));
  }
  return levels;
}

Result<> fit_physics(RunReport& report, const Ledger& ledger) {
  StepLevels levels = step_levels(report);
  NIBBLE_ASSIGN_OR_RETURN(const StepModel model, step_model(ledger, levels.running));
  for (std::size_t index = 0; index < levels.points.size(); ++index) {
    levels.points[index].distinct_share = model.distinct_shares[index];
  }
  report.step_fit = fit_step(levels.points, model.roofs);
  report.step_note = model.note;
  return {};
}

// Priced at the context of each level: the one that the command line gave is a guess.
Result<> add_roof(RunReport& report, const Ledger& ledger) {
  const Deployment& given = ledger.deployment();
  Roof roof{.of = fmt::format("{} on {} x {}, {}", given.model.title, given.layout.gpus(),
                              given.machine.title, given.layout.describe())};
  for (std::size_t index = 0; index < report.levels.size(); ++index) {
    const LevelResult& level = report.levels[index];
    if (!measured(level)) continue;
    const double flight = rates_of(level).mean_in_flight.value_or(0);
    const double sequences = std::max(1.0, users_of(level.report.plan).value_or(flight));
    Deployment deployment = given;
    deployment.context = std::max(1.0, std::round(context_of(level)));
    NIBBLE_ASSIGN_OR_RETURN(const Ledger own, Ledger::make(std::move(deployment)));
    NIBBLE_ASSIGN_OR_RETURN(const Step step, own.decode(sequences));
    RoofLevel at{.level = index,
                 .concurrency = sequences,
                 .context = own.deployment().context,
                 .step_ms = step.step_us * 1e-3,
                 .tokens_per_s = step.tokens_per_s};
    if (const auto throughput = rates_of(level).output_throughput) {
      at.reached = *throughput / step.tokens_per_s;
    }
    roof.levels.push_back(at);
  }
  report.roof = std::move(roof);
  return {};
}

}  // namespace

const LevelMetrics& rates_of(const LevelResult& level) {
  return level.report.inside ? *level.report.inside : level.report.all;
}

const LevelMetrics& latencies_of(const LevelResult& level) {
  const bool fair = level.report.inside && level.report.steady.enough;
  return fair ? *level.report.inside : level.report.all;
}

std::optional<double> users_of(const LevelPlan& plan) {
  return plan.closed_loop() ? plan.max_concurrency : std::nullopt;
}

std::string level_name(const LevelPlan& plan) {
  const auto& users = plan.max_concurrency;
  const bool endless = !plan.request_rate || std::isinf(*plan.request_rate);
  if (plan.closed_loop() && users) {
    return fmt::format("{} user{}", format_compact(*users), *users == 1 ? "" : "s");
  }
  const std::string rate =
      endless ? std::string("all at once") : format_compact(*plan.request_rate) + " req/s";
  return users ? fmt::format("{}, at most {}", rate, format_compact(*users)) : rate;
}

Result<> analyze_sweep(RunReport& report, const Ledger* ledger) {
  find_shape(report);
  report.server_limit = find_server_limit(report.levels);
  if (ledger == nullptr) {
    report.step_note = "no model was given: name it with --model, --gpu and --tp";
    return {};
  }
  const Result<> roof = add_roof(report, *ledger);
  const Result<> fit = fit_physics(report, *ledger);
  for (const Result<>* result : {&roof, &fit}) {
    if (!result->ok()) {
      report.step_note = result->error().message;
      return result->error().within("the ledger's roof");
    }
  }
  return {};
}

}  // namespace nibble::load
