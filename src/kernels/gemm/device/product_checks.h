// What every grouped product on a GPU is checked for before it is launched.
//
//   NIBBLE_RETURN_IF_ERROR(check_shared(to_string(tactic), plan.bytes, tactic.blocks_per_sm,
//   limits));
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "cuda/module.h"
#include "kernels/device/block_limits.h"

namespace nibble {

// An input error, with the numbers, where a block of `bytes` of shared memory, or `blocks_per_sm`
// of them, do not fit.
Result<> check_shared(const std::string& tactic, std::uint32_t bytes, int blocks_per_sm,
                      const BlockLimits& limits);

struct Residency {
  int threads = 0;
  std::size_t shared_bytes = 0;
  int blocks_per_sm = 1;
};
// An input error where an SM does not hold the blocks of a launch at once: one may wait for the
// sums of another.
Result<> check_resident(const std::string& tactic, const cuda::Kernel& kernel,
                        const Residency& residency);

// How a launch cuts its work.
struct WorkSteps {
  std::int64_t tile_tokens = 8;
  std::int64_t row_tiles = 1;  // of an expert's matrix
  std::int64_t steps = 1;      // of a tile
  std::int64_t experts = 1;
};
// An input error where `choices` tokens of all experts together could be more tiles than a launch
// can have: it counts its steps in 32 bits.
Result<> check_steps(const std::string& problem, const WorkSteps& work, std::int64_t choices);

}  // namespace nibble
