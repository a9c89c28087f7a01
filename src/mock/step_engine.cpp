#include "mock/step_engine.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/stats.h"

namespace nibble::mock {
namespace {

// No part of a step is longer, whatever the script's numbers make of each other.
Nanoseconds part_length(double ms) {
  return static_cast<Nanoseconds>(std::llround(std::clamp(ms, 0.0, kMostMs) * 1e6));
}

std::int64_t prompt_of(const StepRequest& request) {
  return std::max<std::int64_t>(1, request.prompt_tokens);
}

double step_noise(const MockScript& script, std::uint64_t number) {
  const double deviation = script.steps->noise;
  if (deviation <= 0) return 1;
  Random random(stream_seed(script.seed, number, Draw::kStepNoise));
  return std::max(0.1, 1 + deviation * normal_quantile(open_uniform(random)));
}

RankTimes times_of(const RankWork& work, const GpuClock& clock) {
  return {.memory = part_length(work.memory_ms),
          .compute = part_length(work.compute_ms / clock.share),
          .collective = part_length(work.collective_ms),
          .clock = clock};
}

}  // namespace

StepEngine::StepEngine(const MockScript& script, Nanoseconds origin)
    : script_(script), steps_(*script.steps), free_at_(origin) {
  const auto ranks = static_cast<std::size_t>(steps_.ranks);
  gpus_.assign(ranks, SimulatedGpu(script.gpu, steps_.clock_factor, origin));
}

bool StepEngine::fits(const StepRequest& request) const {
  return prompt_of(request) + request.output_tokens - 1 <= script_.kv_capacity_tokens;
}

void StepEngine::arrive(const StepRequest& request) {
  NIBBLE_CHECK(fits(request) && request.output_tokens >= 1);
  waiting_.push_back({.request = request});
}

void StepEngine::leave(std::uint64_t id) {
  const auto is_it = [id](const Member& member) { return member.request.id == id; };
  std::erase_if(waiting_, is_it);
  const auto found = std::find_if(running_.begin(), running_.end(), is_it);
  if (found == running_.end()) return;
  forget(*found);
  running_.erase(found);
  if (step_) std::erase_if(step_->tokens, [id](const StepToken& token) { return token.id == id; });
}

Nanoseconds StepEngine::next_event() const {
  if (step_) return step_->end;
  if (!running_.empty()) return free_at_;
  return waiting_.empty() ? kEndOfTime : std::max(free_at_, waiting_.front().request.at);
}

std::optional<Step> StepEngine::advance() {
  NIBBLE_CHECK(next_event() != kEndOfTime);
  if (!step_) {
    begin(next_event());
    return std::nullopt;
  }
  end();
  return std::exchange(step_, std::nullopt);
}

void StepEngine::begin(Nanoseconds now) {
  Step step{.number = steps_begun_++, .start = now};
  const std::int64_t preempted_before = preemptions_;
  preempt_for_growth();
  std::int64_t budget = steps_.prefill_chunk_tokens;
  for (Member& member : running_) take_part(member, step, budget);
  // What was preempted now would come back at once and be preempted again.
  const bool admits = preemptions_ == preempted_before;
  while (admits && budget > 0 && can_admit(now)) take_part(admit(step), step, budget);
  most_running_ = std::max(most_running_, static_cast<std::int64_t>(running_.size()));
  set_times(step);
  step_ = std::move(step);
}

// Each row that decodes adds a token to the cache. The oldest request always has room: it fits().
void StepEngine::preempt_for_growth() {
  auto rows = std::count_if(running_.begin(), running_.end(),
                            [](const Member& member) { return member.decodes(); });
  while (kv_tokens_ + rows > script_.kv_capacity_tokens) {
    NIBBLE_CHECK(running_.size() > 1);
    Member& newest = running_.back();
    if (newest.decodes()) --rows;
    forget(newest);
    newest.held = 0;
    newest.computed = 0;
    waiting_.push_front(std::move(newest));
    running_.pop_back();
    ++preemptions_;
  }
}

bool StepEngine::can_admit(Nanoseconds now) const {
  if (waiting_.empty() || waiting_.front().request.at > now) return false;
  const auto running = static_cast<std::int64_t>(running_.size());
  if (script_.capacity > 0 && running >= script_.capacity) return false;
  const Member& next = waiting_.front();
  return kv_tokens_ + prompt_of(next.request) + next.generated <= script_.kv_capacity_tokens;
}

StepEngine::Member& StepEngine::admit(Step& step) {
  running_.push_back(std::move(waiting_.front()));
  waiting_.pop_front();
  Member& member = running_.back();
  const StepRequest& request = member.request;
  member.held = prompt_of(request) + member.generated;
  kv_tokens_ += member.held;
  // Of a prompt that is cached as a whole, the last token is computed all the same.
  member.to_compute =
      std::max<std::int64_t>(1, request.prompt_tokens - request.cached_tokens) + member.generated;
  if (!std::exchange(member.begun, true)) {
    member.start = step.start;
    step.cached_tokens += prompt_of(request) - member.to_compute;
  }
  return member;
}

void StepEngine::take_part(Member& member, Step& step, std::int64_t& budget) {
  if (member.decodes()) {
    ++member.held;
    ++kv_tokens_;
    ++step.decode_rows;
    step.kv_tokens += member.held;
  } else {
    const std::int64_t piece = std::min(budget, member.to_compute - member.computed);
    budget -= piece;
    member.computed += piece;
    step.prompt_tokens += piece;
    const std::int64_t of_prompt = std::min(member.computed, member.to_compute - member.generated);
    const std::int64_t fresh = std::max<std::int64_t>(0, of_prompt - member.counted);
    member.counted += fresh;
    step.fresh_tokens += fresh;
    if (!member.decodes()) return;
  }
  step.tokens.push_back({member.request.id, member.start});
}

RankWork StepEngine::work_of(const Step& step, bool slow) const {
  const double factor = slow ? steps_.slow_rank_factor : 1;
  const auto rows = static_cast<double>(step.decode_rows);
  const auto prompt = static_cast<double>(step.prompt_tokens);
  const Collectives& each = steps_.collectives;
  const double gb_s = each.gb_s * link_share(script_.gpu);
  const double transfer_ms = (rows + prompt) * each.bytes_per_row / (gb_s * 1e9) * 1e3;
  const double noise = step_noise(script_, step.number);
  const double computing = rows * steps_.per_sequence_ms + prompt * steps_.prefill_ms_per_token;
  const double reading_kv = static_cast<double>(step.kv_tokens) * steps_.kv_ms_per_1k_tokens / 1000;
  return {.memory_ms = noise * (factor * steps_.weights_ms + reading_kv),
          .compute_ms = noise * factor * computing / steps_.clock_factor,
          .collective_ms =
              noise * static_cast<double>(each.count) * (each.latency_us / 1000 + transfer_ms),
          .gap_ms = steps_.host_gap_ms};
}

// The slow rank sets the pace; that the others wait for it is part of what they draw.
void StepEngine::set_times(Step& step) {
  Nanoseconds longest = 0;
  step.ranks.resize(gpus_.size());
  for (std::size_t rank = gpus_.size(); rank-- > 0;) {
    gpus_[rank].advance(step.start);
    const RankWork work = work_of(step, rank + 1 == gpus_.size());
    step.ranks[rank] = times_of(work, gpus_[rank].clock_for(work, milliseconds(longest)));
    longest = std::max(longest, step.ranks[rank].memory + step.ranks[rank].compute);
  }
  for (std::size_t rank = 0; rank < gpus_.size(); ++rank) {
    RankTimes& times = step.ranks[rank];
    times.waiting = longest - times.memory - times.compute;
    gpus_[rank].run(step.start, times);
  }
  step.end = step.start + longest + step.ranks[0].collective;
}

void StepEngine::end() {
  auto token = step_->tokens.begin();  // in the order of those that run
  for (Member& member : running_) {
    if (token == step_->tokens.end()) break;
    if (token->id != member.request.id) continue;
    ++member.generated;
    ++token;
  }
  std::erase_if(running_, [this](const Member& member) {
    const bool done = member.generated >= member.request.output_tokens;
    if (done) forget(member);
    return done;
  });
  free_at_ = step_->end + part_length(steps_.host_gap_ms);
}

StepCounts StepEngine::counts() const {
  return {.running = static_cast<std::int64_t>(running_.size()),
          .waiting = static_cast<std::int64_t>(waiting_.size()),
          .kv_tokens = kv_tokens_,
          .preemptions = preemptions_,
          .most_running = most_running_};
}

StepsRun simulate_steps(const MockScript& script, std::span<const Arrival> arrivals) {
  StepsRun run;
  run.answers.resize(arrivals.size());
  StepEngine engine(script, 0);
  std::vector<std::int64_t> outputs(arrivals.size());
  for (std::size_t index = 0; index < arrivals.size(); ++index) {
    const RequestPlan plan = plan_request(script, index, arrivals[index].asked);
    outputs[index] = plan.output_tokens;
    const std::int64_t prompt = arrivals[index].asked.prompt_tokens;
    const StepRequest request{.id = index,
                              .at = arrivals[index].at,
                              .prompt_tokens = prompt,
                              .cached_tokens = cached_prompt_tokens(script, prompt),
                              .output_tokens = plan.output_tokens};
    if (engine.fits(request)) engine.arrive(request);
  }
  while (engine.next_event() != kEndOfTime) {
    std::optional<Step> step = engine.advance();
    if (!step) continue;
    for (const StepToken& token : step->tokens) {
      SimulatedAnswer& answer = run.answers[token.id];
      const auto first = static_cast<std::int64_t>(answer.chunks.size());
      answer.start = token.start;
      answer.end = step->end;
      answer.chunks.push_back(
          {.first = first, .tokens = 1, .due = step->end, .last = first + 1 == outputs[token.id]});
    }
    run.steps.push_back(std::move(*step));
  }
  run.preemptions = engine.counts().preemptions;
  return run;
}

}  // namespace nibble::mock
