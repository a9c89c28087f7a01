// Which W4A4 tactics there are, which of them a problem and a device take, and which is the
// default.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/device/block_limits.h"
#include "kernels/gemm/device/w4a4.h"

namespace nibble {
namespace {

// A tile, how warps share it, and how many blocks of it an SM is to hold.
struct TileRule {
  Way way;
  int m;
  int n;
  int k;
  int warps_m;
  int warps_n;
  int blocks_per_sm = 1;
};

constexpr Way kTokens = Way::kTokensOnM;
constexpr Way kWeights = Way::kWeightsOnM;

// A line a tile. Warps take 64 x 64 where the tile is large, since each reads its own side's codes
// again for every tile of the other side; from 64 x 64 on a thread has 128 sums, which leaves no
// room for more.
constexpr TileRule kTileRules[] = {
    // Large groups of tokens.
    {kTokens, 128, 256, 128, 2, 4},
    {kTokens, 256, 128, 128, 4, 2},
    {kTokens, 128, 128, 128, 2, 4},
    {kTokens, 128, 128, 256, 2, 4},
    {kTokens, 256, 64, 128, 4, 2},
    {kTokens, 256, 64, 256, 4, 2},
    {kTokens, 64, 256, 128, 2, 4},
    {kTokens, 64, 256, 256, 2, 4},
    {kTokens, 128, 64, 128, 4, 2, 2},
    {kTokens, 128, 64, 256, 4, 2},
    {kTokens, 64, 128, 128, 2, 4, 2},
    {kTokens, 64, 128, 256, 2, 4},
    {kTokens, 64, 64, 256, 2, 2, 2},
    {kTokens, 32, 128, 256, 1, 4, 2},
    {kTokens, 32, 256, 256, 1, 8},
    {kTokens, 16, 128, 256, 1, 4, 2},
    // Few tokens an expert. Warps have 32 rows at least, so that gate and up rows become whole
    // blocks of codes; stages of 128 are finer, those of 256 and 512 read longer runs of a row.
    {kWeights, 64, 8, 128, 2, 1, 3},
    {kWeights, 64, 8, 256, 2, 1, 3},
    {kWeights, 64, 8, 512, 2, 1, 2},
    {kWeights, 128, 8, 128, 4, 1, 2},
    {kWeights, 128, 8, 256, 4, 1, 2},
    {kWeights, 128, 8, 512, 4, 1},
    {kWeights, 256, 8, 256, 8, 1},
    {kWeights, 64, 16, 256, 2, 1, 3},
    {kWeights, 128, 16, 128, 4, 1, 2},
    {kWeights, 128, 16, 256, 4, 1, 2},
    {kWeights, 128, 16, 512, 4, 1},
    {kWeights, 256, 16, 256, 8, 1},
    {kWeights, 64, 32, 128, 2, 1, 3},
    {kWeights, 64, 32, 256, 2, 1, 2},
    {kWeights, 128, 32, 128, 4, 1, 2},
    {kWeights, 128, 32, 256, 4, 1, 2},
    {kWeights, 256, 32, 256, 8, 1},
    {kWeights, 64, 64, 256, 2, 1, 2},
    {kWeights, 128, 64, 128, 4, 2, 2},
    {kWeights, 128, 64, 256, 4, 2},
    {kWeights, 256, 64, 128, 8, 1},
    {kWeights, 128, 128, 128, 4, 2},
    // What other chips' shared memory would take.
    {kTokens, 256, 256, 128, 4, 4},
    {kTokens, 128, 256, 256, 2, 4},
    {kTokens, 256, 128, 256, 4, 2},
    {kWeights, 256, 128, 512, 8, 1},
};

// As many stages as leave room for the blocks beside each other on sm_12x, two at least: the limit
// shows what does not fit. Eight hide the memory's latency many times over.
int stages_of(const W4A4Tactic& tactic) {
  constexpr int kTables = 2 * 4 * 257;  // of 256 experts
  constexpr int kMostStages = 8;
  const int share = kSm120Limits.shared_per_sm / tactic.blocks_per_sm / kSharedUnit * kSharedUnit;
  const int block = std::min(kSm120Limits.shared_per_block, share - kReservedShared);
  const int fixed = kTables + 8 * tactic.tokens() + 16 * kMostStages;
  const auto stage = static_cast<int>(w4a4_shared(tactic, WeightFormat::kNvfp4, 1).stage());
  return std::clamp((block - fixed) / stage, 2, kMostStages);
}

W4A4Tactic tactic_of(const TileRule& rule) {
  W4A4Tactic tactic{.way = rule.way,
                    .m = rule.m,
                    .n = rule.n,
                    .k = rule.k,
                    .warps_m = rule.warps_m,
                    .warps_n = rule.warps_n,
                    .blocks_per_sm = rule.blocks_per_sm};
  tactic.stages = stages_of(tactic);
  return tactic;
}

// Fewer stages, then fewer blocks an SM, until it fits: tables of many experts take room.
bool fit(const W4A4Problem& problem, const BlockLimits& limits, W4A4Tactic& tactic) {
  while (!check_tactic(problem, tactic, limits).ok()) {
    if (tactic.stages > 2) {
      --tactic.stages;
    } else if (tactic.blocks_per_sm > 1) {
      --tactic.blocks_per_sm;
      tactic.stages = stages_of(tactic);
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

std::vector<W4A4Tactic> w4a4_candidates() {
  std::vector<W4A4Tactic> list;
  for (const TileRule& rule : kTileRules) list.push_back(tactic_of(rule));
  return list;
}

std::vector<W4A4Tactic> w4a4_tactics(const W4A4Problem& problem, const BlockLimits& limits) {
  std::vector<W4A4Tactic> list;
  for (W4A4Tactic tactic : w4a4_candidates()) {
    if (fit(problem, limits, tactic)) list.push_back(tactic);
  }
  return list;
}

W4A4Tactic default_tactic(const W4A4Problem& problem, std::int64_t rows,
                          const BlockLimits& limits) {
  // Up to 64 tokens weights lie on M, and the narrowest tile that takes all of them wastes least;
  // beyond, wide tiles, whose codes are read less often, as long as padding stays small.
  TileRule rule{kWeights, 128, 8, 256, 4, 1, 2};
  if (rows > 128) {
    rule = {kTokens, 128, 256, 128, 2, 4};
  } else if (rows > 64) {
    rule = {kTokens, 128, 128, 128, 2, 4};
  } else if (rows > 32) {
    rule = {kWeights, 128, 64, 128, 4, 2, 2};
  } else if (rows > 8) {
    rule.n = rows > 16 ? 32 : 16;
  }
  W4A4Tactic tactic = tactic_of(rule);
  if (!fit(problem, limits, tactic)) {
    // The smallest tile: what does not fit then, fits nowhere.
    tactic = tactic_of({kWeights, 64, 8, 128, 2, 1});
    fit(problem, limits, tactic);
  }
  return tactic;
}

}  // namespace nibble
