#include "kernels/gemm/cases.h"

#include <array>

namespace nibble {

std::span<const GemmCase> gemm_cases() {
  static constexpr std::array kCases = {
      GemmCase{.name = "one weight pair", .n = 1, .k = 2},
      GemmCase{.name = "one block", .n = 16, .k = 16},
      GemmCase{.name = "one group", .n = 16, .k = 32, .tokens = 2},
      GemmCase{.name = "no tokens", .n = 32, .k = 64, .tokens = 0},
      GemmCase{.name = "ragged", .n = 37, .k = 90, .tokens = 3},
      GemmCase{.name = "k not a multiple of the group", .n = 64, .k = 48, .tokens = 5},
      GemmCase{.name = "k beyond a chunk", .n = 20, .k = 272, .tokens = 4},
      GemmCase{.name = "the most streams in passing", .n = 100, .k = 320, .tokens = 8},
      GemmCase{.name = "more tokens than a pass", .n = 16, .k = 64, .tokens = 131},
      GemmCase{.name = "two experts", .experts = 2, .n = 24, .k = 96, .tokens = 7},
      GemmCase{.name = "experts left empty", .experts = 9, .n = 16, .k = 64, .tokens = 2},
      GemmCase{.name = "all tokens on one expert",
               .experts = 4,
               .n = 80,
               .k = 64,
               .tokens = 9,
               .top_k = 0},
      GemmCase{.name = "512 experts", .experts = 512, .n = 16, .k = 32, .tokens = 40, .top_k = 8},
      GemmCase{.name = "every expert for every token",
               .experts = 5,
               .n = 33,
               .k = 64,
               .tokens = 6,
               .top_k = 5},
      GemmCase{.name = "wide", .n = 300, .k = 512, .tokens = 9},
  };
  return kCases;
}

}  // namespace nibble
