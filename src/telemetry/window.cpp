#include "telemetry/window.h"

#include <algorithm>

#include "base/stats.h"

namespace nibble::telemetry {

std::optional<Aggregate> aggregate(std::span<const Point> points) {
  if (points.empty()) return std::nullopt;
  std::vector<double> values;
  values.reserve(points.size());
  for (const Point& point : points) values.push_back(point.value);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return Aggregate{
      .n = values.size(), .mean = mean(values), .p50 = median(values), .min = *low, .max = *high};
}

std::optional<double> value_at(std::span<const Point> points, Nanoseconds at,
                               Nanoseconds longest_gap) {
  const auto after =
      std::lower_bound(points.begin(), points.end(), at,
                       [](const Point& point, Nanoseconds time) { return point.at < time; });
  if (after == points.end()) return std::nullopt;
  if (after->at == at) return after->value;
  if (after == points.begin()) return std::nullopt;
  const Point& before = *(after - 1);
  const Nanoseconds gap = after->at - before.at;
  if (longest_gap > 0 && gap > longest_gap) return std::nullopt;
  const double share = static_cast<double>(at - before.at) / static_cast<double>(gap);
  return before.value + share * (after->value - before.value);
}

Result<double> counter_difference(std::span<const Point> points, const Window& window) {
  if (window.end <= window.begin) return run_error("the window has no length");
  for (std::size_t at = 1; at < points.size(); ++at) {
    if (points[at].value < points[at - 1].value) {
      return run_error("the counter went back within the window: it was restarted");
    }
  }
  const std::optional<double> first = value_at(points, window.begin);
  const std::optional<double> last = value_at(points, window.end);
  if (!first) return run_error("no sample from before the window");
  if (!last) return run_error("no sample from after the window");
  return *last - *first;
}

SignalWindow window_of(const SampleStore& store, SignalId id, const Window& window) {
  const SignalState state = store.state(id);
  SignalWindow result{
      .name = state.signal.name, .unit = state.signal.unit, .kind = state.signal.kind};
  if (state.signal.kind == SignalKind::kCounter) {
    const Result<double> difference =
        counter_difference(store.points(id, window.begin, window.end, true), window);
    if (difference) {
      result.difference = *difference;
      result.rate = *difference / window.length_s();
    } else {
      result.reason = difference.error().message;
    }
  } else {
    result.aggregate = aggregate(store.points(id, window.begin, window.end));
    if (!result.aggregate) result.reason = "no sample in the window";
  }
  const bool empty = !result.aggregate && !result.difference;
  if (empty && !state.signal.available) result.reason = state.signal.reason;
  return result;
}

std::vector<SignalWindow> window_of(const SampleStore& store, const Window& window) {
  std::vector<SignalWindow> all;
  const std::size_t count = store.size();
  for (std::size_t id = 0; id < count; ++id) {
    all.push_back(window_of(store, static_cast<SignalId>(id), window));
  }
  return all;
}

Json window_json(const SignalWindow& signal) {
  Json json = Json::object().set("name", signal.name).set("unit", signal.unit);
  if (signal.aggregate) {
    json.set("n", static_cast<std::int64_t>(signal.aggregate->n))
        .set("mean", signal.aggregate->mean)
        .set("p50", signal.aggregate->p50)
        .set("min", signal.aggregate->min)
        .set("max", signal.aggregate->max);
  } else if (signal.difference) {
    json.set("difference", *signal.difference).set("per_s", signal.rate);
  } else {
    json.set("reason", signal.reason);
  }
  return json;
}

}  // namespace nibble::telemetry
