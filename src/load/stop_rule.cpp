#include "load/stop_rule.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "base/units.h"

namespace nibble::load {
namespace {

// Lag-1 correlation about the mean.
double correlation_of(const std::vector<double>& values) {
  const double centre = mean(values);
  double products = 0;
  double squares = 0;
  for (std::size_t index = 0; index < values.size(); ++index) {
    const double here = values[index] - centre;
    squares += here * here;
    if (index > 0) products += here * (values[index - 1] - centre);
  }
  return squares > 0 ? products / squares : 0;
}

}  // namespace

StopRule::StopRule(StopOptions options, Nanoseconds start) : options_(options) {
  options_.batches = std::max<std::size_t>(2, options_.batches);
  closed_.reserve(2 * options_.batches);
  restart(start);
}

void StopRule::restart(Nanoseconds start) {
  length_ = std::max<Nanoseconds>(1, from_milliseconds(options_.first_batch_s * 1e3));
  open_until_ = start + length_;
  open_tokens_ = 0;
  closed_.clear();
}

void StopRule::close_batch() {
  closed_.push_back(open_tokens_);
  open_tokens_ = 0;
  if (closed_.size() == 2 * options_.batches) {
    for (std::size_t pair = 0; pair < options_.batches; ++pair) {
      closed_[pair] = closed_[2 * pair] + closed_[2 * pair + 1];
    }
    closed_.resize(options_.batches);
    length_ *= 2;
  }
  open_until_ += length_;
}

void StopRule::advance(Nanoseconds now) {
  while (now >= open_until_) close_batch();
}

void StopRule::add(Nanoseconds at, double tokens) {
  advance(at);
  open_tokens_ += tokens;
}

StopState StopRule::state() const {
  StopState state{.batches = closed_.size(), .batch_s = seconds(length_)};
  if (closed_.size() < 2) {
    state.reason = "fewer than two batches";
    return state;
  }
  const auto n = static_cast<double>(closed_.size());
  const double centre = mean(closed_);
  state.rate = centre / state.batch_s;
  const double error = std::sqrt(sample_variance(closed_) / n) / state.batch_s;
  const double half = error * student_t_quantile(1 - (1 - options_.confidence) / 2, n - 1);
  state.interval = Interval{std::max(0.0, state.rate - half), state.rate + half};
  state.correlation = correlation_of(closed_);
  if (state.rate > 0) state.half_width = half / state.rate;
  if (closed_.size() < options_.batches) {
    state.reason = fmt::format("{} of {} batches", closed_.size(), options_.batches);
  } else if (n * state.batch_s < options_.least_s) {
    state.reason = fmt::format("shorter than {}", format_quantity(options_.least_s, "s"));
  } else if (!state.half_width) {
    state.reason = "no token came";
  } else if (*state.half_width > options_.half_width) {
    state.reason = fmt::format("the rate is known to {} only", format_percent(*state.half_width));
  } else if (*state.correlation > options_.most_correlation) {
    state.reason = "neighbouring batches are alike: the rate drifts or batches are too short";
  }
  state.converged = state.reason.empty();
  return state;
}

}  // namespace nibble::load
