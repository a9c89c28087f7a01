// The part of a level that is steady: after the ramp, after the warm-up, before the drain.
//
//   SteadyFinder finder({.target = 64});
//   ... finder.add(record);
//   const Steady steady = finder.find();
//   if (steady.valid()) LevelAccumulator inside({.window = steady.window});
//
// A request is inside when it was sent and ended in the window, a token when it came in it. So
// rates are free of both edges; latencies lean to short requests in a window of few of them, which
// `enough` tells.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "load/metrics_intervals.h"
#include "load/record.h"

namespace nibble::load {

struct SteadyOptions {
  std::optional<double> target;  // requests in flight; nullopt: open loop, the drain begins at the
                                 // last send
  double of_target = 0.95;
  double least_s = 5;  // and four mean requests: shorter windows are flagged
  double least_times_e2e = 4;
};

struct Steady {
  Window window;
  std::string reason;  // why there is no window; empty: there is one
  bool valid() const { return reason.empty(); }
  std::int64_t unstable = 0;   // first requests that warmed the server up, cut by stability
  double ramp_s = 0;           // first send -> start
  double drain_s = 0;          // stop -> last end
  double share_at_target = 0;  // of the window's time with 95 % of the target in flight
  bool enough = false;         // as long as the options ask
  std::string note;            // sentence on a window that is short or often below its target
};

class SteadyFinder {
 public:
  explicit SteadyFinder(SteadyOptions options) : options_(options) {}
  void add(const RequestRecord& record);  // warm-up rows are left out
  Steady find() const;

 private:
  struct Served {
    Nanoseconds sent = 0;
    Nanoseconds end = 0;
    double wait = 0;       // ms to the first token, or to the end when not streamed
    double per_token = 0;  // ms; 0: not known
  };
  std::vector<Served> by_send() const;
  void judge(Steady& steady) const;

  SteadyOptions options_;
  IntervalSweep sweep_;
  std::vector<Served> served_;
  std::optional<Nanoseconds> last_sent_;
};

// How many of the first values belong to a warm-up: MSER-5 (White 1997; Hoad, Robinson, Davies
// 2010), the cut that leaves the mean of the rest with the least standard error, on means of five,
// at most half of them. A cut whose values are no different from the rest (less than a tenth, or
// three standard errors) is no cut.
std::int64_t unstable_prefix(const std::vector<double>& values);

}  // namespace nibble::load
