#include "ledger/sharding.h"

#include <algorithm>
#include <cmath>

namespace nibble {

ExpertTraffic expert_traffic(const ParallelLayout& layout) {
  if (layout.attention_dp() == 1) return ExpertTraffic::kAllReduce;
  // An all-to-all needs whole experts on each rank; otherwise partial sums must be reduced anyway.
  return layout.ep > 1 && layout.moe_tp() == 1 ? ExpertTraffic::kAllToAll : ExpertTraffic::kGather;
}

std::int64_t dense_tp(const ParallelLayout& layout) {
  return layout.tp;
}

std::int64_t shared_tp(const ParallelLayout& layout) {
  // After an all-to-all the shared expert stays with the tokens of its attention group.
  return expert_traffic(layout) == ExpertTraffic::kAllToAll ? layout.attention_tp()
                                                            : layout.stage_gpus();
}

std::int64_t local_kv_heads(const AttentionSpec& attention, std::int64_t attention_tp) {
  return std::max<std::int64_t>(1, attention.kv_heads / attention_tp);
}

LocalWeight shard(const Weight& weight, const ModelSpec& model, const ParallelLayout& layout) {
  LocalWeight local{.rows = static_cast<double>(weight.rows),
                    .columns = static_cast<double>(weight.columns),
                    .copies = static_cast<double>(weight.copies)};
  // Whole rows or columns on the GPU that has most: what does not divide is rounded up.
  auto split = [](double& size, std::int64_t parts) {
    size = std::ceil(size / static_cast<double>(parts));
  };
  const std::int64_t attention_tp = layout.attention_tp();
  switch (weight.part) {
    case Part::kQ:
    case Part::kQB:
    case Part::kKvB:
      split(local.rows, attention_tp);
      break;
    case Part::kK:
    case Part::kV: {
      const std::int64_t kv_heads = model.attention.kv_heads;
      const std::int64_t heads = local_kv_heads(model.attention, attention_tp);
      local.rows = local.rows * static_cast<double>(heads) / static_cast<double>(kv_heads);
      local.replicated = heads * attention_tp > kv_heads;
      break;
    }
    case Part::kOut:
      split(local.columns, attention_tp);
      break;
    case Part::kQA:
    case Part::kKvA:
    case Part::kIndexerQB:
    case Part::kIndexerK:
    case Part::kIndexerWeights:
      local.replicated = attention_tp > 1;
      break;
    case Part::kDenseGateUp:
      split(local.rows, dense_tp(layout));
      break;
    case Part::kDenseDown:
      split(local.columns, dense_tp(layout));
      break;
    case Part::kSharedGateUp:
      split(local.rows, shared_tp(layout));
      break;
    case Part::kSharedDown:
      split(local.columns, shared_tp(layout));
      break;
    case Part::kExpertGateUp:
      split(local.rows, layout.moe_tp());
      split(local.copies, layout.moe_ep());
      break;
    case Part::kExpertDown:
      split(local.columns, layout.moe_tp());
      split(local.copies, layout.moe_ep());
      break;
    case Part::kEmbedding:
    case Part::kLmHead:
      split(local.rows, dense_tp(layout));
      break;
    case Part::kRouter:
      // A floor: each GPU scores its share of the experts. Most engines score all of them on every
      // GPU, which docs/arithmetic.md prices.
      split(local.rows, attention_tp);
      break;
    case Part::kMtpProjection:
    case Part::kSmall:
      local.replicated = layout.stage_gpus() > 1;
      break;
  }
  local.bytes_each = storage_bytes(weight.format, local.rows, local.columns);
  return local;
}

}  // namespace nibble
