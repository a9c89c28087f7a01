// Where the time of a token goes, at one level as a chart and at all of them side by side.
#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "diagnose/document_parts.h"

namespace nibble::diagnose {
namespace {

bool is_known_bar(const WaterfallBar& bar) {
  return bar.ms && std::isfinite(*bar.ms);
}

const WaterfallBar* bar_named(const LevelDiagnosis& level, const std::string& id) {
  for (const WaterfallBar& bar : level.waterfall) {
    if (bar.id == id) return &bar;
  }
  return nullptr;
}

// Every bar that some level has, once, as the first level with it orders them.
std::vector<const WaterfallBar*> bars_of_all(const Diagnosis& diagnosis) {
  std::vector<const WaterfallBar*> bars;
  const auto add = [&bars](const LevelDiagnosis& level) {
    for (const WaterfallBar& bar : level.waterfall) {
      const bool there = std::any_of(bars.begin(), bars.end(),
                                     [&bar](const WaterfallBar* one) { return one->id == bar.id; });
      if (there) continue;
      // The rest comes last, whatever other levels have.
      const bool rest = !bars.empty() && bars.back()->id == "unexplained";
      bars.insert(rest ? bars.end() - 1 : bars.end(), &bar);
    }
  };
  if (const LevelDiagnosis* level = headline_of(diagnosis)) add(*level);
  for (const LevelDiagnosis& level : diagnosis.levels) add(level);
  return bars;
}

std::string headline_sentence(const Diagnosis& diagnosis, const LevelDiagnosis& level) {
  std::string text = fmt::format("At {} a token takes {} ms of a user's time", level.name,
                                 ms_cell(level.measured_ms));
  if (const std::optional<double> floor = floor_ms(level)) {
    text += fmt::format("; the machine needs {} ms of them", ms_cell(floor));
  }
  if (const WaterfallBar* loss = largest_loss(level)) {
    text += fmt::format("; the largest loss is {} with {} ms", loss->title, ms_cell(loss->ms));
  }
  const LevelEvidence* evidence = headline_evidence(diagnosis);
  const auto rate = evidence == nullptr ? std::nullopt : fact_of(*evidence, Fact::kOutputRate);
  if (rate) text += fmt::format(". All users together: {} tok/s", format_number(*rate, 3));
  return text + ".";
}

// Bars of exactly nothing only take room; that they are nothing stands in the table.
Chart headline_chart(const Diagnosis& diagnosis, const LevelDiagnosis& level) {
  Chart chart{.id = "waterfall",
              .kind = Chart::Kind::kWaterfall,
              .title = fmt::format("Where a token's {} ms go at {}", ms_cell(level.measured_ms),
                                   level.name),
              .caption = headline_sentence(diagnosis, level),
              .y = {.title = "time per token and user (ms)"}};
  ChartSeries series{.name = level.name};
  for (const WaterfallBar& bar : level.waterfall) {
    if (is_known_bar(bar) && ms_cell(bar.ms) != "0") {
      series.points.push_back({0, *bar.ms, bar.title});
    }
  }
  if (series.points.empty() || !level.measured_ms) return chart;
  series.points.push_back({0, *level.measured_ms, "measured"});
  chart.series.push_back(std::move(series));
  return chart;
}

std::vector<Column> level_columns(const Diagnosis& diagnosis) {
  const std::size_t headline = std::min(diagnosis.headline, diagnosis.levels.size() - 1);
  std::vector<Column> columns = {{"ms per token and user"}};
  for (std::size_t at = 0; at < diagnosis.levels.size(); ++at) {
    // On a narrow terminal the levels that are farthest from the headline go first.
    const std::size_t away = at > headline ? at - headline : headline - at;
    columns.push_back({diagnosis.levels[at].name, Align::kRight, static_cast<int>(away)});
  }
  return columns;
}

Cell level_cell(const LevelDiagnosis& level, const std::string& id) {
  const WaterfallBar* bar = bar_named(level, id);
  if (bar == nullptr || !is_known_bar(*bar)) return {"-", Emphasis::kFaint};
  return {ms_cell_of(bar->ms, level.measured_ms),
          bar == largest_loss(level) ? Emphasis::kWarning : Emphasis::kNone};
}

// Known at every level that has a waterfall, and nothing at each: a row of it says nothing.
bool is_nothing_anywhere(const Diagnosis& diagnosis, const std::string& id) {
  return std::all_of(diagnosis.levels.begin(), diagnosis.levels.end(),
                     [&id](const LevelDiagnosis& level) {
                       const WaterfallBar* bar = bar_named(level, id);
                       if (level.waterfall.empty()) return true;
                       return bar != nullptr && is_known_bar(*bar) && ms_cell(bar->ms) == "0";
                     });
}

Table levels_side_by_side(const Diagnosis& diagnosis) {
  Table table(level_columns(diagnosis));
  bool floor = true;
  for (const WaterfallBar* bar : bars_of_all(diagnosis)) {
    if (floor && !is_floor_bar(*bar) && !table.rows().empty()) table.rule();
    floor = is_floor_bar(*bar);
    if (is_nothing_anywhere(diagnosis, bar->id)) continue;
    std::vector<Cell> cells = {bar->title};
    for (const LevelDiagnosis& level : diagnosis.levels) {
      cells.push_back(level_cell(level, bar->id));
    }
    table.row(std::move(cells));
  }
  if (table.rows().empty()) return table;
  table.rule();
  std::vector<Cell> measured = {{"measured", Emphasis::kStrong}};
  std::vector<Cell> rates = {"tok/s of all users"};
  for (std::size_t at = 0; at < diagnosis.levels.size(); ++at) {
    const std::optional<double>& whole = diagnosis.levels[at].measured_ms;
    measured.emplace_back(ms_cell_of(whole, whole), Emphasis::kStrong);
    const std::vector<LevelEvidence>& levels = diagnosis.evidence.levels;
    const auto rate =
        at < levels.size() ? fact_of(levels[at], Fact::kOutputRate) : std::optional<double>();
    rates.push_back(rate ? format_number(*rate, 3) : "-");
  }
  table.row(std::move(measured)).row(std::move(rates));
  return table;
}

// "not known: no model was given: expert weights, KV cache", each reason once.
std::vector<std::string> reasons_of_bars(const Diagnosis& diagnosis) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const LevelDiagnosis& level : diagnosis.levels) {
    for (const WaterfallBar& bar : level.waterfall) {
      if (is_known_bar(bar) || bar.reason.empty()) continue;
      auto found = std::find_if(reasons.begin(), reasons.end(),
                                [&bar](const auto& known) { return known.first == bar.reason; });
      if (found == reasons.end()) found = reasons.insert(found, {bar.reason, {}});
      std::vector<std::string>& titles = found->second;
      if (std::find(titles.begin(), titles.end(), bar.title) == titles.end()) {
        titles.push_back(bar.title);
      }
    }
  }
  std::vector<std::string> bullets;
  for (const auto& [reason, titles] : reasons) {
    bullets.push_back(fmt::format("Not known ({}): {}.", join(titles, ", "), without_stop(reason)));
  }
  return bullets;
}

}  // namespace

Section waterfall_section(const Diagnosis& diagnosis) {
  Section section{.heading = "Where the time goes"};
  const LevelDiagnosis* level = headline_of(diagnosis);
  if (level == nullptr) return section;
  section.charts.push_back(headline_chart(diagnosis, *level));
  section.tables.emplace_back("", levels_side_by_side(diagnosis));
  section.bullets = reasons_of_bars(diagnosis);
  std::vector<std::string> said;
  for (const LevelDiagnosis& one : diagnosis.levels) {
    const std::string& reason = one.waterfall_reason;
    if (reason.empty() || std::find(said.begin(), said.end(), reason) != said.end()) continue;
    said.push_back(reason);
    section.bullets.push_back(fmt::format("{}: {}.", one.name, without_stop(reason)));
  }
  return section;
}

// One level in full: with shares, the tokens/s that each part leaves, and where it is from.
Section parts_section(const Diagnosis& diagnosis) {
  const LevelDiagnosis* level = headline_of(diagnosis);
  Section section{.heading = "Every part of a token's time", .detail = true};
  if (level == nullptr || !level->measured_ms || !(*level->measured_ms > 0)) return section;
  const LevelEvidence* evidence = headline_evidence(diagnosis);
  const auto in_flight = evidence == nullptr ? std::nullopt : fact_of(*evidence, Fact::kInFlight);
  Table table({{"part"},
               {"ms", Align::kRight},
               {"share", Align::kRight},
               {"tok/s left", Align::kRight},
               {"known by"},
               {"what it is"}});
  double sum = 0;
  for (const WaterfallBar& bar : level->waterfall) {
    if (!is_known_bar(bar)) {
      table.row({bar.title, {"-", Emphasis::kFaint}, "", "", "", bar.reason});
      continue;
    }
    sum += *bar.ms;
    table.row({bar.title, ms_cell_of(bar.ms, level->measured_ms),
               format_share(*bar.ms / *level->measured_ms),
               in_flight && sum > 0 ? format_number(*in_flight / sum * 1000, 3) : "-",
               std::string(to_string(bar.origin)), bar.note});
  }
  section.tables.emplace_back(
      fmt::format("At {}. \"tok/s left\": of all users together, if a token took this part and "
                  "those above it alone.",
                  level->name),
      std::move(table));
  return section;
}

}  // namespace nibble::diagnose
