// A sweep as a table, a row a level.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>

#include "load/cells.h"
#include "load/run_report.h"

namespace nibble::load {
namespace {

// Left out where no level has a cell. `drop`: the higher, the sooner a narrow terminal loses it.
struct SweepColumn {
  std::string title;
  int drop = 0;
  std::function<std::string(const LevelResult&)> cell;
};
using Columns = std::vector<SweepColumn>;

SweepColumn latency_column(std::string title, Metric metric, int drop) {
  return {std::move(title), drop,
          [metric](const LevelResult& level) { return mean_cell(latencies_of(level), metric); }};
}

SweepColumn seen_column(Seen seen, int drop) {
  return {std::string(info_of(seen).column), drop, [seen](const LevelResult& level) {
            const auto& value = level.joined[seen].value;
            if (!value) return std::string(kNoCell);
            std::string text = seen_text(seen, *value);
            if (level.window == "whole level") text += kWholeLevel;
            return text;
          }};
}

SweepColumn rate_column(std::string title, std::optional<double> LevelMetrics::*rate, int drop) {
  return {std::move(title), drop,
          [rate](const LevelResult& level) { return cell_of(rates_of(level).*rate); }};
}

// What was asked of a level: its users, its rate, or both where levels of both kinds are mixed.
void add_asked(const RunReport& report, Columns& columns) {
  const auto users = [](const LevelResult& level) {
    const auto& most = level.report.plan.max_concurrency;
    return most ? format_compact(*most) : std::string(kNoCell);
  };
  const auto rate = [](const LevelResult& level) {
    const auto& asked = level.report.plan.request_rate;
    if (!asked) return std::string(kNoCell);
    return std::isinf(*asked) ? std::string("inf") : format_compact(*asked);
  };
  const auto& levels = report.levels;
  const bool open = std::any_of(levels.begin(), levels.end(), [](const LevelResult& level) {
    return !users_of(level.report.plan);
  });
  const bool told = std::any_of(levels.begin(), levels.end(), [](const LevelResult& level) {
    return level.joined[Seen::kRunning].value.has_value();
  });
  if (open) columns.push_back({"offered", 0, rate});
  columns.push_back({"users", 0, users});
  if (open && !told) {
    columns.push_back(
        {"flight", 4, [](const LevelResult& level) { return in_flight_cell(rates_of(level)); }});
  }
}

// What one user gets while an answer comes.
std::string user_rate(const LevelResult& level) {
  const Summary& tpot = latencies_of(level)[Metric::kTpot];
  const bool known = !tpot.empty() && tpot.mean > 0;
  return known ? format_number(1e3 / tpot.mean, 3) : std::string(kNoCell);
}

// Those that were asked for, else the highest.
std::vector<double> shown_quantiles(const RunReport& report) {
  if (report.levels.empty()) return {};
  const MetricsOptions& options = report.levels.front().report.all.options;
  if (!options.asked.empty()) return options.asked;
  if (options.quantiles.empty()) return {};
  const double highest = *std::max_element(options.quantiles.begin(), options.quantiles.end());
  return highest > kMedian ? std::vector{highest} : std::vector<double>();
}

void add_latencies(const RunReport& report, Columns& columns) {
  columns.push_back(latency_column("TTFT ms", Metric::kTtft, 0));
  for (const double q : shown_quantiles(report)) {
    columns.push_back({"TTFT " + percentile_title(q), 3, [q](const LevelResult& level) {
                         return quantile_cell(latencies_of(level), Metric::kTtft, q);
                       }});
  }
  columns.push_back(latency_column("TPOT ms", Metric::kTpot, 0));
  columns.push_back({"tok/s/user", 7, user_rate});
  columns.push_back(latency_column("ITL ms", Metric::kItl, 6));
  columns.push_back(latency_column("E2E ms", Metric::kE2el, 4));
}

Columns columns_of(const RunReport& report) {
  Columns columns;
  add_asked(report, columns);
  columns.push_back({"failed", 0, [](const LevelResult& level) {
                       const std::int64_t failed = level.report.all.counts.failed;
                       return failed > 0 ? fmt::format("{}", failed) : std::string(kNoCell);
                     }});
  columns.push_back(rate_column("tok/s", &LevelMetrics::output_throughput, 0));
  columns.push_back(rate_column("req/s", &LevelMetrics::request_throughput, 3));
  columns.push_back(
      {"good/s", 0, [](const LevelResult& level) { return goodput_cell(rates_of(level)); }});
  add_latencies(report, columns);
  columns.push_back(seen_column(Seen::kRunning, 2));
  columns.push_back(seen_column(Seen::kWaiting, 2));
  columns.push_back(seen_column(Seen::kKvUsage, 5));
  columns.push_back(seen_column(Seen::kPower, 5));
  columns.push_back(seen_column(Seen::kTensor, 7));
  columns.push_back(seen_column(Seen::kDram, 7));
  columns.push_back(seen_column(Seen::kSmClock, 8));
  columns.push_back(seen_column(Seen::kEnergyPerOutput, 5));
  return columns;
}

Emphasis emphasis_of(const RunReport& report, const LevelResult& level) {
  const bool part = !level.report.incomplete.empty() || level.audit.cpu_limited;
  if (level.report.all.counts.ok == 0) return Emphasis::kBad;
  if (part) return Emphasis::kWarning;
  const bool knee = report.knee && report.knee->concurrency &&
                    users_of(level.report.plan) == report.knee->concurrency;
  return knee ? Emphasis::kGood : Emphasis::kNone;
}

}  // namespace

Table sweep_table(const RunReport& report) {
  Columns kept;
  for (SweepColumn& column : columns_of(report)) {
    const bool filled =
        std::any_of(report.levels.begin(), report.levels.end(),
                    [&](const LevelResult& level) { return column.cell(level) != kNoCell; });
    if (filled || column.title == "tok/s" || kept.empty()) kept.push_back(std::move(column));
  }
  std::vector<Column> columns;
  for (const SweepColumn& column : kept) {
    columns.push_back({column.title, Align::kRight, column.drop});
  }
  Table table(std::move(columns));
  for (const LevelResult& level : report.levels) {
    std::vector<Cell> cells;
    const Emphasis emphasis = emphasis_of(report, level);
    for (const SweepColumn& column : kept) {
      const bool marked = cells.empty() || column.title == "tok/s";
      cells.emplace_back(column.cell(level), marked ? emphasis : Emphasis::kNone);
    }
    table.row(std::move(cells));
  }
  return table;
}

}  // namespace nibble::load
