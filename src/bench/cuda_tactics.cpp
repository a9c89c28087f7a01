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

W4A16Tactic tuned_or_default(tune::TuningTable* table, const tune::TuningShape& shape,
                             std::int64_t tokens, const W4A16Problem& problem,
                             const cuda::DeviceInfo& info, const W4A16Tactic& fallback) {
  if (table == nullptr) return fallback;
  const tune::Found found = table->find(shape, tokens);
  if (!found.tactic) return fallback;
  const auto* tactic = std::get_if<W4A16Tactic>(&*found.tactic);
  if (tactic == nullptr) {
    table->refuse(shape, tokens, "the file's choice is no W4A16 tactic");
    return fallback;
  }
  const Result<> runs = check_tactic(problem, *tactic, limits_of(info));
  if (runs.ok()) return *tactic;
  table->refuse(shape, tokens, runs.error().message);
  return fallback;
}

}  // namespace nibble
