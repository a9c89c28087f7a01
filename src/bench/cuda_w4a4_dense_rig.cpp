// One W4A4 matrix as a rig, whose tokens were quantized before; grouped products are parts of a
// layer that has them.
#include <algorithm>

#include "bench/cuda_dense_frame.h"
#include "bench/cuda_layer_parts.h"
#include "bench/cuda_w4a4_check.h"
#include "bench/cuda_w4a4_rig.h"
#include "formats/scale_layout.h"
#include "kernels/moe/device/moe_cuda_layer.h"

namespace nibble {
namespace {

class W4A4DenseRig : public CudaDenseFrame<W4A4Weights, W4A4Kernel> {
 public:
  using CudaDenseFrame::CudaDenseFrame;

  Result<> make() {
    NIBBLE_RETURN_IF_ERROR(make_weights(random_weight_factor(shape_.k)));
    NIBBLE_ASSIGN_OR_RETURN(QuantizeKernel quantize,
                            QuantizeKernel::make(setup_.gpu, w4a4_dense_tokens(shape_)));
    quantize_.emplace(std::move(quantize));
    return {};
  }

  Result<> set_tokens(std::int64_t tokens) override {
    const W4A4Problem problem = w4a4_dense_problem(shape_);
    NIBBLE_RETURN_IF_ERROR(choose_kernel(
        problem, tokens, default_tactic(problem, tokens, limits_of(setup_.gpu.info()))));
    NIBBLE_RETURN_IF_ERROR(make_buffers());
    return quantize_tokens();
  }

  Result<> enqueue(int copy, cuda::Stream& stream) override {
    const W4A4Weights& weights = weights_[static_cast<std::size_t>(copy)];
    const W4A4Params params{
        .weights = device_array<std::uint8_t>(weights.codes()),
        .weight_scales = device_array<std::uint8_t>(weights.scales()),
        .alpha = device_array<float>(weights.alpha()),
        .tokens = device_array<std::uint8_t>(codes_.address()),
        .token_scales = device_array<std::uint8_t>(scales_.address()),
        .token_factor = own_factors() ? device_array<float>(factors_.address()) : nullptr,
        .output = device_array<void>(output_.address()),
        .rows = static_cast<std::int32_t>(tokens_),
        .partials = device_array<float>(partials_.address()),
        .flags = device_array<std::uint32_t>(flags_.address())};
    return kernel_->enqueue(stream, params);
  }

  std::string kernel() const override { return w4a4_kernel_name(shape_, kernel_->software_mma()); }
  std::string why_not_timed() const override {
    return kernel_->software_mma() ? why_w4a4_is_not_timed(setup_.gpu.info()) : "";
  }

 private:
  bool own_factors() const { return quantize_->shape().mode == QuantizeMode::kNvfp4Rows; }

  Result<> make_buffers() {
    const auto bytes = [](std::int64_t count) {
      return static_cast<std::size_t>(std::max<std::int64_t>(16, count));
    };
    NIBBLE_ASSIGN_OR_RETURN(x_, cuda::DeviceBuffer::make(bytes(2 * tokens_ * shape_.k)));
    NIBBLE_ASSIGN_OR_RETURN(codes_, cuda::DeviceBuffer::make(bytes(tokens_ * shape_.k / 2)));
    NIBBLE_ASSIGN_OR_RETURN(
        scales_,
        cuda::DeviceBuffer::make(bytes(swizzled_bytes(tokens_, quantize_->shape().scales()))));
    NIBBLE_ASSIGN_OR_RETURN(factors_, cuda::DeviceBuffer::make(bytes(4 * tokens_)));
    NIBBLE_ASSIGN_OR_RETURN(output_, cuda::DeviceBuffer::make(bytes(2 * tokens_ * shape_.n)));
    return make_split_buffers();
  }

  Result<> quantize_tokens() {
    NIBBLE_ASSIGN_OR_RETURN(cuda::Stream stream, cuda::Stream::make());
    NIBBLE_RETURN_IF_ERROR(setup_.probes.fill(
        x_, {.seed = static_cast<int64_t>(setup_.seed) + 99, .filling = Filling::kBf16}, stream));
    NIBBLE_RETURN_IF_ERROR(quantize_->enqueue(
        stream, {.x = device_array<void>(x_.address()),
                 .codes = device_array<std::uint8_t>(codes_.address()),
                 .scales = device_array<std::uint8_t>(scales_.address()),
                 .factors = own_factors() ? device_array<float>(factors_.address()) : nullptr,
                 .rows = static_cast<std::int32_t>(tokens_)}));
    return stream.synchronize();
  }

  Result<std::vector<float>> row_of(const cuda::DeviceBuffer& buffer, std::int64_t columns,
                                    std::int64_t token) const {
    std::vector<std::uint16_t> row(static_cast<std::size_t>(columns));
    NIBBLE_RETURN_IF_ERROR(buffer.download(std::as_writable_bytes(std::span(row)),
                                           static_cast<std::size_t>(token) * row.size() * 2));
    return wide(row, Element::kBf16);
  }

  Result<> check_tokens(const std::vector<std::int64_t>& tokens) const override {
    NIBBLE_ASSIGN_OR_RETURN(const W4A4Matrix matrix, w4a4_matrix(weights_.front(), 0));
    const bool mxfp4 = shape_.format == Format::kMxfp4;
    for (const std::int64_t token : tokens) {
      NIBBLE_ASSIGN_OR_RETURN(std::vector<float> x, row_of(x_, shape_.k, token));
      NIBBLE_ASSIGN_OR_RETURN(const std::vector<float> y, row_of(output_, shape_.n, token));
      if (mxfp4) x = through_mxfp4(x);
      NIBBLE_RETURN_IF_ERROR(check_error({.matrix = matrix.view,
                                          .activations = mxfp4 ? Format::kFp32 : Format::kNvfp4,
                                          .x = x,
                                          .y = y},
                                         token, "Blackwell's arithmetic in double precision"));
    }
    return {};
  }

  std::optional<QuantizeKernel> quantize_;
  cuda::DeviceBuffer x_, codes_, scales_, factors_;
};

}  // namespace

W4A4Problem w4a4_dense_problem(const BenchShape& shape) {
  return {.experts = 1, .n = shape.n, .k = shape.k, .format = shape.format};
}

QuantizeShape w4a4_dense_tokens(const BenchShape& shape) {
  const bool mxfp4 = shape.format == Format::kMxfp4;
  return {.mode = mxfp4 ? QuantizeMode::kMxfp4 : QuantizeMode::kNvfp4Rows,
          .columns = static_cast<int>(shape.k)};
}

Result<std::unique_ptr<CudaRig>> make_w4a4_product_rig(const BenchShape& shape,
                                                       const CudaSetup& setup) {
  if (shape.experts > 1) {
    NIBBLE_ASSIGN_OR_RETURN(std::shared_ptr<CudaW4A4LayerRig> layer,
                            make_w4a4_layer_rig(layer_of_product(shape), setup));
    return part_of(std::move(layer),
                   shape.name == "moe.gate_up" ? LayerPart::kGateUp : LayerPart::kDown);
  }
  auto rig = std::make_unique<W4A4DenseRig>(shape, setup);
  NIBBLE_RETURN_IF_ERROR(rig->make());
  return std::unique_ptr<CudaRig>(std::move(rig));
}

}  // namespace nibble
