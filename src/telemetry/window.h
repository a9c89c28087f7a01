// What a signal did in a window of time, for the joined table of a load test.
//
//   const Window window{level.begin, level.end};
//   const std::optional<Aggregate> power = aggregate(store.points(id, window.begin, window.end));
//   const Result<double> tokens = counter_difference(store.points(id, ..., true), window);
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "telemetry/store.h"

namespace nibble::telemetry {

struct Window {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  double length_s() const { return seconds(end - begin); }
};

// Of the samples, each with equal weight: sources sample at a fixed period.
struct Aggregate {
  std::size_t n = 0;
  double mean = 0;
  double p50 = 0;
  double min = 0;
  double max = 0;
};

// nullopt: no samples.
std::optional<Aggregate> aggregate(std::span<const Point> points);

// The value at a time between two points, by a line through them; nullopt outside of the points or
// where the two are further apart than `longest_gap` (0: as far as they like).
std::optional<double> value_at(std::span<const Point> points, Nanoseconds at,
                               Nanoseconds longest_gap = 0);

// What a counter grew by in the window. Needs points on both sides of it (SampleStore::points with
// margin) and refuses a counter that went back: its server was restarted.
Result<double> counter_difference(std::span<const Point> points, const Window& window);

// One signal in one window: an aggregate of a gauge, a difference and rate of a counter, or the
// reason why there is nothing.
struct SignalWindow {
  std::string name;
  std::string unit;
  SignalKind kind = SignalKind::kGauge;
  std::optional<Aggregate> aggregate;  // of a gauge
  std::optional<double> difference;    // of a counter
  std::optional<double> rate;          // of a counter, per second
  std::string reason;                  // when all are missing
};

// All signals of the store, in its order.
std::vector<SignalWindow> window_of(const SampleStore& store, const Window& window);
SignalWindow window_of(const SampleStore& store, SignalId id, const Window& window);
Json window_json(const SignalWindow& signal);

}  // namespace nibble::telemetry
