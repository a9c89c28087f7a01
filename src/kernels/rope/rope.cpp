#include "kernels/rope/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace nibble {
namespace {

// The dimension whose angle turns `rotations` times over the original context.
double dimension_of(const RopeConfig& config, double rotations) {
  return static_cast<double>(config.head_dim) *
         std::log(config.original_context / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(config.theta));
}

// Yarn: 0 where a frequency is kept, 1 where it is divided, a ramp in between.
// transformers, modeling_rope_utils.py, _compute_yarn_parameters.
class YarnRamp {
 public:
  explicit YarnRamp(const RopeConfig& config) {
    low_ = dimension_of(config, config.beta_fast);
    high_ = dimension_of(config, config.beta_slow);
    if (config.truncate) {
      low_ = std::floor(low_);
      high_ = std::ceil(high_);
    }
    low_ = std::max(low_, 0.0);
    high_ = std::min(high_, static_cast<double>(config.head_dim - 1));
    if (high_ == low_) high_ += 0.001;
  }
  double at(double dimension) const {
    return std::clamp((dimension - low_) / (high_ - low_), 0.0, 1.0);
  }

 private:
  double low_ = 0;
  double high_ = 0;
};

Result<> check_config(const RopeConfig& config) {
  constexpr std::int64_t kMostHeadDim = 4096;
  if (config.head_dim < 2 || config.head_dim > kMostHeadDim || config.head_dim % 2 != 0) {
    return input_error(
        "a rotary embedding of {} values a head is not possible; give an even number "
        "of 2 to {}",
        config.head_dim, kMostHeadDim);
  }
  const auto is_factor = [](double value) { return std::isfinite(value) && value >= 1; };
  if (!is_factor(config.theta) || config.theta == 1) {
    return input_error("a rotary embedding with theta {} is not possible; give a number above 1",
                       config.theta);
  }
  if (config.scaling != RopeScaling::kNone && !is_factor(config.factor)) {
    return input_error(
        "a rotary embedding scaled by {} is not possible; give a factor of 1 or more",
        config.factor);
  }
  if (config.scaling != RopeScaling::kYarn) return {};
  const bool betas = config.beta_slow > 0 && config.beta_fast >= config.beta_slow &&
                     std::isfinite(config.beta_fast);
  if (!is_factor(config.original_context) || !betas || !std::isfinite(config.attention_factor) ||
      config.attention_factor < 0) {
    return input_error(
        "yarn with an original context of {}, betas {} and {} and an attention factor of {} is not "
        "possible",
        config.original_context, config.beta_fast, config.beta_slow, config.attention_factor);
  }
  return {};
}

}  // namespace

Result<Rope> Rope::make(const RopeConfig& config) {
  NIBBLE_RETURN_IF_ERROR(check_config(config));
  Rope rope;
  for (std::int64_t at = 0; at < config.head_dim / 2; ++at) {
    const double exponent = -2 * static_cast<double>(at) / static_cast<double>(config.head_dim);
    rope.frequencies_.push_back(std::pow(config.theta, exponent));
  }
  if (config.scaling == RopeScaling::kLinear) {
    for (double& frequency : rope.frequencies_) frequency /= config.factor;
  }
  if (config.scaling == RopeScaling::kYarn) {
    const YarnRamp ramp(config);
    for (std::size_t at = 0; at < rope.frequencies_.size(); ++at) {
      const double divided = ramp.at(static_cast<double>(at));
      rope.frequencies_[at] *= divided / config.factor + (1 - divided);
    }
    const double usual = 0.1 * std::log(config.factor) + 1;
    rope.size_ = config.attention_factor > 0 ? config.attention_factor : usual;
  }
  return rope;
}

void Rope::angles(std::span<const std::int64_t> positions, std::span<float> cosines,
                  std::span<float> sines) const {
  const std::size_t columns = frequencies_.size();
  NIBBLE_CHECK(cosines.size() == positions.size() * columns && sines.size() == cosines.size());
  for (std::size_t row = 0; row < positions.size(); ++row) {
    for (std::size_t at = 0; at < columns; ++at) {
      const double angle = static_cast<double>(positions[row]) * frequencies_[at];
      cosines[row * columns + at] = static_cast<float>(size_ * std::cos(angle));
      sines[row * columns + at] = static_cast<float>(size_ * std::sin(angle));
    }
  }
}

void rotate(const RotateParams& params, ThreadPool& pool) {
  const std::int64_t half = params.head_dim / 2;
  NIBBLE_CHECK(params.head_dim >= 2 && params.head_dim % 2 == 0 && params.heads >= 1);
  NIBBLE_CHECK(params.stride >= params.heads * params.head_dim);
  const std::int64_t rows = static_cast<std::int64_t>(params.x.size()) / params.stride;
  NIBBLE_CHECK(static_cast<std::int64_t>(params.x.size()) == rows * params.stride);
  NIBBLE_CHECK(static_cast<std::int64_t>(params.cosines.size()) == rows * half);
  NIBBLE_CHECK(params.sines.size() == params.cosines.size());
  const auto rotate_row = [&](std::int64_t row) {
    const float* const cosines = params.cosines.data() + row * half;
    const float* const sines = params.sines.data() + row * half;
    for (std::int64_t head = 0; head < params.heads; ++head) {
      float* const first = params.x.data() + row * params.stride + head * params.head_dim;
      float* const second = first + half;
#pragma GCC ivdep
      for (std::int64_t at = 0; at < half; ++at) {
        const float a = first[at];
        const float b = second[at];
        first[at] = a * cosines[at] - b * sines[at];
        second[at] = b * cosines[at] + a * sines[at];
      }
    }
  };
  constexpr double kValueNs = 0.4;  // about what a value takes
  WorkQueue queue(rows);
  pool.run_for(kValueNs * static_cast<double>(rows * params.heads * params.head_dim), [&](int) {
    while (const auto row = queue.next()) rotate_row(*row);
  });
}

}  // namespace nibble
