#include "checkpoint/region.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "model/module_pattern.h"

namespace nibble {
namespace {

bool has(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [text](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  });
}

bool is_mtp(std::string_view tensor, std::optional<std::int64_t> main_layers) {
  if (tensor.starts_with("mtp.") || has(tensor, {".mtp."})) return true;
  const std::optional<int> layer = layer_number(tensor);
  return main_layers && layer && *layer >= *main_layers;
}

}  // namespace

std::string_view to_string(Region region) {
  constexpr std::array<std::string_view, kRegions> kNames = {
      "routed experts", "shared experts", "dense mlp", "router", "attention", "indexer",
      "norms",          "embedding",      "lm_head",   "mtp",    "vision",    "other"};
  return kNames.at(static_cast<std::size_t>(region));
}

Region region_of(std::string_view tensor, std::optional<std::int64_t> main_layers) {
  if (has(tensor, {"visual.", "vision", "image_newline", "multi_modal", "mm_projector",
                   "patch_merger", "audio"})) {
    return Region::kVision;
  }
  if (is_mtp(tensor, main_layers)) return Region::kMtp;
  if (has(tensor, {"embed_tokens"})) return Region::kEmbedding;
  if (has(tensor, {"lm_head"})) return Region::kLmHead;
  if (has(tensor, {"shared_expert"})) return Region::kSharedExperts;
  if (has(tensor, {".experts."})) return Region::kRoutedExperts;
  if (has(tensor, {"norm"}) && !has(tensor, {"_proj"})) return Region::kNorms;
  if (has(tensor, {".indexer."})) return Region::kIndexer;
  if (has(tensor, {"attn", "attention"})) return Region::kAttention;
  if (has(tensor, {".gate.", ".router.", "e_score_correction_bias"})) return Region::kRouter;
  if (has(tensor, {".mlp.", ".feed_forward."})) return Region::kDenseMlp;
  return Region::kOther;
}

std::string_view reason_to_ignore(std::string_view tensor, Region region, bool tied_embeddings) {
  if (region == Region::kVision) return "part of the vision or audio tower; only text is served";
  if (region == Region::kMtp) return "belongs to an MTP layer; only speculative decoding uses it";
  if (region == Region::kLmHead && tied_embeddings) return "the embedding table serves as lm_head";
  if (tensor.ends_with("rotary_emb.inv_freq")) return "computed from the configuration";
  if (tensor.ends_with(".weight_shape")) return "repeats the shape of a packed weight";
  if (tensor.ends_with(".q_scale") || tensor.ends_with(".prob_scale") ||
      tensor.ends_with(".output_scale")) {
    return "scale of a tensor that is not quantized here";
  }
  return "";
}

}  // namespace nibble
