#include "kernels/gemm/device/product_checks.h"

#include <algorithm>
#include <limits>

#include "kernels/gemm/device/w4a16_layout.h"

namespace nibble {

Result<> check_shared(const std::string& tactic, std::uint32_t bytes, int blocks_per_sm,
                      const BlockLimits& limits) {
  if (std::int64_t{bytes} > limits.shared_per_block) {
    return input_error("tactic {} takes {} bytes of shared memory; a block has at most {}", tactic,
                       bytes, limits.shared_per_block);
  }
  const std::int64_t together = shared_of_block(bytes) * std::int64_t{blocks_per_sm};
  if (together > limits.shared_per_sm) {
    return input_error("tactic {}: {} blocks take {} bytes of shared memory; an SM has {}", tactic,
                       blocks_per_sm, together, limits.shared_per_sm);
  }
  return {};
}

Result<> check_resident(const std::string& tactic, const cuda::Kernel& kernel,
                        const Residency& residency) {
  NIBBLE_ASSIGN_OR_RETURN(
      const int resident,
      kernel.blocks_per_sm(static_cast<unsigned>(residency.threads), residency.shared_bytes));
  if (resident >= residency.blocks_per_sm) return {};
  return input_error("tactic {}: an SM of this GPU holds {} of its blocks, not {}", tactic,
                     resident, residency.blocks_per_sm);
}

Result<> check_steps(const std::string& problem, const WorkSteps& work, std::int64_t choices) {
  const std::int64_t most =
      std::numeric_limits<std::int32_t>::max() / (work.row_tiles * work.steps);
  // All but one tile of each expert are full.
  const std::int64_t tiles = ceil_div(choices, work.tile_tokens) + std::min(choices, work.experts);
  if (tiles <= most) return {};
  return input_error(
      "{} tokens of all experts are up to {} tiles of {}; a launch of {} has at most "
      "{}: take a tactic with more tokens a tile, or fewer tokens at a time",
      choices, tiles, work.tile_tokens, problem, most);
}

}  // namespace nibble
