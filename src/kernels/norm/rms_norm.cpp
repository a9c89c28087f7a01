#include "kernels/norm/rms_norm.h"

#include <cmath>

#include "base/check.h"
#include "kernels/lanes/lanes.h"

namespace nibble {
namespace {

float sum_of_squares(const float* x, std::int64_t columns) {
  float lanes[kLanes] = {};
  std::int64_t at = 0;
  for (; at + kLanes <= columns; at += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += x[at + lane] * x[at + lane];
  }
  for (std::int64_t lane = 0; at < columns; ++at, ++lane) lanes[lane] += x[at] * x[at];
  float sum = 0;
  for (const float value : lanes) sum += value;
  return sum;
}

void norm_vector(const float* x, const RmsNormParams& params, float* output) {
  const std::int64_t columns = params.columns;
  const float mean = sum_of_squares(x, columns) / static_cast<float>(columns);
  const float factor = 1 / std::sqrt(mean + params.epsilon);
  const float* const weight = params.weight.data();
  // The output is another vector, or x itself.
#pragma GCC ivdep
  for (std::int64_t at = 0; at < columns; ++at) output[at] = x[at] * factor * weight[at];
}

void norm_row(const RmsNormParams& params, std::int64_t stride, std::int64_t row) {
  float* const x = params.x.data() + row * stride;
  if (!params.add.empty()) {
    const float* const add = params.add.data() + row * params.columns;
    const std::int64_t columns = params.columns;
#pragma GCC ivdep
    for (std::int64_t at = 0; at < columns; ++at) x[at] += add[at];
  }
  for (std::int64_t vector = 0; vector < params.vectors; ++vector) {
    const std::int64_t at = params.begin + vector * params.columns;
    norm_vector(x + at, params, params.output.data() + row * stride + at);
  }
}

}  // namespace

void rms_norm(const RmsNormParams& params, ThreadPool& pool) {
  const std::int64_t width = params.vectors * params.columns;
  const std::int64_t stride = params.stride == 0 ? width : params.stride;
  NIBBLE_CHECK(params.columns >= 1 && params.vectors >= 1 && params.begin >= 0);
  NIBBLE_CHECK(params.begin + width <= stride);
  const std::int64_t rows = static_cast<std::int64_t>(params.x.size()) / stride;
  NIBBLE_CHECK(static_cast<std::int64_t>(params.x.size()) == rows * stride);
  NIBBLE_CHECK(params.output.size() == params.x.size());
  NIBBLE_CHECK(static_cast<std::int64_t>(params.weight.size()) == params.columns);
  NIBBLE_CHECK(params.add.empty() ||
               (params.vectors == 1 && stride == params.columns &&
                static_cast<std::int64_t>(params.add.size()) == rows * params.columns));
  constexpr double kValueNs = 0.3;  // about what a value takes
  WorkQueue queue(rows);
  pool.run_for(kValueNs * static_cast<double>(rows * width), [&](int) {
    while (const auto row = queue.next()) norm_row(params, stride, *row);
  });
}

}  // namespace nibble
