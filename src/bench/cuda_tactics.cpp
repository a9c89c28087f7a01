#include "bench/cuda_tactics.h"

#include <string_view>

#include "bench/tune_shapes.h"

namespace nibble {
namespace {

struct TuningQuestion {
  const tune::TuningShape& shape;
  std::int64_t tokens;
};

template <class Tactic, class Problem>
Tactic choice_of(tune::TuningTable* table, const TuningQuestion& asked, const Problem& problem,
                 const BlockLimits& limits, const Tactic& fallback, std::string_view family) {
  if (table == nullptr) return fallback;
  const tune::Found found = table->find(asked.shape, asked.tokens);
  if (!found.tactic) return fallback;
  const auto* tactic = std::get_if<Tactic>(&*found.tactic);
  if (tactic == nullptr) {
    table->refuse(asked.shape, asked.tokens,
                  fmt::format("the file's choice is no {} tactic", family));
    return fallback;
  }
  const Result<> runs = check_tactic(problem, *tactic, limits);
  if (runs.ok()) return *tactic;
  table->refuse(asked.shape, asked.tokens, runs.error().message);
  return fallback;
}

}  // namespace

CudaTactic layout_of(const W4A16Problem& problem, const W4A16Tactic& tactic) {
  constexpr double kTileWeights = kTileRows * kChunk;
  std::vector<std::int64_t> widths;
  for (int width = tactic.narrower(tactic.tokens); width > 0; width = tactic.narrower(width)) {
    widths.push_back(width);
  }
  return {.unit = tactic.family == Family::kWgmma ? MatrixUnit::kWgmma : MatrixUnit::kMma,
          .tile_tokens = tactic.tokens,
          .widths = std::move(widths),
          .tile_rows = tactic.rows,
          .step_columns = static_cast<std::int64_t>(tactic.stage_chunks) * kChunk,
          .cluster = tactic.cluster,
          .blocks_per_sm = tactic.blocks_per_sm,
          .split = tactic.split,
          .weight_bytes = (kCodeBytes + problem.scale_bytes()) / kTileWeights,
          .halves_outputs = problem.mode != W4A16Mode::kPlain};
}

CudaTactic layout_of(const W4A16Kernel& kernel) {
  return layout_of(kernel.problem(), kernel.tactic());
}

W4A16Tactic tuned_or_default(tune::TuningTable* table, const tune::TuningShape& shape,
                             std::int64_t tokens, const W4A16Problem& problem,
                             const cuda::DeviceInfo& info, const W4A16Tactic& fallback) {
  return choice_of(table, {shape, tokens}, problem, limits_of(info), fallback, "W4A16");
}

W4A4Tactic tuned_or_default(tune::TuningTable* table, const tune::TuningShape& shape,
                            std::int64_t tokens, const W4A4Problem& problem,
                            const cuda::DeviceInfo& info, const W4A4Tactic& fallback) {
  return choice_of(table, {shape, tokens}, problem, limits_of(info), fallback, "W4A4");
}

Result<tune::TuningTable> tuning_of_layers(tune::TuningFile file, const std::string& name,
                                           const tune::TuningSite& here,
                                           const std::vector<BenchShape>& shapes) {
  NIBBLE_ASSIGN_OR_RETURN(tune::TuningTable table,
                          tune::TuningTable::for_run(std::move(file), name, here));
  for (const BenchShape& shape : shapes) {
    if (shape.op != BenchOp::kMoe) continue;
    for (const std::int64_t tokens : shape.tokens) {
      table.find(gate_up_of_layer(shape), tokens);
      table.find(down_of_layer(shape), tokens);
    }
  }
  return table;
}

}  // namespace nibble
