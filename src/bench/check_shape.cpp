// What the kernels take, asked before anything is made or measured.
#include <algorithm>

#include "base/text.h"
#include "bench/memory_need.h"
#include "bench/rig.h"
#include "kernels/moe/router.h"

namespace nibble {
namespace {

constexpr std::int64_t kMostSide = 1 << 20;
constexpr std::int64_t kMostMatrices = 1 << 16;
constexpr std::int64_t kMostTokens = 1 << 16;

// "--top-k", or "shapes.json: shapes[3]: top_k".
std::string name_of(const BenchShape& shape, std::string_view name) {
  if (!shape.where.empty()) return fmt::format("{}: {}", shape.where, name);
  std::string option = fmt::format("--{}", name);
  std::replace(option.begin(), option.end(), '_', '-');
  return option;
}

Result<> check_count(const BenchShape& shape, std::string_view name, std::int64_t value,
                     std::int64_t most) {
  if (value >= 1 && value <= most) return {};
  return usage_error("{} is {}; give a whole number from 1 to {}", name_of(shape, name), value,
                     most);
}

Result<> check_sizes(const BenchShape& shape) {
  NIBBLE_RETURN_IF_ERROR(check_count(shape, "n", shape.n, kMostSide));
  NIBBLE_RETURN_IF_ERROR(check_count(shape, "k", shape.k, kMostSide));
  const std::int64_t experts = shape.op == BenchOp::kMoe ? kMostExperts : kMostMatrices;
  NIBBLE_RETURN_IF_ERROR(check_count(shape, "experts", shape.experts, experts));
  NIBBLE_RETURN_IF_ERROR(check_count(shape, "top_k", shape.top_k, kMostMatrices));
  if (shape.top_k > shape.experts) {
    return usage_error("{} is {}, more than the {} of {}; a token meets an expert once",
                       name_of(shape, "top_k"), shape.top_k, shape.experts,
                       shape.where.empty() ? "--experts" : "experts");
  }
  for (const std::int64_t tokens : shape.tokens) {
    NIBBLE_RETURN_IF_ERROR(check_count(shape, "tokens", tokens, kMostTokens));
    if (tokens * shape.top_k > INT32_MAX / 4) {
      return usage_error("{} is {}; with top_k {} give at most {}", name_of(shape, "tokens"),
                         tokens, shape.top_k, INT32_MAX / 4 / shape.top_k);
    }
  }
  return {};
}

Result<> check_even(const BenchShape& shape, std::string_view name, std::int64_t value) {
  if (value % 2 == 0) return {};
  return usage_error("{} is {}; 4-bit weights need an even number", name_of(shape, name), value);
}

Result<> check_formats(const BenchShape& shape) {
  const auto one_of = [&shape](std::string_view name, Format given, std::vector<Format> known) {
    if (std::find(known.begin(), known.end(), given) != known.end()) return Result<>();
    std::vector<std::string> names;
    for (const Format format : known) names.emplace_back(to_string(format));
    return Result<>(usage_error("{} is {}; the CPU kernels take {}", name_of(shape, name),
                                to_string(given), join(names, ", ")));
  };
  NIBBLE_RETURN_IF_ERROR(
      one_of("format", shape.format, {Format::kNvfp4, Format::kMxfp4, Format::kBf16}));
  NIBBLE_RETURN_IF_ERROR(
      one_of("activations", shape.activations, {Format::kBf16, Format::kInt8, Format::kNvfp4}));
  if (shape.format != Format::kBf16 || shape.activations == Format::kBf16) return {};
  return usage_error("{} is {}; bf16 weights are multiplied with bf16 activations",
                     name_of(shape, "activations"), to_string(shape.activations));
}

}  // namespace

Result<> check_shape(const BenchShape& shape) {
  NIBBLE_RETURN_IF_ERROR(check_sizes(shape));
  NIBBLE_RETURN_IF_ERROR(check_formats(shape));
  if (shape.format == Format::kBf16) return {};
  NIBBLE_RETURN_IF_ERROR(check_even(shape, "k", shape.k));
  // The rows of gate and up are the columns of down.
  return shape.op == BenchOp::kMoe ? check_even(shape, "n", shape.n) : Result<>();
}

}  // namespace nibble
