#include "load/run_headline.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "base/units.h"
#include "load/cells.h"

namespace nibble::load {
namespace {

bool has_rate(const LevelResult& level) {
  const auto& rate = level.report.plan.request_rate;
  return rate && std::isfinite(*rate) && *rate > 0;
}

std::string knee_words(const Knee& knee) {
  const std::string best =
      fmt::format("best {} tok/s at {} users", format_number(knee.best_throughput),
                  format_compact(knee.best_concurrency));
  const std::string falls =
      knee.declines ? fmt::format(", and falls above {}", format_compact(knee.best_concurrency))
                    : "";
  if (!knee.concurrency) return fmt::format("no knee: {}; {}{}", knee.reason, best, falls);
  std::string interval;
  if (knee.interval && knee.interval->low < knee.interval->high) {
    interval = fmt::format(" (95 %: {} to {})", format_compact(knee.interval->low),
                           format_compact(knee.interval->high));
  }
  return fmt::format(
      "knee at {} users{}: {}; {}{}{}", format_compact(*knee.concurrency), interval, knee.reason,
      best, knee.for_90 ? fmt::format(", 90 % of it at {}", format_compact(*knee.for_90)) : "",
      falls);
}

// Up to which of the offered rates the server kept up.
std::string open_words(const RunReport& report) {
  std::optional<double> kept;
  const LevelResult* missed = nullptr;
  for (const LevelResult& level : report.levels) {
    const double rate = *level.report.plan.request_rate;
    if (level.report.all.counts.ok == 0) continue;
    if (!shortfall_of(level)) {
      kept = std::max(kept.value_or(0), rate);
    } else if (missed == nullptr || rate < *missed->report.plan.request_rate) {
      missed = &level;
    }
  }
  if (missed == nullptr) {
    return fmt::format("the server kept up with every rate, up to {} req/s",
                       format_compact(kept.value_or(0)));
  }
  if (sent_late(*missed)) {
    return fmt::format(
        "the client did not keep to its schedule at {} req/s, of which {} were "
        "answered: this is no measure of the server",
        format_compact(*missed->report.plan.request_rate),
        cell_of(rates_of(*missed).request_throughput));
  }
  const std::string until = kept ? fmt::format("to {} req/s", format_compact(*kept))
                                 : std::string("with none of the rates");
  return fmt::format(
      "the server kept up {}: of {} req/s it answered {}, and latencies grow there with the length "
      "of the level",
      until, format_compact(*missed->report.plan.request_rate),
      cell_of(rates_of(*missed).request_throughput));
}

std::string level_words(const LevelResult& level) {
  const LevelMetrics& rates = rates_of(level);
  const LevelMetrics& latencies = latencies_of(level);
  std::string text =
      fmt::format("{}: {} tok/s, {} req/s", level_name(level.report.plan),
                  cell_of(rates.output_throughput), cell_of(rates.request_throughput));
  if (rates.goodput) text += fmt::format(" ({} good)", goodput_cell(rates));
  for (const Metric metric : {Metric::kTtft, Metric::kTpot, Metric::kE2el}) {
    const Summary& summary = latencies[metric];
    if (summary.empty()) continue;
    text += fmt::format(", {} {}", info_of(metric).title, format_time_us(summary.mean * 1e3));
  }
  if (level.report.inside) {
    text +=
        fmt::format("; steady for {}", format_quantity(level.report.steady.window.length_s(), "s"));
  }
  return text;
}

}  // namespace

bool sent_late(const LevelResult& level) {
  return !users_of(level.report.plan) &&
         2 * level.audit.late_sends > level.report.all.counts.requests;
}

std::optional<double> shortfall_of(const LevelResult& level) {
  const auto& answered = rates_of(level).request_throughput;
  if (!has_rate(level) || !answered) return std::nullopt;
  // Random arrivals vary by 1/sqrt(n).
  const auto n = static_cast<double>(level.report.all.counts.requests);
  constexpr double kLeastGap = 0.1;
  const double noise = n > 0 ? 3 / std::sqrt(n) : 1;
  const double gap = 1 - *answered / *level.report.plan.request_rate;
  return gap >= std::max(kLeastGap, noise) ? std::optional(gap) : std::nullopt;
}

void tell_headline(const RunReport& report, std::vector<std::string>& list) {
  const auto& levels = report.levels;
  const bool any = std::any_of(levels.begin(), levels.end(), [](const LevelResult& level) {
    return level.report.all.counts.ok > 0;
  });
  if (!any) return;
  const bool open = std::all_of(levels.begin(), levels.end(), has_rate);
  if (report.knee) {
    list.push_back(knee_words(*report.knee));
  } else if (levels.size() == 1) {
    list.push_back(level_words(levels.front()));
  } else if (open) {
    list.push_back(open_words(report));
  } else if (!report.knee_reason.empty()) {
    list.push_back("no knee: " + report.knee_reason);
  }
  if (report.server_limit) list.push_back(sentence_of(*report.server_limit));
}

}  // namespace nibble::load
