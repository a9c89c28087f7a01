// Rows of tokens -> slots, in the order of w4a16_layout.h: permuted within each 64 columns, and
// swizzled. Columns beyond the last are zero; padding slots are not written.
#pragma once

#include "kernels/device/types.cuh"
#include "kernels/moe/device/moe_shape.h"
#include "kernels/ptx/griddepcontrol.cuh"

namespace nibble {

// Of a chunk's row, 16-byte unit u holds the pairs of columns 2 u + 16 t, t = 0..3: what
// permuted_column() says.
NIBBLE_HOST_DEVICE constexpr int unit_column(int unit, int t) {
  return 2 * unit + 16 * t;
}

// A thread makes one unit of one token, once read, for all of the token's choices: eight threads
// write the 128 bytes of a chunk's row.
template <MoeShape kShape>
NIBBLE_DEVICE void gather(const GatherRows& params) {
  constexpr int64_t kChunks = chunks_of(kShape.hidden);
  constexpr int64_t kUnits = 8 * kChunks;
  constexpr int64_t kPairs = kShape.hidden / 2;
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  const int64_t place = int64_t{blockIdx.x} * kRowThreads + threadIdx.x;
  const int64_t token = place / kUnits;
  if (token >= params.tokens) return;
  const int64_t chunk = place % kUnits / 8;
  const int unit = static_cast<int>(place % 8);

  const uint32_t* const row = static_cast<const uint32_t*>(params.x) + token * kPairs;
  Bits128 value;
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    const int64_t pair = chunk * (kChunk / 2) + unit_column(unit, t) / 2;
    value.word[t] = pair < kPairs ? row[pair] : 0;
  }

  const int* const slots = params.choice_slot + token * kShape.top_k;
  char* const tiles = static_cast<char*>(params.slots);
  constexpr int kInFlight = kShape.top_k < 8 ? kShape.top_k : 8;
  for (int first = 0; first < kShape.top_k; first += kInFlight) {
    int some[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      some[i] = first + i < kShape.top_k ? slots[first + i] : -1;
    }
#pragma unroll
    for (const int slot : some) {
      if (slot < 0) continue;
      const int line = slot % kSlotGroup;
      const int64_t at = (slot / kSlotGroup * kChunks + chunk) * kSlotTileBytes +
                         line * kSlotRowBytes + (unit ^ line) * 16;
      *reinterpret_cast<Bits128*>(tiles + at) = value;
    }
  }
}

}  // namespace nibble
