// What one GPU holds of a weight: which dimension is split, over which group, and what is
// replicated. The one place that knows (docs/arithmetic.md, "Sharding").
//
//   shard(weight, model, layout).rows   // of q_b under TP8: 16384 / 8
#pragma once

#include "ledger/layout.h"
#include "model/spec.h"

namespace nibble {

struct LocalWeight {
  double rows = 0;          // out features on this GPU
  double columns = 0;       // in features on this GPU
  double copies = 1;        // experts on this GPU
  StorageBytes bytes_each;  // of one copy
  bool replicated = false;  // the whole matrix, although the group has several GPUs
  double total_bytes() const { return copies * bytes_each.total(); }
};

// Tokens travel to the experts in one of three ways.
enum class ExpertTraffic {
  kAllReduce,  // every GPU of the stage has every token; partial sums are reduced
  kGather,     // tokens are gathered over the attention groups, partial sums scattered back
  kAllToAll,   // tokens are sent to the ranks of their experts and back
};
ExpertTraffic expert_traffic(const ParallelLayout& layout);

// GPUs over which each kind of matrix is split.
std::int64_t dense_tp(const ParallelLayout& layout);   // dense MLP, embedding, lm_head
std::int64_t shared_tp(const ParallelLayout& layout);  // shared experts
// KV heads that one GPU holds; at least one (repeated when there are fewer heads than ranks).
std::int64_t local_kv_heads(const AttentionSpec& attention, std::int64_t attention_tp);

LocalWeight shard(const Weight& weight, const ModelSpec& model, const ParallelLayout& layout);

}  // namespace nibble
