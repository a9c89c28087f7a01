#include "load/level_report.h"

#include <algorithm>

#include "load/row_file.h"

namespace nibble::load {
namespace {

// Rates by batch means want tokens in the order of time; rows come in the order of their ends.
// Slices of ten milliseconds, longer in a window of hours, put them in order with at most 8 MB.
class RateInOrder {
 public:
  explicit RateInOrder(Window window) : window_(window) {
    const Nanoseconds length = std::max<Nanoseconds>(0, window.stop - window.start);
    third_ = length / 3;
    slice_ = std::max(kShortestSlice, length / kMostSlices + 1);
    slices_.assign(static_cast<std::size_t>(length / slice_) + 1, 0);
  }

  void add(const RequestRecord& record) {
    const bool real = record.outcome == Outcome::kOk || record.outcome == Outcome::kCancelled;
    if (record.warmup || record.sent == 0 || !real) return;
    const RequestMetrics request = derive(record);
    for (std::size_t event = 0; event < record.events.size(); ++event) {
      put(record.events[event].at, tokens_of(record, request, event));
    }
    if (record.events.empty()) put(record.end, static_cast<double>(request.output.tokens));
  }

  void tell_drift(LevelReport& report) const {
    if (window_.length_s() < kShortestDrift_s) {
      report.rate_drift_reason = "the window is shorter than 3 s";
    } else if (first_third_ <= 0) {
      report.rate_drift_reason = "no tokens came in the first third of the window";
    } else {
      report.rate_drift = last_third_ / first_third_ - 1;
    }
  }

  StopState state(const StopOptions& options) const {
    StopRule rule(options, window_.start);
    Nanoseconds at = window_.start;
    for (const double tokens : slices_) {
      rule.add(at, tokens);
      at += slice_;
    }
    rule.advance(window_.stop);
    return rule.state();
  }

 private:
  static constexpr Nanoseconds kShortestSlice = 10'000'000;
  static constexpr Nanoseconds kMostSlices = 1'000'000;
  static constexpr double kShortestDrift_s = 3;

  void put(Nanoseconds at, double tokens) {
    if (!window_.holds(at)) return;
    slices_[static_cast<std::size_t>((at - window_.start) / slice_)] += tokens;
    if (at <= window_.start + third_) first_third_ += tokens;
    if (at > window_.stop - third_) last_third_ += tokens;
  }

  Window window_;
  Nanoseconds slice_ = kShortestSlice;
  std::vector<double> slices_;
  Nanoseconds third_ = 0;
  double first_third_ = 0;  // tokens
  double last_third_ = 0;
};

}  // namespace

Result<LevelReport> measure_level(const std::filesystem::path& rows, const LevelPlan& plan,
                                  const MetricsOptions& options, const StopOptions& stop) {
  LevelReport report{.plan = plan};
  SteadyFinder finder(
      {.target = plan.closed_loop() ? plan.max_concurrency : std::optional<double>()});
  IntervalSweep sweep;
  const auto first_pass = for_each_row(rows, [&](const RequestRecord& record) -> Result<> {
    if (record.level != plan.level) return {};
    finder.add(record);
    if (!record.warmup && record.sent != 0) sweep.add(record.sent, record.end);
    return {};
  });
  if (!first_pass.ok()) return first_pass.error();
  report.rows_note = first_pass->note();
  report.steady = finder.find();

  MetricsOptions whole = options;
  whole.window.reset();
  MetricsOptions window = options;
  window.window = report.steady.window;
  LevelAccumulator all(whole);
  LevelAccumulator inside(window);
  RateInOrder rate(report.steady.valid() ? report.steady.window : sweep.span());
  const auto second_pass = for_each_row(rows, [&](const RequestRecord& record) -> Result<> {
    if (record.level != plan.level) return {};
    all.add(record);
    if (report.steady.valid()) inside.add(record);
    rate.add(record);
    return {};
  });
  if (!second_pass.ok()) return second_pass.error();
  report.all = all.finish();
  if (report.steady.valid()) report.inside = inside.finish();
  report.rate = rate.state(stop);
  rate.tell_drift(report);
  return report;
}

Result<Json> detailed(const std::filesystem::path& rows, std::int32_t level) {
  std::vector<Json::Array> lists(7);
  Nanoseconds first = 0;
  const auto read = for_each_row(rows, [&](const RequestRecord& record) -> Result<> {
    if (record.level == level && !record.warmup && record.sent != 0) {
      first = first == 0 ? record.sent : std::min(first, record.sent);
    }
    return {};
  });
  if (!read.ok()) return read.error();
  const auto in_seconds = [](std::optional<double> ms) { return ms ? Json(*ms * 1e-3) : Json(); };
  const auto again = for_each_row(rows, [&](const RequestRecord& record) -> Result<> {
    if (record.level != level || record.warmup || record.sent == 0) return {};
    const RequestMetrics request = derive(record);
    const bool ok = record.outcome == Outcome::kOk;
    Json::Array gaps;
    for_each_gap(record,
                 [&](Nanoseconds from, Nanoseconds to) { gaps.emplace_back(seconds(to - from)); });
    lists[0].emplace_back(record.prompt_tokens.value_or(record.prompt_tokens_asked));
    lists[1].emplace_back(ok ? request.output.tokens : std::int64_t{0});
    lists[2].push_back(in_seconds(request[Metric::kTtft]));
    lists[3].emplace_back(std::move(gaps));
    lists[4].push_back(in_seconds(request[Metric::kE2el]));
    lists[5].emplace_back(seconds(record.sent - first));
    lists[6].emplace_back(ok ? std::string()
                             : fmt::format("{}: {}", to_string(record.outcome), record.message));
    return {};
  });
  if (!again.ok()) return again.error();
  constexpr const char* kNames[] = {"input_lens", "output_lens", "ttfts", "itls",
                                    "latencies",  "start_times", "errors"};
  Json json = Json::object();
  for (std::size_t list = 0; list < lists.size(); ++list) {
    json.set(kNames[list], Json::array(std::move(lists[list])));
  }
  return json;
}

}  // namespace nibble::load
