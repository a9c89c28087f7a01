#include "ledger/attention.h"

#include <algorithm>

#include "base/units.h"
#include "ledger/sharding.h"
#include "ledger/step.h"

namespace nibble {
namespace {

double rows_per_sequence(const AttentionInput& input) {
  return input.rows / input.sequences;
}

// Tokens of the cache that one query reads.
double tokens_read(const AttentionInput& input) {
  const double context = input.layer.span.tokens_read(input.past);
  if (!attention_is_sparse(input)) return context;
  return std::min(context, static_cast<double>(input.model.attention.indexer->top_k));
}

// (query, key) pairs of one sequence: each query sees the cache and, causally, its own chunk.
double pairs(const AttentionInput& input) {
  const double queries = rows_per_sequence(input);
  if (!input.prefill) return queries * tokens_read(input);
  const double all = queries * input.past + queries * (queries + 1) / 2;
  const double last = input.past + queries;
  const double most = attention_is_sparse(input)
                          ? static_cast<double>(input.model.attention.indexer->top_k)
                          : input.layer.span.tokens_read(last);
  return std::min(all, queries * most);
}

// Multiplications of one (query, key) pair, all local heads, multiply and add counted as two.
double flop_per_pair(const AttentionInput& input) {
  const AttentionSpec& attention = input.model.attention;
  const double heads =
      static_cast<double>(attention.heads) / static_cast<double>(input.attention_tp);
  if (attention.kind != AttentionKind::kMla) {
    return 4 * heads * static_cast<double>(attention.head_dim);
  }
  const auto latent = static_cast<double>(attention.kv_lora_rank);
  const auto rope = static_cast<double>(attention.qk_rope_head_dim);
  if (input.prefill && !attention_is_sparse(input)) {
    const auto nope = static_cast<double>(attention.qk_nope_head_dim);
    return 2 * heads * (nope + rope + static_cast<double>(attention.v_head_dim));
  }
  return 2 * heads * (latent + rope) +
         2 * heads * latent;  // absorbed: scores and values in the latent
}

double query_and_output_bytes(const AttentionInput& input) {
  const AttentionSpec& attention = input.model.attention;
  const double heads =
      static_cast<double>(attention.heads) / static_cast<double>(input.attention_tp);
  const bool mla = attention.kind == AttentionKind::kMla;
  const double width =
      mla ? static_cast<double>(2 * attention.kv_lora_rank + attention.qk_rope_head_dim)
          : static_cast<double>(2 * attention.head_dim);
  return input.rows * heads * width * kBf16Bytes;
}

}  // namespace

bool attention_is_sparse(const AttentionInput& input) {
  if (!input.layer.sparse || !input.model.attention.indexer) return false;
  return input.past + (input.prefill ? rows_per_sequence(input) : 0) >
         static_cast<double>(input.model.attention.indexer->top_k);
}

Op attention_core(const AttentionInput& input) {
  const double each =
      kv_bytes_per_token_and_layer(input.model.attention, input.kv_format, input.attention_tp);
  const double read = input.prefill ? std::min(input.past, pairs(input)) : tokens_read(input);
  Op op{.name = "attn.core"};
  op.shape.groups = input.sequences;
  op.shape.m = rows_per_sequence(input);
  op.shape.text = fmt::format("{} seqs x [{} q, {} kv]", format_compact(input.sequences),
                              format_compact(op.shape.m), format_compact(read));
  op.format = fmt::format("kv {}", to_string(input.kv_format));
  // Every cached token is read once a sequence; the new ones are written.
  op.bytes.kv_bytes = input.sequences * read * each + input.rows * each;
  op.bytes.activation_bytes = query_and_output_bytes(input);
  op.flop = input.sequences * pairs(input) * flop_per_pair(input);
  op.precision = Precision::kBf16;
  if (input.model.attention.kind == AttentionKind::kMla && input.attention_tp > 1) {
    op.note = "latent KV replicated on every rank";
  } else if (input.model.attention.kv_heads > 0 &&
             input.attention_tp > input.model.attention.kv_heads) {
    op.note = fmt::format("{} KV heads repeated over {} ranks", input.model.attention.kv_heads,
                          input.attention_tp);
  }
  return op;
}

Op index_scores(const AttentionInput& input) {
  const IndexerSpec& indexer = *input.model.attention.indexer;
  const double queries = rows_per_sequence(input);
  const double all =
      input.prefill ? queries * input.past + queries * (queries + 1) / 2 : queries * input.past;
  Op op{.name = "attn.index_scores"};
  op.shape.groups = input.sequences;
  op.shape.m = queries;
  op.shape.text = fmt::format("{} seqs x [{} q, {} k]", format_compact(input.sequences),
                              format_compact(queries), format_compact(input.past));
  op.format = "index fp8";
  const double each = index_bytes_per_token(indexer);
  op.bytes.kv_bytes = input.sequences * input.past * each + input.rows * each;
  op.bytes.activation_bytes = input.rows * static_cast<double>(indexer.heads * indexer.head_dim) +
                              input.sequences * all * kBf16Bytes;  // queries in fp8, scores out
  op.flop = 2 * static_cast<double>(indexer.heads * indexer.head_dim) * input.sequences * all;
  op.precision = Precision::kFp8;
  op.note = "replicated on every rank";
  return op;
}

}  // namespace nibble
