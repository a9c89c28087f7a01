// The warp that copies codes and scales of weights and tokens into the ring of the W4A4 product.
//
// Rows are taken from where they lie, whatever their order: no copy of the tokens sorted by experts
// is made, and of the scales' layout only the words of real rows and columns are read.
#pragma once

#include "kernels/gemm/device/w4a4_params.h"
#include "kernels/gemm/device/w4a4_shape.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/mbarrier.cuh"

namespace nibble {

template <class Config>
struct W4A4Copy : W4A4Shape<Config> {
  using Shape = W4A4Shape<Config>;
  using Shape::kCopyBytes;
  using Shape::kRowBytes;
  using Shape::kScaleBytes;
  using Shape::kScales;
  using Shape::kScaleTiles;
  using Shape::kTactic;
  using Shape::kTokens;
  using Shape::kUnits;
  using Shape::kWeightRows;
  using Shape::kWeightsOnM;
  using Shape::kWords;
  using typename Shape::Cursor;
  using typename Shape::List;
  using typename Shape::Place;
  using typename Shape::Ring;
  using typename Shape::Tables;

  static constexpr bool kWholeSteps = Config::kK % kTactic.k == 0;

  NIBBLE_DEVICE static void wait(uint32_t barrier, uint32_t parity) {
    while (!ptx::mbarrier_wait_parity(barrier, parity)) {
    }
  }

  // Codes of a stage: `row_of` gives a row of `codes` for each of kRows, or -1.
  template <int kRows, class RowOf>
  NIBBLE_DEVICE static void copy_codes(uint32_t to, const uint8_t* codes, int step, int lane,
                                       RowOf row_of) {
    constexpr int kPieces = 16 / kCopyBytes;  // of a unit
    constexpr int kAll = kRows * kUnits * kPieces;
#pragma unroll 4
    for (int at = lane; at < kAll; at += 32) {
      const int row = at / (kUnits * kPieces);
      const int piece = at % (kUnits * kPieces);
      const int64_t source = row_of(row);
      const int64_t byte = int64_t{step} * (kUnits * 16) + piece * kCopyBytes;
      const bool there = source >= 0 && (kWholeSteps || byte < kRowBytes);
      ptx::cp_async_zfill<kCopyBytes>(
          to + Shape::unit_byte(row, piece / kPieces) + piece % kPieces * kCopyBytes,
          there ? codes + source * kRowBytes + byte : codes, there ? kCopyBytes : 0);
    }
  }

  // Words of scales of a stage. The last word of a row may have scales of columns that are not
  // there: zeros are taken for them, since whatever lies there could be no number.
  template <int kRows, class RowOf>
  NIBBLE_DEVICE static void copy_scales(uint32_t to, const uint8_t* scales, int step, int lane,
                                        RowOf row_of) {
#pragma unroll 2
    for (int at = lane; at < kRows * kWords; at += 32) {
      const int word = step * kWords + at / kRows;
      const int64_t row = row_of(at % kRows);
      const int left = kScales - 4 * word;
      const int bytes = row < 0 || left <= 0 ? 0 : (left < 4 ? left : 4);
      const uint8_t* from = scales;
      if (bytes > 0) from += swizzled_offset(row, 4 * word, kScales);
      ptx::cp_async_zfill<4>(to + at * 4, from, static_cast<uint32_t>(bytes));
    }
  }

  NIBBLE_DEVICE static void copy_weights(const W4A4Params& params, const Ring& ring,
                                         const Cursor& cursor, int stage, int lane) {
    const int64_t expert = cursor.place.expert;
    const int row_tile = cursor.place.row_tile;
    const auto row_of = [row_tile](int row) { return Shape::weight_row(row_tile, row); };
    copy_codes<kWeightRows>(kWeightsOnM ? ring.m(stage) : ring.n(stage),
                            params.weights + expert * Config::kN * kRowBytes, cursor.step, lane,
                            row_of);
    copy_scales<kWeightRows>(kWeightsOnM ? ring.scales_m(stage) : ring.scales_n(stage),
                             params.weight_scales + expert * kScaleBytes, cursor.step, lane,
                             row_of);
  }

  // Rows of the tokens of a tile: of their codes and of their scales.
  struct TokenRows {
    int32_t* codes;  // shared memory
    int32_t* scales;

    NIBBLE_DEVICE void load(const W4A4Params& params, const Tables& tables, const Place& place,
                            int lane) const {
      __syncwarp();
      const int32_t first = Shape::first_slot(place, tables);
      const int32_t end = tables.offsets[place.expert + 1];
      for (int at = lane; at < kTokens; at += 32) {
        const int32_t slot = first + at;
        int32_t row = -1;
        if (slot < end) row = params.row_of != nullptr ? params.row_of[slot] : slot;
        codes[at] = row;
        if (row >= 0 && params.scale_rows != nullptr) {
          row = params.scale_rows[place.expert] + slot - tables.offsets[place.expert];
        }
        scales[at] = row;
      }
      __syncwarp();
    }
  };

  NIBBLE_DEVICE static void copy_tokens(const W4A4Params& params, const Ring& ring,
                                        const TokenRows& rows, int step, int stage, int lane) {
    copy_codes<kTokens>(kWeightsOnM ? ring.n(stage) : ring.m(stage), params.tokens, step, lane,
                        [&rows](int row) { return int64_t{rows.codes[row]}; });
    copy_scales<kTokens>(kWeightsOnM ? ring.scales_n(stage) : ring.scales_m(stage),
                         params.token_scales, step, lane,
                         [&rows](int row) { return int64_t{rows.scales[row]}; });
    ptx::cp_async_mbarrier_arrive_noinc(ring.full(stage));
  }

  NIBBLE_DEVICE static void produce(const W4A4Params& params, const Tables& tables,
                                    const Ring& ring, const TokenRows& rows, int32_t begin,
                                    int32_t end) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    Cursor cursor = List::cursor_at(tables, begin);
    // Weights do not wait for the kernel that makes the tokens.
    const int32_t units = end - begin;
    const int first = units < kTactic.stages ? units : kTactic.stages;
    Cursor ahead = cursor;
    for (int stage = 0; stage < first; ++stage, ahead.next(tables)) {
      copy_weights(params, ring, ahead, stage, lane);
    }
    ptx::griddepcontrol_wait();
    ptx::griddepcontrol_launch_dependents();
    int stage = 0;
    uint32_t parity = 1;  // of `empty`: the first round finds every stage empty
    for (int32_t unit = 0; unit < units; ++unit, cursor.next(tables)) {
      if (unit == 0 || cursor.step == 0) rows.load(params, tables, cursor.place, lane);
      if (unit >= kTactic.stages) {
        wait(ring.empty(stage), parity);
        copy_weights(params, ring, cursor, stage, lane);
      }
      copy_tokens(params, ring, rows, cursor.step, stage, lane);
      if (++stage == kTactic.stages) {
        stage = 0;
        parity ^= 1;
      }
    }
  }
};

}  // namespace nibble
