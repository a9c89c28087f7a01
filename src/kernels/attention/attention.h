// Attention over the paged cache: each row's queries meet the keys of its sequence up to its own
// position, with fewer key heads than query heads where the model has them (GQA). Prompt chunks and
// single tokens in one call.
//
//   NIBBLE_ASSIGN_OR_RETURN(AttentionWorkspace workspace, AttentionWorkspace::make(32, 4, 128));
//   attention({.queries = qkv, .stride = 5120, .heads = 32, .cache = cache, .layer = 3,
//              .sequences = sequences, .workspace = workspace, .output = y}, best_isa(), pool);
//
//   output[row, h] = sum over p <= position of softmax_p(scale * q[row, h] . k[p]) * v[p]
//
// The context is cut into parts of at most 256 positions at fixed places. A part has its own
// largest score; parts are merged in their order. A row's result has therefore the same bits
// whatever else is in the batch, however its prompt was cut, for any number of threads and on every
// instruction set. Scores that are not finite give results that are not.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/attention/kv_cache.h"
#include "machine/isa.h"

namespace nibble {

// Where parts of few rows over long contexts wait until they are merged.
class AttentionWorkspace {
 public:
  AttentionWorkspace() = default;
  // Input errors for more than 1,024 heads, 256 values a head, and heads that are no multiple of
  // those of keys.
  static Result<AttentionWorkspace> make(std::int64_t heads, std::int64_t kv_heads,
                                         std::int64_t head_dim);

 private:
  friend struct AttentionAccess;  // attention.cpp
  std::int64_t slots_ = 0;        // parts of one unit's heads that there is room for
  std::int64_t heads_ = 0;
  std::int64_t head_dim_ = 0;
  HugeBuffer memory_;
};

struct AttentionParams {
  std::span<const float> queries;  // [rows, stride], a row begins with its [heads, head_dim]
  std::int64_t stride = 0;
  std::int64_t heads = 0;  // a multiple of the cache's
  float scale = 0;         // 0: 1 / sqrt(head_dim)
  const KvCache& cache;    // holds the rows' own keys and values already
  std::int64_t layer = 0;
  std::span<const CachedRows> sequences;
  AttentionWorkspace& workspace;
  std::span<float> output;  // [rows, heads * head_dim]
};

// Sizes that do not fit together are our caller's mistake (NIBBLE_CHECK). Does not allocate.
void attention(const AttentionParams& params, Isa isa, ThreadPool& pool);

}  // namespace nibble
