#include "kernels/moe/router.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "base/check.h"
#include "kernels/moe/vector_code.h"

namespace nibble {
namespace {

// What DeepSeek's reference adds to the sum of a token's weights before it divides by it: nothing
// next to a sum that fp32 tells from zero, and no division by zero when all scores have vanished.
constexpr float kLeastSum = 1e-20F;

template <class T>
using PerExpert = std::array<T, kMostExperts>;

// A larger key is a better choice: by score, then by lower index. Adding 0 makes -0 equal to 0.
std::uint64_t choice_key(float score, std::int64_t index) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F);
  const std::uint32_t ascending = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return (std::uint64_t{ascending} << 32) | (0xFFFFFFFFU - static_cast<std::uint32_t>(index));
}

std::int64_t index_of(std::uint64_t key) {
  return static_cast<std::int64_t>(0xFFFFFFFFU - static_cast<std::uint32_t>(key & 0xFFFFFFFFU));
}

void best_first(std::span<std::uint64_t> keys, std::int64_t count) {
  std::partial_sort(keys.begin(), keys.begin() + count, keys.end(), std::greater<>());
}

// The sum of the two best choices of a group, or the best alone.
float group_score(std::span<const float> choices, bool two) {
  float best = -std::numeric_limits<float>::infinity();
  float second = best;
  for (const float choice : choices) {
    if (choice > best) {
      second = best;
      best = choice;
    } else if (choice > second) {
      second = choice;
    }
  }
  return two && choices.size() > 1 ? best + second : best;
}

class TokenRouter {
 public:
  TokenRouter(const RouterConfig& config, const VectorCode& code) : config_(config), code_(code) {}

  void route(std::span<const float> logits, std::span<const float> linear_bias,
             std::span<std::int32_t> ids, std::span<float> weights) {
    load(logits, linear_bias);
    if (!is_routable()) {
      for (std::size_t choice = 0; choice < ids.size(); ++choice) {
        ids[choice] = static_cast<std::int32_t>(choice);
        weights[choice] = std::numeric_limits<float>::quiet_NaN();
      }
      return;
    }
    score();
    choose(ids);
    weigh(ids, weights);
  }

 private:
  std::size_t experts() const { return static_cast<std::size_t>(config_.experts); }

  void load(std::span<const float> logits, std::span<const float> linear_bias) {
    std::copy(logits.begin(), logits.end(), logits_.begin());
    for (std::size_t expert = 0; expert < linear_bias.size(); ++expert) {
      logits_[expert] += linear_bias[expert];
    }
    std::fill(logits_.begin() + config_.experts,
              logits_.begin() + rounded_to_lanes(config_.experts),
              -std::numeric_limits<float>::infinity());
  }

  bool is_routable() const {
    float largest = -std::numeric_limits<float>::infinity();
    for (std::size_t expert = 0; expert < experts(); ++expert) {
      if (std::isnan(logits_[expert])) return false;
      largest = std::max(largest, logits_[expert]);
    }
    return config_.kind == RouterKind::kSigmoid || std::isfinite(largest);
  }

  void score() {
    const std::int64_t padded = rounded_to_lanes(config_.experts);
    if (config_.kind == RouterKind::kSigmoid) {
      code_.sigmoid(logits_.data(), scores_.data(), padded);
    } else if (!config_.softmax_after_top_k) {
      code_.softmax(logits_.data(), scores_.data(), padded);
    }
    // Both functions ascend: without a bias the logits choose, and tell apart what has the same
    // score after rounding.
    if (config_.correction_bias.empty()) return;
    for (std::size_t expert = 0; expert < experts(); ++expert) {
      biased_[expert] = scores_[expert] + config_.correction_bias[expert];
    }
  }

  void choose(std::span<std::int32_t> ids) {
    const PerExpert<float>& choices = config_.correction_bias.empty() ? logits_ : biased_;
    const std::size_t candidates = config_.top_groups == config_.groups
                                       ? add_candidates(choices, 0, experts(), 0)
                                       : candidates_of_groups(choices);
    best_first({keys_.data(), candidates}, config_.top_k);
    for (std::size_t choice = 0; choice < ids.size(); ++choice) {
      ids[choice] = static_cast<std::int32_t>(index_of(keys_[choice]));
    }
  }

  std::size_t add_candidates(const PerExpert<float>& choices, std::size_t begin, std::size_t end,
                             std::size_t count) {
    for (std::size_t expert = begin; expert < end; ++expert) {
      keys_[count++] = choice_key(choices[expert], static_cast<std::int64_t>(expert));
    }
    return count;
  }

  std::size_t candidates_of_groups(const PerExpert<float>& choices) {
    const auto groups = static_cast<std::size_t>(config_.groups);
    const std::size_t size = experts() / groups;
    const bool two = !config_.correction_bias.empty();
    for (std::size_t group = 0; group < groups; ++group) {
      const float score = group_score({choices.data() + group * size, size}, two);
      group_keys_[group] = choice_key(score, static_cast<std::int64_t>(group));
    }
    best_first({group_keys_.data(), groups}, config_.top_groups);
    std::size_t count = 0;
    for (std::int64_t rank = 0; rank < config_.top_groups; ++rank) {
      const auto group =
          static_cast<std::size_t>(index_of(group_keys_[static_cast<std::size_t>(rank)]));
      count = add_candidates(choices, group * size, (group + 1) * size, count);
    }
    return count;
  }

  void weigh(std::span<const std::int32_t> ids, std::span<float> weights) {
    if (config_.softmax_after_top_k) {
      softmax_of_chosen(ids, weights);
    } else {
      for (std::size_t choice = 0; choice < ids.size(); ++choice) {
        weights[choice] = scores_[static_cast<std::size_t>(ids[choice])];
      }
    }
    float sum = 0;
    for (const float weight : weights) sum += weight;
    const float divisor = config_.renormalise ? sum + kLeastSum : 1;
    for (float& weight : weights) weight = weight / divisor * config_.scaling_factor;
  }

  void softmax_of_chosen(std::span<const std::int32_t> ids, std::span<float> weights) {
    std::fill(scores_.begin(), scores_.begin() + rounded_to_lanes(config_.top_k),
              -std::numeric_limits<float>::infinity());
    for (std::size_t choice = 0; choice < ids.size(); ++choice) {
      scores_[choice] = logits_[static_cast<std::size_t>(ids[choice])];
    }
    code_.softmax(scores_.data(), scores_.data(), rounded_to_lanes(config_.top_k));
    std::copy_n(scores_.begin(), weights.size(), weights.begin());
  }

  const RouterConfig& config_;
  const VectorCode& code_;
  PerExpert<float> logits_;
  PerExpert<float> scores_;
  PerExpert<float> biased_;
  PerExpert<std::uint64_t> keys_;
  PerExpert<std::uint64_t> group_keys_;
};

Result<> check_groups(const RouterConfig& config) {
  if (config.groups < 1 || config.groups > config.experts || config.experts % config.groups != 0) {
    return input_error("the router has {} experts in {} groups; the groups must be of equal size",
                       config.experts, config.groups);
  }
  if (config.top_groups < 1 || config.top_groups > config.groups) {
    return input_error("the router keeps {} of {} groups; give a number from 1 to {}",
                       config.top_groups, config.groups, config.groups);
  }
  const std::int64_t candidates = config.experts / config.groups * config.top_groups;
  if (config.top_k > candidates) {
    return input_error("the router chooses {} experts, but the {} groups that it keeps have {}",
                       config.top_k, config.top_groups, candidates);
  }
  return {};
}

Result<> check_bias(const RouterConfig& config) {
  if (config.correction_bias.empty()) return {};
  if (static_cast<std::int64_t>(config.correction_bias.size()) != config.experts) {
    return input_error("the router's correction bias has {} values for {} experts",
                       config.correction_bias.size(), config.experts);
  }
  for (std::size_t expert = 0; expert < config.correction_bias.size(); ++expert) {
    if (!std::isfinite(config.correction_bias[expert])) {
      return input_error("the router's correction bias of expert {} is {}, not a finite number",
                         expert, config.correction_bias[expert]);
    }
  }
  return {};
}

}  // namespace

Result<> check_router(const RouterConfig& config, std::int64_t most_experts) {
  if (config.experts < 1 || config.experts > most_experts) {
    return input_error("the router has {} experts; give a number from 1 to {}", config.experts,
                       most_experts);
  }
  if (config.top_k < 1 || config.top_k > config.experts) {
    return input_error("the router chooses {} of {} experts; give a number from 1 to {}",
                       config.top_k, config.experts, config.experts);
  }
  NIBBLE_RETURN_IF_ERROR(check_groups(config));
  NIBBLE_RETURN_IF_ERROR(check_bias(config));
  if (!std::isfinite(config.scaling_factor) || config.scaling_factor <= 0) {
    return input_error("the router's scaling factor is {}; give a finite number above 0",
                       config.scaling_factor);
  }
  if (config.softmax_after_top_k &&
      (config.kind != RouterKind::kSoftmax || !config.correction_bias.empty())) {
    return input_error(
        "the router takes its softmax over the chosen experts, which goes with neither sigmoid "
        "scores nor a correction bias");
  }
  return {};
}

Result<Router> Router::make(RouterConfig config) {
  NIBBLE_RETURN_IF_ERROR(check_router(config, kMostExperts));
  return Router(std::move(config));
}

void Router::route(const RouteParams& params, Isa isa, ThreadPool& pool) const {
  const auto experts = static_cast<std::size_t>(config_.experts);
  const auto top_k = static_cast<std::size_t>(config_.top_k);
  const std::size_t tokens = params.logits.size() / experts;
  NIBBLE_CHECK(params.logits.size() == tokens * experts);
  NIBBLE_CHECK(params.linear_bias.empty() || params.linear_bias.size() == experts);
  NIBBLE_CHECK(params.ids.size() == tokens * top_k);
  NIBBLE_CHECK(params.weights.size() == tokens * top_k);
  const VectorCode& code = vector_code(isa);
  WorkQueue queue(static_cast<std::int64_t>(tokens));
  // About what an expert takes: its softmax, its key, and its way through the sorting.
  constexpr double kExpertNs = 6;
  pool.run_for(kExpertNs * static_cast<double>(params.logits.size()), [&](int) {
    TokenRouter router(config_, code);
    while (const auto unit = queue.next()) {
      const auto token = static_cast<std::size_t>(*unit);
      router.route(params.logits.subspan(token * experts, experts), params.linear_bias,
                   params.ids.subspan(token * top_k, top_k),
                   params.weights.subspan(token * top_k, top_k));
    }
  });
}

}  // namespace nibble
