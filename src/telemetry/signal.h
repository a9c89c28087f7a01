// A signal is one number that is sampled over time: what it is, where it comes from, whether it can
// be had, and what it may plausibly be.
//
//   const Signal power{.name = "gpu0.power", .unit = "W", .source = "NVML field 186",
//                      .low = 0, .high = 3000};
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"

namespace nibble::telemetry {

enum class SignalKind : std::uint8_t {
  kGauge,    // a state: power, a clock, requests running
  kCounter,  // only grows: energy, tokens, time spent throttled; windows take its difference
};

struct Signal {
  std::string name;    // "gpu0.power": what it belongs to, a point, what it is
  std::string unit;    // "W", "J", "MHz", "C", "%", "B/s", "s", "" for plain numbers
  std::string source;  // who says so: "NVML field 186"
  SignalKind kind = SignalKind::kGauge;
  // A value outside is an error of its source (a driver's 0xFFFFFFFF, a counter read in the wrong
  // unit): it is dropped and counted, never shown.
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool available = true;
  std::string reason = {};  // why it is not available, or nothing
};

// One value, stamped with monotonic_now() of this host.
struct Point {
  Nanoseconds at = 0;
  double value = 0;
};

using SignalId = std::uint32_t;

// As it stands in a stream of samples (stream.h) and in results.
Json signal_json(const Signal& signal);
// Tolerates fields that it does not know; refuses what no signal can be.
Result<Signal> parse_signal(const Json& json, const std::string& where);

// "gpu0" and "power" of "gpu0.power"; the first is empty where the name has no point.
std::string_view owner_of(std::string_view signal_name);
std::string_view quantity_of(std::string_view signal_name);

}  // namespace nibble::telemetry
