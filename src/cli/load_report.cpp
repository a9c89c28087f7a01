#include "cli/load_report.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/text.h"
#include "base/units.h"

namespace nibble::cli {
namespace {

using load::LevelResult;
using load::Metric;
using load::RunReport;
using load::Seen;
using Value = std::function<std::optional<double>(const LevelResult&)>;

// What the levels differ in: their users, their rates, or in a mixture what was in flight.
enum class Asked { kUsers, kRate, kFlight };

Asked asked_by(const RunReport& report) {
  const auto all = [&report](auto&& has) {
    return std::all_of(report.levels.begin(), report.levels.end(),
                       [&](const LevelResult& level) { return has(level.report.plan); });
  };
  if (all([](const load::LevelPlan& plan) { return load::users_of(plan).has_value(); })) {
    return Asked::kUsers;
  }
  const bool rates = all([](const load::LevelPlan& plan) {
    return plan.request_rate && std::isfinite(*plan.request_rate);
  });
  return rates ? Asked::kRate : Asked::kFlight;
}

const char* axis_title(Asked asked) {
  if (asked == Asked::kUsers) return "users (requests in flight)";
  return asked == Asked::kRate ? "requests/s offered" : "requests in flight (mean)";
}

std::optional<double> place_of(const LevelResult& level, Asked asked) {
  if (asked == Asked::kUsers) return load::users_of(level.report.plan);
  if (asked == Asked::kRate) return level.report.plan.request_rate;
  return load::rates_of(level).mean_in_flight;
}

// On logarithmic axes only what is above zero has a place.
bool drawable(const std::optional<double>& value) {
  return value && std::isfinite(*value) && *value > 0;
}

std::optional<double> throughput(const LevelResult& level) {
  return load::rates_of(level).output_throughput;
}

class Charts {
 public:
  explicit Charts(const RunReport& report) : report_(report), asked_(asked_by(report)) {
    for (std::size_t index = 0; index < report.levels.size(); ++index) order_.push_back(index);
    std::stable_sort(order_.begin(), order_.end(), [this](std::size_t a, std::size_t b) {
      return place_of(report_.levels[a], asked_) < place_of(report_.levels[b], asked_);
    });
  }

  std::vector<Chart> throughputs() const {
    std::vector<Chart> charts;
    Chart chart = over_levels("throughput", "Output tokens per second", "tok/s", true);
    chart.caption = "Of the steady window of each level, where it has one.";
    add(chart, "measured", throughput);
    if (chart.series.empty() || chart.series.front().points.size() < 2) return charts;
    add_knee(chart);
    add_usl(chart);
    add_roof(chart);
    charts.push_back(std::move(chart));
    add_interactivity(charts);
    return charts;
  }

  std::vector<Chart> latencies() const {
    std::vector<Chart> charts;
    for (const Metric metric : {Metric::kTtft, Metric::kTpot, Metric::kItl, Metric::kE2el}) {
      const load::MetricInfo& info = load::info_of(metric);
      Chart chart = over_levels(std::string(info.name), std::string(info.title), "ms", true);
      chart.caption = std::string(info.definition) +
                      " Percentiles that a level has too few requests for are left out.";
      add(chart, "mean", [metric](const LevelResult& level) -> std::optional<double> {
        const load::Summary& summary = load::latencies_of(level)[metric];
        return summary.empty() ? std::nullopt : std::optional(summary.mean);
      });
      for (const double q : quantiles()) {
        add(chart, "P" + format_compact(q * 100), [metric, q](const LevelResult& level) {
          const load::Quantile* found = load::latencies_of(level)[metric].find(q);
          const bool shown = found != nullptr && found->supported();
          return shown ? std::optional(found->value) : std::nullopt;
        });
      }
      keep(charts, std::move(chart));
    }
    return charts;
  }

  std::vector<Chart> machine() const {
    std::vector<Chart> charts;
    keep(charts, seen("power", "Power", "W", {Seen::kPower}));
    Chart activity = seen("activity", "Activity of the GPUs", "% of the time",
                          {Seen::kTensor, Seen::kDram, Seen::kSmActive, Seen::kThrottled});
    activity.caption =
        "Near 100 % DRAM activity the memory is the limit; SMs that are active without tensor or "
        "DRAM activity wait or spin.";
    keep(charts, std::move(activity));
    keep(charts, seen("server", "Requests by the server's own count", "requests",
                      {Seen::kRunning, Seen::kWaiting}));
    keep(charts,
         seen("occupancy", "KV cache and host CPU", "% in use", {Seen::kKvUsage, Seen::kHostCpu}));
    keep(charts, seen("energy", "Energy per token", "J/token",
                      {Seen::kEnergyPerOutput, Seen::kEnergyPerTotal}));
    return charts;
  }

 private:
  Chart over_levels(std::string id, std::string title, const char* unit, bool logarithmic) const {
    return {.id = std::move(id),
            .title = fmt::format("{} over {}", title,
                                 asked_ == Asked::kRate ? "the offered rate" : "concurrency"),
            .x = {.title = axis_title(asked_), .logarithmic = true},
            .y = {.title = unit, .logarithmic = logarithmic}};
  }

  void add(Chart& chart, std::string name, const Value& value) const {
    ChartSeries series{.name = std::move(name)};
    for (const std::size_t index : order_) {
      const LevelResult& level = report_.levels[index];
      const std::optional<double> x = place_of(level, asked_);
      const std::optional<double> y = value(level);
      const bool zero = !chart.y.logarithmic && y && *y == 0;
      if (!drawable(x) || (!drawable(y) && !zero)) continue;
      series.points.push_back({*x, *y, load::level_name(level.report.plan)});
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }

  // A line takes two levels.
  static void keep(std::vector<Chart>& charts, Chart chart) {
    std::size_t most = 0;
    for (const ChartSeries& series : chart.series) most = std::max(most, series.points.size());
    if (most >= 2) charts.push_back(std::move(chart));
  }

  std::vector<double> quantiles() const {
    return report_.levels.front().report.all.options.quantiles;
  }

  void add_knee(Chart& chart) const {
    if (asked_ != Asked::kUsers || !report_.knee || !report_.knee->concurrency) return;
    ChartSeries mark{.name = "knee", .mark = ChartSeries::Mark::kPoints, .label_points = true};
    for (const ChartPoint& point : chart.series.front().points) {
      if (point.x != *report_.knee->concurrency || !mark.points.empty()) continue;
      mark.points.push_back({point.x, point.y, "knee"});
    }
    chart.caption += " The knee is the first level from which twice the users gain less than 5 %.";
    chart.series.push_back(std::move(mark));
  }

  void add_usl(Chart& chart) const {
    if (asked_ != Asked::kUsers || !report_.usl || !report_.usl->valid()) return;
    ChartSeries fit{.name = "USL fit", .mark = ChartSeries::Mark::kLine, .dashed = true};
    const std::vector<ChartPoint>& points = chart.series.front().points;
    constexpr int kPieces = 4;  // between one level and the next
    for (std::size_t index = 0; index + 1 < points.size(); ++index) {
      const double ratio = points[index + 1].x / points[index].x;
      for (int piece = 0; piece < kPieces; ++piece) {
        const double x = points[index].x * std::pow(ratio, static_cast<double>(piece) / kPieces);
        fit.points.push_back({x, report_.usl->predict(x), ""});
      }
    }
    fit.points.push_back({points.back().x, report_.usl->predict(points.back().x), ""});
    chart.series.push_back(std::move(fit));
  }

  void add_roof(Chart& chart) const {
    if (!report_.roof) return;
    ChartSeries roof{
        .name = "ledger's floor of decode", .mark = ChartSeries::Mark::kLine, .dashed = true};
    for (const std::size_t index : order_) {
      for (const load::RoofLevel& at : report_.roof->levels) {
        const std::optional<double> x = place_of(report_.levels[index], asked_);
        if (at.level == index && drawable(x)) roof.points.push_back({*x, at.tokens_per_s, ""});
      }
    }
    if (!roof.points.empty()) chart.series.push_back(std::move(roof));
  }

  // Both for the server's owner and for a user: up and to the right is better.
  void add_interactivity(std::vector<Chart>& charts) const {
    Chart chart{.id = "interactivity",
                .title = "Throughput against interactivity",
                .caption = "Interactivity is 1000 / mean TPOT (ms). One point a level.",
                .x = {.title = "tok/s a user"},
                .y = {.title = "tok/s of all"}};
    ChartSeries series{.name = "levels", .label_points = true};
    for (const std::size_t index : order_) {
      const LevelResult& level = report_.levels[index];
      const load::Summary& tpot = load::latencies_of(level)[Metric::kTpot];
      const std::optional<double> tokens = throughput(level);
      if (tpot.empty() || !(tpot.mean > 0) || !drawable(tokens)) continue;
      series.points.push_back({1000 / tpot.mean, *tokens, load::level_name(level.report.plan)});
    }
    chart.series.push_back(std::move(series));
    keep(charts, std::move(chart));
  }

  Chart seen(std::string id, std::string title, const char* unit,
             const std::vector<Seen>& signals) const {
    Chart chart = over_levels(std::move(id), std::move(title), unit, false);
    for (const Seen signal : signals) {
      const load::SeenInfo& info = load::info_of(signal);
      const double scale = info.unit == "%" ? 100 : 1;
      add(chart, std::string(info.title), [signal, scale](const LevelResult& level) {
        const auto& value = level.joined[signal].value;
        return value ? std::optional(*value * scale) : std::nullopt;
      });
    }
    return chart;
  }

  const RunReport& report_;
  Asked asked_;
  std::vector<std::size_t> order_;  // of the levels along the axis
};

std::string dataset_fact(const load::RunSetup& setup) {
  std::string text = setup.dataset.empty() ? "not named" : setup.dataset;
  for (const auto& [name, value] : setup.dataset_options) {
    text += fmt::format(", {} {}", name, value.is_string() ? value.as_string() : value.dump(0));
  }
  return text + (setup.ignore_eos ? "; ignore_eos" : "; answers may end early");
}

std::string levels_fact(const RunReport& report) {
  std::vector<std::string> names;
  for (const LevelResult& level : report.levels) {
    names.push_back(load::level_name(level.report.plan));
  }
  return names.empty() ? "none" : join(names, ", ");
}

void add_facts(Document& document, const RunReport& report) {
  const load::RunSetup& setup = report.setup;
  const auto add = [&document](const char* name, const std::string& value) {
    if (!value.empty()) document.facts.emplace_back(name, value);
  };
  add("Server", setup.base_url + setup.endpoint);
  add("Model", setup.model_id);
  add("Tokenizer", setup.tokenizer_id);
  add("Backend", setup.backend);
  add("Prompts", dataset_fact(setup));
  add("Levels", levels_fact(report));
  add("Started", setup.started_utc);
  add("Label", setup.label);
  for (const auto& [name, value] : setup.metadata) document.facts.emplace_back(name, value);
}

// A sweep as a table and what to know of it; a single level as vLLM prints it.
Section summary_section(const RunReport& report) {
  Section section{.heading = "What was measured"};
  section.bullets = load::sentences(report);
  if (report.levels.size() == 1) {
    section.tables.emplace_back("", load::level_table(report.levels.front()));
  } else if (!report.levels.empty()) {
    std::vector<std::string> without;
    section.tables.emplace_back(
        "Rates and what was seen beside are of the steady window of each "
        "level, latencies too where it is long enough; means, but for the "
        "percentile, which is that of TTFT.",
        load::sweep_table(report, without));
    section.bullets.insert(section.bullets.end(), without.begin(), without.end());
  }
  return section;
}

Section fit_section(const load::StepFit& fit, const std::string& note) {
  Section section{.heading = "What a step is made of"};
  section.paragraphs.push_back(
      "TPOT = t0 + a E[D(B)]/E + b B S + c B, in ms: B sequences decode together, S tokens are in "
      "the cache of each, D(B) of E experts are touched. t0 is what a step takes whatever the "
      "batch, a the reading of all routed experts, b that of the cache, c the work per sequence.");
  if (!note.empty()) section.paragraphs.push_back("Roofs: " + note + ".");
  if (!fit.valid()) {
    section.bullets.push_back("no fit: " + fit.reason);
    return section;
  }
  Table table({{"term"},
               {"ms", Align::kRight},
               {"95 %", Align::kRight},
               {"roof, ms", Align::kRight},
               {"over the roof", Align::kRight},
               {"why not"}});
  for (const load::FittedTerm& term : fit.terms) {
    const auto number = [](const std::optional<double>& value) {
      return value ? format_number(*value, 3) : std::string("-");
    };
    const auto& i = term.interval;
    table.row({std::string(load::to_string(term.term)), number(term.value),
               i ? number(i->low) + " to " + number(i->high) : "-", number(term.roof),
               term.over_roof ? number(term.over_roof) + " x" : "-", term.reason});
  }
  section.tables.emplace_back("", std::move(table));
  return section;
}

Section levels_section(const RunReport& report) {
  Section section{.heading = "Every level"};
  for (const LevelResult& level : report.levels) {
    section.tables.emplace_back(load::level_name(level.report.plan), load::level_table(level));
  }
  return section;
}

Section definitions_section(const Json& document) {
  Section section{.heading = "What the numbers mean"};
  section.paragraphs.push_back(
      "Names are those of report.json, which are vLLM's where vLLM has the number.");
  for (const auto& [name, sentence] : document.find("definitions")->as_object()) {
    section.bullets.push_back(fmt::format("{}: {}", name, sentence.as_string()));
  }
  return section;
}

void add_charts(Document& document, const char* heading, std::vector<Chart> charts) {
  if (charts.empty()) return;
  document.sections.push_back({.heading = heading, .charts = std::move(charts)});
}

}  // namespace

Document load_document(const RunReport& report) {
  Document document;
  document.data = load::to_json(report);
  const std::string& model = report.setup.model_id;
  document.title = "Load test" + (model.empty() ? "" : " of " + model);
  const Json* why = document.data.find("incomplete_reason");
  if (why != nullptr && why->is_string()) {
    document.subtitle = "Only a part of what was asked: " + why->as_string() + ".";
  }
  add_facts(document, report);
  document.sections.push_back(summary_section(report));
  if (!report.levels.empty()) {
    const Charts charts(report);
    add_charts(document, "Throughput", charts.throughputs());
    add_charts(document, "Latency", charts.latencies());
    add_charts(document, "Server and machine", charts.machine());
  }
  if (report.step_fit) {
    document.sections.push_back(fit_section(*report.step_fit, report.step_note));
  }
  if (report.levels.size() > 1) document.sections.push_back(levels_section(report));
  document.sections.push_back(definitions_section(document.data));
  document.command = report.setup.command;
  return document;
}

}  // namespace nibble::cli
