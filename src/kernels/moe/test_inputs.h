// What the tests of the layer share: random numbers, and what equal bits are.
//
//   Random random(1);
//   const std::vector<float> x = gaussian(random, 4096);
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <span>
#include <vector>

#include "base/stats.h"

namespace nibble {

// Standard normal values times `size` (Box and Muller).
inline std::vector<float> gaussian(Random& random, std::int64_t count, double size = 1) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
    value = static_cast<float>(size * radius * std::cos(2 * std::numbers::pi * random.uniform()));
  }
  return values;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// top_k different experts for every token.
inline std::vector<std::int32_t> random_ids(Random& random, std::int64_t tokens,
                                            std::int64_t experts, std::int64_t top_k) {
  std::vector<std::int32_t> ids;
  for (std::int64_t token = 0; token < tokens; ++token) {
    std::vector<bool> met(static_cast<std::size_t>(experts), false);
    for (std::int64_t choice = 0; choice < top_k; ++choice) {
      std::size_t expert = random.below(static_cast<std::uint64_t>(experts));
      while (met[expert]) expert = (expert + 1) % met.size();
      met[expert] = true;
      ids.push_back(static_cast<std::int32_t>(expert));
    }
  }
  return ids;
}

}  // namespace nibble
