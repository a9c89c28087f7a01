#include "load/steady.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "base/stats.h"
#include "base/units.h"
#include "load/metrics_request.h"

namespace nibble::load {
namespace {

constexpr std::size_t kBatch = 5;
constexpr std::size_t kLeastBatches = 4;
constexpr double kDifferent = 0.1;
constexpr double kErrors = 3;
constexpr double kOftenBelow = 0.9;  // share of the window at the target

}  // namespace

std::int64_t unstable_prefix(const std::vector<double>& values) {
  std::vector<double> batches;
  for (std::size_t at = 0; at + kBatch <= values.size(); at += kBatch) {
    batches.push_back(mean(std::span(values).subspan(at, kBatch)));
  }
  const std::size_t count = batches.size();
  if (count < kLeastBatches) return 0;
  // From the end, so that each cut costs one step: running mean and squares of what remains.
  double centre = 0;
  double squares = 0;
  double best = 0;
  double rest_mean = 0;
  double rest_error = 0;
  std::size_t cut = count;
  for (std::size_t left = 1; left <= count; ++left) {
    const double delta = batches[count - left] - centre;
    const auto n = static_cast<double>(left);
    centre += delta / n;
    squares += delta * (batches[count - left] - centre);
    if (left < (count + 1) / 2) continue;
    const double statistic = squares / (n * n);
    // Equal statistics (a constant series) keep more values.
    if (cut == count || statistic <= best) {
      best = statistic;
      cut = count - left;
      rest_mean = centre;
      rest_error = std::sqrt(squares / std::max(1.0, n - 1) / n);
    }
  }
  if (cut == 0) return 0;
  const double first = mean(std::span(batches).subspan(0, cut));
  const double difference = std::abs(first - rest_mean);
  const bool real = difference > kDifferent * rest_mean && difference > kErrors * rest_error;
  return real ? static_cast<std::int64_t>(cut * kBatch) : 0;
}

void SteadyFinder::add(const RequestRecord& record) {
  if (record.warmup || record.sent == 0) return;
  sweep_.add(record.sent, record.end);
  last_sent_ = last_sent_ ? std::max(*last_sent_, record.sent) : record.sent;
  if (record.outcome != Outcome::kOk) return;
  const RequestMetrics request = derive(record);
  const auto wait = request[Metric::kTtft];
  served_.push_back({.sent = record.sent,
                     .end = record.end,
                     .wait = wait ? *wait : milliseconds(record.end - record.sent),
                     .per_token = request[Metric::kTpot].value_or(0)});
}

std::vector<SteadyFinder::Served> SteadyFinder::by_send() const {
  std::vector<Served> sorted = served_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Served& a, const Served& b) { return a.sent < b.sent; });
  return sorted;
}

Steady SteadyFinder::find() const {
  Steady steady;
  if (sweep_.empty() || served_.empty()) {
    steady.reason = "no request succeeded";
    return steady;
  }
  const Window all = sweep_.span();
  if (options_.target) {
    const auto level = static_cast<std::int64_t>(
        std::max(1.0, std::ceil(options_.of_target * *options_.target - 1e-9)));
    const auto reached = sweep_.reaches(level);
    if (!reached) {
      steady.reason = fmt::format("{} requests were never in flight together", level);
      return steady;
    }
    steady.window = *reached;
  } else {
    steady.window = {all.start, *last_sent_};
  }
  const std::vector<Served> served = by_send();
  std::vector<double> waits;
  std::vector<double> per_token;
  for (const Served& one : served) {
    waits.push_back(one.wait);
    per_token.push_back(one.per_token);
  }
  steady.unstable = std::max(unstable_prefix(waits), unstable_prefix(per_token));
  if (steady.unstable > 0) {
    // Not before the last of them is gone: they slow others down, and their tokens are no measure.
    for (const Served& one : std::span(served).first(static_cast<std::size_t>(steady.unstable))) {
      steady.window.start = std::max(steady.window.start, one.end);
    }
  }
  if (steady.window.stop <= steady.window.start) {
    steady.reason = "the level ended before it was steady";
    return steady;
  }
  steady.ramp_s = seconds(steady.window.start - all.start);
  steady.drain_s = seconds(all.stop - steady.window.stop);
  judge(steady);
  return steady;
}

void SteadyFinder::judge(Steady& steady) const {
  double total_s = 0;
  std::int64_t inside = 0;
  for (const Served& one : served_) {
    total_s += seconds(one.end - one.sent);
    if (one.sent >= steady.window.start && one.end <= steady.window.stop) ++inside;
  }
  if (inside == 0) {
    steady.reason = "no request began and ended while it was steady; make the level longer";
    return;
  }
  const double mean_s = total_s / static_cast<double>(served_.size());
  const double least = std::max(options_.least_s, options_.least_times_e2e * mean_s);
  steady.enough = steady.window.length_s() >= least;
  if (!steady.enough) {
    steady.note =
        fmt::format("steady for {}, less than the {} that it takes to trust latencies",
                    format_quantity(steady.window.length_s(), "s"), format_quantity(least, "s"));
  }
  if (!options_.target) {
    steady.share_at_target = 1;
    return;
  }
  const auto level = static_cast<std::int64_t>(
      std::max(1.0, std::ceil(options_.of_target * *options_.target - 1e-9)));
  steady.share_at_target = sweep_.count(steady.window, level).share_at_least;
  if (steady.share_at_target < kOftenBelow) {
    steady.note +=
        fmt::format("{}{} or more requests were in flight for {} of the window only",
                    steady.note.empty() ? "" : "; ", level, format_percent(steady.share_at_target));
  }
}

}  // namespace nibble::load
