// 4-bit weights on a GPU, in the tiles that the grouped products stream: made there from canonical
// matrices, once.
//
//   NIBBLE_ASSIGN_OR_RETURN(const TiledWeights down,
//                           TiledWeights::pack(gpu, matrices, RowOrder::kPlain));
//   down.tiles();   // device address, [experts][row block][chunk] (w4a16_layout.h)
//   down.alpha();   // device address, float [experts, 2]
//
// Every weight stays exact: weight = code x scale as stored x alpha. NVFP4's e4m3 subnormals are
// kept, and the sign of a negative scale moves to its codes. MXFP4's scales are shifted by expert;
// a block 2^134 below the expert's largest counts as zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cuda/device.h"
#include "cuda/memory.h"
#include "cuda/module.h"
#include "formats/quantized_matrix.h"
#include "kernels/gemm/device/weight_codes.h"

namespace nibble {

struct TiledShape {
  Format format = Format::kNvfp4;  // or kMxfp4
  std::int64_t experts = 0;
  std::int64_t rows = 0;     // kGateUp: 2 x intermediate
  std::int64_t columns = 0;  // even
  RowOrder order = RowOrder::kPlain;
  WeightTiles layout() const;
  // Of the canonical matrices of one expert.
  std::int64_t code_bytes() const { return rows * columns / 2; }
  std::int64_t scale_bytes() const;
};

// The numbers beside the tiles.
struct TiledFactors {
  std::vector<float> alpha;  // [experts, 2]: of gate rows and up rows, or twice the same
  std::vector<int> shifts;   // [experts], of MXFP4; else zeros
};

class TiledWeights {
 public:
  // All experts have one format and shape. An input error names the expert and the place of a NaN
  // scale, of sizes that do not fit, and of factors that differ within gate, up or a plain matrix.
  static Result<TiledWeights> pack(const cuda::Device& device,
                                   std::span<const QuantizedMatrix> experts, RowOrder order);
  // Random codes, scales of 1 to 2, and the given factor: for measurements.
  static Result<TiledWeights> random(const cuda::Device& device, const TiledShape& shape,
                                     float factor, std::uint64_t seed);

  const TiledShape& shape() const { return shape_; }
  cuda::DevicePointer tiles() const { return tiles_.address(); }
  cuda::DevicePointer alpha() const { return alpha_.address(); }
  std::size_t bytes() const { return tiles_.size(); }
  const TiledFactors& factors() const { return factors_; }

  // The inverse, for tests. A zero scale comes back as the smallest one, with zero codes.
  struct Canonical {
    std::vector<std::uint8_t> codes;   // [rows, columns / 2]
    std::vector<std::uint8_t> scales;  // [rows, ceil(columns / block)]
  };
  Result<Canonical> unpack(const cuda::Device& device, std::int64_t expert) const;

 private:
  friend class TilePacker;

  TiledShape shape_;
  TiledFactors factors_;
  cuda::DeviceBuffer tiles_;
  cuda::DeviceBuffer alpha_;   // float [experts, 2]
  cuda::DeviceBuffer shifts_;  // int [experts]
};

// The host's part of pack(), which needs no GPU: checks, and factors.
Result<TiledShape> tiled_shape(std::span<const QuantizedMatrix> experts, RowOrder order);
Result<TiledFactors> tiled_factors(std::span<const QuantizedMatrix> experts, RowOrder order);

// The program of the kernels, for any architecture.
Result<cuda::Cubin> compile_prepack(const std::string& arch);

}  // namespace nibble
