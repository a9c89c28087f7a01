// compressed-tensors (llm-compressor), nvfp4-pack-quantized and mxfp4-pack-quantized:
// `weight_packed` U8 [rows, columns / 2], `weight_scale` e4m3 [rows, columns / 16] (MXFP4: e8m0
// [rows, columns / 32]), `weight_global_scale` = 6 * 448 / amax and `input_global_scale` likewise:
// DIVISORS. Source: compressed_tensors/quantization/lifecycle/forward_helpers.py and
// compressed_tensors/entrypoints/convert/converters/modelopt_nvfp4.py.
#include "checkpoint/packed.h"

namespace nibble {
namespace {

constexpr PackedNames kNames = {.codes = "weight_packed",
                                .scales = "weight_scale",
                                .factor = "weight_global_scale",
                                .input = "input_global_scale",
                                .bias = "bias"};

float multiplier(float stored) {
  return 1.0F / stored;
}

void recognise(const ModuleTensors& tensors, const Checkpoint& checkpoint,
               std::vector<StoredMatrix>& out, FaultLog& log) {
  if (auto matrix = read_packed(tensors, checkpoint, kCompressedTensors, kNames, log)) {
    out.push_back(std::move(*matrix));
  }
}

}  // namespace

const Dialect kCompressedTensors = {
    .name = "compressed-tensors", .recognise = recognise, .multiplier = multiplier};

}  // namespace nibble
