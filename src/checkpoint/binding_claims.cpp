// What the configuration claims of the matrices, held against what the header says.
#include <bit>
#include <fmt/core.h>
#include <map>
#include <set>

#include "checkpoint/binding_parts.h"
#include "model/module_pattern.h"

namespace nibble {
namespace {

// How many columns share a scale, by the shapes of codes and scales; nothing where that is no block
// along the row.
std::optional<std::int64_t> block_columns(const StoredMatrix& stored) {
  const bool blocks = stored.format == Format::kNvfp4 || stored.format == Format::kMxfp4 ||
                      stored.format == Format::kMxfp8;
  if (!blocks || stored.scales == nullptr || stored.columns == 0) return std::nullopt;
  if (stored.copies > 0 && !stored.loadable) return std::nullopt;  // perhaps transposed
  const std::vector<std::int64_t>& shape = stored.scales->info->shape;
  if (shape.empty() || shape.back() == 0) return std::nullopt;
  // The last block may be a partial one; sizes of blocks are powers of two.
  const auto at_least = (stored.columns + shape.back() - 1) / shape.back();
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(at_least)));
}

void compare_blocks(std::optional<std::int64_t> claimed, BoundMatrix& matrix, FaultLog& log) {
  const std::optional<std::int64_t> found = block_columns(matrix.stored);
  if (!claimed || !found || *claimed == *found) return;
  matrix.agrees = false;
  log.add(Severity::kWarning, "config-contradicts-header", matrix.stored.name,
          fmt::format("has a scale for every {} columns by the header and for every {} by the "
                      "configuration (group_size); the header is followed, but other engines may "
                      "follow the configuration",
                      *found, *claimed));
}

// "model.layers.7" of "model.layers.7.mlp.gate.weight".
std::string_view layer_module(std::string_view tensor) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t number = tensor.find(kLayers) + kLayers.size();
  return tensor.substr(0, tensor.find('.', number));
}

}  // namespace

bool is_beyond_layers(std::string_view tensor, const ModelSpec& model) {
  if (tensor.find("layers.") == std::string_view::npos || tensor.starts_with("mtp.") ||
      tensor.find(".mtp.") != std::string_view::npos) {
    return false;
  }
  const std::optional<int> layer = layer_number(tensor);
  const std::int64_t in_stack = model.names.mtp_prefix.empty() ? model.mtp_layers : 0;
  const auto named = static_cast<std::int64_t>(model.layers.size()) + in_stack;
  return layer && *layer >= named;
}

void check_layers(const Checkpoint& checkpoint, const std::vector<Region>& regions, FaultLog& log) {
  const ModelSpec& model = *checkpoint.model();
  std::set<std::string_view> beyond;
  for (std::size_t number = 0; number < regions.size(); ++number) {
    const std::string_view name = checkpoint.tensors()[number].name();
    if (regions[number] != Region::kMtp || !is_beyond_layers(name, model)) continue;
    beyond.insert(layer_module(name));
  }
  for (const std::string_view module : beyond) {
    log.add(Severity::kWarning, "layer-not-configured", module,
            fmt::format("is in the checkpoint, but config.json names {} layers (num_hidden_layers) "
                        "and {} MTP layers after them; it is left out, and if it belongs to the "
                        "model, the model is not whole",
                        model.layers.size(),
                        model.mtp_layers > 0 ? fmt::format("{}", model.mtp_layers) : "no"));
  }
}

void compare_claims(const Quantization& claims, std::vector<BoundMatrix>& matrices, FaultLog& log) {
  for (BoundMatrix& matrix : matrices) {
    // Claims are made of the language model. The head of an MTP layer is a copy of lm_head.
    if (matrix.region == Region::kVision) continue;
    const bool head = matrix.stored.name.ends_with(".shared_head.head");
    const std::string module = head ? "lm_head" : matrix.stored.module;
    matrix.claimed = claims.format_of(module);
    const Format found = matrix.stored.format;
    const Format claimed = matrix.claimed->weights;
    matrix.agrees = formats_agree(found, claimed);
    if (!matrix.stored.sound) continue;
    if (matrix.agrees) {
      compare_blocks(claims.group_size_of(module), matrix, log);
      continue;
    }
    log.add(Severity::kWarning, "config-contradicts-header", matrix.stored.name,
            fmt::format("is {} by the header and {} by the configuration; the header is followed, "
                        "but other engines may follow the configuration",
                        to_string(found), to_string(claimed)));
  }
}

// A static scale for NVFP4 activations is there for all matrices that are to have one, or for none.
void compare_activations(const std::vector<BoundMatrix>& matrices, FaultLog& log) {
  struct Count {
    std::uint64_t with = 0, without = 0;
  };
  std::map<Region, Count> counts;
  const auto wants = [](const BoundMatrix& matrix) {
    return matrix.stored.format == Format::kNvfp4 && matrix.stored.sound &&
           (!matrix.claimed || matrix.claimed->activations == Format::kNvfp4);
  };
  for (const BoundMatrix& matrix : matrices) {
    if (!wants(matrix)) continue;
    Count& count = counts[matrix.region];
    ++(matrix.stored.input != nullptr ? count.with : count.without);
  }
  for (const BoundMatrix& matrix : matrices) {
    if (!wants(matrix) || matrix.stored.input != nullptr) continue;
    if (counts[matrix.region].with > 0) {
      log.add(Severity::kError, "missing-input-scale", matrix.stored.name,
              "has no scale for its NVFP4 activations although others have: calibration did not "
              "reach it; calibrate it, or multiply it by bf16 activations");
    } else {
      log.add(Severity::kWarning, "no-input-scales", matrix.stored.name,
              "the configuration claims NVFP4 activations, but no matrix of its kind has a scale "
              "for them; they can only be scaled as they come, or stay bf16");
    }
  }
}

}  // namespace nibble
