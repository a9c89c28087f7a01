#include "kernels/moe/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "kernels/gemm/reference.h"

namespace nibble {
namespace {

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

std::optional<float> input_scale(const MoeConfig& config,
                                 std::span<const QuantizedMatrix> experts) {
  if (!config.static_input_scales) return std::nullopt;
  float largest = 0;
  for (const QuantizedMatrix& matrix : experts) {
    NIBBLE_CHECK(matrix.input_scale.has_value());
    largest = std::max(largest, *matrix.input_scale);
  }
  return largest;
}

// y[choice] = matrix of that choice's expert times x[row of the choice], whichever rows those are;
// each matrix is unpacked once for all of its choices.
std::vector<double> products(const MoeReferenceParams& params,
                             std::span<const QuantizedMatrix> experts, std::span<const double> x,
                             std::int64_t choices_per_row) {
  const std::size_t rows = index(experts.front().rows);
  const std::size_t columns = index(experts.front().columns);
  std::vector<double> y(params.expert_ids.size() * rows);
  for (std::size_t expert = 0; expert < experts.size(); ++expert) {
    std::vector<double> input;
    std::vector<std::size_t> choices;
    for (std::size_t choice = 0; choice < params.expert_ids.size(); ++choice) {
      if (params.expert_ids[choice] != static_cast<std::int32_t>(expert)) continue;
      const auto row = x.subspan(choice / index(choices_per_row) * columns, columns);
      input.insert(input.end(), row.begin(), row.end());
      choices.push_back(choice);
    }
    if (choices.empty()) continue;
    std::vector<double> output(choices.size() * rows);
    gemm_reference(experts[expert], input, output);
    for (std::size_t at = 0; at < choices.size(); ++at) {
      std::copy_n(output.data() + at * rows, rows, y.data() + choices[at] * rows);
    }
  }
  return y;
}

double activated(const Activation& activation, double gate, double up) {
  if (activation.kind == ActivationKind::kSwiGlu) return gate / (1 + std::exp(-gate)) * up;
  const double limit = static_cast<double>(activation.limit);
  const double alpha = static_cast<double>(activation.alpha);
  gate = std::min(gate, limit);
  up = std::max(-limit, std::min(up, limit));
  return gate / (1 + std::exp(-alpha * gate)) * (up + 1);
}

std::vector<double> scores_of(const RouterConfig& config, const std::vector<double>& logits) {
  std::vector<double> scores = logits;
  if (config.kind == RouterKind::kSigmoid) {
    for (double& score : scores) score = 1 / (1 + std::exp(-score));
  } else if (!config.softmax_after_top_k) {
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit);
    for (double& score : scores) score = std::exp(score) / sum;
  }
  return scores;
}

// Whether the group of an expert is among the best.
std::vector<bool> kept_groups(const RouterConfig& config, const std::vector<double>& choices) {
  const std::size_t groups = index(config.groups);
  const std::size_t size = choices.size() / groups;
  std::vector<std::pair<double, std::size_t>> ranking;
  for (std::size_t group = 0; group < groups; ++group) {
    std::vector<double> sorted(choices.begin() + static_cast<std::ptrdiff_t>(group * size),
                               choices.begin() + static_cast<std::ptrdiff_t>((group + 1) * size));
    std::sort(sorted.rbegin(), sorted.rend());
    const bool two = !config.correction_bias.empty() && size > 1;
    ranking.emplace_back(-(two ? sorted[0] + sorted[1] : sorted[0]), group);
  }
  std::sort(ranking.begin(), ranking.end());
  std::vector<bool> kept(groups, false);
  for (std::size_t rank = 0; rank < index(config.top_groups); ++rank) {
    kept[ranking[rank].second] = true;
  }
  return kept;
}

}  // namespace

std::vector<double> reference_gate_up(const MoeReferenceParams& params) {
  const MoeConfig& config = params.config;
  const std::vector<double> rounded = rounded_activations(
      params.x, config.hidden, config.activations, input_scale(config, params.weights.gate_up));
  return products(params, params.weights.gate_up, rounded, config.router.top_k);
}

std::vector<double> reference_activated(const MoeReferenceParams& params,
                                        std::span<const double> gate_up) {
  const std::size_t columns = index(params.config.intermediate);
  const std::span<const float> bias = params.weights.gate_up_bias;
  std::vector<double> result;
  for (std::size_t choice = 0; choice < params.expert_ids.size(); ++choice) {
    const std::size_t expert = index(params.expert_ids[choice]);
    for (std::size_t column = 0; column < columns; ++column) {
      double gate = gate_up[choice * 2 * columns + column];
      double up = gate_up[choice * 2 * columns + columns + column];
      if (!bias.empty()) {
        gate += static_cast<double>(bias[expert * 2 * columns + column]);
        up += static_cast<double>(bias[expert * 2 * columns + columns + column]);
      }
      result.push_back(activated(params.config.activation, gate, up));
    }
  }
  return result;
}

std::vector<double> reference_output(const MoeReferenceParams& params,
                                     std::span<const float> activated) {
  const MoeConfig& config = params.config;
  const std::size_t hidden = index(config.hidden);
  const std::size_t top_k = index(config.router.top_k);
  const std::vector<double> rounded = rounded_activations(
      activated, config.intermediate, config.activations, input_scale(config, params.weights.down));
  const std::vector<double> down = products(params, params.weights.down, rounded, 1);
  const std::span<const float> bias = params.weights.down_bias;
  std::vector<double> y(params.expert_ids.size() / top_k * hidden);
  for (std::size_t choice = 0; choice < params.expert_ids.size(); ++choice) {
    const std::size_t expert = index(params.expert_ids[choice]);
    const double weight = static_cast<double>(params.expert_weights[choice]);
    for (std::size_t column = 0; column < hidden; ++column) {
      const double extra = bias.empty() ? 0 : static_cast<double>(bias[expert * hidden + column]);
      y[choice / top_k * hidden + column] += weight * (down[choice * hidden + column] + extra);
    }
  }
  return y;
}

std::vector<double> moe_reference(const MoeReferenceParams& params) {
  const std::vector<double> exact = reference_activated(params, reference_gate_up(params));
  const std::vector<float> activated(exact.begin(), exact.end());
  return reference_output(params, activated);
}

ReferenceRoute reference_route(const RouterConfig& config, std::span<const float> logits) {
  const std::vector<double> exact(logits.begin(), logits.end());
  const std::vector<double> scores = scores_of(config, exact);
  std::vector<double> choices = scores;
  for (std::size_t expert = 0; expert < config.correction_bias.size(); ++expert) {
    choices[expert] += static_cast<double>(config.correction_bias[expert]);
  }
  const std::vector<bool> kept = kept_groups(config, choices);
  const std::size_t size = choices.size() / kept.size();
  std::vector<std::pair<double, std::int32_t>> ranking;
  for (std::size_t expert = 0; expert < choices.size(); ++expert) {
    if (kept[expert / size]) {
      ranking.emplace_back(-choices[expert], static_cast<std::int32_t>(expert));
    }
  }
  std::sort(ranking.begin(), ranking.end());
  ReferenceRoute route;
  double sum = 0;
  for (std::size_t rank = 0; rank < index(config.top_k); ++rank) {
    const std::size_t expert = index(ranking[rank].second);
    route.ids.push_back(ranking[rank].second);
    const bool after = config.softmax_after_top_k;
    route.weights.push_back(after ? std::exp(exact[expert]) : scores[expert]);
    sum += route.weights.back();
  }
  const bool to_one = config.renormalise || config.softmax_after_top_k;
  for (double& weight : route.weights) {
    weight = weight / (to_one ? sum : 1) * static_cast<double>(config.scaling_factor);
  }
  return route;
}

double moe_error(std::span<const float> output, std::span<const double> reference) {
  NIBBLE_CHECK(output.size() == reference.size());
  double difference = 0;
  double size = 0;
  for (std::size_t at = 0; at < output.size(); ++at) {
    const double error = static_cast<double>(output[at]) - reference[at];
    difference += error * error;
    size += reference[at] * reference[at];
  }
  if (difference == 0) return 0;
  const double error = std::sqrt(difference / size);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

double moe_error_limit(Format activations) {
  switch (activations) {
    case Format::kInt8:
      return 0x1p-9;
    case Format::kNvfp4:
      return 0x1p-6;
    default:
      return 0x1p-10;
  }
}

}  // namespace nibble
