// The table of token embeddings, in bf16, and the two small operations around a model's rows.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Embedding table, Embedding::make(matrix));
//   table.look_up(tokens, residual);                                  // [tokens, hidden]
//   weigh_rows({.x = x, .gate = gate, .rows = shared}, pool);         // Qwen2-MoE's shared expert
#pragma once

#include <cstdint>
#include <span>

#include "base/huge_buffer.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "formats/quantized_matrix.h"
#include "text/token_id.h"

namespace nibble::engine {

class Embedding {
 public:
  Embedding() = default;
  // Copies a bf16 matrix [vocabulary, hidden]; an input error for other formats.
  static Result<Embedding> make(const QuantizedMatrix& matrix);

  // A token outside of the vocabulary is our caller's mistake (NIBBLE_CHECK). Does not allocate.
  void look_up(std::span<const text::TokenId> tokens, std::span<float> rows) const;

 private:
  std::int64_t vocabulary_ = 0;
  std::int64_t hidden_ = 0;
  HugeBuffer table_;
};

struct WeighRowsParams {
  std::span<const float> x;     // [rows, hidden]
  std::span<const float> gate;  // [hidden]
  std::span<float> rows;        // [rows, hidden], each times sigmoid(gate . x)
};

// Sizes that do not fit together are our caller's mistake (NIBBLE_CHECK). Does not allocate. The
// product is taken in double precision, in order.
void weigh_rows(const WeighRowsParams& params);

}  // namespace nibble::engine
