#include "load/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace nibble::load {
namespace {

constexpr double kLeastRate = 1e-6;        // a request in twelve days
constexpr double kMostRate = 1e9;          // one a nanosecond
constexpr double kLeastBurstiness = 1e-3;  // below it nearly all requests come in one burst

double draw_normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log1p(-random.uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

Result<> check_rate(std::string_view option, double rate) {
  if (rate >= kLeastRate && rate <= kMostRate) return {};
  return usage_error("{} is {}; give requests a second from {} to {}", option, rate, kLeastRate,
                     kMostRate);
}

Nanoseconds to_nanoseconds(double seconds) {
  return static_cast<Nanoseconds>(std::llround(std::min(seconds, kMostScheduleSeconds) * 1e9));
}

}  // namespace

double draw_gamma(double shape, Random& random) {
  NIBBLE_CHECK(shape > 0);
  if (shape < 1) {
    // If G has shape a + 1 and U is uniform, G U^(1/a) has shape a.
    const double larger = draw_gamma(shape + 1, random);
    return larger * std::pow(1 - random.uniform(), 1 / shape);
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = draw_normal(random);
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    const double u = 1 - random.uniform();
    if (std::log(u) < 0.5 * x * x + d * (1 - v + std::log(v))) return d * v;
  }
}

Result<ArrivalTimes> ArrivalTimes::make(const ScheduleOptions& options) {
  if (options.requests < 1) return usage_error("no requests are asked for; give 1 or more");
  if (!(options.burstiness >= kLeastBurstiness)) {
    return usage_error("burstiness is {}; give a number from {} on", options.burstiness,
                       kLeastBurstiness);
  }
  if (options.ramp_up) {
    NIBBLE_RETURN_IF_ERROR(check_rate("the ramp's start", options.ramp_up->start_rps));
    NIBBLE_RETURN_IF_ERROR(check_rate("the ramp's end", options.ramp_up->end_rps));
  } else if (!(std::isinf(options.request_rate) && options.request_rate > 0)) {
    NIBBLE_RETURN_IF_ERROR(check_rate("the request rate", options.request_rate));
  }
  return ArrivalTimes(options, {});
}

ArrivalTimes ArrivalTimes::replay(std::vector<Nanoseconds> times) {
  const auto requests = static_cast<std::int64_t>(times.size());
  if (!times.empty()) {
    const Nanoseconds first = times.front();
    for (Nanoseconds& time : times) time -= first;
  }
  return ArrivalTimes({.requests = requests}, std::move(times));
}

double ArrivalTimes::rate_of(std::int64_t index) const {
  if (!options_.ramp_up) return options_.request_rate;
  const RampUp& ramp = *options_.ramp_up;
  const auto last = static_cast<double>(std::max<std::int64_t>(options_.requests - 1, 1));
  const double progress = static_cast<double>(index) / last;
  if (ramp.strategy == RampStrategy::kLinear) {
    return ramp.start_rps + (ramp.end_rps - ramp.start_rps) * progress;
  }
  return ramp.start_rps * std::pow(ramp.end_rps / ramp.start_rps, progress);
}

// Before the request of this index. Its mean is 1 / rate whatever the shape.
double ArrivalTimes::gap_s(std::int64_t index) {
  const double rate = rate_of(index);
  if (std::isinf(rate)) return 0;
  if (std::isinf(options_.burstiness)) return index == 0 ? 0 : 1 / rate_of(index - 1);
  if (options_.burstiness == 1) return -std::log1p(-random_.uniform()) / rate;
  return draw_gamma(options_.burstiness, random_) / (rate * options_.burstiness);
}

std::optional<Nanoseconds> ArrivalTimes::next() {
  if (index_ >= options_.requests) return std::nullopt;
  const std::int64_t index = index_++;
  if (!recorded_.empty()) return recorded_[static_cast<std::size_t>(index)];
  const bool even = std::isinf(options_.burstiness) && !options_.ramp_up;
  if (even && std::isfinite(options_.request_rate)) {
    // Not a sum: a million roundings would add up.
    return to_nanoseconds(static_cast<double>(index) / options_.request_rate);
  }
  now_s_ += gap_s(index);
  return to_nanoseconds(now_s_);
}

Nanoseconds stagger(std::int64_t slot, std::int64_t slots, Nanoseconds ramp) {
  NIBBLE_CHECK(slots > 0 && slot >= 0 && slot < slots);
  const double share = static_cast<double>(slot) / static_cast<double>(slots);
  return static_cast<Nanoseconds>(share * static_cast<double>(std::max<Nanoseconds>(ramp, 0)));
}

}  // namespace nibble::load
