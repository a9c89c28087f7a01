#include "cli/load_charts.h"

#include <algorithm>
#include <cmath>
#include <functional>

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
    chart.caption =
        "measured: output tokens/s in the steady window of each level, where it has one.";
    add(chart, "measured", throughput);
    if (chart.series.empty() || chart.series.front().points.size() < 2) return charts;
    add_usl(chart);
    add_roof(chart);
    add_knee(chart);
    charts.push_back(std::move(chart));
    add_interactivity(charts);
    return charts;
  }

  std::vector<Chart> latencies() const {
    std::vector<Chart> charts;
    for (const Metric metric : {Metric::kTtft, Metric::kTpot, Metric::kItl}) {
      if (metric == Metric::kItl && chunks_are_tokens()) continue;
      const load::MetricInfo& info = load::info_of(metric);
      Chart chart = over_levels(std::string(info.name), std::string(info.title), "ms", true);
      chart.caption = std::string(info.definition) +
                      " mean and P50 to P99 of the requests of a level; percentiles of too few "
                      "requests are left out.";
      add(chart, "mean", [metric](const LevelResult& level) -> std::optional<double> {
        const load::Summary& summary = load::latencies_of(level)[metric];
        return summary.empty() ? std::nullopt : std::optional(summary.mean);
      });
      for (const double q : quantiles()) {
        add(chart, "P" + format_compact(q * 100), [metric, q](const LevelResult& level) {
          const load::Quantile* found = load::latencies_of(level)[metric].find(q);
          const bool asked = load::latencies_of(level).options.is_asked(q);
          const bool shown = found != nullptr && (found->supported() || asked);
          return shown ? std::optional(found->value) : std::nullopt;
        });
      }
      keep_lively(charts, std::move(chart));
    }
    return charts;
  }

  std::vector<Chart> machine() const {
    std::vector<Chart> charts;
    Chart power = seen("power", "Power", "W", {Seen::kPower});
    power.caption = "power: mean of the window, all GPUs together.";
    keep_lively(charts, std::move(power));
    Chart activity = seen("activity", "Activity of the GPUs", "% of the time",
                          {Seen::kTensor, Seen::kDram, Seen::kSmActive, Seen::kThrottled});
    activity.caption =
        "Means of the GPUs. Near 100 % DRAM activity the memory is the limit; SMs that are active "
        "without tensor or DRAM activity wait or spin; clock held down: by a cap of power or heat.";
    keep_lively(charts, std::move(activity));
    Chart server = seen("server", "Requests by the server's own count", "requests",
                        {Seen::kRunning, Seen::kWaiting});
    server.caption =
        "running requests: in the server's batch; queued requests: they wait for a place in it.";
    keep_lively(charts, std::move(server));
    Chart occupancy = seen("occupancy", "KV cache", "% in use", {Seen::kKvUsage});
    occupancy.caption =
        "KV cache in use: by the server's own count; near 100 % requests wait for it.";
    keep_lively(charts, std::move(occupancy));
    Chart energy = seen("energy", "Energy per token", "J/token",
                        {Seen::kEnergyPerOutput, Seen::kEnergyPerTotal});
    energy.caption =
        "Energy of the GPUs over the window by output tokens, and by tokens with those of prompts.";
    keep_lively(charts, std::move(energy));
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

  // A flat line says no more than its number in the table. A share below a few percent is flat too.
  static void keep_lively(std::vector<Chart>& charts, Chart chart) {
    constexpr double kLively = 0.1;
    constexpr double kLeastShare = 5;
    double top = 0;
    for (const ChartSeries& series : chart.series) {
      for (const ChartPoint& point : series.points) top = std::max(top, point.y);
    }
    const bool share = chart.y.title.starts_with("%");
    const auto lively = [&](const ChartSeries& series) {
      const auto [least, most] =
          std::minmax_element(series.points.begin(), series.points.end(),
                              [](const ChartPoint& a, const ChartPoint& b) { return a.y < b.y; });
      return most->y - least->y > kLively * top && !(share && most->y - least->y < kLeastShare);
    };
    const auto& all = chart.series;
    if (std::any_of(all.begin(), all.end(), lively)) keep(charts, std::move(chart));
  }

  // Then the gap between chunks is the time of a token, and one picture is enough.
  bool chunks_are_tokens() const {
    constexpr double kAlike = 0.1;
    return std::all_of(report_.levels.begin(), report_.levels.end(), [](const LevelResult& level) {
      const load::LevelMetrics& metrics = load::latencies_of(level);
      const double tpot = metrics[Metric::kTpot].mean;
      return std::abs(metrics[Metric::kItl].mean - tpot) <= kAlike * tpot;
    });
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
    chart.caption += " knee: the first level from which twice the users gain less than 5 %.";
    // Earlier series lie above later ones.
    chart.series.insert(chart.series.begin(), std::move(mark));
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
    chart.caption +=
        " USL fit: the universal scalability law through the levels, what queues and sharing cost.";
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
    if (roof.points.empty()) return;
    chart.caption += " ledger's floor of decode: the most that the machine allows.";
    chart.series.push_back(std::move(roof));
  }

  // Both for the server's owner and for a user: up and to the right is better.
  void add_interactivity(std::vector<Chart>& charts) const {
    Chart chart{.id = "interactivity",
                .title = "Throughput against interactivity",
                .caption =
                    "levels: one point each. Interactivity is 1000 / mean TPOT (ms). Up and "
                    "to the right is better.",
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
    // The noise of a flat TPOT makes no landscape.
    constexpr double kNoise = 1.1;
    const auto [least, most] = std::minmax_element(
        series.points.begin(), series.points.end(),
        [](const ChartPoint& one, const ChartPoint& other) { return one.x < other.x; });
    if (least == series.points.end() || most->x < kNoise * least->x) return;
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

}  // namespace

LoadCharts load_charts(const RunReport& report) {
  if (report.levels.empty()) return {};
  const Charts charts(report);
  return {.throughput = charts.throughputs(),
          .latency = charts.latencies(),
          .machine = charts.machine()};
}

}  // namespace nibble::cli
