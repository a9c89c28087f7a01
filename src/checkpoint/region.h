// Which part of a model a tensor belongs to, by its name alone: for sums and tables, also of
// checkpoints whose configuration cannot be read.
//
//   region_of("model.layers.3.mlp.experts.7.gate_proj.weight", 61)   // Region::kRoutedExperts
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace nibble {

enum class Region {
  kRoutedExperts,
  kSharedExperts,
  kDenseMlp,
  kRouter,
  kAttention,
  kIndexer,
  kNorms,
  kEmbedding,
  kLmHead,
  kMtp,
  kVision,  // and audio
  kOther
};
inline constexpr int kRegions = 12;

std::string_view to_string(Region region);  // "routed experts", ...

// `main_layers`: layers of the main stack; what is numbered beyond belongs to MTP.
Region region_of(std::string_view tensor, std::optional<std::int64_t> main_layers);

// Why a tensor that the model does not call for may be left out; empty when nothing excuses it.
std::string_view reason_to_ignore(std::string_view tensor, Region region, bool tied_embeddings);

}  // namespace nibble
