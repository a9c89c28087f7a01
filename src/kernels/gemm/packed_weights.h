// Weights rearranged for one instruction set: another type than the canonical matrix, because the
// bytes mean something else.
//
//   NIBBLE_ASSIGN_OR_RETURN(const PackedWeights packed,
//                           PackedWeights::pack({&matrix, 1}, best_isa(), pool));
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/huge_buffer.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "formats/quantized_matrix.h"
#include "machine/isa.h"

namespace nibble {

class PackedWeights {
 public:
  // All experts have one format and shape. An input error when they have not, when a scale is NaN
  // or negative, or when codes or scales are too short; `columns` must be even for 4-bit formats,
  // rows and columns at least 1.
  static Result<PackedWeights> pack(std::span<const QuantizedMatrix> experts, Isa isa,
                                    ThreadPool& pool);

  Format format() const { return format_; }
  Isa isa() const { return isa_; }
  std::int64_t experts() const { return experts_; }
  std::int64_t rows() const { return rows_; }        // N
  std::int64_t columns() const { return columns_; }  // K
  // Bytes that one expert occupies here, padding included.
  std::size_t expert_bytes() const { return expert_bytes_; }
  std::span<const std::byte> bytes() const { return tiles_.bytes(); }

 private:
  friend struct GemmAccess;  // kernels/gemm/layout.h
  friend class WeightPacker;

  Format format_ = Format::kNvfp4;
  Isa isa_ = Isa::kPortable;
  std::int64_t experts_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  std::size_t expert_bytes_ = 0;
  HugeBuffer tiles_;                // [experts] x the layout of kernels/gemm/layout.h
  std::vector<float> row_factors_;  // [experts, rows rounded up to whole tiles]

  // What is left of a scale that 15 bits below its row's largest do not hold: such a block is
  // multiplied again with the rest of its scale. Rare: its scale is 2^-11 of the row's largest.
  struct Residual {
    std::int32_t row = 0;
    std::int32_t block = 0;      // of 16 columns
    float scale = 0;             // in units of the row's factor
    std::int8_t codes[16] = {};  // e2m1 in halves: -12 .. 12
  };
  std::vector<Residual> residuals_;            // by expert, then row, then block
  std::vector<std::size_t> residual_offsets_;  // [experts + 1]
};

}  // namespace nibble
