#include "kernels/attention/reference.h"

#include <algorithm>
#include <cmath>

namespace nibble {
namespace {

// softmax(scale * q . k) over the positions up to the row's own.
std::vector<double> weights_of(const AttentionReferenceParams& params, const float* query,
                               std::int64_t kv_head, std::int64_t positions) {
  const std::int64_t width = params.kv_heads * params.head_dim;
  std::vector<double> weights;
  for (std::int64_t position = 0; position < positions; ++position) {
    const float* const key = params.keys.data() + position * width + kv_head * params.head_dim;
    double score = 0;
    for (std::int64_t at = 0; at < params.head_dim; ++at) {
      score += static_cast<double>(query[at]) * static_cast<double>(key[at]);
    }
    weights.push_back(score / std::sqrt(static_cast<double>(params.head_dim)));
  }
  const double most = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - most);
  for (double& weight : weights) weight /= sum;
  return weights;
}

}  // namespace

std::vector<double> attention_reference(const AttentionReferenceParams& params) {
  const std::int64_t size = params.head_dim;
  const std::int64_t vectors = static_cast<std::int64_t>(params.queries.size()) / size;
  std::vector<double> output(params.queries.size());
  for (std::int64_t vector = 0; vector < vectors; ++vector) {
    const std::int64_t kv_head = vector % params.heads / (params.heads / params.kv_heads);
    const std::int64_t positions = params.context + vector / params.heads + 1;
    const std::vector<double> weights =
        weights_of(params, params.queries.data() + vector * size, kv_head, positions);
    for (std::int64_t position = 0; position < positions; ++position) {
      const float* const value =
          params.values.data() + (position * params.kv_heads + kv_head) * size;
      for (std::int64_t at = 0; at < size; ++at) {
        output[static_cast<std::size_t>(vector * size + at)] +=
            weights[static_cast<std::size_t>(position)] * static_cast<double>(value[at]);
      }
    }
  }
  return output;
}

}  // namespace nibble
