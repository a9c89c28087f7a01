// Memory: what the weights take, and how many tokens of KV cache the rest holds.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/units.h"
#include "ledger/operations.h"
#include "ledger/step.h"

namespace nibble {
namespace {

// FlashMLA's fp8 layout: 512 fp8 latents with one fp32 scale per 128, and 64 rope values in bf16.
constexpr double kFlashMlaScaleGroup = 128;
constexpr double kIndexScaleBytes = 4;

// Tokens of a sequence that a layer keeps, as a share of its context: windows forget.
double kept_share(const AttentionSpan& span, double context) {
  return span.kind == SpanKind::kWindow ? span.tokens_read(context) / context : 1;
}

}  // namespace

double kv_bytes_per_token_and_layer(const AttentionSpec& attention, Format kv,
                                    std::int64_t attention_tp) {
  if (attention.kind == AttentionKind::kMla) {
    const auto latent = static_cast<double>(attention.kv_lora_rank);
    const auto rope = static_cast<double>(attention.qk_rope_head_dim);
    if (kv == Format::kFp8) return latent + latent / kFlashMlaScaleGroup * 4 + rope * 2;
    return storage_bytes(kv, 1, latent + rope).total();
  }
  const auto heads = static_cast<double>(local_kv_heads(attention, attention_tp));
  return 2 * storage_bytes(kv, heads, static_cast<double>(attention.head_dim)).total();
}

double index_bytes_per_token(const IndexerSpec& indexer) {
  return static_cast<double>(indexer.head_dim) + kIndexScaleBytes;  // fp8 and one fp32 scale
}

double Capacity::sequences(double tokens_each) const {
  return std::floor(tokens / tokens_each);
}

Capacity Ledger::capacity() const {
  const ModelSpec& model = deployment_.model;
  const ParallelLayout& layout = deployment_.layout;
  const double kv_each = kv_bytes_per_token_and_layer(
      model.attention, deployment_.effective_kv_format(), layout.attention_tp());
  // The stage that is left with the fewest tokens decides for all.
  Capacity tightest;
  const auto stages = static_cast<std::size_t>(layout.pp);
  for (std::size_t stage = 0; stage < stages; ++stage) {
    Capacity capacity;
    capacity.stage = static_cast<std::int64_t>(stage);
    // The embedding lies on the first stage, the head and the last norm on the last.
    for (const Weight& weight : outer_) {
      const bool here = weight.part == Part::kEmbedding ? stage == 0 : stage + 1 == stages;
      if (here) capacity.weight_bytes_per_gpu += shard(weight, model, layout).total_bytes();
    }
    for (const LayerClass& layer : classes_) {
      const double count = layer.count_of_stage[stage];
      double bytes = 0;
      for (const Weight& weight : layer.weights)
        bytes += shard(weight, model, layout).total_bytes();
      capacity.weight_bytes_per_gpu += count * bytes;
      double token_bytes = kv_each * kept_share(layer.layer.span, deployment_.context);
      if (layer.layer.indexer) token_bytes += index_bytes_per_token(*model.attention.indexer);
      capacity.kv_bytes_per_token += count * token_bytes;
    }
    capacity.budget_bytes =
        deployment_.machine.memory_gb.value * kGiga * deployment_.memory_utilization -
        capacity.weight_bytes_per_gpu;
    capacity.tokens = std::max(0.0, capacity.budget_bytes / capacity.kv_bytes_per_token) *
                      static_cast<double>(layout.attention_dp());
    const bool tighter = std::tie(capacity.tokens, capacity.budget_bytes) <
                         std::tie(tightest.tokens, tightest.budget_bytes);
    if (stage == 0 || tighter) tightest = capacity;
  }
  if (tightest.budget_bytes < 0) {
    tightest.limit = fmt::format("the weights alone take {} per GPU, {} more than {} of {}",
                                 format_bytes(tightest.weight_bytes_per_gpu),
                                 format_bytes(-tightest.budget_bytes),
                                 format_percent(deployment_.memory_utilization),
                                 format_bytes(deployment_.machine.memory_gb.value * kGiga));
  }
  return tightest;
}

}  // namespace nibble
