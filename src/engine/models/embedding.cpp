#include "engine/models/embedding.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "formats/codec.h"

namespace nibble::engine {

Result<Embedding> Embedding::make(const QuantizedMatrix& matrix) {
  if (matrix.format != Format::kBf16) {
    return input_error("embeddings in {} are not supported; keep them in bf16",
                       to_string(matrix.format));
  }
  Embedding table;
  table.vocabulary_ = matrix.rows;
  table.hidden_ = matrix.columns;
  NIBBLE_ASSIGN_OR_RETURN(table.table_, HugeBuffer::allocate(matrix.codes.size()));
  std::copy_n(reinterpret_cast<const std::byte*>(matrix.codes.data()), matrix.codes.size(),
              table.table_.data());
  return table;
}

void Embedding::look_up(std::span<const text::TokenId> tokens, std::span<float> rows) const {
  const auto hidden = static_cast<std::size_t>(hidden_);
  NIBBLE_CHECK(rows.size() == tokens.size() * hidden);
  const auto* const table = reinterpret_cast<const std::uint16_t*>(table_.data());
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    NIBBLE_CHECK(tokens[row] >= 0 && tokens[row] < vocabulary_);
    const std::uint16_t* const from = table + tokens[row] * hidden_;
    for (std::size_t at = 0; at < hidden; ++at) rows[row * hidden + at] = bf16_to_float(from[at]);
  }
}

void weigh_rows(const WeighRowsParams& params) {
  const std::size_t hidden = params.gate.size();
  NIBBLE_CHECK(params.rows.size() == params.x.size() && params.x.size() % hidden == 0);
  for (std::size_t begin = 0; begin < params.x.size(); begin += hidden) {
    double logit = 0;
    for (std::size_t at = 0; at < hidden; ++at) {
      logit += static_cast<double>(params.x[begin + at]) * static_cast<double>(params.gate[at]);
    }
    const auto weight = static_cast<float>(1 / (1 + std::exp(-logit)));
    for (float& value : params.rows.subspan(begin, hidden)) value *= weight;
  }
}

}  // namespace nibble::engine
