// Point 9: shared memory of every usual tile, here and elsewhere, and what fitting a larger one
// wins.
#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "explain/explain_parts.h"

namespace nibble {
namespace {

// The tiles that CUTLASS's SM120 NVFP4 kernels are built with.
constexpr TileShape kUsualTiles[] = {{128, 128, 128}, {128, 128, 256}, {128, 256, 128},
                                     {256, 128, 128}, {256, 64, 128},  {128, 64, 128},
                                     {128, 64, 256},  {128, 32, 128},  {128, 32, 256},
                                     {128, 16, 128},  {128, 8, 128},   {128, 128, 64}};

// Shared memory that a block may ask for (CUTLASS arch.h): SM120, and SM90/SM100.
constexpr std::int64_t kSmallLimit = 101376;
constexpr std::int64_t kLargeLimit = 232448;

SharedBudget budget_of(const TileShape& tile, std::int64_t limit) {
  TileLauncher launcher;
  launcher.limit_bytes = limit;
  return cutlass_nvfp4_budget(tile, launcher);
}

std::string bytes_text(std::int64_t bytes) {
  return format_count(static_cast<double>(bytes)) + " B";
}

std::string budget_text(const SharedBudget& budget) {
  return fmt::format(
      "{} stages x {} (A {}, B {}, scales {} + {}) + epilogue {} + barriers and maps {} = {} of {}",
      budget.stages, bytes_text(budget.stage_bytes), bytes_text(budget.a_bytes),
      bytes_text(budget.b_bytes), bytes_text(budget.scale_a_bytes),
      bytes_text(budget.scale_b_bytes), bytes_text(budget.epilogue_bytes),
      bytes_text(budget.fixed_bytes), bytes_text(budget.total_bytes),
      bytes_text(budget.limit_bytes));
}

// The budget and what follows from it; a tile that no such kernel has, has no budget.
std::string judged_text(const SharedBudget& budget) {
  const std::string verdict(to_string(budget.verdict));
  if (budget.verdict == TileVerdict::kIndivisible) return verdict;
  return fmt::format("{}: {}", budget_text(budget), verdict);
}

void explain_budget(Scene& scene, std::string id, const SharedBudget& budget, FindingInput limit,
                    std::string_view where) {
  scene.conclude(
      {.id = std::move(id),
       .point = 9,
       .title = fmt::format("Shared memory of {} {}", to_string(budget.tile), where),
       .value = static_cast<double>(budget.total_bytes),
       .unit = "B",
       .verdict = std::string(to_string(budget.verdict)),
       .formula = "stages * (A + B + scales) + epilogue + fixed",
       .inputs = {std::move(limit)},
       .assumptions = {"CUTLASS grouped NVFP4 kernel of SM120, bf16 output, as many stages as fit"},
       .sentence = fmt::format("{} {}: {}.", to_string(budget.tile), where, judged_text(budget))});
}

// Reported limits in KiB against the catalog's bytes.
void explain_limit(Scene& scene, std::int64_t limit, const FindingInput& source) {
  const std::vector<double>& reported = scene.found.shared_memory_per_block_kb_reported;
  std::vector<FindingInput> inputs = {source};
  std::string verdict = "not reported";
  if (!reported.empty()) {
    const auto [low, high] = std::minmax_element(reported.begin(), reported.end());
    for (const double kib : reported) {
      inputs.push_back(
          {"reported", kib, "KiB", "case: machine.shared_memory_per_block_kb_reported"});
    }
    const auto bytes = static_cast<double>(limit);
    verdict = *low * 1024 <= bytes && bytes <= *high * 1024 ? "agrees with the report"
                                                            : "differs from the report";
  }
  scene.conclude({.id = "tile.limit",
                  .point = 9,
                  .title = "Shared memory per block",
                  .value = static_cast<double>(limit),
                  .unit = "B",
                  .verdict = verdict,
                  .formula = "opt-in maximum",
                  .inputs = std::move(inputs),
                  .sentence = fmt::format(
                      "A block may have {} ({} KiB) of shared memory: {}.", bytes_text(limit),
                      format_number(static_cast<double>(limit) / 1024), verdict)});
}

// A tile that a tuner could not start, although its budget fits: the rest is what the launcher
// adds.
void explain_failure(Scene& scene, const std::string& text, std::size_t index, std::int64_t limit,
                     const FindingInput& source) {
  const Result<TileShape> tile = parse_tile(text);
  if (!tile) return;
  const SharedBudget budget = budget_of(*tile, limit);
  const bool fits = budget.verdict == TileVerdict::kFits;
  const std::int64_t left = limit - budget.total_bytes;
  const std::int64_t one_less = left + budget.stage_bytes;
  std::string advice;
  if (fits && budget.stages > 2) {
    advice = fmt::format("; with one stage less, {} would be left", bytes_text(one_less));
  }
  scene.conclude(
      {.id = "tile.failed." + text,
       .point = 9,
       .title = fmt::format("Failed tactic {}", text),
       .value = static_cast<double>(left),
       .unit = "B",
       .verdict =
           fits ? "fits when the launcher leaves room" : std::string(to_string(budget.verdict)),
       .formula = "limit - budget",
       .inputs = {source,
                  {"tactic", static_cast<double>(index), "",
                   fmt::format("case: tactics_failed[{}]", index)}},
       .assumptions = {"CUTLASS grouped NVFP4 kernel of SM120, bf16 output, K 128 unless stated"},
       .confidence = Confidence::kLikely,
       .sentence =
           fits ? fmt::format(
                      "{} fits: {}; {} are left for what the launcher adds (finalize fusion, "
                      "epilogue, alignment){}.",
                      text, budget_text(budget), bytes_text(left), advice)
                : fmt::format("{} does not fit: {}.", text, judged_text(budget))});
}

}  // namespace

LayerTiles layer_tiles(const Scene& scene, const LevelAnalysis& level) {
  LayerTiles tiles;
  for (const Op& op : level.floor.ops) {
    if (op.name != "moe.gate_up" && op.name != "moe.down") continue;
    if (op.name == "moe.gate_up") {
      tiles.layers += op.count;
      tiles.rows = op.shape.m;
    }
    tiles.memory_us += op.memory_us;
    const double peak = scene.machine().peak(op.precision)->dense_tflops.value * 1e6;
    const auto padded = [&](double rows) {
      return 2 * op.shape.groups * std::ceil(op.shape.m / rows) * rows * op.shape.n * op.shape.k /
             peak;
    };
    tiles.padded_128_us += padded(128);
    tiles.padded_256_us += padded(256);
  }
  tiles.win_us = std::max(tiles.memory_us, tiles.padded_128_us) - tiles.memory_us;
  return tiles;
}

namespace {

void explain_win(Scene& scene, const LevelAnalysis& level) {
  if (!level.floor_missing.empty() || !scene.model().moe) return;
  const LayerTiles tiles = layer_tiles(scene, level);
  if (tiles.layers == 0) return;
  const bool nothing = tiles.win_us <= 0;
  scene.conclude({.id = "tile.win." + level_slug(level.measured.concurrency),
                  .point = 9,
                  .title = "What a larger tile could win",
                  .value = tiles.win_us,
                  .unit = "us",
                  .verdict = nothing ? "nothing" : "at most this a layer",
                  .formula = "max(memory floor, MMA time padded to 128 rows) - memory floor",
                  .inputs = Inputs(scene).deployment().concurrency(level.measured).cap().list(),
                  .assumptions = {"every expert has the mean number of rows", "MMAs at peak"},
                  .confidence = Confidence::kLikely,
                  .sentence = fmt::format(
                      "At {} rows per expert a layer's experts take {} to read and {} ({}) to "
                      "multiply when padded to 128 (256) "
                      "rows: {}.",
                      format_number(tiles.rows), format_time_us(tiles.memory_us),
                      format_time_us(tiles.padded_128_us), format_time_us(tiles.padded_256_us),
                      nothing ? "weight-bound, and a larger tile wins nothing"
                              : fmt::format("less padding or faster MMAs win at most {} a layer",
                                            format_time_us(tiles.win_us)))});
}

}  // namespace

void explain_tiles(Scene& scene) {
  const MachineSpec& machine = scene.machine();
  if (machine.peak(Precision::kFp4) == nullptr) {
    scene.cannot_say("tile.limit", 9, "Tiles",
                     fmt::format("{} has no FP4 matrix unit, and these kernels are built for one",
                                 machine.name));
    return;
  }
  if (!machine.shared_per_block_bytes) {
    scene.cannot_say("tile.limit", 9, "Tiles",
                     fmt::format("the shared memory per block of {} is not known", machine.name));
    return;
  }
  const auto limit = static_cast<std::int64_t>(machine.shared_per_block_bytes->value);
  const FindingInput source =
      Inputs(scene).number("limit", *machine.shared_per_block_bytes, "B").list().front();
  const std::int64_t elsewhere = limit == kLargeLimit ? kSmallLimit : kLargeLimit;
  const FindingInput other{"limit", static_cast<double>(elsewhere), "B", "CUTLASS arch.h"};
  explain_limit(scene, limit, source);
  for (const TileShape& tile : kUsualTiles) {
    const SharedBudget here = budget_of(tile, limit);
    scene.analysis.tiles.push_back(here);
    explain_budget(scene, "tile." + to_string(tile), here, source, "on this chip");
    explain_budget(scene, "tile.elsewhere." + to_string(tile), budget_of(tile, elsewhere), other,
                   fmt::format("with {}", bytes_text(elsewhere)));
  }
  for (std::size_t index = 0; index < scene.found.tactics_failed.size(); ++index) {
    explain_failure(scene, scene.found.tactics_failed[index], index, limit, source);
  }
  for (std::size_t index = 0; index < scene.analysis.levels.size(); ++index) {
    const LevelAnalysis level = scene.analysis.levels[index];
    explain_win(scene, level);
  }
}

}  // namespace nibble
