// Tiles: how well a GEMM's tiles cover the SMs, and how many bytes of shared memory a tile needs.
//
//   wave_coverage({128, 128, 128}, 512, 2048, 188)             // 64 tiles on 188 SMs: 0.34
//   constexpr SharedBudget budget = cutlass_nvfp4_budget({128, 256, 128}, {.limit_bytes = 101376});
//   budget.stages == 3 && budget.total_bytes == 98304
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "formats/host_device.h"

namespace nibble {

struct TileShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  friend bool operator==(const TileShape&, const TileShape&) = default;
};

Result<TileShape> parse_tile(std::string_view text);  // "128x256x128"; K may be left out (128)
std::string to_string(const TileShape& tile);

constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) {
  return ceil_div(a, b) * b;
}

// Share of the SM-slots of whole waves that tiles of [m, n] fill: 64 tiles on 188 SMs -> 0.34.
double wave_coverage(const TileShape& tile, double m, double n, double sms, double groups = 1);
// Share of a tile's rows that are real when m rows are padded to whole tiles.
double padding_efficiency(const TileShape& tile, double m);

// What the launcher of a block-scaled FP4 kernel puts into shared memory.
struct TileLauncher {
  std::int64_t limit_bytes = 101376;   // per block, opt-in
  std::int64_t output_bytes = 2;       // of one element of C/D: bf16
  bool grouped = true;                 // keeps a tensor map of its own
  std::int64_t extra_bytes = 0;        // fused epilogue, finalize, alignment: what a launcher adds
  std::optional<std::int64_t> stages;  // forced; otherwise as many as fit
};

enum class TileVerdict { kFits, kTooFewStages, kTooLarge, kIndivisible };
std::string_view to_string(TileVerdict verdict);

struct SharedBudget {
  TileShape tile;
  std::int64_t a_bytes = 0;  // of one stage
  std::int64_t b_bytes = 0;
  std::int64_t scale_a_bytes = 0;  // rows padded to 128: the scale layout's atom
  std::int64_t scale_b_bytes = 0;
  std::int64_t stage_bytes = 0;
  std::int64_t stages = 0;
  std::int64_t epilogue_bytes = 0;
  std::int64_t fixed_bytes = 0;  // barriers, scheduler, tensor maps, alignment
  std::int64_t extra_bytes = 0;
  std::int64_t total_bytes = 0;
  std::int64_t limit_bytes = 0;
  TileVerdict verdict = TileVerdict::kIndivisible;
};

// Shared memory of CUTLASS's SM120 NVFP4 kernels (cooperative or pingpong), as a function of the
// tile. Derivation and the table it is tested on: docs/arithmetic.md, "Shared memory of a tile".
constexpr SharedBudget cutlass_nvfp4_budget(const TileShape& tile, const TileLauncher& launcher) {
  SharedBudget b;
  b.tile = tile;
  b.limit_bytes = launcher.limit_bytes;
  b.extra_bytes = launcher.extra_bytes;
  // Codes are half a byte, scales one byte per 16 along K; the scale layout's atom is 128 rows.
  b.a_bytes = tile.m * tile.k / 2;
  b.b_bytes = tile.n * tile.k / 2;
  b.scale_a_bytes = round_up(tile.m, 128) * tile.k / 16;
  b.scale_b_bytes = round_up(tile.n, 128) * tile.k / 16;
  b.stage_bytes = b.a_bytes + b.b_bytes + b.scale_a_bytes + b.scale_b_bytes;
  // The epilogue stores D through sub-tiles of 64 x min(32, N); an 8-column tile is stored 128 x 8.
  // It keeps one buffer more than it stores ahead (two at most).
  const std::int64_t epilogue_rows = tile.n == 8 ? 128 : 64;
  const std::int64_t epilogue_columns = std::min<std::int64_t>(32, tile.n);
  const std::int64_t sub_tiles = std::max<std::int64_t>(
      1, (tile.m / epilogue_rows) * (tile.n / std::max<std::int64_t>(1, epilogue_columns)));
  const std::int64_t buffers = std::min<std::int64_t>(sub_tiles, 2) + 1;
  b.epilogue_bytes = buffers * epilogue_rows * epilogue_columns * launcher.output_bytes;
  // Barriers and scheduler rounded up to the 1,024 B alignment of the operands; one more such line
  // for the tensor maps of a grouped GEMM.
  b.fixed_bytes = launcher.grouped ? 3072 : 2048;
  // N must be a power of two between 8 and 256, M 128 or 256, K a multiple of 64: what the
  // collective builder's layouts divide.
  const bool power_of_two = tile.n > 0 && (tile.n & (tile.n - 1)) == 0;
  if (!power_of_two || tile.n < 8 || tile.n > 256 || (tile.m != 128 && tile.m != 256) ||
      tile.k <= 0 || tile.k % 64 != 0) {
    b.verdict = TileVerdict::kIndivisible;
    return b;
  }
  const std::int64_t room = launcher.limit_bytes - b.epilogue_bytes - b.fixed_bytes - b.extra_bytes;
  b.stages = launcher.stages ? *launcher.stages : std::max<std::int64_t>(0, room / b.stage_bytes);
  b.total_bytes = b.stages * b.stage_bytes + b.epilogue_bytes + b.fixed_bytes + b.extra_bytes;
  if (b.stages < 2) {
    b.verdict = TileVerdict::kTooFewStages;  // a pipeline needs two
  } else if (b.total_bytes > b.limit_bytes) {
    b.verdict = TileVerdict::kTooLarge;
  } else {
    b.verdict = TileVerdict::kFits;
  }
  return b;
}

}  // namespace nibble
