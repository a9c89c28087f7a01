// Which experts a token meets, and with what weight.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Router router, Router::make({.kind = RouterKind::kSigmoid,
//       .experts = 256, .top_k = 8, .groups = 8, .top_groups = 4, .renormalise = true,
//       .scaling_factor = 2.5F, .correction_bias = bias}));
//   router.route({.logits = logits, .ids = ids, .weights = weights}, best_isa(), pool);
//
// Scores are softmax or sigmoid of the logits. Experts are chosen by score + correction bias, the
// best first, of two equals the one with the lower index; with groups only the experts of the best
// `top_groups` groups stand for choice. A group is as good as its two best experts together, or
// without a correction bias as its best one (DeepSeek-V3's and V2's rules). The weights are scores,
// without bias. The same bits on every instruction set, for any batch and number of threads.
//
// A token with a NaN logit (softmax: or whose largest logit is not finite) gets experts 0 ..
// top_k - 1 with weight NaN.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "machine/isa.h"
#include "model/spec.h"

namespace nibble {

inline constexpr std::int64_t kMostExperts = 1024;  // scores of one token stay on the stack

struct RouterConfig {
  RouterKind kind = RouterKind::kSoftmax;
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::int64_t groups = 1;                  // n_group: equal runs of neighbouring experts
  std::int64_t top_groups = 1;              // topk_group
  bool renormalise = false;                 // norm_topk_prob: a token's weights add up to 1
  bool softmax_after_top_k = false;         // gpt-oss: choose by logit, softmax over the chosen
  float scaling_factor = 1;                 // routed_scaling_factor, on every weight
  std::vector<float> correction_bias = {};  // [experts] e_score_correction_bias; empty: none
};

struct RouteParams {
  std::span<const float> logits;       // [tokens, experts]
  std::span<const float> linear_bias;  // [experts], added to the logits first (gpt-oss); or empty
  std::span<std::int32_t> ids;         // [tokens, top_k], best first
  std::span<float> weights;            // [tokens, top_k]
};

// An input error for numbers that do not fit together, for more experts than `most_experts`, and
// for a bias that is not finite.
Result<> check_router(const RouterConfig& config, std::int64_t most_experts);

class Router {
 public:
  // What check_router() refuses.
  static Result<Router> make(RouterConfig config);

  const RouterConfig& config() const { return config_; }
  // Sizes that do not fit together are our caller's mistake (NIBBLE_CHECK). Does not allocate.
  void route(const RouteParams& params, Isa isa, ThreadPool& pool) const;

 private:
  explicit Router(RouterConfig config) : config_(std::move(config)) {}

  RouterConfig config_;
};

}  // namespace nibble
