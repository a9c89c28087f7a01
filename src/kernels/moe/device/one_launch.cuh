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
#include "kernels/gemm/device/dequantize.cuh"
#include "kernels/gemm/device/outputs.cuh"
#include "kernels/moe/device/one_launch_route.cuh"
#include "kernels/ptx/address.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/shared.cuh"
#include "kernels/ptx/stream_load.cuh"
#include "kernels/ptx/sync.cuh"

namespace nibble {

template <class Config>
struct OneLaunch {
  static constexpr OneLaunchTactic kTactic = Config::kTactic;
  static constexpr MoeShape kShape = Config::kShape;
  static constexpr int64_t kHidden = kShape.hidden;
  static constexpr int64_t kIntermediate = Config::kIntermediate;
  static constexpr bool kNvfp4 = Config::kFormat == WeightFormat::kNvfp4;
  static constexpr int kScaleBytes = kNvfp4 ? kNvfp4ScaleBytes : kMxfp4ScaleBytes;
  static constexpr int kSlabScaleBytes = kScaleBytes / kSlabsOfTile;
  static constexpr WeightTiles kUp =
      weight_tiles(2 * kIntermediate, kHidden, kScaleBytes, RowOrder::kGateUp);
  static constexpr WeightTiles kDown =
      weight_tiles(kHidden, kIntermediate, kScaleBytes, RowOrder::kPlain);
  static constexpr int kUpSlabs = static_cast<int>(kUp.blocks) * kSlabsOfTile;
  static constexpr int kDownSlabs = static_cast<int>(ceil_div(kHidden, kSlabRows));
  static constexpr int kUpChunks = static_cast<int>(kUp.chunks);
  static constexpr int kDownChunks = static_cast<int>(kDown.chunks);
  static constexpr int64_t kRow = int64_t{kDownChunks} * kChunk;  // of activated values
  static constexpr int kSlabs = kTactic.slabs;
  static constexpr int kSlots = kTactic.slots;
  static constexpr int kWarps = kTactic.warps;
  static constexpr int kGroups = kTactic.groups();
  static constexpr OneLaunchTables kTables{kShape.experts, kTactic.tokens* kShape.top_k};
  static constexpr OneLaunchPlan kPlan = one_launch_plan(kTactic, kScaleBytes, kTables);
  static constexpr int kSlab = static_cast<int>(kPlan.slab);
  using Route = OneLaunchRoute<kShape, kTactic.threads()>;

  // ---- What a warp copies

  // A warp's items one after the other: every kWarps-th chunk of a piece, the pieces of gate and up,
  // then those of down, where a piece's chunks are those of all experts that have tokens.
  struct Cursor {
    SlabPart part;
    SlabPiece piece;
    int32_t item;
    int stage;  // 0: gate and up, 1: down, 2: no more

    NIBBLE_DEVICE void begin(const OneLaunchRouting& routing, int warp) {
      part = up_part(routing);
      item = warp;
      stage = 0;
      if (part.at < part.end) piece = slab_piece(part, kUpSlabs, kSlabs);
      settle(routing, warp);
    }
    NIBBLE_DEVICE void next(const OneLaunchRouting& routing, int warp) {
      item += kWarps;
      settle(routing, warp);
    }
    // Passes over pieces that have no item of this warp.
    NIBBLE_DEVICE void settle(const OneLaunchRouting& routing, int warp) {
      while (stage < 2) {
        if (part.at < part.end) {
          if (item < (stage == 0 ? kUpChunks : down_items(routing))) return;
          part.at += piece.slabs;
          item = warp;
        }
        if (part.at >= part.end && ++stage == 1) part = down_part();
        if (part.at < part.end) piece = slab_piece(part, stage == 0 ? kUpSlabs : kDownSlabs, kSlabs);
      }
    }
  };

  NIBBLE_DEVICE static SlabPart up_part(const OneLaunchRouting& routing) {
    return slab_part(int64_t{routing.totals[0]} * kUpSlabs, blockIdx.x, gridDim.x);
  }
  NIBBLE_DEVICE static SlabPart down_part() {
    return slab_part(kDownSlabs, blockIdx.x, gridDim.x);
  }
  NIBBLE_DEVICE static int down_items(const OneLaunchRouting& routing) {
    return routing.totals[1] * kDownChunks;
  }

  struct Warp {
    int warp;
    int lane;
    uint32_t ring;
    int slot;
    Cursor ahead;
    uint64_t policy;

    NIBBLE_DEVICE uint32_t slot_begin() const { return ring + slot * kPlan.slot; }
    NIBBLE_DEVICE void advance() { slot = slot + 1 == kSlots ? 0 : slot + 1; }
  };

  template <bool kIsUp>
  NIBBLE_DEVICE static void copy(const uint8_t* weights, const Warp& me, int expert, int chunk) {
    constexpr WeightTiles kTiles = kIsUp ? kUp : kDown;
    const uint32_t to = me.slot_begin() + me.lane * 16;
#pragma unroll
    for (int i = 0; i < kSlabs; ++i) {
      if (i >= me.ahead.piece.slabs) break;
      const int slab = me.ahead.piece.slab + i;
      const int quarter = slab % kSlabsOfTile;
      const uint8_t* const tile =
          weights + kTiles.tile_begin(expert, slab / kSlabsOfTile, chunk) + me.lane * 16;
      ptx::cp_async_16(to + i * kSlab, tile + quarter * kSlabCodeBytes, me.policy);
      if (me.lane < kSlabScaleBytes / 16) {
        ptx::cp_async_16(to + i * kSlab + kSlabCodeBytes,
                         tile + kCodeBytes + quarter * kSlabScaleBytes, me.policy);
      }
    }
  }

  // Asks for the next item that is not yet under way, if there is one, into the warp's slot.
  NIBBLE_DEVICE static void ask(const OneLaunchParams& params, const OneLaunchRouting& routing,
                                Warp& me) {
    const Cursor& ahead = me.ahead;
    if (ahead.stage == 0) {
      const int expert = OneLaunchRouting::expert_of(routing.passes[ahead.piece.matrix]);
      copy<true>(params.gate_up, me, expert, ahead.item);
    } else if (ahead.stage == 1) {
      copy<false>(params.down, me, routing.actives[ahead.item / kDownChunks],
                  ahead.item % kDownChunks);
    }
    ptx::cp_async_commit_group();
    me.ahead.next(routing, me.warp);
  }

  // ---- What a warp multiplies

  // A lane's sixteen bytes of codes and its two scales, of each slab.
  struct Codes {
    Bits128 codes[kSlabs];
    uint32_t scales[kSlabs];

    NIBBLE_DEVICE void load(const Warp& me, int slabs) {
      const uint32_t from = me.slot_begin();
      const int pair = kNvfp4 ? me.lane : me.lane / 4 * 2 + me.lane % 4 / 2;
#pragma unroll
      for (int i = 0; i < kSlabs; ++i) {
        if (i >= slabs) break;
        codes[i] = ptx::ld_shared_16(from + i * kSlab + me.lane * 16);
        scales[i] = ptx::ld_shared_2(from + i * kSlab + kSlabCodeBytes + pair * 2);
      }
    }
  };

  // Takes the oldest item out of the ring, and asks for another into its place.
  NIBBLE_DEVICE static void take(const OneLaunchParams& params, const OneLaunchRouting& routing,
                                 Warp& me, int slabs, Codes& codes) {
    ptx::cp_async_wait_group<kSlots - 1>();
    __syncwarp();
    codes.load(me, slabs);
    __syncwarp();
    ask(params, routing, me);
    me.advance();
  }

  // Sixteen columns of a token, or zeros: the right operand of four products.
  struct Token {
    Bits128 half[2];
  };

  NIBBLE_DEVICE static Token token_of_x(const void* x, int token, int chunk, int lane) {
    Token result{};
    const int64_t column = int64_t{chunk} * kChunk + lane % 4 * 16;
    const auto* const from = static_cast<const uint16_t*>(x) + token * kHidden + column;
    if constexpr (kHidden % 16 == 0) {
      if (token >= 0 && column < kHidden) {
#pragma unroll
        for (int i = 0; i < 2; ++i) result.half[i] = reinterpret_cast<const Bits128*>(from)[i];
      }
    } else {
#pragma unroll
      for (int pair = 0; pair < 8; ++pair) {
        if (token >= 0 && column + 2 * pair < kHidden) {
          result.half[pair / 4].word[pair % 4] = reinterpret_cast<const uint32_t*>(from)[pair];
        }
      }
    }
    return result;
  }

  // Of activated values, which other blocks wrote.
  NIBBLE_DEVICE static Token token_of_row(const void* activated, int row, int chunk, int lane) {
    Token result{};
    if (row >= 0) {
      const auto* const from = static_cast<const uint16_t*>(activated) + row * kRow +
                               int64_t{chunk} * kChunk + lane % 4 * 16;
#pragma unroll
      for (int i = 0; i < 2; ++i) result.half[i] = ptx::ld_global_cg_16(from + 8 * i);
    }
    return result;
  }

  NIBBLE_DEVICE static void multiply(float (&sums)[4], const uint32_t (&a)[4], const Token& token,
                                     int j) {
    const uint32_t b0 = token.half[j / 2].word[j % 2 * 2];
    const uint32_t b1 = token.half[j / 2].word[j % 2 * 2 + 1];
    if constexpr (Config::kActivations == Element::kBf16) {
      ptx::mma_m16n8k16_bf16(sums, a, b0, b1);
    } else {
      ptx::mma_m16n8k16_f16(sums, a, b0, b1);
    }
  }

  struct Scales {
    uint32_t low;
    uint32_t high;
    NIBBLE_DEVICE explicit Scales(uint32_t both)
        : low(scale_pair<Config::kFormat, Config::kActivations>(both & 0xffU)),
          high(scale_pair<Config::kFormat, Config::kActivations>(both >> 8)) {}
  };

  // ---- Sums of all warps

  struct Partials {
    Float4* sums;  // [slabs][warps][32]
    NIBBLE_DEVICE void put(int slab, const Warp& me, const float (&four)[4]) const {
      sums[(slab * kWarps + me.warp) * 32 + me.lane] = {four[0], four[1], four[2], four[3]};
    }
    NIBBLE_DEVICE void total(int slab, int lane, float (&four)[4]) const {
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) {
        const Float4 some = sums[(slab * kWarps + warp) * 32 + lane];
#pragma unroll
        for (int i = 0; i < 4; ++i) four[i] += some.value[i];
      }
    }
  };

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

  NIBBLE_DEVICE static void up_piece(const OneLaunchParams& params, const OneLaunchRouting& routing,
                                     const Partials& partials, Warp& me, const SlabPiece& piece) {
    const int32_t pass = routing.passes[piece.matrix];
    const int expert = OneLaunchRouting::expert_of(pass);
    const int first = OneLaunchRouting::group_of(pass) * kSlotGroup;
    const int token = nth_token(routing.masks[expert], first + me.lane / 4);
    const int64_t output = int64_t{piece.slab + me.warp} * (kSlabRows / 2) + me.lane / 4;
    const Gate gate(params, expert, me.warp < piece.slabs ? output : kIntermediate);
    float sums[kSlabs][4] = {};
    Token next = token_of_x(params.x, me.warp < kUpChunks ? token : -1, me.warp, me.lane);
    for (int chunk = me.warp; chunk < kUpChunks; chunk += kWarps) {
      const Token tokens = next;
      next = token_of_x(params.x, chunk + kWarps < kUpChunks ? token : -1, chunk + kWarps, me.lane);
      Codes codes;
      take(params, routing, me, piece.slabs, codes);
#pragma unroll
      for (int i = 0; i < kSlabs; ++i) {
        if (i >= piece.slabs) break;
        const Scales scales(codes.scales[i]);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          uint32_t a[4];
          dequantize<Config::kActivations>(codes.codes[i].word[j], scales.low, scales.high, a);
          multiply(sums[i], a, tokens, j);
        }
      }
    }
    __syncthreads();  // the last piece's partials have been read
#pragma unroll
    for (int i = 0; i < kSlabs; ++i) {
      if (i < piece.slabs) partials.put(i, me, sums[i]);
    }
    __syncthreads();
    if (me.warp >= piece.slabs) return;
    float four[4] = {};
    partials.total(me.warp, me.lane, four);
    const int count = __popc(routing.masks[expert]);
    auto* const rows = static_cast<uint16_t*>(params.activated);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int at = first + me.lane % 4 * 2 + i;
      if (at >= count) break;
      rows[(routing.bases[expert] + at) * kRow + output] =
          Number<Config::kActivations>::narrow(gate.value(params, four[i], four[2 + i]));
    }
    __syncwarp();
    if (me.lane == 0) ptx::red_add_release_gpu(&params.progress->slabs, 1);
  }

  // ---- Down

  using DownSums = float[kGroups][kSlabs][4];

  // An active expert's bias by one of the warps.
  NIBBLE_DEVICE static void add_bias(const OneLaunchParams& params, const OneLaunchRouting& routing,
                                     const Warp& me, const SlabPiece& piece, DownSums& sums) {
    for (int active = me.warp; active < routing.totals[1]; active += kWarps) {
      const int expert = routing.actives[active];
      const float* const bias = params.down_bias + expert * kHidden;
#pragma unroll
      for (int i = 0; i < kSlabs; ++i) {
        if (i >= piece.slabs) break;
        const int64_t row = int64_t{piece.slab + i} * kSlabRows + me.lane / 4 * 2;
        const float low = row < kHidden ? bias[row] : 0.0F;
        const float high = row + 1 < kHidden ? bias[row + 1] : 0.0F;
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
#pragma unroll
          for (int at = 0; at < 2; ++at) {
            const float weight =
                value_of_token(routing, routing.weights, expert, column(group, me.lane, at));
            sums[group][i][at] += weight * low;
            sums[group][i][2 + at] += weight * high;
          }
        }
      }
    }
  }

  NIBBLE_DEVICE static int column(int group, int lane, int at) {
    return group * kSlotGroup + lane % 4 * 2 + at;
  }
  // 0 for a token that has not chosen the expert.
  NIBBLE_DEVICE static float value_of_token(const OneLaunchRouting& routing, const float* values,
                                            int expert, int token) {
    return (routing.masks[expert] >> token & 1U) != 0 ? values[routing.row_of(expert, token)] : 0.0F;
  }

  NIBBLE_DEVICE static void down_item(const OneLaunchParams& params,
                                      const OneLaunchRouting& routing, Warp& me,
                                      const SlabPiece& piece, int32_t item, DownSums& sums) {
    const int expert = routing.actives[item / kDownChunks];
    const int chunk = item % kDownChunks;
    const uint32_t mask = routing.masks[expert];
    Token tokens[kGroups];
    float factors[kGroups][2];
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      if ((mask >> (group * kSlotGroup) & 0xffU) == 0) continue;
      const int token = group * kSlotGroup + me.lane / 4;
      const int row = (mask >> token & 1U) != 0 ? routing.row_of(expert, token) : -1;
      tokens[group] = token_of_row(params.activated, row, chunk, me.lane);
#pragma unroll
      for (int at = 0; at < 2; ++at) {
        factors[group][at] =
            value_of_token(routing, routing.factors, expert, column(group, me.lane, at));
      }
    }
    Codes codes;
    take(params, routing, me, piece.slabs, codes);
#pragma unroll
    for (int i = 0; i < kSlabs; ++i) {
      if (i >= piece.slabs) break;
      const Scales scales(codes.scales[i]);
      uint32_t a[4][4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        dequantize<Config::kActivations>(codes.codes[i].word[j], scales.low, scales.high, a[j]);
      }
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        if ((mask >> (group * kSlotGroup) & 0xffU) == 0) continue;
        float some[4] = {};
#pragma unroll
        for (int j = 0; j < 4; ++j) multiply(some, a[j], tokens[group], j);
#pragma unroll
        for (int at = 0; at < 2; ++at) {
          sums[group][i][at] += factors[group][at] * some[at];
          sums[group][i][2 + at] += factors[group][at] * some[2 + at];
        }
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

  NIBBLE_DEVICE static void store_down(const OneLaunchParams& params, const Partials& partials,
                                       const Warp& me, const SlabPiece& piece,
                                       const DownSums& sums) {
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      if (group * kSlotGroup >= params.tokens) break;
      __syncthreads();  // the last partials have been read
#pragma unroll
      for (int i = 0; i < kSlabs; ++i) {
        if (i < piece.slabs) partials.put(i, me, sums[group][i]);
      }
      __syncthreads();
      if (me.warp >= piece.slabs) continue;
      float four[4] = {};
      partials.total(me.warp, me.lane, four);
      const int64_t row = int64_t{piece.slab + me.warp} * kSlabRows + me.lane / 4 * 2;
#pragma unroll
      for (int at = 0; at < 2; ++at) {
        store_y(params, row, column(group, me.lane, at), four[at], four[2 + at]);
      }
    }
  }

  // All slabs of gate and up are in memory. The answer is what the counter of blocks was.
  NIBBLE_DEVICE static uint32_t wait_for_all(const OneLaunchParams& params, uint32_t slabs) {
    uint32_t before = 0;
    if (threadIdx.x == 0) {
      while (ptx::ld_acquire_gpu(&params.progress->slabs) != slabs) {
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
    const Partials partials{reinterpret_cast<Float4*>(shared + kPlan.partial_begin)};
    ptx::griddepcontrol_wait();
    ptx::griddepcontrol_launch_dependents();
    Route::run(params, routing);
    Warp me{.warp = static_cast<int>(threadIdx.x / 32),
            .lane = static_cast<int>(threadIdx.x % 32),
            .slot = 0,
            .policy = ptx::createpolicy_evict_first()};
    me.ring = ptx::cvta_to_shared(shared) + me.warp * kSlots * kPlan.slot;
    me.ahead.begin(routing, me.warp);
    for (int slot = 0; slot < kSlots; ++slot, me.advance()) ask(params, routing, me);
    Route::weigh(params, routing);

    SlabPart part = up_part(routing);
    while (part.at < part.end) {
      const SlabPiece piece = slab_piece(part, kUpSlabs, kSlabs);
      up_piece(params, routing, partials, me, piece);
      part.at += piece.slabs;
    }
    __syncthreads();  // weights and factors can be read
    uint32_t before = 0;
    part = down_part();
    for (bool first = true; part.at < part.end || first; first = false) {
      const SlabPiece piece = part.at < part.end ? slab_piece(part, kDownSlabs, kSlabs) : SlabPiece{};
      DownSums sums = {};
      if constexpr (Config::kDownBias) add_bias(params, routing, me, piece, sums);
      if (first) before = wait_for_all(params, routing.totals[0] * kUpSlabs);
      for (int32_t item = me.warp; piece.slabs > 0 && item < down_items(routing); item += kWarps) {
        down_item(params, routing, me, piece, item, sums);
      }
      store_down(params, partials, me, piece, sums);
      part.at += piece.slabs;
    }
    if (threadIdx.x == 0 && before == gridDim.x - 1) *params.progress = {};
  }
};

}  // namespace nibble
