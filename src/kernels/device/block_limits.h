// What an architecture gives a block of threads: what a tactic must fit into.
#pragma once

#include <cstdint>

#include "cuda/device.h"

namespace nibble {

// The driver takes this much shared memory of every block, in bytes.
inline constexpr int kReservedShared = 1024;

// And gives it out in units of this many.
inline constexpr int kSharedUnit = 128;
// What a block that asks for `bytes` takes of an SM.
constexpr std::int64_t shared_of_block(std::int64_t bytes) {
  return (bytes + kReservedShared + kSharedUnit - 1) / kSharedUnit * kSharedUnit;
}

struct BlockLimits {
  int major = 9;
  int minor = 0;
  int shared_per_block = 232448;  // bytes
  int shared_per_sm = 233472;     // bytes; every block takes kReservedShared more than it asks for
  int registers_per_sm = 65536;
};

// RTX PRO 6000, RTX 5090 and GB10: 99 KiB a block of 100 KiB an SM.
inline constexpr BlockLimits kSm120Limits{
    .major = 12, .minor = 0, .shared_per_block = 101376, .shared_per_sm = 102400};

// What a block asks for so that an SM holds `blocks` of them and not one more: `bytes`, or so many
// that the next one has no room. A kernel that begins while the one before it still holds some SMs
// would otherwise find two of its blocks on the first that are free, which then take twice as long
// as all others.
int shared_for_blocks(int bytes, int blocks, const BlockLimits& limits);

BlockLimits limits_of(const cuda::DeviceInfo& info);
// The same memory, and the instructions of `arch`: what code for that has on this GPU.
BlockLimits limits_of(const cuda::DeviceInfo& info, const cuda::Arch& arch);

}  // namespace nibble
