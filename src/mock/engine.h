// When every token of every answer is due: pure arithmetic of a script, without clock or socket.
// Due times are absolute; nothing that happens late moves what comes after it.
//
//   const RequestPlan plan = plan_request(script, index, {.prompt_tokens = 512, .max_tokens = 64});
//   ChunkSchedule chunks(script, plan, start);           // start: arrival, or when a slot was free
//   while (const auto chunk = chunks.next(load_factor(script, running, now))) use(chunk->due);
//   const auto answers = simulate(script, arrivals);     // a whole run, queue and load included
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "mock/script.h"

namespace nibble::mock {

// Far beyond every run (120 years), and far from what an integer holds.
inline constexpr Nanoseconds kEndOfTime = 4'000'000'000'000'000'000;

// What a request asks for, as far as it matters for times.
struct Asked {
  std::int64_t prompt_tokens = 0;
  std::optional<std::int64_t> max_tokens = std::nullopt;
};

// All that is drawn for a request when it arrives: a function of script, index and request.
struct RequestPlan {
  std::uint64_t index = 0;
  std::int64_t output_tokens = 1;     // that would come, were there no fault
  std::int64_t reasoning_tokens = 0;  // the first of them
  bool ended_early = false;           // finish_reason "stop", else "length"
  Nanoseconds ttft = 0;               // from the start to the first token
  double slow = 1;                    // factor of a slow start; ttft has it already
  const Fault* fault = nullptr;       // of the script that was given
};
RequestPlan plan_request(const MockScript& script, std::uint64_t index, const Asked& asked);

// Of a prompt, the tokens that are said to come from the prefix cache.
std::int64_t cached_prompt_tokens(const MockScript& script, std::int64_t prompt_tokens);

// The factor on ITL while `running` requests run (at least this one), `since_start` after the
// server's start.
double load_factor(const MockScript& script, std::int64_t running, Nanoseconds since_start);

// Tokens [first, first + tokens) of an answer.
struct Chunk {
  std::int64_t first = 0;
  std::int64_t tokens = 0;
  Nanoseconds due = 0;
  bool last = false;  // of the answer
};

// The chunks of one answer in their order. A chunk never spans the end of the reasoning, nor the
// token after which a fault strikes.
class ChunkSchedule {
 public:
  ChunkSchedule(const MockScript& script, const RequestPlan& plan, Nanoseconds start);

  // `factor` is load_factor() at the time of the chunk before; the first chunk ignores it.
  // nullopt: the answer is complete, or its fault strikes now (struck()).
  std::optional<Chunk> next(double factor);
  std::int64_t given() const { return given_; }
  Nanoseconds due() const { return due_; }  // of the last chunk given; before the first, the start
  bool struck() const;                      // the fault's after_tokens tokens have been given
  // A hang that ends moves all that comes after it.
  void delay(Nanoseconds span) { due_ += span; }
  void fault_is_over() { fault_over_ = true; }

 private:
  std::int64_t size_of_next();

  const MockScript& script_;
  RequestPlan plan_;
  Random itl_;
  Random sizes_;
  std::int64_t given_ = 0;
  std::uint64_t chunks_ = 0;
  Nanoseconds due_ = 0;
  bool fault_over_ = false;
};

// Who runs and who waits: at most `capacity` run (0: all), the others wait first in, first out.
class Slots {
 public:
  explicit Slots(std::int64_t capacity) : capacity_(capacity) {}

  struct Start {
    std::uint64_t id = 0;
    Nanoseconds at = 0;
  };
  // The start, when it need not wait. `id` is any number that no other request has.
  std::optional<Start> arrive(std::uint64_t id, Nanoseconds at);
  // One that runs has ended at `at`; gives who starts now, which is never before it arrived.
  std::optional<Start> leave(Nanoseconds at);
  // One that waits goes away; false when it does not wait (any more).
  bool abandon(std::uint64_t id);

  std::int64_t running() const { return running_; }
  std::int64_t waiting() const { return static_cast<std::int64_t>(waiting_.size()); }

 private:
  std::int64_t capacity_;
  std::int64_t running_ = 0;
  std::deque<Start> waiting_;  // with their arrivals
};

struct Arrival {
  Nanoseconds at = 0;
  Asked asked = {};
};
struct SimulatedAnswer {
  Nanoseconds start = 0;  // its slot was free
  std::vector<Chunk> chunks;
  Nanoseconds end = 0;  // it left its slot
  bool hangs = false;   // for ever: it never leaves
};
// A run in which requests arrive at the given times, in ascending order, request i with index i.
// Faults that end an answer before its last token end it there. The server starts at 0. A script
// with steps has no due times of its own: step_engine.h.
std::vector<SimulatedAnswer> simulate(const MockScript& script, std::span<const Arrival> arrivals);

}  // namespace nibble::mock
