// The grouped product with 4-bit weights and 4-bit activations: for every expert, weights [n, k]
// times its tokens [slots, k], both in blocks with scales, by the block-scaled FP4 instruction
// (kernels/ptx/mma_fp4.cuh), with SwiGLU, the next product's quantization or a router weight on the
// way out.
//
// One warp copies codes and scales of weights and tokens into a ring of stages; the others read
// them as they lie, codes by ldmatrix, to which four codes are one 16-bit value, and scales a word
// a lane: a lane's word serves the product of 64 columns and of the two sides that its place in the
// quad is for, so that none is read twice. The work of a launch is one list (grouped_work.cuh).
//
// Config: constants of the variant, as W4A4Kernel (w4a4.cpp) writes them.
#pragma once

#include "kernels/gemm/device/shared_sums.cuh"
#include "kernels/gemm/device/w4a4_copy.cuh"
#include "kernels/gemm/device/w4a4_store.cuh"
#include "kernels/ptx/address.cuh"
#include "kernels/ptx/mma_fp4.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/ptx/shared.cuh"
#include "kernels/ptx/warp_arrival.cuh"

namespace nibble {

template <class Config>
struct W4A4 : W4A4Copy<Config> {
  using Copy = W4A4Copy<Config>;
  using Copy::kAtomsM;
  using Copy::kAtomsN;
  using Copy::kConsumers;
  using Copy::kPairs;
  using Copy::kRowTiles;
  using Copy::kShared;
  using Copy::kSteps;
  using Copy::kTactic;
  using Copy::kThreads;
  using Copy::kTokens;
  using Copy::unit_byte;
  using typename Copy::Cursor;
  using typename Copy::List;
  using typename Copy::Ring;
  using typename Copy::Sums;
  using typename Copy::Tables;
  using typename Copy::TokenRows;

  static constexpr bool kNvfp4 = Config::kFormat == WeightFormat::kNvfp4;
  using Store = W4A4Store<Config>;
  using Shared = SharedSums<List, kConsumers, kAtomsM * kAtomsN, kAtomsM * kAtomsN, 1>;

  struct Consumer {
    Ring ring;
    int lane;
    int row_m;  // the warp's first row of the tile, and its first column
    int row_n;
    int stage = 0;
    uint32_t parity = 0;

    NIBBLE_DEVICE void advance() {
      if (++stage == kTactic.stages) {
        stage = 0;
        parity ^= 1;
      }
    }
  };

  // What is read of M for a stage's pair of products of 64 columns, and of N for two neighbouring
  // products at a time: sums leave few registers.
  //
  // NVFP4: the upper bit of a lane's place in its quad tells which of both products its scale word
  // of M is for, and the lower bit that of N; MXFP4's words have the scales of both.
  NIBBLE_DEVICE static uint32_t scale_m(const Consumer& me, int pair, int atom) {
    const int t = me.lane % 4;
    const int word = kNvfp4 ? 2 * pair + t / 2 : pair;
    return ptx::ld_shared_4(me.ring.scales_m(me.stage) +
                            (word * kTactic.m + me.row_m + 16 * atom + me.lane / 4 + 8 * (t % 2)) *
                                4);
  }
  NIBBLE_DEVICE static uint32_t scale_n(const Consumer& me, int pair, int atom) {
    const int t = me.lane % 4;
    const int word = kNvfp4 ? 2 * pair + t % 2 : pair;
    const int column = me.row_n + 8 * atom + me.lane / 4 + (kAtomsN > 1 ? 8 * (t / 2) : 0);
    return ptx::ld_shared_4(me.ring.scales_n(me.stage) + (word * kTactic.n + column) * 4);
  }
  NIBBLE_DEVICE static Bits128 codes_m(const Consumer& me, int unit, int atom) {
    const int matrix = me.lane / 8;
    return ptx::ldmatrix_x4(
        me.ring.m(me.stage) +
        unit_byte(me.row_m + 16 * atom + 8 * (matrix % 2) + me.lane % 8, unit + matrix / 2));
  }
  // Two products' codes, or where there is one alone on N, those of two units more.
  NIBBLE_DEVICE static Bits128 codes_n(const Consumer& me, int unit, int atom) {
    const int matrix = me.lane / 8;
    const int row = me.row_n + 8 * atom + me.lane % 8;
    return ptx::ldmatrix_x4(me.ring.n(me.stage) +
                            (kAtomsN == 1 ? unit_byte(row, unit + matrix)
                                          : unit_byte(row + 8 * (matrix / 2), unit + matrix % 2)));
  }

  // One product of 16 x 8 x 64: kHalf of a pair, kAtom of two neighbours on N.
  template <int kHalf, int kAtom>
  NIBBLE_DEVICE static void multiply(float (&sums)[4], const Bits128& a, uint32_t b0, uint32_t b1,
                                     uint32_t scale_m, uint32_t scale_n) {
    if constexpr (kNvfp4) {
      ptx::mma_m16n8k64_nvf4<kHalf, 2 * kAtom + kHalf>(sums, a.word, b0, b1, scale_m, scale_n);
    } else {
      ptx::mma_m16n8k64_mxf4<0, 2 * kAtom, 2 * kHalf>(sums, a.word, b0, b1, scale_m, scale_n);
    }
  }

  template <int kHalf>
  NIBBLE_DEVICE static void multiply_half(const Consumer& me, int pair,
                                          const uint32_t (&scales_m)[kAtomsM], Sums& sums) {
    const int unit = 4 * pair + 2 * kHalf;
    Bits128 a[kAtomsM];
#pragma unroll
    for (int m = 0; m < kAtomsM; ++m) a[m] = codes_m(me, unit, m);
#pragma unroll
    for (int n = 0; n < kAtomsN; n += 2) {
      // A product alone on N reads both halves of its pair at once, and the second half again:
      // words 0 and 1 are those of the unit that is asked for.
      const Bits128 b = codes_n(me, kAtomsN == 1 ? 4 * pair : unit, n);
      constexpr int kFirst = kAtomsN == 1 ? 2 * kHalf : 0;
      const uint32_t scale = scale_n(me, pair, n);
#pragma unroll
      for (int m = 0; m < kAtomsM; ++m) {
        multiply<kHalf, 0>(sums[m][n], a[m], b.word[kFirst], b.word[kFirst + 1], scales_m[m],
                           scale);
        if constexpr (kAtomsN > 1) {
          multiply<kHalf, 1>(sums[m][n + 1], a[m], b.word[2], b.word[3], scales_m[m], scale);
        }
      }
    }
  }

  NIBBLE_DEVICE static void consume_stage(Consumer& me, Sums& sums) {
    Copy::wait(me.ring.full(me.stage), me.parity);
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      uint32_t scales_m[kAtomsM];
#pragma unroll
      for (int m = 0; m < kAtomsM; ++m) scales_m[m] = scale_m(me, pair, m);
      multiply_half<0>(me, pair, scales_m, sums);
      multiply_half<1>(me, pair, scales_m, sums);
    }
    __syncwarp();
    ptx::mbarrier_arrive_warp_if(me.ring.empty(me.stage), true, me.lane);
    me.advance();
  }

  // A tile, or the part of it that ends at unit `stop`.
  NIBBLE_DEVICE static void consume_tile(const W4A4Params& params, const Tables& tables,
                                         Consumer& me, const Cursor& cursor, int32_t unit,
                                         int32_t stop) {
    Sums sums = {};
    const int32_t tile_end = unit - cursor.step + kSteps;
    for (; unit < stop; ++unit) consume_stage(me, sums);
    if constexpr (kTactic.split) {
      auto& quads = reinterpret_cast<typename Shared::Sums&>(sums);
      if (cursor.step > 0) {
        Shared::give(params.partials, params.flags, quads);
        return;
      }
      Shared::take_all(params.partials, params.flags, tables.tiles[Config::kExperts] * kRowTiles,
                       tile_end, quads);
    }
    Store::store(params, tables, cursor.place, sums);
  }

  NIBBLE_DEVICE static void consume(const W4A4Params& params, const Tables& tables,
                                    const Ring& ring, int32_t begin, int32_t end) {
    const int warp = static_cast<int>(threadIdx.x / 32);
    Consumer me{ring, static_cast<int>(threadIdx.x % 32), warp / kTactic.warps_n * kAtomsM * 16,
                warp % kTactic.warps_n * kAtomsN * 8};
    // What the way out reads, and what it writes, belongs to the kernels before this one.
    ptx::griddepcontrol_wait();
    Cursor cursor = List::cursor_at(tables, begin);
    for (int32_t unit = begin; unit < end;) {
      const int32_t tile_end = unit - cursor.step + kSteps;
      const int32_t stop = tile_end < end ? tile_end : end;
      consume_tile(params, tables, me, cursor, unit, stop);
      unit = stop;
      cursor.step = 0;
      cursor.place.next(tables);
    }
  }

  // An expert's first token tile, by one warp.
  NIBBLE_DEVICE static void count_tiles(const int32_t* offsets, int32_t* tiles) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    int32_t before = 0;
    for (int base = 0; base < Config::kExperts; base += 32) {
      const int expert = base + lane;
      int32_t sum = 0;
      if (expert < Config::kExperts) {
        sum = (offsets[expert + 1] - offsets[expert] + kTokens - 1) / kTokens;
      }
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const int32_t theirs = __shfl_up_sync(0xffffffffU, sum, distance);
        if (lane >= distance) sum += theirs;
      }
      if (expert < Config::kExperts) tiles[expert + 1] = before + sum;
      before += __shfl_sync(0xffffffffU, sum, 31);
    }
    if (lane == 0) tiles[0] = 0;
  }

  NIBBLE_DEVICE static void load_tables(const W4A4Params& params, int32_t* offsets,
                                        int32_t* tiles) {
    for (int at = static_cast<int>(threadIdx.x); at <= Config::kExperts; at += kThreads) {
      offsets[at] = params.offsets != nullptr ? params.offsets[at] : at * params.rows;
      if (params.tiles != nullptr) tiles[at] = params.tiles[at];
    }
    __syncthreads();
    if (params.tiles != nullptr) return;
    if (threadIdx.x < 32) count_tiles(offsets, tiles);
    __syncthreads();
  }

  NIBBLE_DEVICE static void run(const W4A4Params& params) {
    extern __shared__ __align__(1024) uint8_t shared[];
    const Ring ring{ptx::cvta_to_shared(shared)};
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kTactic.stages; ++stage) {
        ptx::mbarrier_init(ring.full(stage), 32);
        ptx::mbarrier_init(ring.empty(stage), kConsumers / 32 * ptx::kWarpArrivals);
      }
#if __CUDA_ARCH__ >= 900
      ptx::fence_mbarrier_init();
#endif
    }
    auto* offsets = reinterpret_cast<int32_t*>(shared + kShared.table_begin);
    int32_t* tiles = offsets + Config::kExperts + 1;
    load_tables(params, offsets, tiles);
    const Tables tables{offsets, tiles};
    const int32_t all = tiles[Config::kExperts] * kRowTiles;
    const int32_t begin = List::part_begin(all, blockIdx.x);
    const int32_t end = List::part_begin(all, blockIdx.x + 1);
    if (begin == end) {
      // Where there are no tokens at all nothing else would keep the kernels behind this one from
      // running beside those before it.
      ptx::griddepcontrol_wait();
      return;
    }
    if (threadIdx.x >= kConsumers) {
#ifdef NIBBLE_FP4_MMA
      if constexpr (kTactic.moves_registers()) ptx::setmaxnreg_dec<kW4A4CopyRegisters>();
#endif
      if (threadIdx.x >= kConsumers + 32) return;
      auto* rows = reinterpret_cast<int32_t*>(shared + kShared.rows_begin);
      Copy::produce(params, tables, ring, TokenRows{rows, rows + kTokens}, begin, end);
    } else {
#ifdef NIBBLE_FP4_MMA
      if constexpr (kTactic.moves_registers()) ptx::setmaxnreg_inc<kW4A4MultiplyRegisters>();
#endif
      consume(params, tables, ring, begin, end);
    }
  }
};

}  // namespace nibble
