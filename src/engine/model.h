// What the engine needs of a model: logits for the rows of a batch, with keys and values kept in
// blocks that the engine hands out.
//
//   NIBBLE_RETURN_IF_ERROR(model->reserve({.blocks = 512, .block_tokens = 16, .most_rows = 256}));
//   model->forward({.tokens = tokens, .sequences = sequences}, logits, pool);
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/thread_pool.h"
#include "formats/format.h"
#include "text/token_id.h"

namespace nibble::engine {

struct ModelInfo {
  std::string architecture;  // "Qwen3MoeForCausalLM"
  std::int64_t vocabulary = 0;
  std::int64_t max_context = 0;         // tokens, prompt and output together
  std::int64_t kv_bytes_per_token = 0;  // of all layers, in the KV cache's format
};

struct Reservation {
  std::int64_t blocks = 0;        // of the KV cache, ids 0 .. blocks - 1
  std::int64_t block_tokens = 0;  // tokens a block
  std::int64_t most_rows = 0;     // rows of one forward()
  std::int64_t most_logits = 0;   // rows of logits of one forward()
};

// Rows `first_row` .. `first_row + rows - 1` of a batch are tokens of one sequence, at its
// positions `context` .. `context + rows - 1`. Keys and values of positions below `context` are in
// the cache.
struct SequenceRows {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  std::int64_t context = 0;
  // Position p lies in blocks[p / block_tokens], at p % block_tokens; as many as the rows reach.
  std::span<const std::int32_t> blocks;
  std::int64_t logit_rows = 0;  // the last so many rows want logits: 0, 1, or all
};

struct ForwardBatch {
  std::span<const text::TokenId> tokens;    // [rows], each below the vocabulary
  std::span<const SequenceRows> sequences;  // in the order of their rows, which they cover
};

// How many tokens each expert got: [layers, experts], dense layers with zeros. Whoever reads them
// may set them to 0. Empty: the model has no experts, or does not count.
struct ExpertTokens {
  std::span<std::int64_t> counts;
  std::int64_t experts = 0;
};

// Told when each operation of a forward pass has ended, by the ledger's names ("attn.qkv",
// "moe.gate_up"): what `nibble bench step` times.
class StepProbe {
 public:
  virtual ~StepProbe() = default;
  virtual void op(std::string_view name) = 0;
};

class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelInfo& info() const = 0;
  // Once, before the first forward(): all memory that steps need. A run error when it is not there.
  virtual Result<> reserve(const Reservation& reservation) = 0;
  // logits: [wanted rows, vocabulary]. A sequence's logits have the same bits whatever else is in
  // the batch, however its prompt was cut into batches, and for any number of threads. Sizes that
  // do not fit are our caller's mistake (NIBBLE_CHECK). Does not allocate.
  virtual void forward(const ForwardBatch& batch, std::span<float> logits, ThreadPool& pool,
                       StepProbe* probe = nullptr) = 0;
  // On the thread that calls forward().
  virtual ExpertTokens expert_tokens() { return {}; }
};

}  // namespace nibble::engine
