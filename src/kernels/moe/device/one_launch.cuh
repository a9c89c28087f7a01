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
  static constexpr int kTileBytes = kCodeBytes + kScaleBytes;
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
  static constexpr int kMostDownSlabs = kTactic.down_slabs;
  static constexpr int kSlots = kTactic.slots;
  static constexpr int kWarps = kOneLaunchWarps;
  static constexpr int kTeams = kTactic.teams;
  static constexpr int kTeamWarps = kTactic.team_warps();
  static constexpr int kGroups = kTactic.groups();
  static constexpr OneLaunchTables kTables{kShape.experts, kTactic.tokens* kShape.top_k};
  static constexpr OneLaunchPlan kPlan = one_launch_plan(kTactic, kScaleBytes, kTables);
  using Route = OneLaunchRoute<kShape, kTactic.threads()>;

  struct Lane {
    int warp;
    int lane;
    int team;
    int rank;  // of the warp in its team

    NIBBLE_DEVICE void meet_team() const {
      if constexpr (kTeams == 1) {
        __syncthreads();
      } else {
        ptx::bar_sync(1 + team, 32 * kTeamWarps);
      }
    }
  };

  NIBBLE_DEVICE static SlabPart up_part(const OneLaunchRouting& routing, const Lane& me) {
    return slab_part(routing.totals[0] * kUpSlabs, static_cast<int>(blockIdx.x) * kTeams + me.team,
                     kTactic.blocks * kTeams);
  }
  NIBBLE_DEVICE static SlabPiece up_piece_of(const SlabPart& part) {
    return slab_piece(part, kUpSlabs, kSlabs, RowOrder::kGateUp);
  }
  // Chunks of a piece that a warp of a team has: every kTeamWarps-th.
  NIBBLE_DEVICE static int chunks_of_warp(const Lane& me) {
    return (kUpChunks - me.rank + kTeamWarps - 1) / kTeamWarps;
  }
  NIBBLE_DEVICE static SlabPart down_part() {
    return slab_part(kDownSlabs, static_cast<int>(blockIdx.x), kTactic.blocks);
  }
  NIBBLE_DEVICE static SlabPiece down_piece_of(const SlabPart& part) {
    return slab_piece(part, kDownSlabs, kMostDownSlabs, RowOrder::kPlain);
  }
  // Chunks of all experts that have tokens, of which a warp takes every kWarps-th.
  NIBBLE_DEVICE static int down_items(const OneLaunchRouting& routing) {
    return routing.totals[1] * kDownChunks;
  }

  // The same number, of which the compiler knows nothing: it would make a copy of the code for each.
  NIBBLE_DEVICE static int opaque(int number) {
    asm volatile("" : "+r"(number));
    return number;
  }

  // ---- What a warp copies

  // A warp's items one after the other: its chunks of a piece, the pieces of gate and up, then those
  // of down.
  struct Stream {
    uint32_t ring;
    uint32_t slot = 0;  // bytes from the ring's beginning
    int stage = 0;  // 0: gate and up, 1: down, 2: no more
    int slabs = 0;  // of the piece
    int left = 0;   // gate and up: items of the piece; down: its next item
    SlabPart part;
    const uint8_t* codes;   // of the next item, as the lane copies them; down: of expert 0, chunk 0
    const uint8_t* scales;

    NIBBLE_DEVICE void advance() {
      slot = slot + kPlan.slot == kSlots * kPlan.slot ? 0 : slot + kPlan.slot;
    }
  };

  // Where the tile of a slab's chunk begins. Tiles are counted in 32 bits: 2^31 of them would be 4 TB.
  template <bool kIsUp>
  NIBBLE_DEVICE static int64_t tile_begin(int expert, int slab, int chunk) {
    constexpr int kBlocks = static_cast<int>(kIsUp ? kUp.blocks : kDown.blocks);
    constexpr int kChunks = kIsUp ? kUpChunks : kDownChunks;
    return int64_t{(expert * kBlocks + slab / kSlabsOfTile) * kChunks + chunk} * kTileBytes;
  }
  // Of the tile, what is a slab's.
  NIBBLE_DEVICE static int codes_in_tile(int slab) { return slab % kSlabsOfTile * kSlabCodeBytes; }
  NIBBLE_DEVICE static int scales_in_tile(int slab) {
    return kCodeBytes + slab % kSlabsOfTile * kSlabScaleBytes;
  }

  static constexpr int kScaleLanes = kSlabScaleBytes / 16;  // that copy a slab's scales

  NIBBLE_DEVICE static void open_up(const OneLaunchParams& params, const OneLaunchRouting& routing,
                                    const Lane& me, Stream& stream) {
    const SlabPiece piece = up_piece_of(stream.part);
    const int expert = OneLaunchRouting::expert_of(routing.passes[piece.matrix]);
    const uint8_t* const tile =
        params.gate_up + tile_begin<true>(expert, piece.slab, me.rank) + me.lane * 16;
    stream.slabs = piece.slabs;
    stream.left = chunks_of_warp(me);
    stream.codes = tile + codes_in_tile(piece.slab);
    stream.scales = tile + scales_in_tile(piece.slab);
    stream.part.at += piece.slabs;
  }

  NIBBLE_DEVICE static void open_down(const OneLaunchParams& params, const Lane& me,
                                      Stream& stream) {
    const SlabPiece piece = down_piece_of(stream.part);
    const int scaled = piece.slab + me.lane / kScaleLanes;
    stream.slabs = piece.slabs;
    stream.left = me.warp;
    stream.codes = params.down + tile_begin<false>(0, piece.slab, 0) + me.lane * 16 +
                   codes_in_tile(piece.slab);
    stream.scales = params.down + tile_begin<false>(0, scaled, 0) +
                    me.lane % kScaleLanes * 16 + scales_in_tile(scaled);
    stream.part.at += piece.slabs;
  }

  // The next piece that has items of this warp.
  NIBBLE_DEVICE static void open(const OneLaunchParams& params, const OneLaunchRouting& routing,
                                 const Lane& me, Stream& stream) {
    if (stream.stage == 0 && (stream.part.at >= stream.part.end || chunks_of_warp(me) == 0)) {
      stream.stage = 1;
      stream.part = down_part();
      if (me.warp >= down_items(routing)) stream.part.at = stream.part.end;
    }
    if (stream.part.at >= stream.part.end) {
      stream.stage = 2;
    } else if (stream.stage == 0) {
      open_up(params, routing, me, stream);
    } else {
      open_down(params, me, stream);
    }
  }

  NIBBLE_DEVICE static void copy_up(Stream& stream, const Lane& me) {
    constexpr int64_t kStep = kTeamWarps * kTileBytes;
    const uint32_t to = stream.ring + stream.slot + me.lane * 16;
    const int slabs = opaque(stream.slabs);
#pragma unroll
    for (int i = 0; i < kSlabs; ++i) {
      if (i < slabs) {
        ptx::cp_async_16(to + i * kSlabCodeBytes, stream.codes + i * kSlabCodeBytes);
      }
    }
    if (me.lane < slabs * kScaleLanes) {
      ptx::cp_async_16(to + kPlan.scales, stream.scales);
    }
    stream.codes += kStep;
    stream.scales += kStep;
    --stream.left;
  }

  NIBBLE_DEVICE static void copy_down(const OneLaunchRouting& routing, Stream& stream,
                                      const Lane& me, int within) {
    // From the last slab of a block to the first of the next.
    constexpr int64_t kBeyond = kDownChunks * kTileBytes - kCodeBytes;
    const uint32_t to = stream.ring + stream.slot + me.lane * 16;
    const int slabs = opaque(stream.slabs);
    const int64_t item = tile_begin<false>(routing.actives[stream.left / kDownChunks], 0,
                                           stream.left % kDownChunks);
    const uint8_t* const codes = stream.codes + item;
#pragma unroll
    for (int i = 0; i < kMostDownSlabs; ++i) {
      if (i < slabs) {
        ptx::cp_async_16(to + i * kSlabCodeBytes,
                         codes + i * kSlabCodeBytes + (i < within ? 0 : kBeyond));
      }
    }
    if (me.lane < slabs * kScaleLanes) {
      ptx::cp_async_16(to + kPlan.scales, stream.scales + item);
    }
    stream.left += kWarps;
  }

  // Asks for the next item that is not yet under way, if there is one, into the stream's slot.
  NIBBLE_DEVICE static void ask(const OneLaunchParams& params, const OneLaunchRouting& routing,
                                const Lane& me, Stream& stream) {
    if (stream.stage == 0) {
      copy_up(stream, me);
      if (stream.left == 0) open(params, routing, me, stream);
    } else if (stream.stage == 1) {
      const int first = stream.part.at - stream.slabs;
      copy_down(routing, stream, me, kSlabsOfTile - first % kSlabsOfTile);
      if (stream.left >= down_items(routing)) open(params, routing, me, stream);
    }
    ptx::cp_async_commit_group();
  }

  // ---- What a warp multiplies

  // A lane's sixteen bytes of codes and its two scales, of each slab.
  template <int kMost>
  struct Codes {
    Bits128 codes[kMost];
    uint32_t scales[kMost];

    // Of all slabs, also where the item has fewer: what is made of the others is never stored.
    NIBBLE_DEVICE void load(uint32_t slot, int lane) {
      const int pair = kNvfp4 ? lane : lane / 4 * 2 + lane % 4 / 2;
#pragma unroll
      for (int i = 0; i < kMost; ++i) {
        codes[i] = ptx::ld_shared_16(slot + i * kSlabCodeBytes + lane * 16);
        scales[i] = ptx::ld_shared_2(slot + kPlan.scales + i * kSlabScaleBytes + pair * 2);
      }
    }
  };

  // Takes the oldest item out of the ring, and asks for another into its place.
  template <int kMost>
  NIBBLE_DEVICE static void take(const OneLaunchParams& params, const OneLaunchRouting& routing,
                                 const Lane& me, Stream& stream, Codes<kMost>& codes) {
    ptx::cp_async_wait_group<kSlots - 1>();
    __syncwarp();
    codes.load(stream.ring + stream.slot, me.lane);
    __syncwarp();
    ask(params, routing, me, stream);
    stream.advance();
  }

  // Sixteen columns of a token, or zeros: the right operand of four products.
  struct Token {
    Bits128 half[2];
  };

  // `from`: the lane's columns of its token, null for none; `columns`: that the row still has there.
  NIBBLE_DEVICE static Token token_of_x(const uint16_t* from, int64_t columns) {
    Token result{};
    if constexpr (kHidden % 16 == 0) {
      if (from != nullptr && columns > 0) {
#pragma unroll
        for (int i = 0; i < 2; ++i) result.half[i] = reinterpret_cast<const Bits128*>(from)[i];
      }
    } else {
#pragma unroll
      for (int pair = 0; pair < 8; ++pair) {
        if (from != nullptr && columns > 2 * pair) {
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

  // Of a team, or of all warps.
  template <int kOf>
  struct Partials {
    Float4* sums;  // [slabs][kOf][32]
    NIBBLE_DEVICE void put(int slab, int warp, int lane, const float (&four)[4]) const {
      sums[(slab * kOf + warp) * 32 + lane] = {four[0], four[1], four[2], four[3]};
    }
    NIBBLE_DEVICE void total(int slab, int lane, float (&four)[4]) const {
#pragma unroll
      for (int warp = 0; warp < kOf; ++warp) {
        const Float4 some = sums[(slab * kOf + warp) * 32 + lane];
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
