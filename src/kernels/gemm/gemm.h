// Grouped matrix product on the CPU: every expert's rows times that expert's weights. An ordinary
// product has one expert.
//
//   NIBBLE_ASSIGN_OR_RETURN(PackedWeights weights, PackedWeights::pack(experts, best_isa(), pool));
//   NIBBLE_ASSIGN_OR_RETURN(auto rows, PackedActivations::make(tokens, k, Format::kBf16, isa));
//   rows.quantize(x, pool);
//   gemm({.weights = weights, .activations = rows, .offsets = offsets, .row_of = row_of,
//         .output = y}, pool);
//
// 4-bit weights are multiplied as integers. Activations become 8-bit integers with one scale for 64
// of them (kInt8), 15-bit ones in two 8-bit halves (kBf16: in a group of 64, every
// bf16 within 2^-6 of the largest is held exactly, the others to 2^-14 of it; kFp32: the same
// without rounding to bf16 first, every value to 2^-15 of the largest), or NVFP4 codes (kNvfp4:
// Blackwell's arithmetic, one e4m3 scale for 16 and one fp32 factor). Sums of a block are
// exact integers on every processor, and blocks are added in the order of K by fused multiply-adds,
// so that an output has the same bits on all instruction sets, for any number of threads and
// whatever else is in the batch. bf16 weights are multiplied in fp32, by activations that were
// rounded to bf16 or, of kFp32, not at all: the same bits for any batch and number of threads, on
// one instruction set.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/gemm/packed_activations.h"
#include "kernels/gemm/packed_weights.h"

namespace nibble {

struct GemmParams {
  const PackedWeights& weights;          // [experts, n, k]
  const PackedActivations& activations;  // [rows, k], of the weights' instruction set
  // [experts + 1]: expert e multiplies slots offsets[e] .. offsets[e + 1] - 1; ascending from 0.
  std::span<const std::int32_t> offsets;
  std::span<const std::int32_t> row_of;  // [slots]: the row of `activations` in each slot
  std::span<float> output;               // [slots, n]
  int most_threads = 0;                  // of the pool; 0: all
};

// Shapes that do not fit together are our caller's mistake (NIBBLE_CHECK). Neither allocates nor
// fails.
void gemm(const GemmParams& params, ThreadPool& pool);

// How gemm() cuts a product over threads and passes: what a prediction of its time counts.
struct GemmCut {
  std::int64_t tile_rows = 0;  // of the weights: they are multiplied in whole tiles,
  std::int64_t unit_rows = 0;  // and so many are what a thread takes at a time
  std::int64_t pass_rows = 0;  // of the activations, that meet the weights of a unit together
  // Up to so many rows meet weights that are unpacked in passing.
  std::int64_t passing_rows = 0;
};
GemmCut gemm_cut(Format weights, Format activations, Isa isa);

// One line for logs, results and bug reports: "gemm nvfp4 x int8 avx2 16x32".
std::string gemm_name(Format weights, Format activations, Isa isa);

}  // namespace nibble
