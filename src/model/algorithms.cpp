#include "model/algorithms.h"

#include <array>
#include <fmt/core.h>

#include "base/text.h"

namespace nibble {
namespace {

struct Algorithm {
  std::string_view name;
  ModuleFormat format;
};

constexpr std::array kAlgorithms = {
    Algorithm{"NVFP4", {Format::kNvfp4, Format::kNvfp4}},
    Algorithm{"NVFP4_AWQ", {Format::kNvfp4, Format::kNvfp4}},
    Algorithm{"NVFP4_SVDQUANT", {Format::kNvfp4, Format::kNvfp4}},
    Algorithm{"W4A16_NVFP4", {Format::kNvfp4, Format::kBf16}},
    Algorithm{"W4A8_NVFP4_FP8", {Format::kNvfp4, Format::kFp8}},
    Algorithm{"MXFP4", {Format::kMxfp4, Format::kMxfp4}},
    Algorithm{"W4A16_MXFP4", {Format::kMxfp4, Format::kBf16}},
    Algorithm{"W4A8_MXFP4_FP8", {Format::kMxfp4, Format::kFp8}},
    Algorithm{"MXFP8", {Format::kMxfp8, Format::kMxfp8}},
    Algorithm{"FP8", {Format::kFp8, Format::kFp8}},
    Algorithm{"FP8_PER_CHANNEL_PER_TOKEN", {Format::kFp8, Format::kFp8}},
    Algorithm{"FP8_PB_WO", {Format::kFp8Block128, Format::kBf16}},  // "per block, weights only"
    Algorithm{"FP8_BLOCK_SCALES", {Format::kFp8Block128, Format::kFp8}},
    Algorithm{"W4A16_AWQ", {Format::kInt4Group128, Format::kBf16}},
    Algorithm{"W4A16", {Format::kInt4Group128, Format::kBf16}},
    Algorithm{"W4A8_AWQ", {Format::kInt4Group128, Format::kFp8}},
    Algorithm{"W8A16", {Format::kInt8, Format::kBf16}},
    Algorithm{"W8A8_SQ_PER_CHANNEL", {Format::kInt8, Format::kInt8}},
    Algorithm{"INT8_SQ", {Format::kInt8, Format::kInt8}},
};

}  // namespace

Result<ModuleFormat> algorithm_format(std::string_view name, std::string_view where) {
  std::vector<std::string> known;
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.name == name) return algorithm.format;
    known.emplace_back(algorithm.name);
  }
  return input_error("{}: quant_algo \"{}\" is not one that nibble knows{}", where, name,
                     did_you_mean(name, known));
}

std::optional<std::int64_t> block_size(Format format) {
  if (format == Format::kNvfp4) return 16;
  if (format == Format::kMxfp4 || format == Format::kMxfp8) return 32;
  return std::nullopt;
}

void note_integer_groups(std::int64_t group, std::string_view where,
                         std::vector<std::string>& warnings) {
  if (group == 128) return;
  warnings.push_back(
      fmt::format("{}: 4-bit integers in groups of {} are counted as groups of 128", where, group));
}

Result<Format> tensor_format(const Json& tensor, TensorRole role, const std::string& where,
                             std::vector<std::string>& warnings) {
  ObjectReader reader(tensor, where);
  const std::int64_t bits = reader.require_integer("num_bits");
  const std::string type = reader.string("type").value_or("int");
  const std::int64_t group = reader.integer("group_size").value_or(-1);
  const std::string strategy = reader.string("strategy").value_or("");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  if (type == "float" && bits == 4 && group == 16) return Format::kNvfp4;
  if (type == "float" && bits == 4 && group == 32) return Format::kMxfp4;
  if (type == "float" && bits == 8 && group == 32) return Format::kMxfp8;
  if (type == "float" && bits == 8) {
    const bool blocks = role == TensorRole::kWeights && strategy == "block";
    return blocks ? Format::kFp8Block128 : Format::kFp8;
  }
  if (type == "int" && bits == 8) return Format::kInt8;
  if (type == "int" && bits == 4) {
    note_integer_groups(group, where, warnings);
    return Format::kInt4Group128;
  }
  return input_error("{}: {}-bit {} in groups of {} is not a format that nibble knows", where, bits,
                     type, group);
}

}  // namespace nibble
