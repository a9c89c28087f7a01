// Attention of one layer on one GPU: the KV that it reads and the multiplications that it does.
// Internal to the ledger (docs/arithmetic.md, "Attention").
#pragma once

#include "ledger/op.h"
#include "model/spec.h"

namespace nibble {

inline constexpr double kBf16Bytes = 2;  // of an element

struct AttentionInput {
  const ModelSpec& model;
  const LayerSpec& layer;
  Format kv_format;
  std::int64_t attention_tp;
  double sequences;  // on this GPU
  double rows;       // query tokens on this GPU
  double past;       // tokens in the cache per sequence
  bool prefill;
};

// Whether attention reads the indexer's choice only, not the whole context.
bool attention_is_sparse(const AttentionInput& input);

Op attention_core(const AttentionInput& input);
Op index_scores(const AttentionInput& input);

}  // namespace nibble
