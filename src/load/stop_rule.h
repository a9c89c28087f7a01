// When a level has run long enough: the 95 % interval of its token rate, by batch means, online.
//
//   StopRule rule({}, monotonic_now());
//   rule.add(event_time, tokens);                 // a few nanoseconds; memory never grows
//   if (rule.state().converged) stop_the_level();
//
// Time is cut into batches of equal length; their means are nearly independent once a batch is
// longer than what ties neighbours together (a step, a wave of prefills). When there are twice as
// many as needed, neighbours are joined, so that batches grow with the run. One thread, or a lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/stats.h"

namespace nibble::load {

struct StopOptions {
  double half_width = 0.02;  // of the interval, over the mean
  double confidence = 0.95;
  std::size_t batches = 20;       // at least; kept below twice as many
  double first_batch_s = 0.1;     // so that no level ends before 2 s
  double least_s = 0;             // not before this much time was seen
  double most_correlation = 0.4;  // of neighbouring batches: above it they are too short
};

struct StopState {
  std::size_t batches = 0;
  double batch_s = 0;
  double rate = 0;                    // tokens/s over the batches
  std::optional<Interval> interval;   // of the rate; nullopt below two batches
  std::optional<double> half_width;   // relative
  std::optional<double> correlation;  // of neighbouring batches
  bool converged = false;
  std::string reason;  // why not yet
};

class StopRule {
 public:
  StopRule(StopOptions options, Nanoseconds start);

  // Times may come a little out of order: an old one counts in the batch that is open.
  void add(Nanoseconds at, double tokens);
  // Time has passed without a token: closes the batches that are over. Call it before state().
  void advance(Nanoseconds now);
  StopState state() const;
  // Forgets everything before `start`: when the ramp or the warm-up ends.
  void restart(Nanoseconds start);

 private:
  void close_batch();

  StopOptions options_;
  Nanoseconds length_ = 0;
  Nanoseconds open_until_ = 0;
  double open_tokens_ = 0;
  std::vector<double> closed_;  // tokens of each
};

}  // namespace nibble::load
