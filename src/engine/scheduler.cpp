#include "engine/scheduler.h"

#include <algorithm>
#include <fmt/core.h>
#include <utility>

#include "base/check.h"

namespace nibble::engine {

std::span<const TokenId> Sequence::prompt() const {
  return std::span(tokens).first(static_cast<std::size_t>(prompt_tokens));
}

std::span<const TokenId> Sequence::output() const {
  return std::span(tokens).subspan(static_cast<std::size_t>(prompt_tokens));
}

std::span<const TokenId> Sequence::forbidden() const {
  if (known() - prompt_tokens >= request.min_tokens) return {};
  return request.stop_ids;
}

Scheduler::Scheduler(const SchedulerOptions& options, BlockPool& pool)
    : options_(options), pool_(pool) {
  NIBBLE_CHECK(options.max_running_requests > 0);
  NIBBLE_CHECK(options.max_num_batched_tokens >= options.max_running_requests);
}

void Scheduler::add(std::uint64_t id, EngineRequest request) {
  NIBBLE_CHECK(id > last_id_ && !request.prompt.empty() && request.max_tokens > 0);
  last_id_ = id;
  Sequence sequence;
  sequence.tokens = std::exchange(request.prompt, {});
  sequence.prompt_tokens = sequence.known();
  NIBBLE_CHECK(request.max_tokens <=
               pool_.blocks() * pool_.block_tokens() - sequence.prompt_tokens);
  sequence.request = std::move(request);
  waiting_.emplace(id, std::move(sequence));
}

std::optional<StepResult> Scheduler::cancel(std::uint64_t id) {
  NIBBLE_CHECK(!in_step_);
  if (running_.erase(id) + waiting_.erase(id) == 0) return std::nullopt;
  return StepResult{.id = id, .update = {.finish = Finish::kCancelled}};
}

StepPlan Scheduler::plan() {
  NIBBLE_CHECK(!in_step_);
  StepPlan plan;
  plan_decodes(plan);
  plan_prompts(plan);
  place_waiting(plan);
  NIBBLE_CHECK(empty() || !plan.parts.empty());
  in_step_ = !plan.parts.empty();
  return plan;
}

std::int64_t Scheduler::rows_left(const StepPlan& plan) const {
  return options_.max_num_batched_tokens - static_cast<std::int64_t>(plan.tokens.size());
}

// As many of the sequence's tokens as the step has rows left.
void Scheduler::add_rows(StepPlan& plan, std::uint64_t id, const Sequence& sequence) const {
  const std::int64_t uncomputed = sequence.known() - sequence.computed;
  const std::int64_t rows = std::min(uncomputed, rows_left(plan));
  NIBBLE_CHECK(rows > 0);
  const bool samples = rows == uncomputed;
  const auto first = sequence.tokens.begin() + sequence.computed;
  const std::int64_t blocks = pool_.blocks_for(sequence.computed + rows);
  plan.sequences.push_back({
      .first_row = static_cast<std::int64_t>(plan.tokens.size()),
      .rows = rows,
      .context = sequence.computed,
      .blocks = sequence.blocks.ids().first(static_cast<std::size_t>(blocks)),
      .logit_rows = samples ? 1 : 0,
  });
  plan.tokens.insert(plan.tokens.end(), first, first + rows);
  plan.parts.push_back({.id = id, .sequence = &sequence, .rows = rows, .samples = samples});
  if (samples) ++plan.samples;
}

// Those that have one token left to compute: all that have had a token and were not driven out
// since, and the ends of prompts.
void Scheduler::plan_decodes(StepPlan& plan) {
  for (auto at = running_.begin(); at != running_.end(); ++at) {
    auto& [id, sequence] = *at;
    if (sequence.known() - sequence.computed != 1) continue;
    if (!make_room(id, sequence)) return;  // it was the newest: nobody is left after it
    add_rows(plan, id, sequence);
  }
}

// Prompts, and what was known of those that were driven out.
void Scheduler::plan_prompts(StepPlan& plan) {
  for (const auto& [id, sequence] : running_) {
    if (rows_left(plan) == 0) return;
    if (sequence.known() - sequence.computed > 1) add_rows(plan, id, sequence);
  }
}

void Scheduler::place_waiting(StepPlan& plan) {
  while (!waiting_.empty() && running() < options_.max_running_requests && rows_left(plan) > 0) {
    if (!place(waiting_.begin()->second)) return;  // the others wait behind it, in their order
    const auto placed = running_.insert(waiting_.extract(waiting_.begin())).position;
    add_rows(plan, placed->first, placed->second);
  }
}

// Gives a sequence the blocks of all its tokens, cached ones where there are. The last token is
// always computed: its logits are wanted.
bool Scheduler::place(Sequence& sequence) {
  const std::int64_t known = sequence.known();
  const auto reusable = std::span(sequence.tokens).first(static_cast<std::size_t>(known - 1));
  const BlockPool::Prefix prefix = pool_.find(reusable);
  const auto cached = static_cast<std::int64_t>(prefix.ids.size());
  const std::int64_t more = pool_.blocks_for(known) - cached;
  // One block for each that runs is left alone: whoever needs it next would drive this one out.
  if (more + prefix.free + running() > pool_.free()) return false;

  sequence.blocks = pool_.lease(prefix);
  pool_.extend(sequence.blocks, more);
  sequence.computed = cached * pool_.block_tokens();
  if (!sequence.cached_tokens) {
    sequence.cached_tokens = sequence.computed;
    counts_.prompt_tokens += sequence.prompt_tokens;
    counts_.cached_prompt_tokens += sequence.computed;
  }
  return true;
}

// The block of its next token, at the cost of the newest ones; false: at its own.
bool Scheduler::make_room(std::uint64_t id, Sequence& sequence) {
  const std::int64_t missing = pool_.blocks_for(sequence.known()) - sequence.blocks.size();
  while (missing > pool_.free()) {
    const bool itself = running_.rbegin()->first == id;
    preempt_newest();
    if (itself) return false;
  }
  pool_.extend(sequence.blocks, missing);
  return true;
}

void Scheduler::preempt_newest() {
  auto newest = running_.extract(std::prev(running_.end()));
  newest.mapped().blocks.release();
  newest.mapped().computed = 0;
  waiting_.insert(std::move(newest));
  ++counts_.preemptions;
}

std::vector<StepResult> Scheduler::complete(const StepPlan& plan,
                                            std::span<const std::optional<OutputToken>> sampled) {
  NIBBLE_CHECK(in_step_ && static_cast<std::int64_t>(sampled.size()) == plan.samples);
  in_step_ = false;
  bool bad_logits = false;
  std::vector<StepResult> results;
  for (const StepPlan::Part& part : plan.parts) {
    const auto at = running_.find(part.id);
    NIBBLE_CHECK(at != running_.end());
    Sequence& sequence = at->second;
    sequence.computed += part.rows;
    const auto computed =
        std::span(sequence.tokens).first(static_cast<std::size_t>(sequence.computed));
    if (!part.samples) {
      pool_.publish(sequence.blocks, computed);
      continue;
    }
    const std::optional<OutputToken>& token = sampled.front();
    sampled = sampled.subspan(1);
    pool_.publish(sequence.blocks, computed);
    bad_logits = bad_logits || !token;

    StepResult result{.id = part.id, .update = {}};
    result.update.cached_tokens = *sequence.cached_tokens;
    result.update.finish = accept(sequence, token);
    const bool given = token && result.update.finish != Finish::kStop;
    if (given) result.update.tokens.push_back(*token);
    if (result.update.finish) running_.erase(at);
    results.push_back(std::move(result));
  }
  // Keys and values behind bad logits may be bad: neither those of this step nor any that came
  // before them from the same source may reach another request.
  if (bad_logits) pool_.forget();
  return results;
}

std::optional<Finish> Scheduler::accept(Sequence& sequence,
                                        const std::optional<OutputToken>& token) {
  if (!token) return Finish::kFailed;
  if (std::ranges::count(sequence.request.stop_ids, token->id) > 0) return Finish::kStop;
  sequence.tokens.push_back(token->id);
  ++counts_.generation_tokens;
  const std::int64_t output = sequence.known() - sequence.prompt_tokens;
  return output == sequence.request.max_tokens ? std::optional(Finish::kLength) : std::nullopt;
}

std::string Scheduler::check_integrity() const {
  std::vector<std::int32_t> held;
  for (const auto& [id, sequence] : running_) {
    const std::span<const std::int32_t> blocks = sequence.blocks.ids();
    held.insert(held.end(), blocks.begin(), blocks.end());
    const std::int64_t needed = pool_.blocks_for(sequence.computed);
    if (sequence.computed >= sequence.known() || needed > sequence.blocks.size()) {
      return fmt::format("request {} has computed {} of {} tokens in {} KV blocks", id,
                         sequence.computed, sequence.known(), sequence.blocks.size());
    }
  }
  for (const auto& [id, sequence] : waiting_) {
    if (sequence.blocks.size() > 0 || sequence.computed > 0) {
      return fmt::format("request {} waits and holds KV blocks", id);
    }
  }
  if (!running_.empty() && !waiting_.empty() &&
      running_.rbegin()->first > waiting_.begin()->first) {
    return fmt::format("request {} runs and request {} waits", running_.rbegin()->first,
                       waiting_.begin()->first);
  }
  return pool_.check_integrity(held);
}

}  // namespace nibble::engine
