// A run as tables: a row a level for a sweep, a row a number for a single level.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>

#include "base/text.h"
#include "base/units.h"
#include "load/run_report.h"

namespace nibble::load {
namespace {

constexpr std::string_view kNone = "-";
constexpr double kMedian = 0.5;

std::string number_or_dash(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? format_number(*value) : std::string(kNone);
}

// Of requests: a whole number shows no zeros after the point.
std::string in_flight(const LevelMetrics& metrics) {
  return metrics.mean_in_flight ? format_compact(*metrics.mean_in_flight) : std::string(kNone);
}

std::string mean_of(const LevelMetrics& metrics, Metric metric) {
  const Summary& summary = metrics[metric];
  return summary.empty() ? std::string(kNone) : format_number(summary.mean);
}

// '-' where the sample is too small to carry it.
std::string quantile_of(const LevelMetrics& metrics, Metric metric, double q) {
  const Quantile* quantile = metrics[metric].find(q);
  const bool shown = quantile != nullptr && quantile->supported();
  return shown ? format_number(quantile->value) : std::string(kNone);
}

std::string percentile_title(double q) {
  return "P" + format_compact(q * 100);
}

double highest_quantile(const LevelMetrics& metrics) {
  const auto& asked = metrics.options.quantiles;
  return asked.empty() ? kMedian : *std::max_element(asked.begin(), asked.end());
}

// A column of the sweep: left out where no level has a cell, with the reason of a level.
struct SweepColumn {
  Column column;
  std::function<std::string(const LevelResult&)> cell;
  std::function<std::string(const LevelResult&)> reason;  // empty: needs none
  std::string title = {};                                 // in the sentence of what is left out
};

SweepColumn latency_column(std::string title, Metric metric, int drop_order) {
  return {
      .column = {std::move(title), Align::kRight, drop_order},
      .cell = [metric](const LevelResult& level) { return mean_of(latencies_of(level), metric); },
      .reason =
          [metric](const LevelResult& level) { return why_missing(latencies_of(level), metric); },
      .title = std::string(info_of(metric).title)};
}

SweepColumn seen_column(Seen seen, int drop_order) {
  const SeenInfo& info = info_of(seen);
  return {.column = {std::string(info.column), Align::kRight, drop_order},
          .cell =
              [seen](const LevelResult& level) {
                const auto& value = level.joined[seen].value;
                return value ? seen_text(seen, *value) : std::string(kNone);
              },
          .reason =
              [seen](const LevelResult& level) {
                const std::string& reason = level.joined[seen].reason;
                return reason.empty() ? std::string("not measured") : reason;
              },
          .title = std::string(info.title)};
}

// What was asked of a level: its users, its rate, or both where levels of both kinds are mixed.
std::vector<SweepColumn> asked_columns(const RunReport& report) {
  const auto users = [](const LevelResult& level) {
    const auto& most = level.report.plan.max_concurrency;
    return most ? format_compact(*most) : std::string(kNone);
  };
  const auto rate = [](const LevelResult& level) {
    const auto& asked = level.report.plan.request_rate;
    if (!asked) return std::string(kNone);
    return std::isinf(*asked) ? std::string("inf") : format_compact(*asked);
  };
  const auto flight = [](const LevelResult& level) { return in_flight(rates_of(level)); };
  const auto& levels = report.levels;
  const bool open = std::any_of(levels.begin(), levels.end(), [](const LevelResult& level) {
    return !users_of(level.report.plan);
  });
  const bool told = std::any_of(levels.begin(), levels.end(), [](const LevelResult& level) {
    return level.joined[Seen::kRunning].value.has_value();
  });
  std::vector<SweepColumn> columns;
  if (open) columns.push_back({.column = {"req/s", Align::kRight}, .cell = rate, .reason = {}});
  columns.push_back({.column = {"users", Align::kRight}, .cell = users, .reason = {}});
  if (open && !told) {
    columns.push_back({.column = {"flight", Align::kRight, 4}, .cell = flight, .reason = {}});
  }
  return columns;
}

std::vector<SweepColumn> columns_of(const RunReport& report) {
  std::vector<SweepColumn> columns = asked_columns(report);
  columns.push_back({.column = {"failed", Align::kRight},
                     .cell =
                         [](const LevelResult& level) {
                           const std::int64_t failed = level.report.all.counts.failed;
                           return failed > 0 ? fmt::format("{}", failed) : std::string(kNone);
                         },
                     .reason = {}});
  columns.push_back({.column = {"tok/s", Align::kRight},
                     .cell =
                         [](const LevelResult& level) {
                           return number_or_dash(rates_of(level).output_throughput);
                         },
                     .reason = {}});
  columns.push_back(latency_column("TTFT ms", Metric::kTtft, 0));
  const double high =
      report.levels.empty() ? 0 : highest_quantile(report.levels.front().report.all);
  if (high > kMedian) {
    columns.push_back({.column = {percentile_title(high), Align::kRight, 3},
                       .cell =
                           [high](const LevelResult& level) {
                             return quantile_of(latencies_of(level), Metric::kTtft, high);
                           },
                       .reason = {}});
  }
  columns.push_back(latency_column("TPOT ms", Metric::kTpot, 0));
  columns.push_back(latency_column("ITL ms", Metric::kItl, 2));
  columns.push_back(seen_column(Seen::kRunning, 4));
  columns.push_back(seen_column(Seen::kWaiting, 4));
  columns.push_back(seen_column(Seen::kKvUsage, 6));
  columns.push_back(seen_column(Seen::kPower, 5));
  columns.push_back(seen_column(Seen::kTensor, 7));
  columns.push_back(seen_column(Seen::kDram, 7));
  columns.push_back(seen_column(Seen::kSmClock, 8));
  columns.push_back(seen_column(Seen::kEnergyPerOutput, 5));
  return columns;
}

// Titles of what is left out, by the reason.
class LeftOut {
 public:
  void add(const SweepColumn& column, const std::vector<LevelResult>& levels) {
    if (!column.reason || levels.empty()) return;
    const std::string reason = column.reason(levels.front());
    auto found = std::find_if(reasons_.begin(), reasons_.end(),
                              [&reason](const auto& known) { return known.first == reason; });
    if (found == reasons_.end()) found = reasons_.insert(found, {reason, {}});
    found->second.push_back(column.title);
  }
  void tell(std::vector<std::string>& sentences) const {
    for (const auto& [reason, titles] : reasons_) {
      sentences.push_back(fmt::format("no {}: {}", join(titles, ", "), reason));
    }
  }

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons_;
};

Emphasis emphasis_of(const RunReport& report, const LevelResult& level) {
  const bool part = !level.report.incomplete.empty() || level.audit.client_limited;
  if (level.report.all.counts.ok == 0) return Emphasis::kBad;
  if (part) return Emphasis::kWarning;
  const bool knee = report.knee && report.knee->concurrency &&
                    users_of(level.report.plan) == report.knee->concurrency;
  return knee ? Emphasis::kGood : Emphasis::kNone;
}

// --- one level ---------------------------------------------------------------------------------

struct LevelRow {
  std::string name;
  std::string whole;
  std::string steady;
  std::string meaning;
};

class LevelRows {
 public:
  explicit LevelRows(const LevelResult& level) : level_(level) {}

  Table table() {
    const bool steady = level_.report.inside.has_value();
    std::vector<Column> columns = {{"number"}, {"whole level", Align::kRight}};
    if (steady) columns.push_back({"steady window", Align::kRight});
    columns.push_back({"what it is", Align::kLeft, 1});
    Table table(std::move(columns));
    const auto add = [&](const std::vector<LevelRow>& rows) {
      if (rows.empty()) return;
      if (!table.rows().empty()) table.rule();
      for (const LevelRow& row : rows) {
        std::vector<Cell> cells = {row.name, row.whole};
        if (steady) cells.emplace_back(row.steady);
        cells.emplace_back(row.meaning);
        table.row(std::move(cells));
      }
    };
    add(requests());
    add(rates());
    add(latency(Metric::kTtft, "first send to the first token"));
    add(latency(Metric::kTpot, "(last token - first) / (tokens - 1), of a request"));
    add(latency(Metric::kItl, "gap between two chunks, all of them"));
    add(latency(Metric::kE2el, "send to the last token"));
    add(seen());
    return table;
  }

 private:
  using Value = std::function<std::string(const LevelMetrics&)>;

  LevelRow row(std::string name, const Value& value, std::string meaning) const {
    const auto& inside = level_.report.inside;
    return {std::move(name), value(level_.report.all), inside ? value(*inside) : "",
            std::move(meaning)};
  }
  static Value count(std::int64_t Counts::*field) {
    return [field](const LevelMetrics& m) { return fmt::format("{}", m.counts.*field); };
  }
  static Value token_count(std::int64_t Tokens::*field) {
    return [field](const LevelMetrics& m) { return fmt::format("{}", m.tokens.*field); };
  }
  static Value rate(std::optional<double> LevelMetrics::*field) {
    return [field](const LevelMetrics& m) { return number_or_dash(m.*field); };
  }

  std::vector<LevelRow> requests() const {
    const LevelPlan& plan = level_.report.plan;
    std::vector<LevelRow> rows = {
        {"Load", level_name(plan), "", "what was asked"},
        row("Successful requests", count(&Counts::ok), "only these are in latencies"),
        row("Failed requests", count(&Counts::failed), "by class in errors_by_class"),
    };
    if (level_.report.all.counts.cancelled > 0) {
      rows.push_back(row("Cancelled requests", count(&Counts::cancelled), "by us, at the end"));
    }
    rows.push_back(row(
        "Benchmark duration (s)",
        [](const LevelMetrics& m) { return format_number(m.durations.benchmark); },
        "first send to last byte"));
    rows.push_back(row("Total input tokens", token_count(&Tokens::input), "of successes"));
    rows.push_back(row("Total generated tokens", token_count(&Tokens::output), "of successes"));
    return rows;
  }

  std::vector<LevelRow> rates() const {
    std::vector<LevelRow> rows = {row("Request throughput (req/s)",
                                      rate(&LevelMetrics::request_throughput),
                                      "successes / duration")};
    if (level_.report.all.goodput) {
      rows.push_back(row(
          "Request goodput (req/s)",
          [](const LevelMetrics& m) {
            return number_or_dash(m.goodput ? m.goodput->per_s : std::nullopt);
          },
          "those that hold every limit / duration"));
    }
    rows.push_back(row("Output token throughput (tok/s)", rate(&LevelMetrics::output_throughput),
                       "generated tokens / duration"));
    rows.push_back(row("Peak output token throughput (tok/s)",
                       rate(&LevelMetrics::max_output_tokens_per_s), "tokens of the best second"));
    rows.push_back(row("Total token throughput (tok/s)", rate(&LevelMetrics::total_throughput),
                       "input and generated tokens / duration"));
    rows.push_back(row("Concurrency", in_flight, "mean number in flight, exact"));
    rows.push_back(row(
        "Peak concurrent requests",
        [](const LevelMetrics& m) { return fmt::format("{}", m.max_in_flight); },
        "most in flight at once, exact"));
    return rows;
  }

  std::vector<LevelRow> latency(Metric metric, std::string meaning) const {
    const std::string title = metric == Metric::kItl    ? "ITL"
                              : metric == Metric::kE2el ? "E2EL"
                                                        : std::string(info_of(metric).title);
    const std::string why = why_missing(level_.report.all, metric);
    std::vector<LevelRow> rows = {row(
        fmt::format("Mean {} (ms)", title),
        [metric](const LevelMetrics& m) { return mean_of(m, metric); },
        why.empty() ? std::move(meaning) : "none: " + why)};
    if (!why.empty()) return rows;
    for (const double q : level_.report.all.options.quantiles) {
      const std::string name = q == kMedian ? "Median" : percentile_title(q);
      rows.push_back(row(
          fmt::format("{} {} (ms)", name, title),
          [metric, q](const LevelMetrics& m) { return quantile_of(m, metric, q); }, ""));
    }
    return rows;
  }

  std::vector<LevelRow> seen() const {
    std::vector<LevelRow> rows;
    const bool inside = level_.report.inside.has_value();
    for (const SeenInfo& info : seen_infos()) {
      const auto& value = level_.joined[info.seen].value;
      if (!value) continue;
      std::string name(info.title);
      if (!info.unit.empty() && info.unit != "%") name += fmt::format(" ({})", info.unit);
      const std::string text = seen_text(info.seen, *value);
      const bool of_window = inside && level_.window != "whole level";
      rows.push_back(
          {std::move(name), of_window ? "" : text, of_window ? text : "", meaning_of(info.seen)});
    }
    return rows;
  }

  static std::string meaning_of(Seen seen) {
    switch (seen) {
      case Seen::kRunning:
      case Seen::kWaiting:
      case Seen::kKvUsage:
      case Seen::kPreemptions:
        return "by the server's own count";
      case Seen::kHostCpu:
        return "of all cores";
      case Seen::kPower:
        return "of all GPUs together";
      case Seen::kEnergyPerOutput:
      case Seen::kEnergyPerTotal:
        return "energy of all GPUs / tokens";
      default:
        return "mean of the GPUs";
    }
  }

  const LevelResult& level_;
};

}  // namespace

Table sweep_table(const RunReport& report, std::vector<std::string>& without) {
  LeftOut left_out;
  std::vector<SweepColumn> kept;
  for (SweepColumn& column : columns_of(report)) {
    const bool filled =
        std::any_of(report.levels.begin(), report.levels.end(),
                    [&](const LevelResult& level) { return column.cell(level) != kNone; });
    if (filled || column.column.title == "tok/s" || kept.empty()) {
      kept.push_back(std::move(column));
    } else {
      left_out.add(column, report.levels);
    }
  }
  std::vector<Column> columns;
  for (const SweepColumn& column : kept) columns.push_back(column.column);
  Table table(std::move(columns));
  for (const LevelResult& level : report.levels) {
    std::vector<Cell> cells;
    const Emphasis emphasis = emphasis_of(report, level);
    for (const SweepColumn& column : kept) {
      const bool marked = cells.empty() || column.column.title == "tok/s";
      cells.emplace_back(column.cell(level), marked ? emphasis : Emphasis::kNone);
    }
    table.row(std::move(cells));
  }
  left_out.tell(without);
  return table;
}

Table level_table(const LevelResult& level) {
  return LevelRows(level).table();
}

}  // namespace nibble::load
