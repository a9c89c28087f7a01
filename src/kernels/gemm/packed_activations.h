// Activations quantized and arranged for one instruction set; made once and refilled every step.
//
//   NIBBLE_ASSIGN_OR_RETURN(auto packed, PackedActivations::make(64, 6144, Format::kInt8, isa));
//   packed.quantize(x, pool);   // x: [rows <= 64, 6144] fp32
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/huge_buffer.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "formats/format.h"
#include "machine/isa.h"

namespace nibble {

class PackedActivations {
 public:
  // Room for `most_rows` rows of `columns`. `format`: kFp32, kBf16, kInt8 or kNvfp4, as gemm()
  // describes; `weights`: the format of the weights that they will meet (bf16 weights take kFp32 or
  // kBf16).
  static Result<PackedActivations> make(std::int64_t most_rows, std::int64_t columns, Format format,
                                        Isa isa, Format weights = Format::kNvfp4);

  // x: [rows, columns] fp32, rows = x.size() / columns. kNvfp4: `input_scale` is the static factor
  // of the checkpoint; without it the factor is max|x| / (6 * 448) of each row by itself, so that a
  // row does not depend on its batch. Values that are not finite give results that are not finite.
  void quantize(std::span<const float> x, ThreadPool& pool,
                std::optional<float> input_scale = std::nullopt);
  // The same row by row, each by any thread, for who writes the row just before: begin() says how
  // many there are; x: [rows, columns], of which only `row` is read.
  void begin(std::int64_t rows);
  void quantize_row(std::span<const float> x, std::int64_t row,
                    std::optional<float> input_scale = std::nullopt);
  double value_ns() const;  // about what one value takes

  Format format() const { return format_; }
  Isa isa() const { return isa_; }
  std::int64_t rows() const { return rows_; }  // of the last quantize()
  std::int64_t columns() const { return columns_; }

 private:
  friend struct GemmAccess;  // kernels/gemm/layout.h

  // Groups first .. last - 1 of one row; x: [columns].
  void quantize_groups(const float* x, std::int64_t row, std::int64_t first, std::int64_t last);
  void set_factor(std::span<const float> x, std::int64_t row, std::optional<float> input_scale);

  Format format_ = Format::kBf16;
  Format weights_ = Format::kNvfp4;
  Isa isa_ = Isa::kPortable;
  std::int64_t most_rows_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  HugeBuffer memory_;               // the layout of kernels/gemm/layout.h
  std::vector<float> row_factors_;  // kNvfp4: the fp32 factor of each row
};

}  // namespace nibble
