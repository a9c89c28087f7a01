// A whole layer of experts in one launch, for few tokens: such a layer is over in the time of a few
// launches, whatever its weights take.
//
// One block an SM, all there at once. Every block routes for itself (one_launch_route.cuh) and takes
// an equal part of gate and up, in slabs of 16 rows: its warps share the columns, and their sums
// meet in shared memory. Activated values go to memory; a counter says when all are there. Then a
// block takes some rows of down, for all experts and tokens, so that nothing is left to combine:
// tokens are the columns of the product, and those who have not chosen an expert are zero there.
// Sums are taken in one order, so that the same input gives the same bits.
//
// Every warp copies for itself, into a ring of its own, and down's weights follow those of gate and
// up without a pause: they are there, or on their way, when the counter is waited for.
//
// Config: constants of the variant, as OneLaunchKernel (one_launch.cpp) writes them.
#pragma once

#include "kernels/device/convert.cuh"
#include "kernels/gemm/device/outputs.cuh"
#include "kernels/moe/device/one_launch_stream.cuh"
#include "kernels/ptx/address.cuh"
#include "kernels/ptx/griddepcontrol.cuh"

namespace nibble {

template <class Config>
struct OneLaunch : OneLaunchStream<Config> {
  using Base = OneLaunchStream<Config>;
  using Base::kDownChunks;
  using Base::kGroups;
  using Base::kHidden;
  using Base::kIntermediate;
  using Base::kMostDownSlabs;
  using Base::kPlan;
  using Base::kRow;
  using Base::kShape;
  using Base::kSlabs;
  using Base::kSlots;
  using Base::kTables;
  using Base::kTactic;
  using Base::kTeamWarps;
  using Base::kTeams;
  using Base::kWarps;
  using Base::ask;
  using Base::chunks_of_warp;
  using Base::down_items;
  using Base::down_part;
  using Base::down_piece_of;
  using Base::multiply;
  using Base::opaque;
  using Base::open;
  using Base::take;
  using Base::token_of_row;
  using Base::token_of_x;
  using Base::up_part;
  using Base::up_piece_of;
  using typename Base::Lane;
  using typename Base::Route;
  using typename Base::Scales;
  using typename Base::Stream;
  using typename Base::Token;
  template <int kMost>
  using Codes = typename Base::template Codes<kMost>;
  template <int kOf>
  using Partials = typename Base::template Partials<kOf>;

  // ---- Gate and up

  // What one lane turns its sums into activated values by: output `i` of an expert.
  struct Gate {
    float factor[2];
    float bias[2] = {0, 0};

    NIBBLE_DEVICE Gate(const OneLaunchParams& params, int expert, int64_t output) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        factor[half] = params.gate_up_alpha[2 * expert + half];
        if constexpr (Config::kGateUpBias) {
          if (output < kIntermediate) {
            bias[half] = params.gate_up_bias[(int64_t{expert} * 2 + half) * kIntermediate + output];
          }
        }
      }
    }
    NIBBLE_DEVICE float value(const OneLaunchParams& params, float gate, float up) const {
      return gated<Config::kEpilogue>(gate * factor[0] + bias[0], up * factor[1] + bias[1],
                                      params.swiglu_alpha, params.swiglu_limit);
    }
  };

  // One slab's part of a warp's sums.
  NIBBLE_DEVICE static void multiply_slab(float (&sums)[4], const Bits128& codes, uint32_t both,
                                          const Token& token) {
    const Scales scales(both);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      uint32_t a[4];
      dequantize<Config::kActivations>(codes.word[j], scales.low, scales.high, a);
      multiply(sums, a, token, j);
    }
  }

  NIBBLE_DEVICE static void up_piece(const OneLaunchParams& params, const OneLaunchRouting& routing,
                                     const Partials<kTeamWarps>& partials, const Lane& me,
                                     Stream& stream, const SlabPiece& piece) {
    constexpr int kStep = kTeamWarps * kChunk;  // columns
    const int32_t pass = routing.passes[piece.matrix];
    const int expert = OneLaunchRouting::expert_of(pass);
    const int first = OneLaunchRouting::group_of(pass) * kSlotGroup;
    const int token = nth_token(routing.masks[expert], first + me.lane / 4);
    const int64_t output = int64_t{piece.slab + me.rank} * (kSlabRows / 2) + me.lane / 4;
    const Gate gate(params, expert, me.rank < piece.slabs ? output : kIntermediate);
    int64_t column = me.rank * kChunk + me.lane % 4 * 16;
    const uint16_t* from =
        token < 0 ? nullptr : static_cast<const uint16_t*>(params.x) + token * kHidden + column;
    float sums[kSlabs][4] = {};
    Token next = token_of_x(from, kHidden - column);
#pragma unroll 1
    for (int left = chunks_of_warp(me); left > 0; --left) {
      const Token tokens = next;
      column += kStep;
      if (from != nullptr) from += kStep;
      next = token_of_x(from, kHidden - column);
      Codes<kSlabs> codes;
      take(params, routing, me, stream, codes);
      const int slabs = opaque(piece.slabs);
#pragma unroll
      for (int i = 0; i < kSlabs; ++i) {
        if (i < slabs) multiply_slab(sums[i], codes.codes[i], codes.scales[i], tokens);
      }
    }
    me.meet_team();  // the last piece's partials have been read
#pragma unroll
    for (int i = 0; i < kSlabs; ++i) {
      if (i < piece.slabs) partials.put(i, me.rank, me.lane, sums[i]);
    }
    me.meet_team();
    if (me.rank >= piece.slabs) return;
    float four[4] = {};
    partials.total(me.rank, me.lane, four);
    const int count = __popc(routing.masks[expert]);
    auto* const rows = static_cast<uint16_t*>(params.activated);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int at = first + me.lane % 4 * 2 + i;
      if (at >= count) break;
      rows[(routing.bases[expert] + at) * kRow + output] =
          Number<Config::kActivations>::narrow(gate.value(params, four[i], four[2 + i]));
    }
  }

  // All pieces of the team's part, and word of it.
  NIBBLE_DEVICE static void gate_up(const OneLaunchParams& params, const OneLaunchRouting& routing,
                                    uint8_t* partials, const Lane& me, Stream& stream) {
    constexpr int kTeamBytes = kTeamWarps * kSlabs * 32 * static_cast<int>(sizeof(Float4));
    const Partials<kTeamWarps> own{reinterpret_cast<Float4*>(partials + me.team * kTeamBytes)};
    SlabPart part = up_part(routing, me);
#pragma unroll 1
    while (part.at < part.end) {
      const SlabPiece piece = up_piece_of(part);
      up_piece(params, routing, own, me, stream, piece);
      part.at += piece.slabs;
    }
    me.meet_team();
    if (me.rank == 0 && me.lane == 0) ptx::red_add_release_gpu(&params.progress->teams, 1);
  }

  // ---- Down

  using DownSums = float[kGroups][kMostDownSlabs][4];

  NIBBLE_DEVICE static int column_of(int group, int lane, int at) {
    return group * kSlotGroup + lane % 4 * 2 + at;
  }
  // 0 for a token that has not chosen the expert.
  NIBBLE_DEVICE static float value_of_token(const OneLaunchRouting& routing, const float* values,
                                            int expert, int token) {
    return (routing.masks[expert] >> token & 1U) != 0 ? values[routing.row_of(expert, token)] : 0.0F;
  }
  NIBBLE_DEVICE static bool has_group(uint32_t mask, int group) {
    return kGroups == 1 || (mask >> (group * kSlotGroup) & 0xffU) != 0;
  }

  // An active expert's bias by one of the warps.
  NIBBLE_DEVICE static void add_bias(const OneLaunchParams& params, const OneLaunchRouting& routing,
                                     const Lane& me, const SlabPiece& piece, DownSums& sums) {
#pragma unroll 1
    for (int active = me.warp; active < routing.totals[1]; active += kWarps) {
      const int expert = routing.actives[active];
      const float* const bias = params.down_bias + expert * kHidden;
#pragma unroll
      for (int i = 0; i < kMostDownSlabs; ++i) {
        if (i >= piece.slabs) break;
        const int64_t row = int64_t{piece.slab + i} * kSlabRows + me.lane / 4 * 2;
        const float low = row < kHidden ? bias[row] : 0.0F;
        const float high = row + 1 < kHidden ? bias[row + 1] : 0.0F;
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
#pragma unroll
          for (int at = 0; at < 2; ++at) {
            const float weight =
                value_of_token(routing, routing.weights, expert, column_of(group, me.lane, at));
            sums[group][i][at] += weight * low;
            sums[group][i][2 + at] += weight * high;
          }
        }
      }
    }
  }

  // What of an item comes from the first product, and what its sums count for.
  struct DownTokens {
    uint32_t mask;
    Token tokens[kGroups];
    float factors[kGroups][2];

    NIBBLE_DEVICE void load(const OneLaunchParams& params, const OneLaunchRouting& routing,
                            int32_t item, int lane) {
      const int expert = routing.actives[item / kDownChunks];
      mask = routing.masks[expert];
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        if (!has_group(mask, group)) continue;
        const int token = group * kSlotGroup + lane / 4;
        const int row = (mask >> token & 1U) != 0 ? routing.row_of(expert, token) : -1;
        tokens[group] = token_of_row(params.activated, row, item % kDownChunks, lane);
#pragma unroll
        for (int at = 0; at < 2; ++at) {
          factors[group][at] =
              value_of_token(routing, routing.factors, expert, column_of(group, lane, at));
        }
      }
    }
  };

  NIBBLE_DEVICE static void multiply_down(const DownTokens& with, const Bits128& codes,
                                          uint32_t both, int i, DownSums& sums) {
    const Scales scales(both);
    float some[kGroups][4] = {};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      uint32_t a[4];
      dequantize<Config::kActivations>(codes.word[j], scales.low, scales.high, a);
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        if (has_group(with.mask, group)) multiply(some[group], a, with.tokens[group], j);
      }
    }
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      if (!has_group(with.mask, group)) continue;
#pragma unroll
      for (int at = 0; at < 2; ++at) {
        sums[group][i][at] += with.factors[group][at] * some[group][at];
        sums[group][i][2 + at] += with.factors[group][at] * some[group][2 + at];
      }
    }
  }

  NIBBLE_DEVICE static void down_piece(const OneLaunchParams& params,
                                       const OneLaunchRouting& routing, const Lane& me,
                                       Stream& stream, const SlabPiece& piece, DownSums& sums) {
    constexpr bool kAhead = kGroups == 1;  // registers allow it
    const int32_t items = piece.slabs > 0 ? down_items(routing) : 0;
    DownTokens next;
    if (kAhead && me.warp < items) next.load(params, routing, me.warp, me.lane);
#pragma unroll 1
    for (int32_t item = me.warp; item < items; item += kWarps) {
      if (!kAhead) next.load(params, routing, item, me.lane);
      const DownTokens now = next;
      if (kAhead && item + kWarps < items) next.load(params, routing, item + kWarps, me.lane);
      Codes<kMostDownSlabs> codes;
      take(params, routing, me, stream, codes);
      const int slabs = opaque(piece.slabs);
#pragma unroll
      for (int i = 0; i < kMostDownSlabs; ++i) {
        if (i < slabs) multiply_down(now, codes.codes[i], codes.scales[i], i, sums);
      }
    }
  }

  NIBBLE_DEVICE static void store_y(const OneLaunchParams& params, int64_t row, int token,
                                    float low, float high) {
    if (token >= params.tokens || row >= kHidden) return;
    const int64_t at = token * kHidden + row;
    if (params.shared != nullptr) {
      using Bits = typename Number<kShape.output>::Bits;
      const auto* const shared = static_cast<const Bits*>(params.shared) + at;
      low += Number<kShape.output>::widen(shared[0]);
      high += Number<kShape.output>::widen(shared[1]);
    }
    store_pair<kShape.output, true>(params.y, at, low, high, true);
  }

  NIBBLE_DEVICE static void store_down(const OneLaunchParams& params,
                                       const Partials<kWarps>& partials, const Lane& me,
                                       const SlabPiece& piece, const DownSums& sums) {
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      if (group * kSlotGroup >= params.tokens) break;
      __syncthreads();  // the last partials have been read
#pragma unroll
      for (int i = 0; i < kMostDownSlabs; ++i) {
        if (i < piece.slabs) partials.put(i, me.warp, me.lane, sums[group][i]);
      }
      __syncthreads();
      if (me.warp >= piece.slabs) continue;
      float four[4] = {};
      partials.total(me.warp, me.lane, four);
      const int64_t row = int64_t{piece.slab + me.warp} * kSlabRows + me.lane / 4 * 2;
#pragma unroll
      for (int at = 0; at < 2; ++at) {
        store_y(params, row, column_of(group, me.lane, at), four[at], four[2 + at]);
      }
    }
  }

  // All teams' parts of gate and up are in memory. Thread 0 learns what the counter of blocks was.
  NIBBLE_DEVICE static uint32_t wait_for_all(const OneLaunchParams& params) {
    uint32_t before = 0;
    if (threadIdx.x == 0) {
      while (ptx::ld_acquire_gpu(&params.progress->teams) != kTactic.blocks * kTeams) {
      }
      before = ptx::atom_add_gpu(&params.progress->blocks, 1);
    }
    __syncthreads();
    return before;
  }

  NIBBLE_DEVICE static void run(const OneLaunchParams& params) {
    extern __shared__ __align__(1024) uint8_t shared[];
    const OneLaunchRouting routing = OneLaunchRouting::at(
        reinterpret_cast<uint32_t*>(shared + kPlan.table_begin), kTables, kWarps);
    const auto warp = static_cast<int>(threadIdx.x / 32);
    const Lane me{warp, static_cast<int>(threadIdx.x % 32), warp / kTeamWarps, warp % kTeamWarps};
    ptx::griddepcontrol_wait();
    ptx::griddepcontrol_launch_dependents();
    Route::run(params, routing);
    Stream stream{.ring = ptx::cvta_to_shared(shared) + warp * kSlots * kPlan.slot,
                  .part = up_part(routing, me)};
    open(params, routing, me, stream);
#pragma unroll 1
    for (int slot = 0; slot < kSlots; ++slot, stream.advance()) ask(params, routing, me, stream);
    Route::weigh(params, routing);
    gate_up(params, routing, shared + kPlan.partial_begin, me, stream);
    __syncthreads();  // weights and factors can be read
    uint32_t before = 0;
    SlabPart part = down_part();
#pragma unroll 1
    for (bool first = true; first || part.at < part.end; first = false) {
      const SlabPiece piece = down_piece_of(part);
      DownSums sums = {};
      if constexpr (Config::kDownBias) add_bias(params, routing, me, piece, sums);
      if (first) before = wait_for_all(params);
      down_piece(params, routing, me, stream, piece, sums);
      store_down(params, {reinterpret_cast<Float4*>(shared + kPlan.partial_begin)}, me, piece,
                 sums);
      part.at += piece.slabs;
    }
    if (threadIdx.x == 0 && before == kTactic.blocks - 1) *params.progress = {};
  }
};

}  // namespace nibble
