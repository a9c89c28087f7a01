// 4-bit weights on a GPU as the W4A4 products read them: codes as a checkpoint has them, scales in
// the order of formats/scale_layout.h, expert by expert, and the factors beside them.
//
//   NIBBLE_ASSIGN_OR_RETURN(const W4A4Weights down,
//                           W4A4Weights::upload(gpu, matrices, RowOrder::kPlain, input_scale));
//   kernel.enqueue(stream, {.weights = ..down.codes().., .weight_scales = ..down.scales()..,
//                           .alpha = ..down.alpha().., ...});
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cuda/device.h"
#include "cuda/memory.h"
#include "formats/quantized_matrix.h"
#include "kernels/gemm/device/prepack.h"

namespace nibble {

class W4A4Weights {
 public:
  // All experts have one format and shape, with whole blocks. `token_factor`: of all tokens, or 1
  // where each has its own. An input error names the expert and the place of a scale that is NaN or
  // has a sign, of sizes that do not fit, and of factors that differ within gate, up or a plain
  // matrix.
  static Result<W4A4Weights> upload(const cuda::Device& device,
                                    std::span<const QuantizedMatrix> experts, RowOrder order,
                                    float token_factor);
  // Random codes, scales of 1 to 2, and the given factor: for measurements.
  static Result<W4A4Weights> random(const cuda::Device& device, const TiledShape& shape,
                                    float factor, std::uint64_t seed);

  const TiledShape& shape() const { return shape_; }
  // Device addresses: [experts, rows, columns / 2]; [experts][swizzled_bytes(rows, columns /
  // block)]; float [experts, 2].
  cuda::DevicePointer codes() const { return codes_.address(); }
  cuda::DevicePointer scales() const { return scales_.address(); }
  cuda::DevicePointer alpha() const { return alpha_.address(); }
  std::size_t bytes() const { return codes_.size() + scales_.size(); }

  // An expert as a checkpoint has it, for checks; its factors are those of alpha().
  struct Canonical {
    std::vector<std::uint8_t> codes;   // [rows, columns / 2]
    std::vector<std::uint8_t> scales;  // [rows, columns / block]
    float first_factor = 1;            // of gate rows, or of all
    float second_factor = 1;           // of up rows
  };
  Result<Canonical> unpack(std::int64_t expert) const;

 private:
  // Memory for the matrices.
  static Result<W4A4Weights> unset(const TiledShape& shape, const std::vector<float>& alpha);

  TiledShape shape_;
  cuda::DeviceBuffer codes_;
  cuda::DeviceBuffer scales_;
  cuda::DeviceBuffer alpha_;
};

// The host's part of upload(), which needs no GPU: checks, the scales of one expert, and the
// factors [experts, 2] of gate rows and up rows, or twice the same.
Result<TiledShape> w4a4_shape(std::span<const QuantizedMatrix> experts, RowOrder order);
std::vector<std::uint8_t> w4a4_scales(const QuantizedMatrix& matrix);
Result<std::vector<float>> w4a4_alpha(std::span<const QuantizedMatrix> experts, RowOrder order,
                                      float token_factor);

}  // namespace nibble
