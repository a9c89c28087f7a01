// How many floats the inner loops take at a time, on every instruction set: sums over lanes then
// have the same order, and results the same bits (lanes_portable.inc).
//
//   std::vector<float> row(rounded_to_lanes(head_dim));
#pragma once

#include <cstdint>

namespace nibble {

inline constexpr std::int64_t kLanes = 16;

constexpr std::int64_t rounded_to_lanes(std::int64_t count) {
  return (count + kLanes - 1) / kLanes * kLanes;
}

}  // namespace nibble
