#include <bit>
#include <cmath>

#include "kernels/moe/vector_code.h"

#define NIBBLE_TARGET
#define NIBBLE_INLINE inline

namespace nibble {
namespace {

struct Lanes {
  float value[kLanes];
};

template <class Operation>
Lanes each_lane(Operation operation) {
  Lanes result;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) result.value[lane] = operation(lane);
  return result;
}

Lanes load(const float* from) {
  return each_lane([&](std::int64_t lane) { return from[lane]; });
}
void store(float* to, const Lanes& lanes) {
  for (std::int64_t lane = 0; lane < kLanes; ++lane) to[lane] = lanes.value[lane];
}
Lanes broadcast(float value) {
  return each_lane([&](std::int64_t) { return value; });
}
Lanes add(const Lanes& a, const Lanes& b) {
  return each_lane([&](std::int64_t lane) { return a.value[lane] + b.value[lane]; });
}
Lanes sub(const Lanes& a, const Lanes& b) {
  return each_lane([&](std::int64_t lane) { return a.value[lane] - b.value[lane]; });
}
Lanes mul(const Lanes& a, const Lanes& b) {
  return each_lane([&](std::int64_t lane) { return a.value[lane] * b.value[lane]; });
}
Lanes div(const Lanes& a, const Lanes& b) {
  return each_lane([&](std::int64_t lane) { return a.value[lane] / b.value[lane]; });
}
Lanes fma(const Lanes& a, const Lanes& b, const Lanes& c) {
  return each_lane(
      [&](std::int64_t lane) { return std::fma(a.value[lane], b.value[lane], c.value[lane]); });
}
Lanes fnma(const Lanes& a, const Lanes& b, const Lanes& c) {
  return each_lane(
      [&](std::int64_t lane) { return std::fma(-a.value[lane], b.value[lane], c.value[lane]); });
}
Lanes lesser(const Lanes& a, const Lanes& b) {
  return each_lane([&](std::int64_t lane) {
    return a.value[lane] < b.value[lane] ? a.value[lane] : b.value[lane];
  });
}
Lanes greater(const Lanes& a, const Lanes& b) {
  return each_lane([&](std::int64_t lane) {
    return a.value[lane] > b.value[lane] ? a.value[lane] : b.value[lane];
  });
}

// 2^n for -126 <= n <= 127. Unsigned, because n of a NaN is anything.
float power_of_two(std::uint32_t n) {
  return std::bit_cast<float>((n + 127U) << 23);
}

// value * 2^n, n being what `shifted` has above 1.5 * 2^23. In two steps: 2^n itself may be out of
// fp32's range where the product is in it, and the other way round.
Lanes times_power_of_two(const Lanes& value, const Lanes& shifted) {
  return each_lane([&](std::int64_t lane) {
    const std::uint32_t n = std::bit_cast<std::uint32_t>(shifted.value[lane]) - 0x4B400000U;
    const auto half = static_cast<std::uint32_t>(std::bit_cast<std::int32_t>(n) >> 1);
    return value.value[lane] * power_of_two(half) * power_of_two(n - half);
  });
}

#include "kernels/moe/vector_code.inc"

}  // namespace

const VectorCode kPortableCode = kCode;

}  // namespace nibble
