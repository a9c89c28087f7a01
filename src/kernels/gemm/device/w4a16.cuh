// The grouped product with 4-bit weights and 16-bit activations: for every expert, weights [n, k]
// times its tokens [slots, k], with SwiGLU or a router weight on the way out.
//
// Weights are the left operand, so that few tokens fill the narrow side of the matrix unit. One
// warp copies stages of weights and tokens into a ring; the others make A fragments of the weights
// in registers (dequantize.cuh) and multiply, either by mma.sync or, from sm_90a on, by wgmma,
// which hold A and D alike. The work of a launch is one list, [expert][row tile][token tile][step],
// and each block takes an equal and contiguous part of it: where a part ends within a tile, the
// block that has the tile's beginning adds the others' sums in their order.
//
// Config: constants of the variant, as W4A16Kernel (w4a16.cpp) writes them.
#pragma once

#include "kernels/device/types.cuh"
#include "kernels/gemm/device/dequantize.cuh"
#include "kernels/gemm/device/w4a16_layout.h"
#include "kernels/gemm/device/w4a16_params.h"
#include "kernels/gemm/device/w4a16_tactic.h"
#include "kernels/ptx/address.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/ptx/shared.cuh"
#include "kernels/ptx/sync.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace nibble {

template <class Config>
struct W4A16 {
  // ---- Constants
  static constexpr W4A16Tactic kTactic = Config::kTactic;
  static constexpr bool kGateUp = Config::kEpilogue != Epilogue::kPlain;
  static constexpr int kScaleBytes =
      Config::kFormat == WeightFormat::kNvfp4 ? kNvfp4ScaleBytes : kMxfp4ScaleBytes;
  static constexpr WeightTiles kWeights = weight_tiles(
      Config::kN, Config::kK, kScaleBytes, kGateUp ? RowOrder::kGateUp : RowOrder::kPlain);
  static constexpr int kTileBytes = kCodeBytes + kScaleBytes;
  static constexpr int kBlocks = kTactic.rows / kTileRows;  // of a tile
  static constexpr int kBlocksOfGroup = kBlocks / kTactic.groups;
  static constexpr int kGroupsOfTokens = kTactic.tokens / kSlotGroup;
  // The blocks of a cluster take neighbouring row tiles at the same time: the tokens that they copy
  // alike come through the second-level cache's wires once, and those are what weights come through
  // too. A copy to all of them (multicast) would do so surely, but then each must wait for the
  // others' arrivals, and 16 remote arrivals a stage cost a third of the bandwidth on an H200.
  static constexpr int kCluster = kTactic.cluster;
  static constexpr int kRowTiles = static_cast<int>(ceil_div(kWeights.blocks, kBlocks* kCluster));
  static constexpr int kChunks = static_cast<int>(kWeights.chunks);
  static constexpr int kSteps = static_cast<int>(ceil_div(kChunks, kTactic.stage_chunks));
  static constexpr int kOutputChunks = static_cast<int>(chunks_of(Config::kN / 2));  // kGateUp
  static constexpr int kConsumers = kTactic.consumers();
  static constexpr int kThreads = kTactic.threads();
  static constexpr int kRegistersAtStart = 65536 / kTactic.blocks_per_sm / kThreads / 8 * 8;
  static constexpr int kCopyRegisters = 24;
  static constexpr int kFreeRegisters =
      (kRegistersAtStart * kThreads - kCopyRegisters * 128) / kConsumers / 8 * 8;
  static constexpr int kMultiplyRegisters = kFreeRegisters < 240 ? kFreeRegisters : 240;
  static constexpr uint32_t kFactors = 2;

  static constexpr SharedPlan kShared = shared_plan(kTactic, kScaleBytes, Config::kExperts);
  static constexpr uint32_t kTokenStage = kShared.token_stage;
  static constexpr uint32_t kBlockStage = kShared.block_stage;
  static constexpr uint32_t kWeightStage = kShared.weight_stage;

  static_assert(kBlocks * kTileRows == kTactic.rows, "a tile is whole blocks of 64 rows");
  static_assert(kBlocksOfGroup * kTactic.groups == kBlocks, "warpgroups share blocks evenly");
  static_assert(kTactic.tokens % kSlotGroup == 0, "a token tile is whole groups of 8 slots");
  static_assert(kTactic.family == Family::kMma ||
                    kBlocksOfGroup * kTactic.stage_chunks * 4 % kTactic.fragments == 0,
                "wgmma takes turns with two sets of registers: an even number of items a stage");

  using Sums = float[kBlocksOfGroup][kGroupsOfTokens][4];
  // mma.sync: products that follow each other at once go to different sums, where few tokens leave
  // registers for them.
  static constexpr int kSumSets = kTactic.family == Family::kMma && kTactic.tokens <= 16 ? 2 : 1;

  // ---- The list of work
  struct Tables {
    const int32_t* offsets;  // shared memory
    const int32_t* tiles;
  };

  // A tile of the output and the steps of it that this block does.
  struct Place {
    int32_t expert = 0;
    int32_t row_tile = 0;
    int32_t token_tile = 0;

    NIBBLE_DEVICE void find(const Tables& tables, int32_t tile) {
      const int32_t quotient = tile / kRowTiles;
      int32_t low = 0;
      int32_t high = Config::kExperts;
      while (high - low > 1) {
        const int32_t middle = (low + high) / 2;
        (tables.tiles[middle] <= quotient ? low : high) = middle;
      }
      expert = low;
      const int32_t count = tables.tiles[expert + 1] - tables.tiles[expert];
      const int32_t rest = tile - tables.tiles[expert] * kRowTiles;
      row_tile = rest / count;
      token_tile = rest % count;
    }

    NIBBLE_DEVICE void next(const Tables& tables) {
      if (++token_tile < tables.tiles[expert + 1] - tables.tiles[expert]) return;
      token_tile = 0;
      if (++row_tile < kRowTiles) return;
      row_tile = 0;
      do {
        ++expert;
      } while (expert < Config::kExperts && tables.tiles[expert + 1] == tables.tiles[expert]);
    }

    NIBBLE_DEVICE int32_t first_slot(const Tables& tables) const {
      return tables.offsets[expert] + token_tile * kTactic.tokens;
    }
    // Groups of 8 slots of this tile.
    NIBBLE_DEVICE int groups(const Tables& tables) const {
      const int left = (tables.offsets[expert + 1] - first_slot(tables)) / kSlotGroup;
      return left < kGroupsOfTokens ? left : kGroupsOfTokens;
    }
    // First block of 64 rows of this block of the cluster.
    NIBBLE_DEVICE int first_block(uint32_t rank) const {
      return (row_tile * kCluster + static_cast<int>(rank)) * kBlocks;
    }
    NIBBLE_DEVICE int blocks(uint32_t rank) const {
      const int left = static_cast<int>(kWeights.blocks) - first_block(rank);
      return left < kBlocks ? (left < 0 ? 0 : left) : kBlocks;
    }
  };

  NIBBLE_DEVICE static int chunks_of_step(int step) {
    if constexpr (kChunks % kTactic.stage_chunks == 0) return kTactic.stage_chunks;
    const int left = kChunks - step * kTactic.stage_chunks;
    return left < kTactic.stage_chunks ? left : kTactic.stage_chunks;
  }

  // First unit (a step of a tile) of a cluster's part of the work.
  NIBBLE_DEVICE static int32_t part_begin(int32_t tiles, uint32_t cluster) {
    const uint32_t parts = gridDim.x / kCluster;
    if constexpr (kTactic.split) {
      return static_cast<int32_t>(int64_t{tiles} * kSteps * cluster / parts);
    }
    return static_cast<int32_t>(int64_t{tiles} * cluster / parts) * kSteps;
  }

  NIBBLE_DEVICE static uint32_t rank_of_block() {
#if __CUDA_ARCH__ >= 900
    if constexpr (kCluster > 1) return ptx::cluster_ctarank();
#endif
    return 0;
  }

  // Walks the units of a part.
  struct Cursor {
    Place place;
    int32_t step;
    NIBBLE_DEVICE void next(const Tables& tables) {
      if (++step < kSteps) return;
      step = 0;
      place.next(tables);
    }
  };

  NIBBLE_DEVICE static Cursor cursor_at(const Tables& tables, int32_t unit) {
    Cursor cursor;
    cursor.place.find(tables, unit / kSteps);
    cursor.step = unit % kSteps;
    return cursor;
  }

  // ---- The copying warp
  struct Ring {
    uint32_t shared;
    NIBBLE_DEVICE uint32_t tokens(int stage) const { return shared + stage * kTokenStage; }
    NIBBLE_DEVICE uint32_t weights(int stage) const {
      return shared + kShared.weight_begin + stage * kWeightStage;
    }
    NIBBLE_DEVICE uint32_t full(int stage) const {
      return shared + kShared.barrier_begin + 8 * stage;
    }
    NIBBLE_DEVICE uint32_t empty(int stage) const { return full(stage) + 8 * kTactic.stages; }
  };

  NIBBLE_DEVICE static void wait(uint32_t barrier, uint32_t parity) {
    while (!ptx::mbarrier_wait_parity(barrier, parity)) {
    }
  }

  // Weights are read once and would push out of the second-level cache the tokens, which every row
  // tile reads again.
  struct Policies {
    uint64_t weights = 0;
    uint64_t tokens = 0;
  };

  NIBBLE_DEVICE static Policies policies() {
#if __CUDA_ARCH__ >= 900
    return {ptx::createpolicy_evict_first(), ptx::createpolicy_evict_last()};
#else
    return {};
#endif
  }

  // What one unit is copied from.
  struct Source {
    const uint8_t* weights;
    const uint8_t* tokens;
    int blocks;
    int groups;
    int chunks;
    uint64_t weight_policy;
    uint64_t token_policy;
  };

  NIBBLE_DEVICE static Source source_of(const W4A16Params& params, const Tables& tables,
                                        const Policies& policies, const Cursor& cursor) {
    constexpr WeightTiles kTiles = kWeights;
    const Place& place = cursor.place;
    const int64_t chunk = int64_t{cursor.step} * kTactic.stage_chunks;
    const uint32_t rank = rank_of_block();
    return {params.weights + kTiles.tile_begin(place.expert, place.first_block(rank), chunk),
            params.tokens +
                (int64_t{place.first_slot(tables) / kSlotGroup} * kChunks + chunk) * kSlotTileBytes,
            place.blocks(rank),
            place.groups(tables),
            chunks_of_step(cursor.step),
            policies.weights,
            policies.tokens};
  }

#if __CUDA_ARCH__ >= 900
  static constexpr uint32_t kFullArrivals = 1;

  NIBBLE_DEVICE static void copy_weights(const Ring& ring, const Source& source, int stage,
                                         int lane) {
    const uint32_t bytes = source.chunks * kTileBytes;
    if (lane == 0) {
      ptx::mbarrier_arrive_expect_tx(
          ring.full(stage), source.blocks * bytes + source.groups * source.chunks * kSlotTileBytes);
    }
    __syncwarp();
    if (lane < source.blocks) {
      ptx::cp_async_bulk(ring.weights(stage) + lane * kBlockStage,
                         source.weights + int64_t{lane} * kChunks * kTileBytes, bytes,
                         ring.full(stage), source.weight_policy);
    }
  }

  NIBBLE_DEVICE static void copy_tokens(const Ring& ring, const Source& source, int stage,
                                        int lane) {
    if (lane < source.groups) {
      ptx::cp_async_bulk(ring.tokens(stage) + lane * kTactic.stage_chunks * kSlotTileBytes,
                         source.tokens + int64_t{lane} * kChunks * kSlotTileBytes,
                         source.chunks * kSlotTileBytes, ring.full(stage), source.token_policy);
    }
  }
#else
  static constexpr uint32_t kFullArrivals = 32;

  NIBBLE_DEVICE static void copy_run(uint32_t to, const uint8_t* from, int bytes, int lane) {
    for (int at = lane * 16; at < bytes; at += 32 * 16) ptx::cp_async_16(to + at, from + at);
  }

  NIBBLE_DEVICE static void copy_weights(const Ring& ring, const Source& source, int stage,
                                         int lane) {
    for (int block = 0; block < source.blocks; ++block) {
      copy_run(ring.weights(stage) + block * kBlockStage,
               source.weights + int64_t{block} * kChunks * kTileBytes, source.chunks * kTileBytes,
               lane);
    }
  }

  NIBBLE_DEVICE static void copy_tokens(const Ring& ring, const Source& source, int stage,
                                        int lane) {
    for (int group = 0; group < source.groups; ++group) {
      copy_run(ring.tokens(stage) + group * kTactic.stage_chunks * kSlotTileBytes,
               source.tokens + int64_t{group} * kChunks * kSlotTileBytes,
               source.chunks * kSlotTileBytes, lane);
    }
    ptx::cp_async_mbarrier_arrive_noinc(ring.full(stage));
  }
#endif

  static_assert(kBlocks <= 32 && kGroupsOfTokens <= 32, "a lane copies a run");

  NIBBLE_DEVICE static void produce(const W4A16Params& params, const Tables& tables,
                                    const Ring& ring, int32_t begin, int32_t end) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const Policies hints = policies();
    Cursor cursor = cursor_at(tables, begin);
    // Weights do not wait for the kernel that makes the tokens.
    const int32_t units = end - begin;
    const int first = units < kTactic.stages ? units : kTactic.stages;
    Cursor ahead = cursor;
    for (int stage = 0; stage < first; ++stage, ahead.next(tables)) {
      copy_weights(ring, source_of(params, tables, hints, ahead), stage, lane);
    }
    ptx::griddepcontrol_wait();
    ptx::griddepcontrol_launch_dependents();
    for (int stage = 0; stage < first; ++stage, cursor.next(tables)) {
      copy_tokens(ring, source_of(params, tables, hints, cursor), stage, lane);
    }
    int stage = 0;
    uint32_t parity = 0;
    for (int32_t unit = kTactic.stages; unit < units; ++unit, cursor.next(tables)) {
      wait(ring.empty(stage), parity);
      const Source source = source_of(params, tables, hints, cursor);
      copy_weights(ring, source, stage, lane);
      copy_tokens(ring, source, stage, lane);
      if (++stage == kTactic.stages) {
        stage = 0;
        parity ^= 1;
      }
    }
  }

  // ---- The multiplying warps
  struct Consumer {
    Ring ring;
    int warp;  // of all multiplying warps
    int lane;
    int stage = 0;
    uint32_t parity = 0;
    int held = -1;  // stage that the matrix unit may still read

    // Without a branch; -1: no stage.
    NIBBLE_DEVICE void release(int which) {
      ptx::mbarrier_arrive_if(ring.empty(which), which >= 0 && lane == 0);
    }
    NIBBLE_DEVICE void advance() {
      if (++stage == kTactic.stages) {
        stage = 0;
        parity ^= 1;
      }
    }
    // Address of this lane's codes and scales in a tile of shared memory.
    NIBBLE_DEVICE uint32_t codes() const { return (warp % 4 * 32 + lane) * 16; }
    NIBBLE_DEVICE uint32_t scales() const {
      if constexpr (Config::kFormat == WeightFormat::kNvfp4) {
        return kCodeBytes + (warp % 4 * 32 + lane) * 2;
      }
      return kCodeBytes + (warp % 4 * 16 + lane / 4 * 2 + lane % 4 / 2) * 2;
    }
  };

  struct Fragment {
    uint32_t a[4][4];
  };
  // wgmma reads its left operand from registers while it runs: half of the products whose operands
  // they hold run while the operands of the others are made.
  static constexpr int kFragments = kTactic.fragments;
  static constexpr int kGroupSteps = kFragments / 2;
  static constexpr int kRunning = 1;
  struct Fragments {
    uint32_t a[kFragments][4];
  };

  // This lane's codes and scales of kChunksHeld chunks of a stage.
  template <int kChunksHeld>
  struct StageCodes {
    Bits128 codes[kChunksHeld][kBlocksOfGroup];
    uint32_t scales[kChunksHeld][kBlocksOfGroup];

    NIBBLE_DEVICE void load(const Consumer& me, int first) {
      const uint32_t weights = me.ring.weights(me.stage) +
                               me.warp / 4 * kBlocksOfGroup * kBlockStage + first * kTileBytes;
#pragma unroll
      for (int chunk = 0; chunk < kChunksHeld; ++chunk) {
#pragma unroll
        for (int block = 0; block < kBlocksOfGroup; ++block) {
          const uint32_t tile = weights + block * kBlockStage + chunk * kTileBytes;
          codes[chunk][block] = ptx::ld_shared_16(tile + me.codes());
          scales[chunk][block] = ptx::ld_shared_2(tile + me.scales());
        }
      }
    }
  };

  NIBBLE_DEVICE static void make_fragment(const Bits128& codes, uint32_t scales,
                                          Fragment& fragment) {
    const uint32_t low = scale_pair<Config::kFormat, Config::kActivations>(scales & 0xffU);
    const uint32_t high = scale_pair<Config::kFormat, Config::kActivations>(scales >> 8);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      dequantize<Config::kActivations>(codes.word[j], low, high, fragment.a[j]);
  }

  NIBBLE_DEVICE static void multiply(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0,
                                     uint32_t b1) {
    if constexpr (Config::kActivations == Element::kBf16) {
      ptx::mma_m16n8k16_bf16(sums, a, b0, b1);
    } else {
      ptx::mma_m16n8k16_f16(sums, a, b0, b1);
    }
  }

  NIBBLE_DEVICE static void consume_mma(Consumer& me, Sums (&sums)[kSumSets], int chunks,
                                        int groups) {
    const int row = me.lane % 8;
    const uint32_t tokens = me.ring.tokens(me.stage) + row * kSlotRowBytes;
    wait(me.ring.full(me.stage), me.parity);
    StageCodes<kTactic.stage_chunks> codes;
    codes.load(me, 0);
#pragma unroll
    for (int chunk = 0; chunk < kTactic.stage_chunks; ++chunk) {
      if (chunk >= chunks) break;
      Bits128 b[kGroupsOfTokens][2];
#pragma unroll
      for (int group = 0; group < kGroupsOfTokens; ++group) {
        if (group >= groups) break;
        const uint32_t base = tokens + (group * kTactic.stage_chunks + chunk) * kSlotTileBytes;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int unit = (4 * half + me.lane / 8) ^ row;
          b[group][half] = ptx::ldmatrix_x4(base + unit * 16);
        }
      }
#pragma unroll
      for (int block = 0; block < kBlocksOfGroup; ++block) {
        Fragment fragment;
        make_fragment(codes.codes[chunk][block], codes.scales[chunk][block], fragment);
#pragma unroll
        for (int group = 0; group < kGroupsOfTokens; ++group) {
          if (group >= groups) break;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            multiply(sums[j % kSumSets][block][group], fragment.a[j],
                     b[group][j / 2].word[j % 2 * 2], b[group][j / 2].word[j % 2 * 2 + 1]);
          }
        }
      }
    }
    __syncwarp();
    me.release(me.stage);
  }

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  // What is made of these values is made after this point: the compiler would move it up, among
  // running products, and then run them one at a time (its note C7513).
  NIBBLE_DEVICE static void pin(Bits128& codes) {
    asm volatile(""
                 : "+r"(codes.word[0]), "+r"(codes.word[1]), "+r"(codes.word[2]),
                   "+r"(codes.word[3])::"memory");
  }

  NIBBLE_DEVICE static void consume_wgmma(Consumer& me, Sums& sums, Fragments& fragments,
                                          int chunks) {
    const uint32_t tokens = me.ring.tokens(me.stage);
    wait(me.ring.full(me.stage), me.parity);
    // Of the whole stage at once where registers allow it.
    constexpr int kChunksHeld =
        kTactic.stage_chunks * kBlocksOfGroup <= 4 ? kTactic.stage_chunks : 1;
    StageCodes<kChunksHeld> codes;
#pragma unroll
    for (int chunk = 0; chunk < kTactic.stage_chunks; ++chunk) {
      if (chunk >= chunks) break;
      if (chunk % kChunksHeld == 0) codes.load(me, chunk);
#pragma unroll
      for (int block = 0; block < kBlocksOfGroup; ++block) {
        const uint32_t low = scale_pair<Config::kFormat, Config::kActivations>(
            codes.scales[chunk % kChunksHeld][block] & 0xffU);
        const uint32_t high = scale_pair<Config::kFormat, Config::kActivations>(
            codes.scales[chunk % kChunksHeld][block] >> 8);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int step = (chunk * kBlocksOfGroup + block) * 4 + j;
          if (j % kGroupSteps == 0) {
            ptx::wgmma_wait_group<kRunning>();  // the set of registers that is next is free
            pin(codes.codes[chunk % kChunksHeld][block]);
            if (step == kRunning * kGroupSteps) {
              __syncwarp();  // lane 0 speaks for what all lanes have read
              me.release(me.held);
              me.held = -1;
            }
#pragma unroll
            for (int i = 0; i < kGroupSteps; ++i) {
              dequantize<Config::kActivations>(codes.codes[chunk % kChunksHeld][block].word[j + i],
                                               low, high, fragments.a[(step + i) % kFragments]);
            }
            ptx::wgmma_fence();
          }
          const uint64_t b = ptx::wgmma_descriptor(tokens + chunk * kSlotTileBytes + j * 32,
                                                   kTactic.stage_chunks * kSlotTileBytes);
          if constexpr (Config::kActivations == Element::kBf16) {
            ptx::Wgmma<kTactic.tokens>::bf16(sums[block], fragments.a[step % kFragments], b);
          } else {
            ptx::Wgmma<kTactic.tokens>::f16(sums[block], fragments.a[step % kFragments], b);
          }
          if (j % kGroupSteps == kGroupSteps - 1) ptx::wgmma_commit_group();
        }
      }
    }
    if (me.held >= 0) finish_wgmma(me);
    me.held = me.stage;
  }

  NIBBLE_DEVICE static void finish_wgmma(Consumer& me) {
    ptx::wgmma_wait_group<0>();
    __syncwarp();
    me.release(me.held);
    me.held = -1;
  }
#endif

  NIBBLE_DEVICE static void add(Sums& sums, const Sums& others) {
#pragma unroll
    for (int block = 0; block < kBlocksOfGroup; ++block) {
#pragma unroll
      for (int group = 0; group < kGroupsOfTokens; ++group) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[block][group][i] += others[block][group][i];
      }
    }
  }

  // ---- Sums of tiles that several blocks share
  NIBBLE_DEVICE static float* partial_of(const W4A16Params& params, uint32_t block, int warp,
                                         int lane) {
    constexpr int64_t kOfBlock = int64_t{kTactic.rows} * kTactic.tokens;
    return params.partials + block * kOfBlock +
           (int64_t{warp} * kBlocksOfGroup * kGroupsOfTokens * 32 + lane) * 4;
  }

  NIBBLE_DEVICE static void give(const W4A16Params& params, const Consumer& me, const Sums& sums) {
    float* partial = partial_of(params, blockIdx.x, me.warp, me.lane);
#pragma unroll
    for (int block = 0; block < kBlocksOfGroup; ++block) {
#pragma unroll
      for (int group = 0; group < kGroupsOfTokens; ++group) {
        Float4 four;
#pragma unroll
        for (int i = 0; i < 4; ++i) four.value[i] = sums[block][group][i];
        *reinterpret_cast<Float4*>(partial + (block * kGroupsOfTokens + group) * 32 * 4) = four;
      }
    }
    ptx::fence_acq_rel_gpu();
    ptx::bar_sync(1, kConsumers);
    if (threadIdx.x == 0) ptx::st_release_gpu(params.flags + blockIdx.x, 1);
  }

  // Sums that another block of the same rank gave.
  NIBBLE_DEVICE static void take(const W4A16Params& params, const Consumer& me, uint32_t from,
                                 Sums& sums) {
    const float* partial = partial_of(params, from, me.warp, me.lane);
#pragma unroll
    for (int block = 0; block < kBlocksOfGroup; ++block) {
#pragma unroll
      for (int group = 0; group < kGroupsOfTokens; ++group) {
        const Float4 four =
            ptx::ld_global_cg_16(partial + (block * kGroupsOfTokens + group) * 32 * 4);
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[block][group][i] += four.value[i];
      }
    }
  }

  // All sums of the tile that ends at unit `tile_end`, in their order, once they are all there.
  NIBBLE_DEVICE static void take_all(const W4A16Params& params, const Tables& tables,
                                     const Consumer& me, int32_t tile_end, Sums& sums) {
    const int32_t tiles = tables.tiles[Config::kExperts] * kRowTiles;
    const uint32_t first = blockIdx.x / kCluster + 1;
    if (part_begin(tiles, first) >= tile_end) return;
    if (threadIdx.x == 0) {
      for (uint32_t other = first; part_begin(tiles, other) < tile_end; ++other) {
        if (part_begin(tiles, other) == part_begin(tiles, other + 1)) continue;
        while (ptx::ld_acquire_gpu(params.flags + other * kCluster + blockIdx.x % kCluster) == 0) {
        }
      }
    }
    ptx::bar_sync(1, kConsumers);
    for (uint32_t other = first; part_begin(tiles, other) < tile_end; ++other) {
      if (part_begin(tiles, other) == part_begin(tiles, other + 1)) continue;
      take(params, me, other * kCluster + blockIdx.x % kCluster, sums);
    }
  }

  // ---- The way out
  template <Element kElement>
  NIBBLE_DEVICE static uint32_t pair_of(float low, float high) {
    if constexpr (kElement == Element::kBf16) return ptx::cvt_bf16x2(low, high);
    return ptx::cvt_f16x2(low, high);
  }

  NIBBLE_DEVICE static float gated(const W4A16Params& params, float gate, float up) {
    constexpr float kLog2e = 1.44269504F;
    if constexpr (Config::kEpilogue == Epilogue::kSwiGlu) {
      return gate * ptx::rcp(1.0F + ptx::ex2(-kLog2e * gate)) * up;
    } else {
      const float limit = params.swiglu_limit;
      gate = gate > limit ? limit : gate;  // NaN stays
      up = up > limit ? limit : (up < -limit ? -limit : up);
      return gate * ptx::rcp(1.0F + ptx::ex2(-kLog2e * params.swiglu_alpha * gate)) * (up + 1.0F);
    }
  }

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

  NIBBLE_DEVICE static void store_gated(const W4A16Params& params, const Consumer& me,
                                        const Rows& rows, int64_t block, int32_t slot,
                                        const float (&four)[4]) {
    const float first = gated(params, four[0] * rows.factor[0] + rows.bias[0],
                              four[2] * rows.factor[1] + rows.bias[1]);
    const float second = gated(params, four[1] * rows.factor[0] + rows.bias[0],
                               four[3] * rows.factor[1] + rows.bias[1]);
    // Lanes of neighbouring rows exchange: one has both columns of the first token, the other of
    // the second.
    const bool odd = me.lane / 4 % 2 != 0;
    const float theirs = __shfl_xor_sync(0xffffffffU, odd ? first : second, 4);
    const uint32_t pair = odd ? pair_of<Config::kActivations>(theirs, second)
                              : pair_of<Config::kActivations>(first, theirs);
    const int64_t column = kTileRows / 2 * block + 8 * (me.warp % 4) + me.lane / 4 / 2 * 2;
    const int64_t byte = slot_byte(slot + 2 * (me.lane % 4) + (odd ? 1 : 0), column, kOutputChunks);
    *reinterpret_cast<uint32_t*>(static_cast<uint8_t*>(params.output) + byte) = pair;
  }

  NIBBLE_DEVICE static void store_pair(void* output, int64_t at, float low, float high, bool both) {
    if constexpr (Config::kOutput == Element::kFp32) {
      float* to = static_cast<float*>(output) + at;
      to[0] = low;
      if (both) to[1] = high;
    } else {
      const uint32_t pair = pair_of<Config::kOutput>(low, high);
      uint16_t* to = static_cast<uint16_t*>(output) + at;
      if constexpr (Config::kN % 2 == 0) {
        *reinterpret_cast<uint32_t*>(to) = pair;
      } else {
        to[0] = static_cast<uint16_t>(pair);
        if (both) to[1] = static_cast<uint16_t>(pair >> 16);
      }
    }
  }

  NIBBLE_DEVICE static void store_plain(const W4A16Params& params, const Consumer& me,
                                        const Rows& rows, int64_t block, int32_t slot,
                                        const float (&four)[4]) {
    const int64_t row = kTileRows * block + 16 * (me.warp % 4) + 2 * (me.lane / 4);
    if (row >= Config::kN) return;
#pragma unroll
    for (int token = 0; token < 2; ++token) {
      const int64_t to = slot + 2 * (me.lane % 4) + token;
      const float weight = params.slot_weight != nullptr ? params.slot_weight[to] : 1.0F;
      store_pair(params.output, to * Config::kN + row,
                 (four[token] * rows.factor[0] + rows.bias[0]) * weight,
                 (four[2 + token] * rows.factor[1] + rows.bias[1]) * weight, row + 1 < Config::kN);
    }
  }

  NIBBLE_DEVICE static void store(const W4A16Params& params, const Tables& tables,
                                  const Consumer& me, const Place& place, const Sums& sums) {
    const int groups = place.groups(tables);
    const int32_t slot = place.first_slot(tables);
#pragma unroll
    for (int block = 0; block < kBlocksOfGroup; ++block) {
      const int64_t at = place.first_block(rank_of_block()) + me.warp / 4 * kBlocksOfGroup + block;
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

  // A tile, or the part of it that ends at unit `stop`.
  NIBBLE_DEVICE static void consume_tile(const W4A16Params& params, const Tables& tables,
                                         Consumer& me, const Cursor& cursor, int32_t unit,
                                         int32_t stop) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    Fragments fragments;
#endif
    Sums sets[kSumSets] = {};
    Sums& sums = sets[0];
    const int32_t tile_end = unit - cursor.step + kSteps;
    const int groups = cursor.place.groups(tables);
    for (int step = cursor.step; unit < stop; ++unit, ++step) {
      if constexpr (kTactic.family == Family::kMma) {
        consume_mma(me, sets, chunks_of_step(step), groups);
      } else {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
        consume_wgmma(me, sums, fragments, chunks_of_step(step));
#endif
      }
      me.advance();
    }
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    if constexpr (kTactic.family == Family::kWgmma) finish_wgmma(me);
#endif
    if constexpr (kSumSets == 2) add(sums, sets[1]);
    if (kTactic.split && cursor.step > 0) {
      give(params, me, sums);
      return;
    }
    if constexpr (kTactic.split) take_all(params, tables, me, tile_end, sums);
    store(params, tables, me, cursor.place, sums);
  }

  NIBBLE_DEVICE static void consume(const W4A16Params& params, const Tables& tables,
                                    const Ring& ring, int32_t begin, int32_t end) {
    Consumer me{ring, static_cast<int>(threadIdx.x / 32), static_cast<int>(threadIdx.x % 32)};
    Cursor cursor = cursor_at(tables, begin);
    for (int32_t unit = begin; unit < end;) {
      const int32_t tile_end = unit - cursor.step + kSteps;
      const int32_t stop = tile_end < end ? tile_end : end;
      consume_tile(params, tables, me, cursor, unit, stop);
      unit = stop;
      cursor.step = 0;
      cursor.place.next(tables);
    }
  }

  NIBBLE_DEVICE static void run(const W4A16Params& params) {
    extern __shared__ __align__(1024) uint8_t shared[];
    const Ring ring{ptx::cvta_to_shared(shared)};
    auto* offsets = reinterpret_cast<int32_t*>(shared + kShared.table_begin);
    int32_t* tiles = offsets + Config::kExperts + 1;
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kTactic.stages; ++stage) {
        ptx::mbarrier_init(ring.full(stage), kFullArrivals);
        ptx::mbarrier_init(ring.empty(stage), kConsumers / 32);
      }
#if __CUDA_ARCH__ >= 900
      ptx::fence_mbarrier_init();
#endif
    }
    for (int at = static_cast<int>(threadIdx.x); at <= Config::kExperts; at += kThreads) {
      offsets[at] = params.offsets[at];
      tiles[at] = params.tiles[at];
    }
    __syncthreads();
    const Tables tables{offsets, tiles};
    const int32_t all = tiles[Config::kExperts] * kRowTiles;
    const int32_t begin = part_begin(all, blockIdx.x / kCluster);
    const int32_t end = part_begin(all, blockIdx.x / kCluster + 1);
    if (begin == end) return;
    if (threadIdx.x >= kConsumers) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
      if constexpr (kTactic.family == Family::kWgmma) ptx::setmaxnreg_dec<kCopyRegisters>();
#endif
      if (threadIdx.x < kConsumers + 32) produce(params, tables, ring, begin, end);
    } else {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
      if constexpr (kTactic.family == Family::kWgmma) {
        ptx::setmaxnreg_inc<kMultiplyRegisters>();
      }
#endif
      consume(params, tables, ring, begin, end);
    }
  }
};

}  // namespace nibble
