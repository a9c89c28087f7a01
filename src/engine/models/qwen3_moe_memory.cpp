// What surrounds a step of Qwen3Moe: its memory, its batch, the rows that want logits.
#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "engine/models/qwen3_moe.h"

namespace nibble::engine {

void Qwen3Moe::begin(const ForwardBatch& batch) {
  rows_ = static_cast<std::int64_t>(batch.tokens.size());
  NIBBLE_CHECK(rows_ <= most_rows_);
  sequences_.clear();
  positions_.clear();
  for (const SequenceRows& sequence : batch.sequences) {
    sequences_.push_back({.first_row = sequence.first_row,
                          .rows = sequence.rows,
                          .context = sequence.context,
                          .blocks = sequence.blocks});
    for (std::int64_t row = 0; row < sequence.rows; ++row) {
      positions_.push_back(sequence.context + row);
    }
  }
  NIBBLE_CHECK(sequences_fit(sequences_, rows_, cache_.shape()));
  const std::int64_t half = weights_.config.head_dim / 2;
  weights_.rope.angles(positions_, rows(cosines_, half), rows(sines_, half));
}

// The last rows of each sequence, with what the last layer adds to them.
std::span<float> Qwen3Moe::take_wanted_rows(const ForwardBatch& batch) {
  const std::int64_t hidden = weights_.config.hidden;
  std::int64_t taken = 0;
  for (const SequenceRows& sequence : batch.sequences) {
    NIBBLE_CHECK(sequence.logit_rows >= 0 && sequence.logit_rows <= sequence.rows);
    NIBBLE_CHECK((taken + sequence.logit_rows) * hidden <=
                 static_cast<std::int64_t>(wanted_.size()));
    const std::int64_t first = sequence.first_row + sequence.rows - sequence.logit_rows;
    const std::int64_t begin = first * hidden;
    std::transform(residual_.begin() + begin,
                   residual_.begin() + begin + sequence.logit_rows * hidden, delta_.begin() + begin,
                   wanted_.begin() + taken * hidden, std::plus<>());
    taken += sequence.logit_rows;
  }
  return wanted_.first(static_cast<std::size_t>(taken * hidden));
}

std::int64_t Qwen3Moe::qkv_width() const {
  const Qwen3MoeConfig& config = weights_.config;
  return (config.heads + 2 * config.kv_heads) * config.head_dim;
}

Result<> Qwen3Moe::reserve(const Reservation& reservation) {
  const Qwen3MoeConfig& config = weights_.config;
  const std::int64_t most = reservation.most_rows;
  constexpr std::int64_t kMost = 1 << 20;
  if (most < 1 || most > kMost || reservation.most_logits < 1 || reservation.most_logits > most) {
    return input_error(
        "steps of {} rows with {} rows of logits are out of range; give 1 to {} rows, and 1 to as "
        "many rows of logits",
        most, reservation.most_logits, kMost);
  }
  NIBBLE_ASSIGN_OR_RETURN(cache_, KvCache::make({.layers = config.layers,
                                                 .blocks = reservation.blocks,
                                                 .block_tokens = reservation.block_tokens,
                                                 .kv_heads = config.kv_heads,
                                                 .head_dim = config.head_dim,
                                                 .format = config.options.kv_format}));
  NIBBLE_ASSIGN_OR_RETURN(attention_,
                          AttentionWorkspace::make(config.heads, config.kv_heads, config.head_dim));
  NIBBLE_RETURN_IF_ERROR(reserve_inputs(most, reservation.most_logits));
  const std::array buffers = {std::pair(&residual_, most * config.hidden),
                              std::pair(&delta_, most * config.hidden),
                              std::pair(&normed_, most * config.hidden),
                              std::pair(&qkv_, most * qkv_width()),
                              std::pair(&attended_, most * config.heads * config.head_dim),
                              std::pair(&gate_up_, most * 2 * intermediate_),
                              std::pair(&activated_, most * intermediate_),
                              std::pair(&cosines_, most * config.head_dim / 2),
                              std::pair(&sines_, most * config.head_dim / 2),
                              std::pair(&wanted_, reservation.most_logits * config.hidden)};
  const std::int64_t floats =
      std::accumulate(buffers.begin(), buffers.end(), std::int64_t{0},
                      [](std::int64_t sum, const auto& buffer) { return sum + buffer.second; });
  NIBBLE_ASSIGN_OR_RETURN(memory_,
                          HugeBuffer::allocate(static_cast<std::size_t>(floats) * sizeof(float)));
  auto* next = reinterpret_cast<float*>(memory_.data());
  for (const auto& [buffer, size] : buffers) {
    *buffer = {next, static_cast<std::size_t>(size)};
    next += size;
  }
  sequences_.reserve(static_cast<std::size_t>(most));
  positions_.reserve(static_cast<std::size_t>(most));
  most_rows_ = most;
  return {};
}

// Rooms for packed inputs, and a workspace for each form of experts.
Result<> Qwen3Moe::reserve_inputs(std::int64_t most_rows, std::int64_t most_logits) {
  inputs_ = {};
  moe_.clear();
  workspace_of_.clear();
  std::vector<std::pair<Format, Format>> forms;
  NIBBLE_RETURN_IF_ERROR(inputs_.add(weights_.head, most_logits));
  for (const Layer& layer : weights_.layers) {
    NIBBLE_RETURN_IF_ERROR(inputs_.add(layer.qkv, most_rows));
    NIBBLE_RETURN_IF_ERROR(inputs_.add(layer.out, most_rows));
    if (layer.mlp) {
      NIBBLE_RETURN_IF_ERROR(inputs_.add(layer.mlp->gate_up, most_rows));
      NIBBLE_RETURN_IF_ERROR(inputs_.add(layer.mlp->down, most_rows));
      intermediate_ = std::max(intermediate_, layer.mlp->down.columns());
    }
    workspace_of_.push_back(0);
    if (!layer.moe) continue;
    experts_ = std::max(experts_, layer.moe->config().router.experts);
    const std::pair form(layer.moe->gate_up().format(), layer.moe->down().format());
    const auto found = std::find(forms.begin(), forms.end(), form);
    workspace_of_.back() = static_cast<std::size_t>(found - forms.begin());
    if (found != forms.end()) continue;
    forms.push_back(form);
    NIBBLE_ASSIGN_OR_RETURN(MoeWorkspace workspace, MoeWorkspace::make(*layer.moe, most_rows));
    moe_.push_back(std::move(workspace));
  }
  expert_tokens_.assign(weights_.layers.size() * static_cast<std::size_t>(experts_), 0);
  return {};
}

}  // namespace nibble::engine
