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
  using typename Work::Sums;
  using typename Work::Tables;
  using Work::kBlocksOfGroup;
  using Work::kFactors;
  using Work::kGateUp;
  using Work::kGroupsOfTokens;
  using Work::kOutputChunks;
  using Work::kTactic;
  using Work::kWeights;
  using Work::rank_of_block;

  // Who stores.
  struct Lane {
    int warp;  // of all multiplying warps
    int lane;
  };

  // Row numbers that a lane's two rows of a block stand for.
  struct Rows {
    float factor[kFactors];
    float bias[kFactors];
  };

  NIBBLE_DEVICE static Rows rows_of(const W4A16Params& params, int32_t expert, int64_t block,
                                    int row) {
    Rows rows;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rows.factor[half] = params.alpha[int64_t{expert} * 2 + half];
      rows.bias[half] = 0;
      if constexpr (Config::kBias) {
        const int64_t source = source_row(kGateUp ? RowOrder::kGateUp : RowOrder::kPlain, block,
                                          row + 8 * half, Config::kN);
        if (source < Config::kN) rows.bias[half] = params.bias[expert * Config::kN + source];
      }
    }
    return rows;
  }

  NIBBLE_DEVICE static void store_gated(const W4A16Params& params, const Lane& me, const Rows& rows,
                                        int64_t block, int32_t slot, const float (&four)[4]) {
    const auto value = [&](int token) {
      return gated<Config::kEpilogue>(four[token] * rows.factor[0] + rows.bias[0],
                                      four[2 + token] * rows.factor[1] + rows.bias[1],
                                      params.swiglu_alpha, params.swiglu_limit);
    };
    const bool odd = me.lane / 4 % 2 != 0;
    const RowPair both = exchange_rows(value(0), value(1), odd);
    const uint32_t pair = pair_of<Config::kActivations>(both.low, both.high);
    const int64_t column = kTileRows / 2 * block + 8 * (me.warp % 4) + me.lane / 4 / 2 * 2;
    const int64_t byte = slot_byte(slot + 2 * (me.lane % 4) + (odd ? 1 : 0), column, kOutputChunks);
    *reinterpret_cast<uint32_t*>(static_cast<uint8_t*>(params.output) + byte) = pair;
  }

  NIBBLE_DEVICE static void store_plain(const W4A16Params& params, const Lane& me, const Rows& rows,
                                        int64_t block, int32_t slot, const float (&four)[4]) {
    const int64_t row = kTileRows * block + 16 * (me.warp % 4) + 2 * (me.lane / 4);
    if (row >= Config::kN) return;
#pragma unroll
    for (int token = 0; token < 2; ++token) {
      const int64_t to = slot + 2 * (me.lane % 4) + token;
      const float weight = params.slot_weight != nullptr ? params.slot_weight[to] : 1.0F;
      store_pair<Config::kOutput, Config::kN % 2 == 0>(
          params.output, to * Config::kN + row,
          (four[token] * rows.factor[0] + rows.bias[0]) * weight,
          (four[2 + token] * rows.factor[1] + rows.bias[1]) * weight, row + 1 < Config::kN);
    }
  }

  NIBBLE_DEVICE static void store(const W4A16Params& params, const Tables& tables, const Lane& me,
                                  const Place& place, const Sums& sums) {
    const int groups = Work::groups_of(place, tables);
    const int32_t slot = Work::first_slot(place, tables);
#pragma unroll
    for (int block = 0; block < kBlocksOfGroup; ++block) {
      const int64_t at =
          Work::first_block(place, rank_of_block()) + me.warp / 4 * kBlocksOfGroup + block;
      if (at >= kWeights.blocks) continue;
      const Rows rows = rows_of(params, place.expert, at, me.warp % 4 * 16 + me.lane / 4);
#pragma unroll
      for (int group = 0; group < kGroupsOfTokens; ++group) {
        if (group >= groups) break;
        if constexpr (kGateUp) {
          store_gated(params, me, rows, at, slot + group * kSlotGroup, sums[block][group]);
        } else {
          store_plain(params, me, rows, at, slot + group * kSlotGroup, sums[block][group]);
        }
      }
    }
  }
};

}  // namespace nibble
