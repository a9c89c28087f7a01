// How many blocks of a kernel an SM holds at once, and what bounds them: the arithmetic of
// cuda_occupancy.h (CUDA 13.0) for the architectures that chip.h knows.
//
//   const BlocksPerSm held = blocks_per_sm(chip, {.threads = 288, .shared_bytes = 50176,
//                                                 .registers = 96});
//   held.blocks();    // 2
//   held.bound();     // SmBound::kShared
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/device/block_limits.h"
#include "tactics/chip.h"

namespace nibble {

struct BlockNeed {
  int threads = 0;
  std::int64_t shared_bytes = 0;  // without what the driver reserves
  std::optional<int> registers;   // of a thread; unknown where nothing was compiled
};

enum class SmBound { kShared, kRegisters, kThreads, kBlocks };
std::string_view to_string(SmBound bound);  // "shared", "registers", "threads", "blocks"

struct BlocksPerSm {
  int shared = 0;
  std::optional<int> registers;
  int threads = 0;
  int slots = 0;  // blocks that an SM can have at all

  int blocks() const;
  SmBound bound() const;  // the smallest of them; of equals the first in the order above
};

// A warp gets its registers in units of 256, from one of four parts of the SM's; a block of more
// than an SM's registers, with its warps rounded up to four, is refused by the hardware.
std::int64_t registers_of_warp(int registers);
BlocksPerSm blocks_per_sm(const Chip& chip, const BlockNeed& need);

}  // namespace nibble
