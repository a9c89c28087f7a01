// What the launch that is a whole layer is made of, whatever its phase: sizes, the ring of a warp and
// what it copies into it, operands, and sums that warps share. one_launch.cuh puts it together.
#pragma once

#include "kernels/gemm/device/dequantize.cuh"
#include "kernels/moe/device/one_launch_route.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/shared.cuh"
#include "kernels/ptx/stream_load.cuh"
#include "kernels/ptx/sync.cuh"

namespace nibble {

template <class Config>
struct OneLaunchStream {
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
    return slab_piece(part, kUpSlabs, kSlabs);
  }
  // Chunks of a piece that a warp of a team has: every kTeamWarps-th.
  NIBBLE_DEVICE static int chunks_of_warp(const Lane& me) {
    return (kUpChunks - me.rank + kTeamWarps - 1) / kTeamWarps;
  }
  NIBBLE_DEVICE static SlabPart down_part() {
    return slab_part(kDownSlabs, static_cast<int>(blockIdx.x), kTactic.blocks);
  }
  NIBBLE_DEVICE static SlabPiece down_piece_of(const SlabPart& part) {
    return slab_piece(part, kDownSlabs, kMostDownSlabs);
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
    int within = 0;  // slabs up to the end of its first block of 64 rows
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
    stream.left = chunks_of_warp(me);
    open_piece<true>(params.gate_up, tile_begin<true>(expert, 0, me.rank), me, stream, piece);
  }

  NIBBLE_DEVICE static void open_down(const OneLaunchParams& params, const Lane& me,
                                      Stream& stream) {
    stream.left = me.warp;
    open_piece<false>(params.down, 0, me, stream, down_piece_of(stream.part));
  }

  // `begin`: bytes of the first slab's tile.
  template <bool kIsUp>
  NIBBLE_DEVICE static void open_piece(const uint8_t* weights, int64_t begin, const Lane& me,
                                       Stream& stream, const SlabPiece& piece) {
    const int scaled = piece.slab + me.lane / kScaleLanes;
    stream.slabs = piece.slabs;
    stream.within = kSlabsOfTile - piece.slab % kSlabsOfTile;
    stream.codes = weights + begin + tile_begin<kIsUp>(0, piece.slab, 0) + me.lane * 16 +
                   codes_in_tile(piece.slab);
    stream.scales = weights + begin + tile_begin<kIsUp>(0, scaled, 0) +
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

  // An item, `ahead` bytes from the piece's first.
  template <bool kIsUp>
  NIBBLE_DEVICE static void copy(const Stream& stream, const Lane& me, int64_t ahead) {
    constexpr int kMost = kIsUp ? kSlabs : kMostDownSlabs;
    // From the last slab of a block to the first of the next.
    constexpr int64_t kBeyond = (kIsUp ? kUpChunks : kDownChunks) * kTileBytes - kCodeBytes;
    const uint32_t to = stream.ring + stream.slot + me.lane * 16;
    const int slabs = opaque(stream.slabs);
    const uint8_t* const codes = stream.codes + ahead;
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      if (i < slabs) {
        ptx::cp_async_16(to + i * kSlabCodeBytes,
                         codes + i * kSlabCodeBytes + (i < stream.within ? 0 : kBeyond));
      }
    }
    if (me.lane < slabs * kScaleLanes) {
      ptx::cp_async_16(to + kPlan.scales, stream.scales + ahead);
    }
  }

  NIBBLE_DEVICE static void copy_up(Stream& stream, const Lane& me) {
    copy<true>(stream, me, 0);
    stream.codes += kTeamWarps * kTileBytes;
    stream.scales += kTeamWarps * kTileBytes;
    --stream.left;
  }

  NIBBLE_DEVICE static void copy_down(const OneLaunchRouting& routing, Stream& stream,
                                      const Lane& me) {
    copy<false>(stream, me,
                tile_begin<false>(routing.actives[stream.left / kDownChunks], 0,
                                  stream.left % kDownChunks));
    stream.left += kWarps;
  }

  // Asks for the next item that is not yet under way, if there is one, into the stream's slot.
  NIBBLE_DEVICE static void ask(const OneLaunchParams& params, const OneLaunchRouting& routing,
                                const Lane& me, Stream& stream) {
    if (stream.stage == 0) {
      copy_up(stream, me);
      if (stream.left == 0) open(params, routing, me, stream);
    } else if (stream.stage == 1) {
      copy_down(routing, stream, me);
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
};

}  // namespace nibble
