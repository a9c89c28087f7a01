#include "kernels/moe/device/w4a4_weights.h"

#include <algorithm>
#include <cmath>

#include "cuda/module.h"
#include "formats/quantize.h"
#include "formats/scale_layout.h"
#include "kernels/moe/device/moe_cuda_memory.h"

namespace nibble {
namespace {

std::int64_t columns_of_scale(Format format) {
  return format == Format::kMxfp4 ? kMxfp4Block : kNvfp4Block;
}

std::int64_t scales_of_row(const TiledShape& shape) {
  return shape.columns / columns_of_scale(shape.format);
}

// The instruction takes e4m3 without its sign.
Result<> check_signs(const QuantizedMatrix& matrix, std::size_t expert) {
  if (matrix.format != Format::kNvfp4) return {};
  const auto found = std::find_if(matrix.scales.begin(), matrix.scales.end(),
                                  [](std::uint8_t scale) { return scale >= 0x80; });
  if (found == matrix.scales.end()) return {};
  const std::int64_t at = found - matrix.scales.begin();
  const std::int64_t of_row = matrix.columns / kNvfp4Block;
  return input_error(
      "expert {}: the scale of row {}, columns from {}, has a sign, and the FP4 instruction takes "
      "scales without one; take W4A16",
      expert, at / of_row, at % of_row * kNvfp4Block);
}

// Of gate and up rows, or twice that of a plain matrix.
struct Factors {
  float first = 1;
  float second = 1;
};
Result<Factors> factors_of(const QuantizedMatrix& matrix, std::size_t expert, RowOrder order) {
  const std::int64_t half = order == RowOrder::kGateUp ? matrix.rows / 2 : matrix.rows;
  Factors factors;
  for (const MatrixSegment& segment : matrix.segments) {
    if (segment.row_begin == 0) factors.first = segment.factor;
    if (segment.row_begin != 0 && segment.row_begin != half && segment.factor != factors.second) {
      return input_error("expert {}: the factor changes from {} to {} at row {}, within a matrix",
                         expert, factors.second, segment.factor, segment.row_begin);
    }
    factors.second = segment.factor;
  }
  return factors;
}

}  // namespace

Result<TiledShape> w4a4_shape(std::span<const QuantizedMatrix> experts, RowOrder order) {
  NIBBLE_ASSIGN_OR_RETURN(const TiledShape shape, tiled_shape(experts, order));
  if (shape.columns % columns_of_scale(shape.format) != 0) {
    return input_error("the weights have {} columns, which are not whole {} blocks of {}",
                       shape.columns, to_string(shape.format), columns_of_scale(shape.format));
  }
  for (std::size_t expert = 0; expert < experts.size(); ++expert) {
    NIBBLE_RETURN_IF_ERROR(check_signs(experts[expert], expert));
  }
  return shape;
}

std::vector<std::uint8_t> w4a4_scales(const QuantizedMatrix& matrix) {
  const std::int64_t of_row = matrix.columns / columns_of_scale(matrix.format);
  std::vector<std::uint8_t> tiles(static_cast<std::size_t>(swizzled_bytes(matrix.rows, of_row)));
  swizzle_scales(matrix.scales, matrix.rows, of_row, tiles);
  return tiles;
}

Result<std::vector<float>> w4a4_alpha(std::span<const QuantizedMatrix> experts, RowOrder order,
                                      float token_factor) {
  std::vector<float> alpha;
  for (std::size_t expert = 0; expert < experts.size(); ++expert) {
    NIBBLE_ASSIGN_OR_RETURN(const Factors factors, factors_of(experts[expert], expert, order));
    for (const float factor : {factors.first, factors.second}) {
      alpha.push_back(factor * token_factor);
      if (std::isfinite(alpha.back())) continue;
      return input_error("expert {}: the factor {} of its weights, times {} of its input, is {}",
                         expert, factor, token_factor, alpha.back());
    }
  }
  return alpha;
}

Result<W4A4Weights> W4A4Weights::unset(const TiledShape& shape, const std::vector<float>& alpha) {
  W4A4Weights weights;
  weights.shape_ = shape;
  const auto bytes = [&shape](std::int64_t of_expert) {
    return static_cast<std::size_t>(shape.experts * of_expert);
  };
  NIBBLE_ASSIGN_OR_RETURN(weights.codes_, cuda::DeviceBuffer::make(bytes(shape.code_bytes())));
  NIBBLE_ASSIGN_OR_RETURN(
      weights.scales_,
      cuda::DeviceBuffer::make(bytes(swizzled_bytes(shape.rows, scales_of_row(shape)))));
  NIBBLE_ASSIGN_OR_RETURN(weights.alpha_, cuda::DeviceBuffer::of(alpha));
  return weights;
}

Result<W4A4Weights> W4A4Weights::upload(const cuda::Device& device,
                                        std::span<const QuantizedMatrix> experts, RowOrder order,
                                        float token_factor) {
  NIBBLE_ASSIGN_OR_RETURN(const TiledShape shape, w4a4_shape(experts, order));
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<float> alpha, w4a4_alpha(experts, order, token_factor));
  NIBBLE_RETURN_IF_ERROR(device.make_current());
  NIBBLE_ASSIGN_OR_RETURN(W4A4Weights weights, unset(shape, alpha));
  for (std::size_t expert = 0; expert < experts.size(); ++expert) {
    const QuantizedMatrix& matrix = experts[expert];
    NIBBLE_RETURN_IF_ERROR(
        weights.codes_.upload(std::as_bytes(matrix.codes), expert * matrix.codes.size()));
    const std::vector<std::uint8_t> scales = w4a4_scales(matrix);
    NIBBLE_RETURN_IF_ERROR(
        weights.scales_.upload(std::as_bytes(std::span(scales)), expert * scales.size()));
  }
  return weights;
}

Result<W4A4Weights> W4A4Weights::random(const cuda::Device& device, const TiledShape& shape,
                                        float factor, std::uint64_t seed) {
  NIBBLE_RETURN_IF_ERROR(device.make_current());
  const std::vector<float> alpha(2 * static_cast<std::size_t>(shape.experts), factor);
  NIBBLE_ASSIGN_OR_RETURN(W4A4Weights weights, unset(shape, alpha));
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Cubin cubin, compile_prepack(device.info().arch()));
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Module module, cuda::Module::load(device, cubin));
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Kernel kernel, module.kernel("w4a16_random_weights"));
  NIBBLE_ASSIGN_OR_RETURN(cuda::Stream stream, cuda::Stream::make());
  const RandomWeights params{.codes = device_array<std::uint8_t>(weights.codes()),
                             .scales = device_array<std::uint8_t>(weights.scales()),
                             .code_bytes = static_cast<std::int64_t>(weights.codes_.size()),
                             .scale_bytes = static_cast<std::int64_t>(weights.scales_.size()),
                             .seed = seed,
                             .mxfp4 = shape.format == Format::kMxfp4};
  const cuda::Launch blocks{.grid = {static_cast<unsigned>(16 * device.info().sms)},
                            .block = {kPrepackThreads}};
  NIBBLE_RETURN_IF_ERROR(cuda::launch(kernel, blocks, stream, params));
  NIBBLE_RETURN_IF_ERROR(stream.synchronize());
  return weights;
}

Result<W4A4Weights::Canonical> W4A4Weights::unpack(std::int64_t expert) const {
  const auto download = [expert](const cuda::DeviceBuffer& from, auto& to) {
    const std::span bytes = std::as_writable_bytes(std::span(to));
    return from.download(bytes, static_cast<std::size_t>(expert) * bytes.size());
  };
  const std::int64_t of_row = scales_of_row(shape_);
  Canonical found{
      .codes = std::vector<std::uint8_t>(static_cast<std::size_t>(shape_.code_bytes())),
      .scales = std::vector<std::uint8_t>(static_cast<std::size_t>(shape_.rows * of_row))};
  std::vector<std::uint8_t> tiles(static_cast<std::size_t>(swizzled_bytes(shape_.rows, of_row)));
  std::vector<float> factors(2);
  NIBBLE_RETURN_IF_ERROR(download(codes_, found.codes));
  NIBBLE_RETURN_IF_ERROR(download(scales_, tiles));
  NIBBLE_RETURN_IF_ERROR(download(alpha_, factors));
  unswizzle_scales(tiles, shape_.rows, of_row, found.scales);
  found.first_factor = factors.front();
  found.second_factor = factors.back();
  return found;
}

}  // namespace nibble
