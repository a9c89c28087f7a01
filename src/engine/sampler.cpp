#include "engine/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/stats.h"
#include "engine/logits.h"

namespace nibble::engine {
namespace {

// Weights in (0, 1] in buckets of an eighth of a power of two, the largest first; those below
// 2^-128 share the last one.
constexpr std::size_t kBuckets = 1025;

std::size_t bucket_of(double weight) {
  constexpr int kShift = 49;  // leaves the exponent and three bits of the mantissa
  constexpr std::uint64_t kOne = std::bit_cast<std::uint64_t>(1.0) >> kShift;
  const std::uint64_t below = kOne - (std::bit_cast<std::uint64_t>(weight) >> kShift);
  return std::min<std::size_t>(below, kBuckets - 1);
}

Result<> check_range(std::string_view field, double value, double low, double high) {
  if (value >= low && value <= high) return {};  // not for NaN
  return input_error("{} is {}; give a number from {} to {}", field, value, low, high);
}

Result<> check_bias(const Sampling& sampling, std::int64_t vocabulary) {
  std::vector<TokenId> ids;
  for (const auto& [id, bias] : sampling.logit_bias) {
    if (id < 0 || id >= vocabulary) {
      return input_error("logit_bias names token {}; the vocabulary has 0 to {}", id,
                         vocabulary - 1);
    }
    if (!(std::abs(bias) <= kMostBias)) {
      return input_error("logit_bias of token {} is {}; give a number from -{} to {}", id, bias,
                         kMostBias, kMostBias);
    }
    ids.push_back(id);
  }
  std::ranges::sort(ids);
  const auto twice = std::ranges::adjacent_find(ids);
  if (twice == ids.end()) return {};
  return input_error("logit_bias names token {} twice; name each token once", *twice);
}

bool has_penalties(const Sampling& sampling) {
  return sampling.presence_penalty != 0 || sampling.frequency_penalty != 0 ||
         sampling.repetition_penalty != 1;
}

std::size_t place(TokenId id) {
  return static_cast<std::size_t>(id);
}

}  // namespace

Result<> check(const Sampling& sampling, std::int64_t vocabulary) {
  constexpr double kLargest = std::numeric_limits<double>::max();
  if (!(sampling.temperature >= 0 && sampling.temperature <= kLargest)) {
    return input_error("temperature is {}; give a number from 0", sampling.temperature);
  }
  if (sampling.top_k < -1) {
    return input_error("top_k is {}; give a count from 1, or 0 or -1 for all tokens",
                       sampling.top_k);
  }
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {
    return input_error("top_p is {}; give a number above 0 and at most 1", sampling.top_p);
  }
  NIBBLE_RETURN_IF_ERROR(check_range("min_p", sampling.min_p, 0, 1));
  NIBBLE_RETURN_IF_ERROR(check_range("presence_penalty", sampling.presence_penalty, -2, 2));
  NIBBLE_RETURN_IF_ERROR(check_range("frequency_penalty", sampling.frequency_penalty, -2, 2));
  if (!(sampling.repetition_penalty > 0 && sampling.repetition_penalty <= kLargest)) {
    return input_error("repetition_penalty is {}; give a number above 0",
                       sampling.repetition_penalty);
  }
  if (sampling.logprobs && (*sampling.logprobs < 0 || *sampling.logprobs > kMostLogprobs)) {
    return input_error("logprobs is {}; give a count from 0 to {}", *sampling.logprobs,
                       kMostLogprobs);
  }
  return check_bias(sampling, vocabulary);
}

double random_number(std::uint64_t seed, std::int64_t index) {
  // The first step makes neighbouring seeds start far from each other.
  return Random(Random(seed).next() + static_cast<std::uint64_t>(index)).uniform();
}

Sampler::Sampler(std::int64_t vocabulary)
    : seen_(static_cast<std::size_t>(vocabulary), 0), bucket_mass_(kBuckets, 0) {}

std::optional<OutputToken> Sampler::sample(const SampleInput& input, std::span<float> logits) {
  const Sampling& sampling = input.sampling;
  if (logits.empty() || !all_finite(logits)) return std::nullopt;
  if (sampling.logprobs) note_logprobs(sampling, logits, largest_logit(logits));
  adjust(input, logits);
  const float largest = largest_logit(logits);
  if (!std::isfinite(largest)) return std::nullopt;

  OutputToken token;
  if (sampling.temperature < kGreedyBelow) {
    token.id = first_of(logits, largest);
  } else {
    const auto index = static_cast<std::int64_t>(input.output.size());
    token.id = draw(sampling, logits, largest, random_number(sampling.seed, index));
  }
  if (sampling.logprobs) {
    token.logprob = static_cast<float>(model_logits_[place(token.id)] - log_sum_);
    token.top = top_;
  }
  return token;
}

void Sampler::note_logprobs(const Sampling& sampling, std::span<const float> logits,
                            float largest) {
  model_logits_.assign(logits.begin(), logits.end());
  weights_.resize(logits.size());
  log_sum_ = largest + std::log(exponentials(logits, {.largest = largest}, weights_));
  top_.clear();
  for (const TokenId id : largest_tokens(logits, *sampling.logprobs)) {
    top_.push_back({id, static_cast<float>(logits[place(id)] - log_sum_)});
  }
}

void Sampler::adjust(const SampleInput& input, std::span<float> logits) {
  for (const auto& [id, bias] : input.sampling.logit_bias) logits[place(id)] += bias;
  if (has_penalties(input.sampling)) penalize(input, logits);
  for (const TokenId id : input.forbidden) {
    logits[place(id)] = -std::numeric_limits<float>::infinity();
  }
}

void Sampler::penalize(const SampleInput& input, std::span<float> logits) {
  auto see = [&](TokenId id) -> std::int32_t& {
    std::int32_t& times = seen_[place(id)];
    if (times == 0) {
      distinct_.push_back(id);
      times = 1;
    }
    return times;
  };
  for (const TokenId id : input.prompt) see(id);
  for (const TokenId id : input.output) ++see(id);

  constexpr double kLargest = std::numeric_limits<float>::max();
  const Sampling& sampling = input.sampling;
  for (const TokenId id : distinct_) {
    double logit = logits[place(id)];
    const std::int32_t in_output = seen_[place(id)] - 1;
    logit = logit > 0 ? logit / sampling.repetition_penalty : logit * sampling.repetition_penalty;
    logit -= sampling.frequency_penalty * in_output;
    if (in_output > 0) logit -= sampling.presence_penalty;
    logits[place(id)] = static_cast<float>(std::clamp(logit, -kLargest, kLargest));
    seen_[place(id)] = 0;
  }
  distinct_.clear();
}

// By inversion: candidates in the order of their ids, each as wide as its weight.
TokenId Sampler::draw(const Sampling& sampling, std::span<const float> logits, float largest,
                      double number) {
  double mass = weigh(sampling, logits, largest);
  if (sampling.top_p < 1) mass = cut_to_top_p(sampling.top_p * mass);
  const double wanted = number * mass;
  double passed = 0;
  std::size_t chosen = 0;
  for (std::size_t index = 0; index < weights_.size() && passed <= wanted; ++index) {
    if (weights_[index] == 0) continue;
    passed += weights_[index];
    chosen = index;  // rounding may leave `passed` below `wanted` at the end: the last one then
  }
  return candidates_.empty() ? static_cast<TokenId>(chosen) : candidates_[chosen];
}

// Fills candidates_ and weights_ by top-k and min-p; gives the sum of the weights.
double Sampler::weigh(const Sampling& sampling, std::span<const float> logits, float largest) {
  const Exponents exponents{
      .largest = largest, .scale = 1 / sampling.temperature, .least = sampling.min_p};
  candidates_.clear();
  if (sampling.top_k <= 0 || sampling.top_k >= static_cast<std::int64_t>(logits.size())) {
    weights_.resize(logits.size());
    return exponentials(logits, exponents, weights_);
  }
  candidates_ = largest_tokens(logits, sampling.top_k);
  std::ranges::sort(candidates_);
  std::vector<float> chosen;
  chosen.reserve(candidates_.size());
  for (const TokenId id : candidates_) chosen.push_back(logits[place(id)]);
  weights_.resize(chosen.size());
  return exponentials(chosen, exponents, weights_);
}

// Keeps the fewest and most probable candidates that hold `mass_wanted`, of equal ones those with
// the lowest ids; the others' weights become 0. Only the bucket in which the mass is reached is
// sorted. Gives the sum of what is kept.
double Sampler::cut_to_top_p(double mass_wanted) {
  std::ranges::fill(bucket_mass_, 0);
  for (const double weight : weights_) {
    if (weight > 0) bucket_mass_[bucket_of(weight)] += weight;
  }
  double mass = 0;
  std::size_t reached = 0;
  while (reached + 1 < kBuckets && mass + bucket_mass_[reached] < mass_wanted) {
    mass += bucket_mass_[reached++];
  }
  boundary_.clear();
  for (std::size_t index = 0; index < weights_.size(); ++index) {
    if (weights_[index] == 0) continue;
    const std::size_t bucket = bucket_of(weights_[index]);
    if (bucket == reached) boundary_.push_back(index);
    if (bucket > reached) weights_[index] = 0;
  }
  std::ranges::stable_sort(
      boundary_, [this](std::size_t a, std::size_t b) { return weights_[a] > weights_[b]; });
  for (const std::size_t index : boundary_) {
    if (mass < mass_wanted) {
      mass += weights_[index];
    } else {
      weights_[index] = 0;
    }
  }
  return mass;
}

}  // namespace nibble::engine
