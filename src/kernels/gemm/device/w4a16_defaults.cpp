// Which tactics are taken by default, and which are offered to a tuner.
#include <algorithm>

#include "kernels/gemm/device/w4a16.h"

namespace nibble {
namespace {

WeightTiles default_tiles(const W4A16Problem& problem) {
  return weight_tiles(problem.n, problem.k, problem.scale_bytes(),
                      problem.mode == W4A16Mode::kPlain ? RowOrder::kPlain : RowOrder::kGateUp);
}

// Rows of a tile for a matrix of few blocks: a cluster's tiles should not be empty.
void fit_rows(const W4A16Problem& problem, W4A16Tactic& tactic) {
  const std::int64_t blocks = default_tiles(problem).blocks;
  if (tactic.family == Family::kMma && tactic.blocks_per_sm == 1 &&
      blocks < std::int64_t{tactic.cluster} * tactic.blocks()) {
    // No neighbours: on an H200 2 to 7 % quicker for 512 rows (nibble tune, docs/measured.md).
    tactic = {.rows = 256, .tokens = tactic.tokens, .stages = 4, .groups = 2};
    return;
  }
  while (tactic.cluster > 1 && blocks < std::int64_t{tactic.cluster} * tactic.blocks()) {
    if (tactic.rows > 256) {
      tactic.rows /= 2;
      tactic.groups = 2;
      tactic.stages *= 2;
    } else {
      tactic.cluster /= 2;
    }
  }
}

// Few experts with few tokens: smaller tiles, so that not many blocks share one, whose sums are
// then added one after the other.
void fit_few(const W4A16Problem& problem, std::int64_t active, int sms, W4A16Tactic& tactic) {
  if (tactic.family != Family::kMma || tactic.tokens > 8) return;
  const std::int64_t blocks = default_tiles(problem).blocks;
  const auto tiles = [&] {
    return active * ceil_div(blocks, tactic.blocks() * tactic.cluster) * tactic.cluster;
  };
  while (tiles() * 3 < sms && tactic.rows > 128) {
    tactic.rows /= 2;
    tactic.groups = 2;
    tactic.stages *= 2;
    if (tactic.rows == 128) {
      tactic.cluster = 1;
      tactic.stage_chunks = 4;
    }
  }
}

// As many stages as fit, up to those that were asked for.
void fit_stages(const W4A16Problem& problem, const BlockLimits& limits, W4A16Tactic& tactic) {
  while (tactic.stages > 1 && !check_tactic(problem, tactic, limits).ok()) --tactic.stages;
}

// A tile of one or two steps is not worth sharing: giving and taking its sums costs more than half
// of it (256 columns on an H200: whole tiles are 3 to 9 % quicker, nibble tune, docs/measured.md).
void fit_split(const W4A16Problem& problem, W4A16Tactic& tactic) {
  constexpr std::int64_t kFewSteps = 2;
  if (ceil_div(default_tiles(problem).chunks, tactic.stage_chunks) <= kFewSteps)
    tactic.split = false;
}

// Large tiles of rows, since tokens come through the same wires as weights, once a row tile.
W4A16Tactic hopper_tactic(std::int64_t rows) {
  W4A16Tactic tactic{.family = Family::kWgmma, .rows = 512, .groups = 2, .cluster = 2};
  if (rows <= 8) {
    tactic.family = Family::kMma;
    tactic.groups = 4;
    tactic.stages = 5;
  } else if (rows <= 16) {
    tactic.tokens = 16;
    tactic.stages = 5;
  } else if (rows <= 32) {
    tactic.tokens = rows <= 24 ? 24 : 32;
    tactic.stages = 4;
  } else if (rows <= 64) {
    tactic.tokens = rows <= 48 ? 48 : 64;
    tactic.stages = 4;
    tactic.fragments = 4;  // the registers go to sums
  } else {
    tactic.rows = 256;
    tactic.tokens = rows <= 96 ? 96 : 128;
    tactic.stages = 4;
  }
  return tactic;
}

// Many tiles of few columns, whose ends would weigh most: several blocks an SM, so that one
// multiplies while another stores (GLM-5's down of a shard and Qwen3-30B's on an H200: 6 to 40 %).
W4A16Tactic short_tactic(std::int64_t chunks, std::int64_t rows) {
  W4A16Tactic tactic{.split = false};
  if (rows <= 8) {
    tactic.blocks_per_sm = chunks <= 4 ? 3 : 2;
    tactic.stages = chunks <= 4 ? 3 : 5;
    return tactic;
  }
  tactic.family = Family::kWgmma;
  tactic.tokens = hopper_tactic(rows).tokens;
  if (rows <= 16) {
    tactic.rows = 128;
    tactic.groups = 1;
    tactic.stage_chunks = 4;
    tactic.stages = 2;
    tactic.blocks_per_sm = 3;
  } else if (rows <= 32) {
    tactic.blocks_per_sm = 2;
    tactic.fragments = 4;
  } else if (rows <= 64) {
    tactic.rows = 128;
    tactic.groups = 1;
    tactic.stages = 2;
    tactic.blocks_per_sm = 3;
    tactic.fragments = 4;
  }
  return tactic;
}

// Rows and columns of a tile that the matrix is made of without a rest: rows that are not there
// cost as much as others, and a last step that is not whole makes all steps slower (gpt-oss-120b's
// 5,760 x 2,880 on an H200: 334, then 285 us).
void fit_exactly(const W4A16Problem& problem, W4A16Tactic& tactic) {
  const WeightTiles tiles = default_tiles(problem);
  if (tiles.blocks % 16 != 0 && tiles.blocks >= 8) tactic.cluster = 1;
  if (tactic.family != Family::kMma) return;
  if (tiles.chunks % 2 != 0 && tiles.chunks % 3 == 0) tactic.stage_chunks = 3;
  for (const int blocks : {8, 10, 6}) {
    if (tiles.blocks % blocks != 0) continue;
    tactic.rows = blocks * kTileRows;
    tactic.groups = blocks / 2;
    return;
  }
}

// What is taken on Hopper where there are tiles enough for all SMs.
W4A16Tactic hopper_tactic_for(const W4A16Problem& problem, std::int64_t rows, std::int64_t active,
                              int sms) {
  constexpr std::int64_t kShortChunks = 16;
  const WeightTiles tiles = default_tiles(problem);
  const std::int64_t blocks = std::min(active, problem.experts) * tiles.blocks;
  if (tiles.chunks <= kShortChunks && blocks >= std::int64_t{32} * sms) {
    return short_tactic(tiles.chunks, rows);
  }
  W4A16Tactic tactic = hopper_tactic(rows);
  if (tactic.rows == 512 && blocks >= std::int64_t{8} * sms) fit_exactly(problem, tactic);
  return tactic;
}

// Tokens that a tile is made for. Where few experts have most tokens it is not the largest: all
// others would pay for its width, and its own weights may be read more than once (GLM-5 with zipf:1
// on an H200: 1,024 tokens, 806 of them in one expert, 4,017 us with tiles of 128, 2,778 with 64).
std::int64_t tile_for(std::int64_t rows, std::int64_t choices, std::int64_t experts) {
  if (choices == 0) return rows;
  return std::min(rows, (7 * choices / experts + 24) / 4);
}

W4A16Tactic other_tactic(std::int64_t rows) {
  if (rows <= 8) return {.rows = 256, .tokens = 8, .stages = 4, .groups = 2};
  if (rows <= 16) return {.rows = 256, .tokens = 16, .stages = 4, .groups = 2};
  return {.rows = 128, .tokens = 32, .stages = 4, .groups = 2};
}

// Where an SM has about 100 KB: smaller tiles, two blocks of which are there at once, so that one
// multiplies while the other waits at a barrier or for memory. Not measured on such a chip.
W4A16Tactic small_shared_tactic(std::int64_t rows) {
  W4A16Tactic tactic{.rows = 128, .tokens = 8, .stages = 4, .groups = 2, .blocks_per_sm = 2};
  if (rows > 8) tactic.tokens = 16;
  if (rows > 16) {
    tactic.tokens = 32;
    tactic.stages = 5;
    tactic.blocks_per_sm = 1;
  }
  return tactic;
}

bool has_small_shared(const BlockLimits& limits) {
  return limits.shared_per_sm < 128 << 10;
}

}  // namespace

W4A16Tactic default_tactic(const W4A16Problem& problem, std::int64_t rows,
                           const cuda::DeviceInfo& info, std::int64_t active) {
  const BlockLimits limits = limits_of(info);
  W4A16Tactic tactic = other_tactic(rows);
  if (limits.major == 9) {
    tactic = hopper_tactic_for(problem, tile_for(rows, active, problem.experts),
                               active > 0 ? active : problem.experts, info.sms);
  }
  if (has_small_shared(limits)) tactic = small_shared_tactic(rows);
  fit_rows(problem, tactic);
  fit_few(problem, active > 0 ? std::min(active, problem.experts) : problem.experts, info.sms,
          tactic);
  fit_stages(problem, limits, tactic);
  fit_split(problem, tactic);
  return tactic;
}

std::vector<W4A16Tactic> w4a16_tactics(const W4A16Problem& problem, const BlockLimits& limits) {
  std::vector<W4A16Tactic> tactics;
  const auto add = [&](W4A16Tactic tactic) {
    for (const bool split : {true, false}) {
      tactic.split = split;
      fit_stages(problem, limits, tactic);
      if (check_tactic(problem, tactic, limits).ok() &&
          std::find(tactics.begin(), tactics.end(), tactic) == tactics.end()) {
        tactics.push_back(tactic);
      }
    }
  };
  for (const std::int64_t rows : {8, 16, 24, 32, 48, 64, 96, 128}) {
    if (limits.major == 9) {
      add(hopper_tactic(rows));
      add(short_tactic(4, rows));
      W4A16Tactic exact = hopper_tactic(rows);
      if (exact.rows == 512) fit_exactly(problem, exact);
      add(exact);
    }
    add(other_tactic(rows));
    if (has_small_shared(limits)) add(small_shared_tactic(rows));
  }
  return tactics;
}

}  // namespace nibble
