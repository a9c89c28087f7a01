// Which tokens of which requests the next step computes. No thread, no clock, no model.
//
//   Scheduler scheduler({.max_running_requests = 64, .max_num_batched_tokens = 256}, pool);
//   scheduler.add(id, std::move(request));          // ids ascend: the order of service
//   const StepPlan plan = scheduler.plan();
//   model.forward(plan.batch(), logits, threads);   // then a token for each part that samples
//   const auto results = scheduler.complete(plan, tokens);
//   for (StepResult& result : results) sink_of(result.id)(result.update);
//
// The life of a request: it waits; it is placed when the pool has all the blocks of its known
// tokens, and runs; its prompt is computed in chunks; then each step gives it a token and, where
// that begins a block, one more block. When there is none, the newest request that runs gives up
// all of its blocks, waits again and computes its tokens anew. Requests are placed and computed in
// the order of their ids, and all that run are older than all that wait. So the oldest one always
// advances, and nobody waits for ever.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/block_pool.h"
#include "engine/model.h"
#include "engine/request.h"

namespace nibble::engine {

struct SchedulerOptions {
  std::int64_t max_running_requests = 0;
  std::int64_t max_num_batched_tokens = 0;  // at least max_running_requests: each may have a row
};

struct Sequence {
  EngineRequest request;        // its prompt has gone to `tokens`
  std::vector<TokenId> tokens;  // the prompt, then the output
  std::int64_t prompt_tokens = 0;
  BlockLease blocks;                          // none while it waits
  std::int64_t computed = 0;                  // the first so many tokens have keys and values
  std::optional<std::int64_t> cached_tokens;  // when it was placed first; nullopt: never yet

  std::int64_t known() const { return static_cast<std::int64_t>(tokens.size()); }
  std::span<const TokenId> prompt() const;
  std::span<const TokenId> output() const;
  std::span<const TokenId> forbidden() const;  // for the next token
};

struct StepPlan {
  struct Part {
    std::uint64_t id = 0;
    const Sequence* sequence = nullptr;  // until complete()
    std::int64_t rows = 0;
    bool samples = false;  // its last row gives a token
  };
  std::vector<Part> parts;
  std::vector<TokenId> tokens;
  std::vector<SequenceRows> sequences;
  std::int64_t samples = 0;  // parts that sample: rows of logits, in their order

  ForwardBatch batch() const { return {.tokens = tokens, .sequences = sequences}; }
};

struct StepResult {
  std::uint64_t id = 0;
  Update update;  // without its time
};

class Scheduler {
 public:
  struct Counts {
    std::int64_t prompt_tokens = 0;  // of requests that have been placed
    std::int64_t cached_prompt_tokens = 0;
    std::int64_t generation_tokens = 0;
    std::int64_t preemptions = 0;
  };

  Scheduler(const SchedulerOptions& options, BlockPool& pool);

  // `id` is above all earlier ones. The prompt is not empty, and with max_tokens fits the pool.
  void add(std::uint64_t id, EngineRequest request);
  // Between steps only. Gives its last result, or nullopt when it has ended already.
  std::optional<StepResult> cancel(std::uint64_t id);

  // Has parts unless empty().
  StepPlan plan();
  // What the plan's sampling parts got, in their order; nullopt: logits that are not finite.
  std::vector<StepResult> complete(const StepPlan& plan,
                                   std::span<const std::optional<OutputToken>> sampled);

  bool empty() const { return running_.empty() && waiting_.empty(); }
  std::int64_t running() const { return static_cast<std::int64_t>(running_.size()); }
  std::int64_t waiting() const { return static_cast<std::int64_t>(waiting_.size()); }
  const Counts& counts() const { return counts_; }
  // A sentence for the first thing that is wrong; empty: nothing.
  std::string check_integrity() const;

 private:
  using Queue = std::map<std::uint64_t, Sequence>;  // the oldest first

  void add_rows(StepPlan& plan, std::uint64_t id, const Sequence& sequence) const;
  void plan_decodes(StepPlan& plan);
  void plan_prompts(StepPlan& plan);
  void place_waiting(StepPlan& plan);
  bool place(Sequence& sequence);
  bool make_room(std::uint64_t id, Sequence& sequence);
  void preempt_newest();
  std::optional<Finish> accept(Sequence& sequence, const std::optional<OutputToken>& token);
  std::int64_t rows_left(const StepPlan& plan) const;

  SchedulerOptions options_;
  BlockPool& pool_;
  Queue running_;
  Queue waiting_;
  Counts counts_;
  std::uint64_t last_id_ = 0;
  bool in_step_ = false;
};

}  // namespace nibble::engine
