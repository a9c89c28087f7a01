#include "bench/cuda_w4a4_check.h"

#include "formats/codec.h"
#include "formats/quantize.h"
#include "kernels/moe/reference.h"

namespace nibble {

Result<W4A4Matrix> w4a4_matrix(const W4A4Weights& weights, std::int64_t expert) {
  NIBBLE_ASSIGN_OR_RETURN(W4A4Weights::Canonical bytes, weights.unpack(expert));
  W4A4Matrix matrix{.bytes = std::move(bytes), .view = {}};
  const TiledShape& shape = weights.shape();
  matrix.view = {.format = shape.format, .rows = shape.rows, .columns = shape.columns};
  matrix.view.segments = {{.row_begin = 0, .factor = matrix.bytes.first_factor}};
  if (shape.order == RowOrder::kGateUp) {
    matrix.view.segments.push_back(
        {.row_begin = shape.rows / 2, .factor = matrix.bytes.second_factor});
  }
  matrix.view.codes = matrix.bytes.codes;
  matrix.view.scales = matrix.bytes.scales;
  return matrix;
}

std::string w4a4_kernel_name(const BenchShape& shape, bool software_mma) {
  return fmt::format("w4a4 {} x {}{}", to_string(shape.format), to_string(shape.activations),
                     software_mma ? ", software body" : "");
}

std::vector<float> through_mxfp4(std::span<const float> x) {
  const QuantizedBytes bytes = quantize_mxfp4(x, 1, static_cast<std::int64_t>(x.size()));
  return dequantize(bytes.view());
}

std::vector<double> w4a4_expert_reference(const W4A4Expert& expert) {
  const bool mxfp4 = expert.format == Format::kMxfp4;
  const std::vector<float> x =
      mxfp4 ? through_mxfp4(expert.x) : std::vector<float>(expert.x.begin(), expert.x.end());
  // The reference rounds to NVFP4 itself; what is MXFP4 already stays as it is.
  const MoeConfig config{.hidden = expert.hidden,
                         .intermediate = expert.intermediate,
                         .router = {.experts = 1, .top_k = 1},
                         .activation = expert.activation,
                         .activations = mxfp4 ? Format::kFp32 : Format::kNvfp4};
  const MoeWeights weights{.gate_up = std::span(&expert.gate_up, 1),
                           .down = std::span(&expert.down, 1)};
  const std::vector<std::int32_t> ids = {0};
  const std::vector<float> one = {1};
  const MoeReferenceParams params{
      .config = config, .weights = weights, .x = x, .expert_ids = ids, .expert_weights = one};
  std::vector<float> between;
  for (const double value : reference_activated(params, reference_gate_up(params))) {
    const auto narrow = static_cast<float>(value);
    between.push_back(expert.between == Element::kFp16 ? fp16_to_float(float_to_fp16(narrow))
                                                       : bf16_to_float(float_to_bf16(narrow)));
  }
  return reference_output(params, mxfp4 ? through_mxfp4(between) : between);
}

}  // namespace nibble
