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

#include "kernels/gemm/device/dequantize.cuh"
#include "kernels/gemm/device/shared_sums.cuh"
#include "kernels/gemm/device/w4a16_copy.cuh"
#include "kernels/gemm/device/w4a16_store.cuh"
#include "kernels/ptx/address.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/ptx/shared.cuh"
#include "kernels/ptx/sync.cuh"
#include "kernels/ptx/warp_arrival.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace nibble {

template <class Config>
struct W4A16 : W4A16Copy<Config> {
  using Copy = W4A16Copy<Config>;
  using Copy::chunks_of_step;
  using Copy::kBlocksOfGroup;
  using Copy::kBlockStage;
  using Copy::kCluster;
  using Copy::kConsumers;
  using Copy::kCopyRegisters;
  using Copy::kFullArrivals;
  using Copy::kGroupsOfTokens;
  using Copy::kMultiplyRegisters;
  using Copy::kRowTiles;
  using Copy::kShared;
  using Copy::kSteps;
  using Copy::kSumSets;
  using Copy::kTactic;
  using Copy::kThreads;
  using Copy::kTileBytes;
  using Copy::produce;
  using Copy::wait;
  using typename Copy::Cursor;
  using typename Copy::Ring;
  using typename Copy::Tables;
  template <int kWidth>
  using Sums = typename Copy::template Sums<kWidth>;

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
      ptx::mbarrier_arrive_warp_if(ring.empty(which), which >= 0, lane);
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
  template <int kFragments>
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

  NIBBLE_DEVICE static void consume_mma(Consumer& me, Sums<kTactic.tokens> (&sums)[kSumSets],
                                        int chunks, int groups) {
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
        if (group > 0 && group >= groups) break;
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
          if (group > 0 && group >= groups) break;
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

  template <int kWidth, int kFragments>
  NIBBLE_DEVICE static void consume_wgmma(Consumer& me, Sums<kWidth>& sums,
                                          Fragments<kFragments>& fragments, int chunks) {
    constexpr int kGroupSteps = kFragments / 2;
    constexpr int kRunning = 1;
    // The same in all lanes, and known to be: descriptors are made by the uniform unit.
    const uint32_t tokens = __shfl_sync(0xffffffffU, me.ring.tokens(me.stage), 0);
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
            ptx::Wgmma<kWidth>::bf16(sums[block], fragments.a[step % kFragments], b);
          } else {
            ptx::Wgmma<kWidth>::f16(sums[block], fragments.a[step % kFragments], b);
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

  NIBBLE_DEVICE static void add(Sums<kTactic.tokens>& sums, const Sums<kTactic.tokens>& others) {
#pragma unroll
    for (int block = 0; block < kBlocksOfGroup; ++block) {
#pragma unroll
      for (int group = 0; group < kGroupsOfTokens; ++group) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[block][group][i] += others[block][group][i];
      }
    }
  }

  // ---- Sums that blocks share
  template <int kWidth>
  using Shared = SharedSums<typename Copy::List, kConsumers, kBlocksOfGroup * kWidth / kSlotGroup,
                            kBlocksOfGroup * kGroupsOfTokens, kCluster>;

  // ---- A part of the work
  // The sums of a tile's units up to `stop`.
  template <int kWidth>
  NIBBLE_DEVICE static void multiply_tile(const Tables& tables, Consumer& me, const Cursor& cursor,
                                          int32_t unit, int32_t stop,
                                          Sums<kWidth> (&sets)[kSumSets]) {
    int step = cursor.step;
    if constexpr (kTactic.family == Family::kMma) {
      const int groups = Copy::groups_of(cursor.place, tables);
      for (; unit < stop; ++unit, ++step, me.advance()) {
        consume_mma(me, sets, chunks_of_step(step), groups);
      }
      if constexpr (kSumSets == 2) add(sets[0], sets[1]);
    } else {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
      Fragments<Copy::fragments(kWidth)> fragments;
      for (; unit < stop; ++unit, ++step, me.advance()) {
        consume_wgmma<kWidth>(me, sets[0], fragments, chunks_of_step(step));
      }
      finish_wgmma(me);
#endif
    }
  }

  // A tile, or the part of it that ends at unit `stop`.
  template <int kWidth>
  NIBBLE_DEVICE static void consume_tile(const W4A16Params& params, const Tables& tables,
                                         Consumer& me, const Cursor& cursor, int32_t unit,
                                         int32_t stop) {
    if constexpr (constexpr int kNarrower = kTactic.narrower(kWidth); kNarrower > 0) {
      if (Copy::groups_of(cursor.place, tables) * kSlotGroup <= kNarrower) {
        return consume_tile<kNarrower>(params, tables, me, cursor, unit, stop);
      }
    }
    using SharedOf = Shared<kWidth>;
    Sums<kWidth> sets[kSumSets] = {};
    Sums<kWidth>& sums = sets[0];
    auto& quads = reinterpret_cast<typename SharedOf::Sums&>(sums);
    multiply_tile<kWidth>(tables, me, cursor, unit, stop, sets);
    if (kTactic.split && cursor.step > 0) return SharedOf::give(params.partials, params.flags, quads);
    if constexpr (kTactic.split) {
      SharedOf::take_all(params.partials, params.flags, tables.tiles[Config::kExperts] * kRowTiles,
                         unit - cursor.step + kSteps, quads);
    }
    W4A16Store<Config>::store(params, tables, {me.warp, me.lane}, cursor.place, sums);
  }

  NIBBLE_DEVICE static void consume(const W4A16Params& params, const Tables& tables,
                                    const Ring& ring, int32_t begin, int32_t end) {
    Consumer me{ring, static_cast<int>(threadIdx.x / 32), static_cast<int>(threadIdx.x % 32)};
    Cursor cursor = Copy::List::cursor_at(tables, begin);
    for (int32_t unit = begin; unit < end;) {
      const int32_t tile_end = unit - cursor.step + kSteps;
      const int32_t stop = tile_end < end ? tile_end : end;
      consume_tile<kTactic.tokens>(params, tables, me, cursor, unit, stop);
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
        ptx::mbarrier_init(ring.empty(stage), kConsumers / 32 * ptx::kWarpArrivals);
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
    const int32_t begin = Copy::List::part_begin(all, blockIdx.x / kCluster);
    const int32_t end = Copy::List::part_begin(all, blockIdx.x / kCluster + 1);
    if (begin == end) {
      // Where there are no tokens at all nothing else would keep the kernels behind this one from
      // running beside those before it.
      ptx::griddepcontrol_wait();
      return;
    }
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
