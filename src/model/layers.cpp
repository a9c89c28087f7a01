#include "model/layers.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <string>

#include "model/fields.h"

namespace nibble {
namespace {

// A list with one entry a layer; entries beyond the main stack (MTP layers) are left unread.
const Json::Array* layer_list(ObjectReader& reader, std::string_view key, std::size_t layers) {
  const Json* found = reader.array(key);
  if (found == nullptr || found->as_array().empty()) return nullptr;
  if (found->as_array().size() < layers) {
    reader.fault_at(key,
                    fmt::format("has {} entries for {} layers", found->as_array().size(), layers));
    return nullptr;
  }
  return &found->as_array();
}

// Sets `marked[i]` for each layer number in a list.
void mark_layers(ObjectReader& reader, std::string_view key, std::vector<bool>& marked) {
  const auto numbers = reader.numbers(key, {.min = 0});
  for (const double number : numbers.value_or(std::vector<double>{})) {
    if (number < 0 || number != std::floor(number) ||
        number >= static_cast<double>(marked.size())) {
      reader.fault_at(key, fmt::format("names layer {} of {}", number, marked.size()));
      return;
    }
    marked[static_cast<std::size_t>(number)] = true;
  }
}

std::string_view text_of(const Json& json) {
  return json.is_string() ? std::string_view(json.as_string()) : std::string_view();
}

// A list that says of each layer whether it has experts; false when there is none.
bool listed_experts(ObjectReader& reader, std::vector<bool>& moe) {
  if (const Json::Array* types = layer_list(reader, "mlp_layer_types", moe.size())) {
    for (std::size_t i = 0; i < moe.size(); ++i) {
      const std::string_view type = text_of((*types)[i]);
      moe[i] = type == "sparse";
      if (type != "sparse" && type != "dense") {
        reader.fault_at("mlp_layer_types", "must hold \"dense\" and \"sparse\" only");
      }
    }
    return true;
  }
  const Json* frequency = reader.any("moe_layer_freq");
  if (frequency != nullptr && frequency->is_array()) {
    const Json::Array* flags = layer_list(reader, "moe_layer_freq", moe.size());
    for (std::size_t i = 0; flags != nullptr && i < moe.size(); ++i) {
      moe[i] = (*flags)[i].is_number() && (*flags)[i].as_number() != 0;
    }
    return true;
  }
  const Json* list = reader.array("moe_layers");
  if (list != nullptr && !list->as_array().empty()) {
    mark_layers(reader, "moe_layers", moe);
    return true;
  }
  return false;
}

// Which layers have experts: all, but for what the fields of the several families take away.
std::vector<bool> read_expert_layers(ObjectReader& reader, std::size_t layers) {
  std::vector<bool> moe(layers, false);
  if (listed_experts(reader, moe)) return moe;
  const NumberRange step{.min = 1, .max = 1000};
  const NumberRange prefix{.min = 0, .max = static_cast<double>(layers)};
  const std::int64_t dense_prefix = reader.integer("first_k_dense_replace", prefix).value_or(0);
  const std::int64_t frequency = reader.integer("moe_layer_freq", step).value_or(1);
  const std::int64_t sparse_step = reader.integer("decoder_sparse_step", step).value_or(1);
  const std::int64_t interleave = reader.integer("interleave_moe_layer_step", step).value_or(1);
  std::vector<bool> dense(layers, false);
  mark_layers(reader, "mlp_only_layers", dense);
  if (!reader.finish_lenient().ok()) return moe;
  for (std::size_t i = 0; i < layers; ++i) {
    const auto index = static_cast<std::int64_t>(i);
    moe[i] = index >= dense_prefix && index % frequency == 0 && (index + 1) % sparse_step == 0 &&
             (index + 1) % interleave == 0 && !dense[i];
  }
  return moe;
}

struct SpanFields {
  std::int64_t window = 0;
  std::int64_t chunk = 0;
};

AttentionSpan named_span(ObjectReader& reader, std::string_view type, const SpanFields& fields) {
  if (type == "full_attention" || type == "deepseek_sparse_attention") return {};
  if (type == "sliding_attention") {
    if (fields.window == 0) reader.fault_at("sliding_window", "is missing, but layers slide");
    return {SpanKind::kWindow, fields.window};
  }
  if (type == "chunked_attention") {
    if (fields.chunk == 0)
      reader.fault_at("attention_chunk_size", "is missing, but layers are chunked");
    return {SpanKind::kChunked, fields.chunk};
  }
  reader.fault_at("layer_types",
                  fmt::format("has a layer of type \"{}\", which nibble cannot count; it knows "
                              "full_attention, sliding_attention and chunked_attention",
                              type));
  return {};
}

// Chunked attention without layer_types: layers with rotary embeddings are chunked, the others
// full.
std::vector<AttentionSpan> chunked_spans(ObjectReader& reader, std::size_t layers,
                                         std::int64_t chunk) {
  const Json::Array* rotary = layer_list(reader, "no_rope_layers", layers);
  const std::int64_t interval =
      reader.integer("no_rope_layer_interval", {.min = 1, .max = 1000}).value_or(4);
  std::vector<AttentionSpan> spans(layers);
  if (!reader.finish_lenient().ok()) return spans;
  for (std::size_t i = 0; i < layers; ++i) {
    const bool is_chunked = rotary != nullptr
                                ? (*rotary)[i].is_number() && (*rotary)[i].as_number() != 0
                                : (static_cast<std::int64_t>(i) + 1) % interval != 0;
    if (is_chunked) spans[i] = {SpanKind::kChunked, chunk};
  }
  return spans;
}

std::vector<AttentionSpan> read_spans(ObjectReader& reader, const Family& family,
                                      std::size_t layers) {
  const Json* use = reader.any("use_sliding_window");
  const bool slides = use == nullptr || !use->is_bool() || use->as_bool();
  SpanFields fields;
  fields.window = reader.integer("sliding_window", {.min = 0, .max = 1e12}).value_or(0);
  fields.chunk = reader.integer("attention_chunk_size", {.min = 0, .max = 1e12}).value_or(0);
  std::vector<AttentionSpan> spans(layers);
  if (const Json::Array* types = layer_list(reader, "layer_types", layers)) {
    for (std::size_t i = 0; i < layers; ++i)
      spans[i] = named_span(reader, text_of((*types)[i]), fields);
    return spans;
  }
  if (fields.chunk > 0) return chunked_spans(reader, layers, fields.chunk);
  if (fields.window == 0 || !slides) return spans;
  // Qwen2: only the layers from max_window_layers on slide; gpt-oss: every second one, from the
  // first.
  const std::int64_t from = reader.integer("max_window_layers", {.min = 0, .max = 1e6}).value_or(0);
  const bool alternate = family.layout == Family::Layout::kFused;
  for (std::size_t i = 0; i < layers; ++i) {
    if (static_cast<std::int64_t>(i) >= from && !(alternate && i % 2 == 1)) {
      spans[i] = {SpanKind::kWindow, fields.window};
    }
  }
  return spans;
}

// Which layers compute an index of their own. The rules are those of transformers' GlmMoeDsaConfig:
// indexer_types, else index_topk_pattern ("F" full, "S" shared), else every index_topk_freq-th
// layer behind a prefix of index_skip_topk_offset.
std::vector<bool> read_indexers(ObjectReader& reader, std::size_t layers) {
  std::vector<bool> own(layers, true);
  if (const Json::Array* types = layer_list(reader, "indexer_types", layers)) {
    for (std::size_t i = 0; i < layers; ++i) own[i] = text_of((*types)[i]) == "full";
    return own;
  }
  const Json* pattern = reader.any("index_topk_pattern");
  if (pattern != nullptr && pattern->is_string()) {
    const std::string& letters = pattern->as_string();
    if (letters.size() < layers) {
      reader.fault_at("index_topk_pattern",
                      fmt::format("has {} letters for {} layers", letters.size(), layers));
      return own;
    }
    for (std::size_t i = 0; i < layers; ++i) own[i] = letters[i] != 'S';
    return own;
  }
  const std::int64_t every = reader.integer("index_topk_freq", {.min = 1, .max = 1000}).value_or(1);
  const std::int64_t offset =
      reader.integer("index_skip_topk_offset", {.min = 0, .max = 1000}).value_or(2);
  if (!reader.finish_lenient().ok()) return own;
  for (std::size_t i = 0; i < layers; ++i) {
    own[i] = std::max<std::int64_t>(static_cast<std::int64_t>(i) - offset + 1, 0) % every == 0;
  }
  return own;
}

}  // namespace

std::vector<LayerSpec> read_layers(ObjectReader& reader, const ModelSpec& spec,
                                   const Family& family, std::int64_t layers) {
  const auto count = static_cast<std::size_t>(layers);
  const std::vector<bool> moe =
      spec.moe ? read_expert_layers(reader, count) : std::vector<bool>(count, false);
  const std::vector<AttentionSpan> spans = read_spans(reader, family, count);
  const bool sparse = spec.attention.indexer.has_value();
  const std::vector<bool> own =
      sparse ? read_indexers(reader, count) : std::vector<bool>(count, false);
  // Llama-4 calls the experts' width intermediate_size, and that of dense layers ..._mlp.
  std::optional<std::int64_t> width = reader.integer("intermediate_size_mlp", bounds::kWidth);
  if (!width) width = either(reader, {"intermediate_size"}, bounds::kWidth);
  std::vector<LayerSpec> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = {.span = spans[i], .indexer = own[i], .sparse = sparse, .moe = moe[i]};
    if (moe[i]) continue;
    if (width.value_or(0) == 0) {
      reader.fault_at("intermediate_size", fmt::format("is missing, but layer {} is dense", i));
      break;
    }
    out[i].dense_intermediate = *width;
  }
  return out;
}

}  // namespace nibble
