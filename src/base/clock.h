// The one clock of everything that is joined by time: client stamps, telemetry, server metrics.
//
//   const Nanoseconds start = monotonic_now();
//   ...
//   const double elapsed_ms = milliseconds(monotonic_now() - start);
#pragma once

#include <chrono>
#include <cstdint>

namespace nibble {

// Nanoseconds of CLOCK_MONOTONIC, which std::chrono::steady_clock reads on Linux: comparable
// between the threads and processes of one host, never between hosts.
using Nanoseconds = std::int64_t;

inline Nanoseconds monotonic_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

constexpr double milliseconds(Nanoseconds span) {
  return static_cast<double>(span) / 1e6;  // the nearest: 0.3 of 300 us, not 0.30000000000000004
}
constexpr double seconds(Nanoseconds span) {
  return static_cast<double>(span) / 1e9;
}
constexpr Nanoseconds from_milliseconds(double ms) {
  return static_cast<Nanoseconds>(ms * 1e6);
}

}  // namespace nibble
