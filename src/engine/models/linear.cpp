#include "engine/models/linear.h"

#include <array>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "kernels/gemm/gemm.h"

namespace nibble::engine {

Result<Linear> Linear::make(const QuantizedMatrix& matrix, std::vector<float> bias,
                            const LinearOptions& options, ThreadPool& pool) {
  if (!bias.empty() && static_cast<std::int64_t>(bias.size()) != matrix.rows) {
    return input_error("a bias of {} values does not fit a matrix of {} rows", bias.size(),
                       matrix.rows);
  }
  Linear linear;
  NIBBLE_ASSIGN_OR_RETURN(linear.weights_, PackedWeights::pack({&matrix, 1}, options.isa, pool));
  linear.bias_ = std::move(bias);
  linear.activations_ = matrix.format == Format::kBf16 ? Format::kFp32 : options.activations;
  return linear;
}

void Linear::multiply(std::span<const float> x, LinearInputs& inputs, std::span<float> y,
                      ThreadPool& pool) const {
  LinearInputs::Room* const room = inputs.find(*this);
  NIBBLE_CHECK(room != nullptr);
  const auto width = static_cast<std::size_t>(columns());
  const std::size_t tokens = x.size() / width;
  NIBBLE_CHECK(x.size() == tokens * width && y.size() == tokens * static_cast<std::size_t>(rows()));
  room->packed.quantize(x, pool);
  const std::array offsets = {0, static_cast<std::int32_t>(tokens)};
  gemm({.weights = weights_,
        .activations = room->packed,
        .offsets = offsets,
        .row_of = std::span(inputs.every_row_).first(tokens),
        .output = y},
       pool);
  if (bias_.empty()) return;
  for (std::size_t token = 0; token < tokens; ++token) {
    float* const row = y.data() + token * bias_.size();
    for (std::size_t at = 0; at < bias_.size(); ++at) row[at] += bias_[at];
  }
}

LinearInputs::Room* LinearInputs::find(const Linear& linear) {
  const bool bf16 = linear.weights_.format() == Format::kBf16;
  for (Room& room : rooms_) {
    if (room.bf16_weights == bf16 && room.packed.columns() == linear.columns() &&
        room.packed.format() == linear.activations_) {
      return &room;
    }
  }
  return nullptr;
}

Result<> LinearInputs::add(const Linear& linear, std::int64_t most_rows) {
  Room* room = find(linear);
  if (room == nullptr) room = &rooms_.emplace_back();
  if (room->most_rows >= most_rows && room->packed.columns() > 0) return {};
  room->bf16_weights = linear.weights_.format() == Format::kBf16;
  room->most_rows = most_rows;
  NIBBLE_ASSIGN_OR_RETURN(room->packed,
                          PackedActivations::make(most_rows, linear.columns(), linear.activations_,
                                                  linear.weights_.isa(), linear.weights_.format()));
  if (static_cast<std::int64_t>(every_row_.size()) < most_rows) {
    every_row_.resize(static_cast<std::size_t>(most_rows));
    std::iota(every_row_.begin(), every_row_.end(), 0);
  }
  return {};
}

}  // namespace nibble::engine
