// The inner loops of attention, once for every instruction set, with the same operations in the
// same order.
//
//   attention_code(isa).bf16[heads - 1](part);      // up to four heads that share keys
//   attention_code(isa).merge(part.state, heads, padded, row);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/lanes/lanes.h"
#include "machine/isa.h"

namespace nibble {

inline constexpr int kPartTiles = 16;  // of 16 positions
inline constexpr int kPartHeads = 4;   // two registers each on AVX2: 8 sums of 16

// Softmax so far: weighted / sum is the result, in units of exp(most).
struct AttentionState {
  float* most = nullptr;      // [heads]
  float* sum = nullptr;       // [heads]
  float* weighted = nullptr;  // [heads, padded]
};

struct AttentionPart {
  const std::byte* tiles[kPartTiles] = {};  // keys of 16 positions, then their values
  int positions[kPartTiles] = {};           // of each tile: 1 .. 16
  int count = 0;                            // tiles
  const float* queries = nullptr;           // [heads, head_dim]
  std::int64_t head_dim = 0;
  std::int64_t padded = 0;  // head_dim in whole registers
  float scale = 0;
  AttentionState state;  // written
};

struct AttentionCode {
  using Attend = void (*)(const AttentionPart&);
  std::array<Attend, kPartHeads> fp32 = {};  // entry h - 1 takes h heads
  std::array<Attend, kPartHeads> bf16 = {};
  // `into` comes first in the order of positions.
  void (*merge)(const AttentionState& part, int heads, std::int64_t padded,
                const AttentionState& into) = nullptr;
};

const AttentionCode& attention_code(Isa isa);

extern const AttentionCode kPortableAttention;
#if defined(__x86_64__)
extern const AttentionCode kAvx2Attention;
extern const AttentionCode kAvx512Attention;
#endif

}  // namespace nibble
