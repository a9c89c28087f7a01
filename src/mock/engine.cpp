#include "mock/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace nibble::mock {
namespace {

Random draws(const MockScript& script, std::uint64_t index, Draw purpose, std::uint64_t part = 0) {
  return Random(stream_seed(script.seed, index, purpose, part));
}

Nanoseconds nanoseconds(double ms) {
  return static_cast<Nanoseconds>(std::llround(ms * 1e6));
}

bool hits(const MockScript& script, std::size_t place, std::uint64_t index) {
  const Fault& fault = script.faults[place];
  const auto signed_index = static_cast<std::int64_t>(index);
  if (fault.every > 0 && (signed_index + 1) % fault.every == 0) return true;
  if (std::find(fault.requests.begin(), fault.requests.end(), signed_index) !=
      fault.requests.end()) {
    return true;
  }
  if (fault.probability <= 0) return false;
  return draws(script, index, Draw::kFault, place).uniform() < fault.probability;
}

// The first of the script's faults that hits the request.
const Fault* fault_of(const MockScript& script, std::uint64_t index) {
  for (std::size_t place = 0; place < script.faults.size(); ++place) {
    if (hits(script, place, index)) return &script.faults[place];
  }
  return nullptr;
}

double points_factor(const LoadCurve& curve, double running) {
  const std::vector<double>& at = curve.running;
  const std::vector<double>& factors = curve.factors;
  if (running <= at.front()) return factors.front();
  if (running >= at.back()) return factors.back() * running / at.back();
  const auto above =
      static_cast<std::size_t>(std::upper_bound(at.begin(), at.end(), running) - at.begin());
  const double share = (running - at[above - 1]) / (at[above] - at[above - 1]);
  return factors[above - 1] + share * (factors[above] - factors[above - 1]);
}

double curve_factor(const LoadCurve& curve, double running) {
  switch (curve.kind) {
    case CurveKind::kFlat:
      return 1;
    case CurveKind::kKnee:
      return std::max(1.0, running / curve.knee);
    case CurveKind::kUsl:
      return 1 + curve.sigma * (running - 1) + curve.kappa * running * (running - 1);
    case CurveKind::kPoints:
      return curve.running.empty() ? 1 : points_factor(curve, running);
  }
  return 1;
}

}  // namespace

RequestPlan plan_request(const MockScript& script, std::uint64_t index, const Asked& asked) {
  RequestPlan plan{.index = index};
  Random output = draws(script, index, Draw::kOutputTokens);
  plan.output_tokens =
      asked.max_tokens
          ? std::clamp<std::int64_t>(*asked.max_tokens, 1, static_cast<std::int64_t>(kMostTokens))
          : script.output_tokens.count_at(output, index, 1);
  Random early = draws(script, index, Draw::kEarlyEnd);
  if (script.early_end.probability > 0 && early.uniform() < script.early_end.probability) {
    const std::int64_t end = script.early_end.tokens.count_at(early, index, 1);
    plan.ended_early = end < plan.output_tokens;
    plan.output_tokens = std::min(plan.output_tokens, end);
  }
  Random reasoning = draws(script, index, Draw::kReasoning);
  plan.reasoning_tokens =
      std::min(plan.output_tokens, script.fields.reasoning_tokens.count_at(reasoning, index, 0));
  if (index < static_cast<std::uint64_t>(script.slow_start.requests)) {
    plan.slow = script.slow_start.factor;
  }
  Random ttft = draws(script, index, Draw::kTtft);
  const double prompt_ms =
      script.ttft_ms_per_prompt_token * static_cast<double>(asked.prompt_tokens);
  plan.ttft =
      nanoseconds(plan.slow * std::min(script.ttft_ms.at(ttft, index) + prompt_ms, kMostMs));
  plan.fault = fault_of(script, index);
  return plan;
}

std::int64_t cached_prompt_tokens(const MockScript& script, std::int64_t prompt_tokens) {
  return static_cast<std::int64_t>(script.usage.cached_share * static_cast<double>(prompt_tokens));
}

double load_factor(const MockScript& script, std::int64_t running, Nanoseconds since_start) {
  const LoadCurve& curve = script.load_curve;
  const double factor =
      curve_factor(curve, static_cast<double>(std::max<std::int64_t>(1, running)));
  if (curve.noise <= 0) return factor;
  const auto period =
      static_cast<std::uint64_t>(std::max<Nanoseconds>(0, since_start) /
                                 std::max<Nanoseconds>(1, nanoseconds(curve.noise_period_ms)));
  Random noise = draws(script, period, Draw::kNoise);
  // Never nearer to 0 than a tenth: a draw far below the mean would be a burst, not noise.
  return factor * std::max(0.1, 1 + curve.noise * normal_quantile(open_uniform(noise)));
}

ChunkSchedule::ChunkSchedule(const MockScript& script, const RequestPlan& plan, Nanoseconds start)
    : script_(script),
      plan_(plan),
      itl_(draws(script, plan.index, Draw::kItl)),
      sizes_(draws(script, plan.index, Draw::kChunkTokens)),
      due_(start) {}

bool ChunkSchedule::struck() const {
  return plan_.fault != nullptr && !fault_over_ && given_ >= plan_.fault->after_tokens;
}

std::int64_t ChunkSchedule::size_of_next() {
  std::int64_t size = chunks_ == 0 ? script_.first_chunk_tokens
                                   : script_.tokens_per_chunk.count_at(sizes_, chunks_ - 1, 1);
  size = std::min(size, plan_.output_tokens - given_);
  if (given_ < plan_.reasoning_tokens) size = std::min(size, plan_.reasoning_tokens - given_);
  if (plan_.fault != nullptr && !fault_over_ && given_ < plan_.fault->after_tokens) {
    size = std::min(size, plan_.fault->after_tokens - given_);
  }
  return size;
}

std::optional<Chunk> ChunkSchedule::next(double factor) {
  if (given_ >= plan_.output_tokens || struck()) return std::nullopt;
  Chunk chunk{.first = given_, .tokens = size_of_next()};
  if (chunks_ == 0) {
    due_ += plan_.ttft;
  } else {
    // Each token of the chunk takes its own time; the chunk leaves when its last one is done.
    for (std::int64_t token = 0; token < chunk.tokens; ++token) {
      const auto position = static_cast<std::uint64_t>(given_ + token - 1);
      const double ms = script_.itl_ms.at(itl_, position) * factor * plan_.slow;
      due_ = std::min(kEndOfTime, due_ + nanoseconds(std::min(ms, kMostMs)));
    }
  }
  given_ += chunk.tokens;
  ++chunks_;
  chunk.due = due_;
  chunk.last = given_ == plan_.output_tokens;
  return chunk;
}

std::optional<Slots::Start> Slots::arrive(std::uint64_t id, Nanoseconds at) {
  if (capacity_ > 0 && running_ >= capacity_) {
    waiting_.push_back({id, at});
    return std::nullopt;
  }
  ++running_;
  return Start{id, at};
}

std::optional<Slots::Start> Slots::leave(Nanoseconds at) {
  NIBBLE_CHECK(running_ > 0);
  if (waiting_.empty()) {
    --running_;
    return std::nullopt;
  }
  Start next = waiting_.front();
  waiting_.pop_front();
  next.at = std::max(next.at, at);
  return next;
}

bool Slots::abandon(std::uint64_t id) {
  const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const Start& each) { return each.id == id; });
  if (found == waiting_.end()) return false;
  waiting_.erase(found);
  return true;
}

}  // namespace nibble::mock
