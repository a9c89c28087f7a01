// The definition of correct: attention of one sequence in double precision.
//
//   const std::vector<double> y = attention_reference({.queries = q, .keys = k, .values = v,
//       .heads = 8, .kv_heads = 2, .head_dim = 64, .context = 37});
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nibble {

struct AttentionReferenceParams {
  std::span<const float> queries;  // [rows, heads, head_dim], at positions context ..
  std::span<const float> keys;     // [context + rows, kv_heads, head_dim], as the cache holds them
  std::span<const float> values;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t context = 0;
};

// [rows, heads, head_dim]
std::vector<double> attention_reference(const AttentionReferenceParams& params);

}  // namespace nibble
