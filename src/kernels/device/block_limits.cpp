#include "kernels/device/block_limits.h"

#include <algorithm>

namespace nibble {

int shared_for_blocks(int bytes, int blocks, const BlockLimits& limits) {
  // A unit more than the share of one block more.
  const int too_many =
      limits.shared_per_sm / (blocks + 1) / kSharedUnit * kSharedUnit + kSharedUnit;
  return std::min(std::max(bytes, too_many - kReservedShared), limits.shared_per_block);
}

BlockLimits limits_of(const cuda::DeviceInfo& info) {
  return {.major = info.major,
          .minor = info.minor,
          .shared_per_block = info.shared_per_block_optin,
          .shared_per_sm = info.shared_per_sm,
          .registers_per_sm = info.registers_per_sm};
}

BlockLimits limits_of(const cuda::DeviceInfo& info, const cuda::Arch& arch) {
  BlockLimits limits = limits_of(info);
  limits.major = arch.major;
  limits.minor = arch.minor;
  return limits;
}

}  // namespace nibble
