// What tactics must fit into: an architecture, by itself or as a machine of the catalog has it.
//
//   NIBBLE_ASSIGN_OR_RETURN(const MachineSpec machine, load_machine("rtx-pro-6000-server"));
//   NIBBLE_ASSIGN_OR_RETURN(const Chip chip, chip_of(machine));
//   chip.arch.name()               // "sm_120a"
//   chip.limits.shared_per_block   // 101,376
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "cuda/arch.h"
#include "kernels/device/block_limits.h"
#include "machine/spec.h"

namespace nibble {

inline constexpr int kMostRegistersOfThread = 255;

struct Chip {
  cuda::Arch arch;      // what is compiled for; never PTX, which has no registers yet
  std::string machine;  // its name in the catalog; "": the architecture alone
  std::string title;    // "NVIDIA RTX PRO 6000 ...", or "sm_120a"
  BlockLimits limits;
  int warps_per_sm = 64;
  int blocks_per_sm = 32;
};

// What an architecture gives: "sm_120a". A usage error for what is none, for PTX, and for one of
// which nothing is known.
Result<Chip> chip_of(std::string_view arch);
// What a machine has, and its architecture; `arch` may name another form of it ("sm_120f"). A usage
// error where the machine does not run code for `arch`, or is no GPU of NVIDIA.
Result<Chip> chip_of(const MachineSpec& machine, std::string_view arch = "");

}  // namespace nibble
