// Loads every quantized matrix of a checkpoint and prints its canonical form, for the tests that
// hold the dialects against each other and against the numbers that were written.
//
//   nibble_canonical_fixture FOLDER
//   {"model.layers.0.mlp.experts.0.gate_proj": {"format": "nvfp4", "rows": 32, "columns": 64,
//     "codes": "21...", "scales": "7e...", "factors": [[0, "387c0000"]], "input_scale": null}, ...}
// Floats are printed as their bits.
#include <bit>
#include <cstdio>
#include <fmt/core.h>

#include "base/json.h"
#include "checkpoint/load.h"

namespace nibble {
namespace {

std::string hex(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::string bits(float value) {
  return fmt::format("{:08x}", std::bit_cast<std::uint32_t>(value));
}

Json canonical(const QuantizedMatrix& matrix) {
  Json factors = Json::array();
  for (const MatrixSegment& segment : matrix.segments) {
    factors.push(Json::array({segment.row_begin, bits(segment.factor)}));
  }
  return Json::object()
      .set("format", to_string(matrix.format))
      .set("rows", matrix.rows)
      .set("columns", matrix.columns)
      .set("codes", hex(matrix.codes))
      .set("scales", hex(matrix.scales))
      .set("factors", std::move(factors))
      .set("input_scale", matrix.input_scale ? Json(bits(*matrix.input_scale)) : Json());
}

Result<> add_experts(const Binding& binding, std::size_t layer, Json& out) {
  const ModelSpec& model = *binding.checkpoint().model();
  for (std::int64_t number = 0; number < model.moe->experts; ++number) {
    NIBBLE_ASSIGN_OR_RETURN(const LoadedExpert expert, load_expert(binding, layer, number));
    const std::string below = fmt::format("model.layers.{}.mlp.experts.{}.", layer, number);
    out.set(below + "gate_proj", canonical(expert.gate.matrix));
    out.set(below + "up_proj", canonical(expert.up.matrix));
    out.set(below + "down_proj", canonical(expert.down.matrix));
  }
  return {};
}

Result<Json> load_all(const char* folder) {
  NIBBLE_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::open(folder));
  const Binding binding = Binding::make(checkpoint);
  NIBBLE_RETURN_IF_ERROR(binding.faults().refuse(folder));
  Json out = Json::object();
  for (const BoundMatrix& bound : binding.matrices()) {
    const bool expert = bound.region == Region::kRoutedExperts;
    if (expert || bound.stored.dialect == &kUnpacked) continue;
    NIBBLE_ASSIGN_OR_RETURN(const LoadedMatrix loaded, load_matrix(checkpoint, bound));
    out.set(bound.stored.name, canonical(loaded.matrix));
  }
  const std::size_t layers = checkpoint.model()->layers.size();  // refused above without a model
  for (std::size_t layer = 0; layer < layers; ++layer) {
    if (!checkpoint.model()->layers[layer].moe) continue;
    NIBBLE_RETURN_IF_ERROR(add_experts(binding, layer, out));
  }
  return out;
}

}  // namespace
}  // namespace nibble

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  const nibble::Result<nibble::Json> loaded = nibble::load_all(argv[1]);
  if (!loaded.ok()) {
    std::fprintf(stderr, "%s\n", loaded.error().message.c_str());
    return 1;
  }
  std::printf("%s\n", loaded->dump().c_str());
  return 0;
}
