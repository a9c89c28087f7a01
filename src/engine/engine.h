// The engine: one thread that batches requests continuously and steps a model.
//
//   NIBBLE_ASSIGN_OR_RETURN(auto engine, Engine::start(std::move(model), options));
//   NIBBLE_ASSIGN_OR_RETURN(Ticket ticket, engine->submit(std::move(request), sink));
//   ...                       // sink gets updates until one has `finish`
//   ticket = {};              // dropping it cancels what has not ended
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "engine/model.h"
#include "engine/request.h"

namespace nibble::engine {

// All of it is printed at the start and served at /server_info, under these names.
struct EngineOptions {
  std::int64_t max_running_requests = 64;
  std::int64_t max_num_batched_tokens = 256;  // rows of one step
  std::int64_t max_queued_requests = 1024;    // beside max_running_requests; more are refused
  std::int64_t max_model_len = 0;             // tokens, prompt and output; 0: the model's own
  std::int64_t kv_blocks = 0;                 // 0: as many as max_running_requests of 1024 tokens
                                              // or one of max_model_len tokens need, within half
                                              // of the memory that is free
  std::int64_t block_tokens = 16;
  bool prefix_caching = true;
  int threads = 0;             // 0: as many as there are processors for this program
  Nanoseconds step_stall = 0;  // a fault on purpose: the thread sleeps so long between two steps
};

// A moment of the engine: requests and blocks as its last step found them when it began or left
// them when it ended, counts as of that end. Any thread may ask.
struct EngineState {
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t blocks = 0;         // of the pool
  std::int64_t blocks_in_use = 0;  // held by requests; cached ones that nobody holds are free
  std::int64_t steps = 0;
  std::int64_t prompt_tokens = 0;         // since the start, as are those below
  std::int64_t cached_prompt_tokens = 0;  // of them, found in the prefix cache
  std::int64_t generation_tokens = 0;
  std::int64_t preemptions = 0;
  std::int64_t finished[4] = {};      // by Finish
  std::int64_t nonfinite_logits = 0;  // rows
  Nanoseconds step_time = 0;          // spent in steps
  // Tokens of the busiest expert over the mean of all, mean over layers, in the last second with
  // steps; nullopt: none has passed yet, or the model has no experts.
  std::optional<double> expert_load_ratio;
  Nanoseconds last_sign_of_life = 0;  // the end of a step, or of a wait of at most 100 ms
  std::string fault;                  // what the integrity check found; empty: nothing
};

class Engine;

// Dropping it cancels the request. Move-only; any thread.
class Ticket {
 public:
  Ticket() = default;
  ~Ticket();
  Ticket(Ticket&& other) noexcept;
  Ticket& operator=(Ticket&& other) noexcept;

 private:
  friend class Engine;
  struct Shared;
  std::shared_ptr<Shared> shared_;  // outlives the engine
  std::uint64_t id_ = 0;
};

class Engine {
 public:
  // Reserves the model's memory and starts the thread. Input errors for options that do not fit.
  static Result<std::unique_ptr<Engine>> start(std::unique_ptr<Model> model, EngineOptions options);
  ~Engine();  // stop()

  // kInput: can never be served (empty prompt, longer than max_model_len or than the whole pool,
  // parameters out of range), with the numbers; the sentence begins with the name of the field as
  // the API has it: prompt, max_tokens, min_tokens, stop_token_ids, temperature, top_k, top_p,
  // min_p, presence_penalty, frequency_penalty, repetition_penalty, logit_bias or logprobs. kRun:
  // the queue is full, or the engine stops. Never blocks. max_tokens is cut to what the prompt
  // leaves of the limits. A prompt needs room for one token of output: max_model_len - 1 tokens at
  // most.
  Result<Ticket> submit(EngineRequest request, Sink sink);

  const EngineOptions& options() const;  // with every 0 replaced by what it stands for
  const ModelInfo& model() const;
  EngineState state() const;

  // Takes nothing more, lets what runs end for up to `grace`, cancels the rest. From any thread
  // but the engine's; harmless when called again.
  void stop(Nanoseconds grace = 0);

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::engine
