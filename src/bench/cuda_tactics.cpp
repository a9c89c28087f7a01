#include "bench/cuda_tactics.h"

namespace nibble {

CudaTactic layout_of(const W4A16Kernel& kernel) {
  const W4A16Tactic& tactic = kernel.tactic();
  return {.unit = tactic.family == Family::kWgmma ? MatrixUnit::kWgmma : MatrixUnit::kMma,
          .tile_tokens = kernel.tile_tokens(),
          .tile_rows = tactic.rows,
          .step_columns = static_cast<std::int64_t>(tactic.stage_chunks) * kChunk,
          .blocks = kernel.grid()};
}

}  // namespace nibble
