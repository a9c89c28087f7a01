// NVIDIA ModelOpt: `weight` U8 [rows, columns / 2], `weight_scale` e4m3 [rows, columns / 16],
// `weight_scale_2` = amax / (6 * 448) and `input_scale` = amax / (6 * 448), both fp32 multipliers.
// Source: modelopt/torch/quantization/qtensor/nvfp4_tensor.py.
#include <fmt/core.h>

#include "checkpoint/packed.h"

namespace nibble {
namespace {

constexpr PackedNames kNames = {.codes = "weight",
                                .scales = "weight_scale",
                                .factor = "weight_scale_2",
                                .input = "input_scale",
                                .bias = "bias"};

float multiplier(float stored) {
  return stored;
}

// Experts stacked into one tensor (Llama-4, gpt-oss-NVFP4), perhaps transposed: known, not loaded.
void recognise_stack(const ModuleTensors& tensors, const std::string& stem,
                     std::vector<StoredMatrix>& out) {
  const StoredTensor* codes = tensors.find(stem);
  const StoredTensor* scales = tensors.find(stem + "_weight_scale");
  if (codes == nullptr || scales == nullptr) return;
  const std::vector<std::int64_t>& shape = codes->info->shape;
  if (codes->info->dtype != Dtype::kU8 || shape.size() != 3) return;
  StoredMatrix matrix;
  matrix.name = fmt::format("{}.{}", tensors.module, stem);
  matrix.module = std::string(tensors.module);
  matrix.format = Format::kNvfp4;
  matrix.copies = shape[0];
  matrix.rows = shape[1];
  matrix.columns = 2 * shape[2];
  matrix.codes = codes;
  matrix.scales = scales;
  matrix.factor = tensors.find(stem + "_weight_scale_2");
  matrix.input = tensors.find(stem + "_input_scale");
  matrix.bias = tensors.find(stem + "_bias");
  matrix.dialect = &kModelopt;
  matrix.loadable = false;
  out.push_back(std::move(matrix));
}

void recognise(const ModuleTensors& tensors, const Checkpoint& checkpoint,
               std::vector<StoredMatrix>& out, FaultLog& log) {
  if (auto matrix = read_packed(tensors, checkpoint, kModelopt, kNames, log)) {
    out.push_back(std::move(*matrix));
  }
  recognise_stack(tensors, "gate_up_proj", out);
  recognise_stack(tensors, "down_proj", out);
}

}  // namespace

const Dialect kModelopt = {.name = "modelopt", .recognise = recognise, .multiplier = multiplier};

}  // namespace nibble
