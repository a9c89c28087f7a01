// Matrices whose elements stand one by one: bf16, fp16, fp32; FP8 with one scale for the tensor, a
// row (ModelOpt, compressed-tensors) or 128 x 128 elements (DeepSeek's `weight_scale_inv`, which is
// a multiplier in spite of its name); MXFP8; integers, which are known and not loaded.
#include <algorithm>
#include <fmt/core.h>
#include <optional>

#include "checkpoint/packed.h"

namespace nibble {
namespace {

constexpr std::int64_t kFp8Block = 128;
constexpr std::int64_t kMxfp8Block = 32;

float multiplier(float stored) {
  return stored;
}

std::optional<Format> float_format(Dtype dtype) {
  if (dtype == Dtype::kBf16) return Format::kBf16;
  if (dtype == Dtype::kF16) return Format::kFp16;
  if (dtype == Dtype::kF32) return Format::kFp32;
  return std::nullopt;
}

StoredMatrix matrix_of(const ModuleTensors& tensors, const StoredTensor* codes) {
  StoredMatrix matrix;
  matrix.name = matrix.module = std::string(tensors.module);
  matrix.codes = codes;
  matrix.bias = tensors.find("bias");
  matrix.dialect = &kUnpacked;
  matrix.rows = codes->info->shape[0];
  matrix.columns = codes->info->shape[1];
  return matrix;
}

bool is_float_scale(const StoredTensor& tensor) {
  return tensor.info->dtype == Dtype::kF32 || tensor.info->dtype == Dtype::kBf16;
}

// Which of the forms of FP8 a matrix has, by its scale.
void read_fp8(const ModuleTensors& tensors, const Checkpoint& checkpoint, StoredMatrix& matrix,
              FaultLog& log) {
  TensorChecks checks(kUnpacked, log);
  matrix.format = Format::kFp8;
  matrix.input = tensors.find("input_scale");
  const StoredTensor* block = tensors.find("weight_scale_inv");
  matrix.scales = block != nullptr ? block : tensors.find("weight_scale");
  if (matrix.scales == nullptr) {
    checks.missing(tensors.module, "weight_scale", checkpoint);
    matrix.sound = false;
    return;
  }
  const std::vector<std::int64_t>& shape = matrix.scales->info->shape;
  const auto blocks = [](std::int64_t size, std::int64_t block_size) {
    return (size + block_size - 1) / block_size;
  };
  const std::vector<std::int64_t> grid = {blocks(matrix.rows, kFp8Block),
                                          blocks(matrix.columns, kFp8Block)};
  const Dtype dtype = matrix.scales->info->dtype;
  if (dtype == Dtype::kU8 || dtype == Dtype::kF8E8M0) {
    matrix.format = Format::kMxfp8;
    matrix.loadable = false;
    matrix.sound =
        checks.has_shape(*matrix.scales, {matrix.rows, blocks(matrix.columns, kMxfp8Block)});
  } else if (!is_float_scale(*matrix.scales)) {
    matrix.sound = checks.has_type(*matrix.scales, Dtype::kF32);
  } else if (matrix.scales->info->elements() == 1 && block == nullptr) {
    matrix.fp8_scale = Fp8Scale::kTensor;
  } else if (shape == grid) {
    matrix.format = Format::kFp8Block128;
    matrix.fp8_scale = Fp8Scale::kBlock128;
  } else if (block == nullptr && !shape.empty() && shape[0] == matrix.rows &&
             matrix.scales->info->elements() == static_cast<std::uint64_t>(matrix.rows)) {
    matrix.fp8_scale = Fp8Scale::kRow;
  } else {
    matrix.sound = checks.has_shape(*matrix.scales, grid);
  }
}

void recognise_integers(const ModuleTensors& tensors, std::vector<StoredMatrix>& out) {
  for (const std::string_view suffix : {"qweight", "weight_packed"}) {
    const StoredTensor* codes = tensors.find(suffix);
    if (codes == nullptr || codes->info->dtype != Dtype::kI32 || codes->info->shape.size() != 2) {
      continue;
    }
    StoredMatrix matrix = matrix_of(tensors, codes);
    constexpr std::int64_t kCodesOfWord = 8;  // of four bits in an I32
    matrix.format = Format::kInt4Group128;
    matrix.columns *= kCodesOfWord;
    matrix.scales = tensors.find(suffix == "qweight" ? "scales" : "weight_scale");
    matrix.loadable = false;
    out.push_back(std::move(matrix));
  }
}

void recognise_weight(const ModuleTensors& tensors, const Checkpoint& checkpoint,
                      std::vector<StoredMatrix>& out, FaultLog& log) {
  const StoredTensor* codes = tensors.find("weight");
  if (codes == nullptr || codes->info->shape.size() != 2) return;
  const Dtype dtype = codes->info->dtype;
  const std::optional<Format> plain = float_format(dtype);
  if (!plain && dtype != Dtype::kF8E4M3 && dtype != Dtype::kI8) return;
  const StoredTensor* scales = tensors.find("weight_scale");
  const bool packed = scales != nullptr && is_block_scale(scales->info->dtype);
  if (dtype == Dtype::kI8 && packed) return;  // codes of the wrong type: packed.cpp says so
  StoredMatrix matrix = matrix_of(tensors, codes);
  if (plain) {
    matrix.format = *plain;
  } else if (dtype == Dtype::kF8E4M3) {
    read_fp8(tensors, checkpoint, matrix, log);
  } else {
    matrix.format = Format::kInt8;
    matrix.scales = scales;
    matrix.loadable = false;
  }
  out.push_back(std::move(matrix));
}

// Experts stacked into one tensor without quantization: [experts, rows, columns] or transposed.
void recognise_stack(const ModuleTensors& tensors, const std::string& stem,
                     std::vector<StoredMatrix>& out) {
  const StoredTensor* codes = tensors.find(stem);
  if (codes == nullptr || codes->info->shape.size() != 3) return;
  const std::optional<Format> plain = float_format(codes->info->dtype);
  if (!plain) return;
  StoredMatrix matrix;
  matrix.name = fmt::format("{}.{}", tensors.module, stem);
  matrix.module = std::string(tensors.module);
  matrix.format = *plain;
  matrix.copies = codes->info->shape[0];
  matrix.rows = codes->info->shape[1];
  matrix.columns = codes->info->shape[2];
  matrix.codes = codes;
  matrix.bias = tensors.find(stem + "_bias");
  matrix.dialect = &kUnpacked;
  matrix.loadable = false;
  out.push_back(std::move(matrix));
}

void recognise(const ModuleTensors& tensors, const Checkpoint& checkpoint,
               std::vector<StoredMatrix>& out, FaultLog& log) {
  recognise_weight(tensors, checkpoint, out, log);
  recognise_integers(tensors, out);
  recognise_stack(tensors, "gate_up_proj", out);
  recognise_stack(tensors, "down_proj", out);
}

}  // namespace

const Dialect kUnpacked = {.name = "unpacked", .recognise = recognise, .multiplier = multiplier};

}  // namespace nibble
