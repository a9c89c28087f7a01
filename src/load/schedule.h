// When each request of a level is due: all from a seed, none depending on how the server does.
//
//   NIBBLE_ASSIGN_OR_RETURN(ArrivalTimes times, ArrivalTimes::make({.request_rate = 20,
//                                                                   .requests = 1000, .seed = 7}));
//   while (const std::optional<Nanoseconds> due = times.next()) send_at(start + *due);
//
// A closed loop has no arrivals: its users start at stagger() and go on when they are answered.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/stats.h"

namespace nibble::load {

inline constexpr double kMostScheduleSeconds = 4e9;  // 2^62 ns: later is never

enum class RampStrategy : std::uint8_t { kLinear, kExponential };

// The rate goes from one to the other over the requests of a level (vLLM's --ramp-up-strategy): it
// is a function of a request's index, not of time.
struct RampUp {
  RampStrategy strategy = RampStrategy::kLinear;
  double start_rps = 1;
  double end_rps = 1;
};

struct ScheduleOptions {
  double request_rate = std::numeric_limits<double>::infinity();  // a second; infinite: all at once
  // Shape of the gamma distribution of gaps, as in vLLM: 1 is a Poisson process, less is burstier,
  // more is more even, infinite is a constant rate.
  double burstiness = 1;
  std::optional<RampUp> ramp_up = std::nullopt;  // instead of request_rate
  std::int64_t requests = 0;
  std::uint64_t seed = 0;
};

class ArrivalTimes {
 public:
  // Errors name the option: a rate or burstiness that is not above 0, no requests.
  static Result<ArrivalTimes> make(const ScheduleOptions& options);
  // Recorded times, the first of them becoming 0.
  static ArrivalTimes replay(std::vector<Nanoseconds> times);

  // Since the start of the level, never falling; nullopt behind the last request. A random process
  // begins with a gap, a constant rate and a burst begin at 0. Gaps are not stretched afterwards to
  // meet the mean exactly, as vLLM does: that would be no Poisson process; the rate that was
  // offered is requests / last time.
  std::optional<Nanoseconds> next();
  std::int64_t requests() const { return options_.requests; }

 private:
  ArrivalTimes(const ScheduleOptions& options, std::vector<Nanoseconds> recorded)
      : options_(options), random_(options.seed), recorded_(std::move(recorded)) {}
  double rate_of(std::int64_t index) const;
  double gap_s(std::int64_t index);

  ScheduleOptions options_;
  Random random_;
  std::vector<Nanoseconds> recorded_;
  std::int64_t index_ = 0;
  double now_s_ = 0;
};

// A draw from the gamma distribution of this shape (above 0) and scale 1 (Marsaglia and Tsang
// 2000): the same on every machine, unlike std::gamma_distribution.
double draw_gamma(double shape, Random& random);

// When user `slot` of `slots` starts, so that a closed loop fills evenly over `ramp`.
Nanoseconds stagger(std::int64_t slot, std::int64_t slots, Nanoseconds ramp);

// A trace of arrival times: a line each, either a number of seconds, or a JSON object with
// "timestamp" in milliseconds as Mooncake's traces have it. Blank lines and lines that begin with
// '#' are passed over. Times must not fall. `speed` 2 plays it twice as fast.
Result<std::vector<Nanoseconds>> load_trace(const std::filesystem::path& path, double speed = 1);
Result<std::vector<Nanoseconds>> parse_trace(std::string_view text, std::string_view origin,
                                             double speed = 1);

}  // namespace nibble::load
