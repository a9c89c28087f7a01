// openai/gpt-oss as Hugging Face stores it: all experts of a layer in one tensor,
// `gate_up_proj_blocks` U8 [experts, rows, columns / 32, 16] with `gate_up_proj_scales` U8 e8m0
// [experts, rows, columns / 32]; even rows are gate, odd rows are up. No tensor factor.
// Source: transformers/integrations/mxfp4.py, convert_moe_packed_tensors.
#include <fmt/core.h>

#include "checkpoint/packed.h"

namespace nibble {
namespace {

constexpr std::int64_t kBlockBytes = 16;
constexpr std::int64_t kBlockColumns = 32;

float multiplier(float stored) {
  return stored;
}

void recognise_stem(const ModuleTensors& tensors, const Checkpoint& checkpoint,
                    const std::string& stem, std::vector<StoredMatrix>& out, FaultLog& log) {
  const StoredTensor* codes = tensors.find(stem + "_blocks");
  if (codes == nullptr) return;
  TensorChecks checks(kGptOss, log);
  StoredMatrix matrix;
  matrix.name = fmt::format("{}.{}", tensors.module, stem);
  matrix.module = std::string(tensors.module);
  matrix.format = Format::kMxfp4;
  matrix.codes = codes;
  matrix.scales = tensors.find(stem + "_scales");
  matrix.bias = tensors.find(stem + "_bias");
  matrix.dialect = &kGptOss;
  matrix.interleaved = stem == "gate_up_proj";
  matrix.sound = checks.has_type(*codes, Dtype::kU8);
  const std::vector<std::int64_t>& shape = codes->info->shape;
  if (shape.size() != 4 || shape[3] != kBlockBytes) {
    log.add(Severity::kError, "wrong-shape", codes->name(),
            fmt::format("is {}; blocks are [experts, rows, columns / 32, 16]", shape_text(shape)));
    matrix.sound = false;
  } else {
    matrix.copies = shape[0];
    matrix.rows = shape[1];
    matrix.columns = shape[2] * kBlockColumns;
  }
  if (matrix.scales == nullptr) {
    checks.missing(tensors.module, stem + "_scales", checkpoint);
    matrix.sound = false;
  } else if (matrix.sound) {
    const bool typed =
        matrix.scales->info->dtype == Dtype::kF8E8M0 || checks.has_type(*matrix.scales, Dtype::kU8);
    matrix.sound = checks.has_shape(*matrix.scales, {shape[0], shape[1], shape[2]}) && typed;
  }
  out.push_back(std::move(matrix));
}

void recognise(const ModuleTensors& tensors, const Checkpoint& checkpoint,
               std::vector<StoredMatrix>& out, FaultLog& log) {
  recognise_stem(tensors, checkpoint, "gate_up_proj", out, log);
  recognise_stem(tensors, checkpoint, "down_proj", out, log);
}

}  // namespace

const Dialect kGptOss = {.name = "gpt-oss", .recognise = recognise, .multiplier = multiplier};

}  // namespace nibble
