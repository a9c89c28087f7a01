// Requests and tokens on the time axis: how many were in flight, exactly, and the best second.
//
//   IntervalSweep sweep;
//   sweep.add(record.sent, record.end);
//   const InFlight flight = sweep.count(window);   // mean and peak, by a sweep over both ends
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/clock.h"

namespace nibble::load {

struct Window {
  Nanoseconds start = 0;
  Nanoseconds stop = 0;
  double length_s() const { return seconds(stop - start); }
  // What happens at the very start belongs to the time before: a window begins and ends with a
  // departure, whose tokens are those of the time that led to it.
  bool holds(Nanoseconds at) const { return at > start && at <= stop; }
};

struct InFlight {
  double mean = 0;  // over the window; 0 for an empty one
  std::int64_t peak = 0;
  double share_at_least = 0;  // of the window's time with `level` or more in flight
};

class IntervalSweep {
 public:
  void add(Nanoseconds start, Nanoseconds stop);
  bool empty() const { return starts_.empty(); }
  // [first start, last stop).
  Window span() const;
  // A request that ends at the nanosecond at which another starts is not beside it.
  InFlight count(const Window& window, std::int64_t level = 1) const;
  // From the first moment with `level` in flight to the last one; nullopt: it was never reached.
  std::optional<Window> reaches(std::int64_t level) const;

 private:
  // Calls each(from, to, in flight) for every stretch of constant number, in order.
  template <class Each>
  void walk(Each&& each) const;
  void sort() const;

  mutable std::vector<Nanoseconds> starts_, stops_;
  mutable bool sorted_ = true;
};

// Output tokens by time, in tenths of a second: the memory is that of the busy tenths.
class TokenRate {
 public:
  TokenRate() = default;
  TokenRate(const TokenRate&) = delete;
  TokenRate& operator=(const TokenRate&) = delete;
  void add(Nanoseconds at, double tokens);
  // Most tokens in any second that starts at a tenth, per second.
  double best_second() const;

 private:
  std::map<std::int64_t, double> tenths_;
  std::int64_t last_tenth_ = 0;
  double* last_ = nullptr;  // tokens of last_tenth_
};

}  // namespace nibble::load
