// One level as a table, a row a number.
#include <algorithm>
#include <fmt/format.h>
#include <functional>

#include "load/cells.h"
#include "load/run_report.h"

namespace nibble::load {
namespace {

struct LevelRow {
  std::string name;
  std::string whole;
  std::string steady;
  std::string meaning;
  std::string best;  // the one of both that a sweep shows
};

class LevelRows {
 public:
  explicit LevelRows(const LevelResult& level) : level_(level) {}

  // Requests, rates, a group a latency, signals.
  std::vector<std::vector<LevelRow>> groups() const {
    return {requests(),
            rates(),
            latency(Metric::kTtft, "first send to the first token"),
            latency(Metric::kTpot, "(last token - first) / (tokens - 1), of a request"),
            latency(Metric::kItl, "gap between two chunks, all of them"),
            latency(Metric::kE2el, "send to the last token"),
            seen()};
  }

  Table table() const {
    const bool steady = level_.report.inside.has_value();
    std::vector<Column> columns = {{"number"}, {"whole level", Align::kRight}};
    if (steady) columns.push_back({"steady window", Align::kRight});
    columns.push_back({"what it is", Align::kLeft, 1});
    Table table(std::move(columns));
    for (const std::vector<LevelRow>& rows : groups()) {
      if (rows.empty()) continue;
      if (!table.rows().empty()) table.rule();
      for (const LevelRow& row : rows) {
        std::vector<Cell> cells = {row.name, row.whole};
        if (steady) cells.emplace_back(row.steady);
        cells.emplace_back(row.meaning);
        table.row(std::move(cells));
      }
    }
    return table;
  }

 private:
  using Value = std::function<std::string(const LevelMetrics&)>;

  LevelRow row(std::string name, const Value& value, std::string meaning,
               const LevelMetrics& best) const {
    const auto& inside = level_.report.inside;
    return {std::move(name), value(level_.report.all), inside ? value(*inside) : "",
            std::move(meaning), value(best)};
  }
  static Value count(std::int64_t Counts::*field) {
    return [field](const LevelMetrics& m) { return fmt::format("{}", m.counts.*field); };
  }
  static Value token_count(std::int64_t Tokens::*field) {
    return [field](const LevelMetrics& m) { return fmt::format("{}", m.tokens.*field); };
  }
  static Value rate(std::optional<double> LevelMetrics::*field) {
    return [field](const LevelMetrics& m) { return cell_of(m.*field); };
  }

  std::vector<LevelRow> requests() const {
    const LevelMetrics& all = level_.report.all;
    std::vector<LevelRow> rows = {
        {"Load", level_name(level_.report.plan), "", "what was asked", ""},
        row("Successful requests", count(&Counts::ok), "only these are in latencies", all),
        row("Failed requests", count(&Counts::failed), "by class in errors_by_class", all),
    };
    if (all.counts.cancelled > 0) {
      rows.push_back(
          row("Cancelled requests", count(&Counts::cancelled), "by us, at the end", all));
    }
    rows.push_back(row(
        "Benchmark duration (s)",
        [](const LevelMetrics& m) { return format_number(m.durations.benchmark); },
        "first send to last byte", all));
    rows.push_back(row("Total input tokens", token_count(&Tokens::input), "of successes", all));
    rows.push_back(
        row("Total generated tokens", token_count(&Tokens::output), "of successes", all));
    return rows;
  }

  std::vector<LevelRow> rates() const {
    const LevelMetrics& best = rates_of(level_);
    std::vector<LevelRow> rows = {row("Request throughput (req/s)",
                                      rate(&LevelMetrics::request_throughput),
                                      "successes / duration", best)};
    if (level_.report.all.goodput) {
      rows.push_back(row("Request goodput (req/s)", goodput_cell,
                         "those that hold every limit / duration", best));
    }
    rows.push_back(row("Output token throughput (tok/s)", rate(&LevelMetrics::output_throughput),
                       "generated tokens / duration", best));
    rows.push_back(row("Peak output token throughput (tok/s)",
                       rate(&LevelMetrics::max_output_tokens_per_s), "tokens of the best second",
                       best));
    rows.push_back(row("Total token throughput (tok/s)", rate(&LevelMetrics::total_throughput),
                       "input and generated tokens / duration", best));
    rows.push_back(row("Concurrency", in_flight_cell, "mean number in flight, exact", best));
    rows.push_back(row(
        "Peak concurrent requests",
        [](const LevelMetrics& m) { return fmt::format("{}", m.max_in_flight); },
        "most in flight at once, exact", best));
    return rows;
  }

  std::vector<LevelRow> latency(Metric metric, std::string meaning) const {
    const std::string title = metric == Metric::kItl    ? "ITL"
                              : metric == Metric::kE2el ? "E2EL"
                                                        : std::string(info_of(metric).title);
    const LevelMetrics& best = latencies_of(level_);
    const std::string why = why_missing(level_.report.all, metric);
    std::vector<LevelRow> rows = {row(
        fmt::format("Mean {} (ms)", title),
        [metric](const LevelMetrics& m) { return mean_cell(m, metric); },
        why.empty() ? std::move(meaning) : "none: " + why, best)};
    if (!why.empty()) return rows;
    for (const double q : level_.report.all.options.quantiles) {
      const std::string name = q == kMedian ? "Median" : percentile_title(q);
      rows.push_back(row(
          fmt::format("{} {} (ms)", name, title),
          [metric, q](const LevelMetrics& m) { return quantile_cell(m, metric, q); }, "", best));
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
      rows.push_back({std::move(name), of_window ? "" : text, of_window ? text : "",
                      meaning_of(info.seen), text});
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

using Groups = std::vector<std::vector<LevelRow>>;

// Names of a group's rows that some level has a value for, in the order in which they come.
std::vector<std::string> names_in(const std::vector<Groups>& levels, std::size_t group) {
  std::vector<std::string> names;
  for (const Groups& level : levels) {
    for (const LevelRow& row : level[group]) {
      const bool known = std::find(names.begin(), names.end(), row.name) != names.end();
      if (!known && !row.best.empty() && row.best != kNoCell) names.push_back(row.name);
    }
  }
  return names;
}

std::string best_of(const std::vector<LevelRow>& rows, const std::string& name) {
  for (const LevelRow& row : rows) {
    if (row.name == name) return row.best;
  }
  return std::string(kNoCell);
}

}  // namespace

Table levels_table(const RunReport& report) {
  std::vector<Column> columns = {{"number"}};
  std::vector<Groups> levels;
  for (const LevelResult& level : report.levels) {
    columns.push_back({level_name(level.report.plan), Align::kRight});
    levels.push_back(LevelRows(level).groups());
  }
  Table table(std::move(columns));
  for (std::size_t group = 0; !levels.empty() && group < levels.front().size(); ++group) {
    if (!table.rows().empty()) table.rule();
    for (const std::string& name : names_in(levels, group)) {
      std::vector<Cell> cells = {name};
      for (const Groups& level : levels) cells.emplace_back(best_of(level[group], name));
      table.row(std::move(cells));
    }
  }
  return table;
}

Table level_table(const LevelResult& level) {
  return LevelRows(level).table();
}

}  // namespace nibble::load
