// An engine that batches requests continuously and advances them in steps: pure, without a clock.
//
//   StepEngine engine(script, 0);
//   engine.arrive({.id = 1, .at = 0, .prompt_tokens = 512, .output_tokens = 64});
//   while (engine.next_event() != kEndOfTime) {
//     if (const auto step = engine.advance()) use(step->end, step->tokens);
//   }
//   const StepsRun run = simulate_steps(script, arrivals);   // the same for a list of arrivals
//
// A step takes all requests that decode, one row each, and pieces of prompts; its length is the sum
// of its parts (docs/mock.md). Its tokens leave at its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "mock/engine.h"
#include "mock/script.h"
#include "mock/simulated_gpu.h"

namespace nibble::mock {

struct StepRequest {
  std::uint64_t id = 0;  // any number that no other request has
  Nanoseconds at = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  // of them, that need not be computed
  std::int64_t output_tokens = 1;
};

struct StepToken {
  std::uint64_t id = 0;
  Nanoseconds start = 0;  // of the first step that the request was part of
};

struct Step {
  std::uint64_t number = 0;
  Nanoseconds start = 0;
  Nanoseconds end = 0;
  std::int64_t decode_rows = 0;
  std::int64_t prompt_tokens = 0;  // that are computed
  std::int64_t fresh_tokens = 0;   // of them, those that are not computed again
  std::int64_t cached_tokens = 0;  // of requests whose prompts begin here
  std::int64_t kv_tokens = 0;      // that decoding reads
  std::vector<RankTimes> ranks = {};
  std::vector<StepToken> tokens = {};  // one each
};

struct StepCounts {
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t kv_tokens = 0;
  std::int64_t preemptions = 0;
  std::int64_t most_running = 0;
};

class StepEngine {
 public:
  // The script has steps and must outlive the engine; nothing happens before `origin`.
  StepEngine(const MockScript& script, Nanoseconds origin);

  // Whether it can ever be served: its last token's step must fit into the cache.
  bool fits(const StepRequest& request) const;
  // fits() it; those that wait start in the order of these calls.
  void arrive(const StepRequest& request);
  // Its client has gone; harmless when it has ended. A step under way is not changed.
  void leave(std::uint64_t id);

  // When the step under way ends or, between steps, when the next begins. kEndOfTime: nothing to
  // do.
  Nanoseconds next_event() const;
  // Lets it happen; a step that has ended is given.
  std::optional<Step> advance();

  // Of the step under way.
  std::optional<Nanoseconds> step_start() const {
    return step_ ? std::optional(step_->start) : std::nullopt;
  }
  StepCounts counts() const;
  std::vector<SimulatedGpu>& gpus() { return gpus_; }

 private:
  struct Member {
    StepRequest request;
    bool begun = false;
    Nanoseconds start = 0;
    std::int64_t to_compute = 0;  // before it decodes: prompt, and output that was lost
    std::int64_t computed = 0;    // of them
    std::int64_t counted = 0;     // tokens of the prompt that were told as fresh
    std::int64_t generated = 0;
    std::int64_t held = 0;  // tokens in the cache
    bool decodes() const { return computed >= to_compute; }
  };

  void begin(Nanoseconds now);
  void end();
  void preempt_for_growth();
  bool can_admit(Nanoseconds now) const;
  Member& admit(Step& step);
  void take_part(Member& member, Step& step, std::int64_t& budget);
  void set_times(Step& step);
  RankWork work_of(const Step& step, bool slow) const;
  void forget(const Member& member) { kv_tokens_ -= member.held; }

  const MockScript& script_;
  const StepsScript& steps_;
  std::deque<Member> waiting_;
  std::vector<Member> running_;  // in the order of admission
  std::vector<SimulatedGpu> gpus_;
  std::optional<Step> step_;
  Nanoseconds free_at_;
  std::uint64_t steps_begun_ = 0;
  std::int64_t kv_tokens_ = 0;
  std::int64_t preemptions_ = 0;
  std::int64_t most_running_ = 0;
};

struct StepsRun {
  std::vector<SimulatedAnswer> answers;  // those that never fit have no tokens
  std::vector<Step> steps;
  std::int64_t preemptions = 0;
};
// A run in which requests arrive at the given times, in ascending order, request i with index i.
// Faults of the script are left out.
StepsRun simulate_steps(const MockScript& script, std::span<const Arrival> arrivals);

}  // namespace nibble::mock
