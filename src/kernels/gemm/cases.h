// The shapes that every grouped product must get right: data for tests, and for the check that
// stands before each timing.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace nibble {

struct GemmCase {
  std::string_view name;
  std::int64_t experts = 1;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t tokens = 1;  // rows of the activations
  std::int64_t top_k = 1;   // experts a token meets; 0: all tokens meet expert 0
};

std::span<const GemmCase> gemm_cases();

}  // namespace nibble
