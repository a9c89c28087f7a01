// What an architecture gives a block of threads: what a tactic must fit into.
#pragma once

#include "cuda/device.h"

namespace nibble {

// The driver takes this much shared memory of every block, in bytes.
inline constexpr int kReservedShared = 1024;

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

BlockLimits limits_of(const cuda::DeviceInfo& info);
// The same memory, and the instructions of `arch`: what code for that has on this GPU.
BlockLimits limits_of(const cuda::DeviceInfo& info, const cuda::Arch& arch);

}  // namespace nibble
