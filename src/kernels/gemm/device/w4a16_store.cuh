// From sums to outputs: factors, biases, SwiGLU and router weights; to slot tiles or to rows.
#pragma once

#include "kernels/gemm/device/outputs.cuh"
#include "kernels/gemm/device/w4a16_params.h"
#include "kernels/gemm/device/w4a16_work.cuh"

namespace nibble {

template <class Config>
struct W4A16Store : W4A16Work<Config> {
  using Work = W4A16Work<Config>;
  using typename Work::Place;
  using typename Work::Tables;
  using Work::kBlocksOfGroup;
  using Work::kFactors;
  using Work::kGateUp;
  using Work::kOutputChunks;
  using Work::kTactic;
  using Work::kWeights;
  using Work::rank_of_block;

  // Who stores.
  struct Lane {
    int warp;  // of all multiplying warps
    int lane;
  };

  // Of a lane's two rows of a block of 64.
  struct Rows {
    float bias[kFactors];
  };

  // The tile that is stored: its first block of 64 rows is this warpgroup's, its first slot in
  // memory, and the groups of 8 slots that are there.
  struct Tile {
    int32_t expert;
    int64_t block;
    int32_t slot;
    int groups;
  };

  // No tile has rows beyond the last block.
  static constexpr bool kWholeTiles = kWeights.blocks % (Work::kBlocks * Work::kCluster) == 0;
  NIBBLE_DEVICE static bool is_block(int64_t block) {
    return kWholeTiles || block < kWeights.blocks;
  }

  NIBBLE_DEVICE static Rows rows_of(const W4A16Params& params, const Lane& me, const Tile& tile,
                                    int block) {
    Rows rows{};
    if constexpr (Config::kBias) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t source =
            source_row(kGateUp ? RowOrder::kGateUp : RowOrder::kPlain, tile.block + block,
                       me.warp % 4 * 16 + me.lane / 4 + 8 * half, Config::kN);
        if (source < Config::kN) rows.bias[half] = params.bias[tile.expert * Config::kN + source];
      }
    }
    return rows;
  }

  // Router weights of a lane's two tokens in some groups from `first` on, asked for at once: a wait
  // for all, not one for each. Groups that are not there have the last one's.
  static constexpr int kWeightsAhead = 4;
  NIBBLE_DEVICE static void weights_of(const W4A16Params& params, const Lane& me, const Tile& tile,
                                       int first, Float2 (&weights)[kWeightsAhead]) {
    const float* const from = params.slot_weight + tile.slot + 2 * (me.lane % 4);
#pragma unroll
    for (int i = 0; i < kWeightsAhead; ++i) {
      weights[i] = {{1, 1}};
      if (params.slot_weight == nullptr) continue;
      const int group = first + i < tile.groups ? first + i : tile.groups - 1;
      weights[i] = *reinterpret_cast<const Float2*>(from + group * kSlotGroup);
    }
  }

  // Output columns are in order within a block, so that blocks lie at a fixed distance.
  template <int kGroups>
  NIBBLE_DEVICE static void store_plain(const W4A16Params& params, const Lane& me, const Tile& tile,
                                        const float (&factor)[kFactors],
                                        const Rows (&rows)[kBlocksOfGroup],
                                        const float (&sums)[kBlocksOfGroup][kGroups][4]) {
    const int64_t row = kTileRows * tile.block + 16 * (me.warp % 4) + 2 * (me.lane / 4);
    Float2 weights[kWeightsAhead];
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      if (group >= tile.groups) break;
      if (group % kWeightsAhead == 0) weights_of(params, me, tile, group, weights);
#pragma unroll
      for (int token = 0; token < 2; ++token) {
        const int64_t to = tile.slot + group * kSlotGroup + 2 * (me.lane % 4) + token;
        const float weight = weights[group % kWeightsAhead].value[token];
#pragma unroll
        for (int block = 0; block < kBlocksOfGroup; ++block) {
          const int64_t at = row + block * kTileRows;
          if (!is_block(tile.block + block)) break;
          if (Config::kN % kTileRows != 0 && at >= Config::kN) break;
          const float(&four)[4] = sums[block][group];
          store_pair<Config::kOutput, Config::kN % 2 == 0>(
              params.output, to * Config::kN + at,
              (four[token] * factor[0] + rows[block].bias[0]) * weight,
              (four[2 + token] * factor[1] + rows[block].bias[1]) * weight, at + 1 < Config::kN);
        }
      }
    }
  }

  NIBBLE_DEVICE static uint32_t gated_pair(const W4A16Params& params, const float (&four)[4],
                                           const float (&factor)[kFactors], const Rows& rows,
                                           bool odd) {
    const auto value = [&](int token) {
      return gated<Config::kEpilogue>(four[token] * factor[0] + rows.bias[0],
                                      four[2 + token] * factor[1] + rows.bias[1],
                                      params.swiglu_alpha, params.swiglu_limit);
    };
    const RowPair both = exchange_rows(value(0), value(1), odd);
    return pair_of<Config::kActivations>(both.low, both.high);
  }

  template <int kGroups>
  NIBBLE_DEVICE static void store_gated(const W4A16Params& params, const Lane& me, const Tile& tile,
                                        const float (&factor)[kFactors],
                                        const Rows (&rows)[kBlocksOfGroup],
                                        const float (&sums)[kBlocksOfGroup][kGroups][4]) {
    const bool odd = me.lane / 4 % 2 != 0;
    const int64_t slot = tile.slot + 2 * (me.lane % 4) + (odd ? 1 : 0);
    uint8_t* to[kBlocksOfGroup];
#pragma unroll
    for (int block = 0; block < kBlocksOfGroup; ++block) {
      const int64_t column =
          kTileRows / 2 * (tile.block + block) + 8 * (me.warp % 4) + me.lane / 4 / 2 * 2;
      to[block] = static_cast<uint8_t*>(params.output) + slot_byte(slot, column, kOutputChunks);
    }
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      if (group >= tile.groups) break;
#pragma unroll
      for (int block = 0; block < kBlocksOfGroup; ++block) {
        if (!is_block(tile.block + block)) break;
        *reinterpret_cast<uint32_t*>(to[block] + group * (kOutputChunks * kSlotTileBytes)) =
            gated_pair(params, sums[block][group], factor, rows[block], odd);
      }
    }
  }

  template <int kGroups>  // of 8 tokens that there are sums of
  NIBBLE_DEVICE static void store(const W4A16Params& params, const Tables& tables, const Lane& me,
                                  const Place& place,
                                  const float (&sums)[kBlocksOfGroup][kGroups][4]) {
    const Tile tile{
        place.expert,
        int64_t{Work::first_block(place, rank_of_block())} + me.warp / 4 * kBlocksOfGroup,
        Work::first_slot(place, tables), Work::groups_of(place, tables)};
    const float* const alpha = params.alpha + int64_t{place.expert} * 2;
    const float factor[kFactors] = {alpha[0], alpha[1]};
    Rows rows[kBlocksOfGroup];
#pragma unroll
    for (int block = 0; block < kBlocksOfGroup; ++block) {
      rows[block] = rows_of(params, me, tile, block);
    }
    if constexpr (kGateUp) {
      store_gated(params, me, tile, factor, rows, sums);
    } else {
      store_plain(params, me, tile, factor, rows, sums);
    }
  }
};

}  // namespace nibble
