#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <pthread.h>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/expert_load.h"
#include "engine/options.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "machine/probe.h"

namespace nibble::engine {
namespace {

// How long the thread waits at a time when it has nothing to do: its sign of life is never older
// than this and a step.
constexpr auto kLongestWait = std::chrono::milliseconds(100);

struct Arrival {
  std::uint64_t id = 0;
  EngineRequest request;
  Sink sink;
};

}  // namespace

// What other threads share with the engine's: all that may be touched under the mutex alone.
struct Ticket::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Arrival> arrivals;
  std::vector<std::uint64_t> cancelled;
  std::uint64_t last_id = 0;
  std::optional<Nanoseconds> stop_at;  // set: nothing more is taken
  EngineState state;
};

Ticket::~Ticket() {
  if (!shared_) return;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->cancelled.push_back(id_);
  }
  shared_->changed.notify_one();
}

Ticket::Ticket(Ticket&& other) noexcept : shared_(std::move(other.shared_)), id_(other.id_) {}

Ticket& Ticket::operator=(Ticket&& other) noexcept {
  Ticket moved(std::move(other));
  std::swap(shared_, moved.shared_);
  std::swap(id_, moved.id_);
  return *this;  // what this one held is dropped with `moved`
}

struct Engine::Impl {
  Impl(std::unique_ptr<Model> the_model, const EngineOptions& the_options);

  void run();
  // The mail since the last call, after a wait when there is neither mail nor work. False: the end.
  bool take_mail();
  void cancel(const std::vector<std::uint64_t>& ids);
  void cancel_all();
  void step(ThreadPool& pool);
  void sample(const StepPlan& plan, ThreadPool& pool);
  void deliver(std::vector<StepResult> results, Nanoseconds now);
  void check_when_idle();
  void publish_state(Nanoseconds now);

  const std::unique_ptr<Model> model;
  const EngineOptions options;
  const std::shared_ptr<Ticket::Shared> shared = std::make_shared<Ticket::Shared>();

  // Of the engine's thread alone.
  BlockPool blocks;
  Scheduler scheduler;
  std::vector<Sampler> samplers;  // one a thread of the pool
  std::vector<float> logits;      // [max_running_requests, vocabulary]
  std::vector<std::optional<OutputToken>> sampled;
  std::unordered_map<std::uint64_t, Sink> sinks;
  std::vector<Arrival> arrivals;
  std::vector<std::uint64_t> cancelled;
  ExpertLoad expert_load;
  EngineState state;
  bool checked = true;  // integrity, since the last step

  std::mutex joining;
  std::thread thread;
};

Engine::Impl::Impl(std::unique_ptr<Model> the_model, const EngineOptions& the_options)
    : model(std::move(the_model)),
      options(the_options),
      blocks({.blocks = options.kv_blocks,
              .block_tokens = options.block_tokens,
              .prefix_caching = options.prefix_caching}),
      scheduler({.max_running_requests = options.max_running_requests,
                 .max_num_batched_tokens = options.max_num_batched_tokens},
                blocks) {
  const std::int64_t vocabulary = model->info().vocabulary;
  logits.resize(static_cast<std::size_t>(options.max_running_requests * vocabulary));
  samplers.assign(static_cast<std::size_t>(options.threads), Sampler(vocabulary));
  state.blocks = options.kv_blocks;
  publish_state(monotonic_now());
}

void Engine::Impl::run() {
  static_cast<void>(::pthread_setname_np(::pthread_self(), "nibble-engine"));
  ThreadPool pool(options.threads);
  while (take_mail()) {
    if (!scheduler.empty()) step(pool);
    if (scheduler.empty()) check_when_idle();
    publish_state(monotonic_now());
    if (options.step_stall > 0 && !scheduler.empty()) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(options.step_stall));
    }
  }
  cancel_all();
  check_when_idle();
  publish_state(monotonic_now());
}

bool Engine::Impl::take_mail() {
  bool end = false;
  {
    std::unique_lock lock(shared->mutex);
    auto has_mail = [this] {
      return !shared->arrivals.empty() || !shared->cancelled.empty() || shared->stop_at;
    };
    if (scheduler.empty()) shared->changed.wait_for(lock, kLongestWait, has_mail);
    arrivals.swap(shared->arrivals);
    cancelled.swap(shared->cancelled);
    // Whoever asks meanwhile whether the queue is full counts those that have just left the mail.
    shared->state.waiting += static_cast<std::int64_t>(arrivals.size());
    if (shared->stop_at) {
      const bool idle = scheduler.empty() && arrivals.empty();
      end = idle || monotonic_now() >= *shared->stop_at;
    }
  }
  for (Arrival& arrival : arrivals) {
    scheduler.add(arrival.id, std::move(arrival.request));
    sinks.emplace(arrival.id, std::move(arrival.sink));
  }
  arrivals.clear();
  cancel(cancelled);
  cancelled.clear();
  return !end;
}

void Engine::Impl::cancel(const std::vector<std::uint64_t>& ids) {
  if (ids.empty()) return;
  std::vector<StepResult> results;
  for (const std::uint64_t id : ids) {
    std::optional<StepResult> result = scheduler.cancel(id);
    if (result) results.push_back(std::move(*result));
  }
  checked = false;
  deliver(std::move(results), monotonic_now());
}

void Engine::Impl::cancel_all() {
  std::vector<std::uint64_t> ids;
  ids.reserve(sinks.size());
  for (const auto& [id, sink] : sinks) ids.push_back(id);
  std::ranges::sort(ids);
  cancel(ids);
}

void Engine::Impl::step(ThreadPool& pool) {
  const Nanoseconds start = monotonic_now();
  const StepPlan plan = scheduler.plan();
  expert_load.step_begins(model->expert_tokens(), start);
  state.expert_load_ratio = expert_load.ratio();
  publish_state(start);  // who asks during the step finds running what it computes
  const auto values = static_cast<std::size_t>(plan.samples * model->info().vocabulary);
  model->forward(plan.batch(), std::span(logits).first(values), pool);
  sample(plan, pool);
  std::vector<StepResult> results = scheduler.complete(plan, sampled);

  const Nanoseconds now = monotonic_now();
  ++state.steps;
  state.step_time += now - start;
  checked = false;
  deliver(std::move(results), now);
}

// Each row by itself, whichever thread has time for it.
void Engine::Impl::sample(const StepPlan& plan, ThreadPool& pool) {
  std::vector<const Sequence*> sequences;
  for (const StepPlan::Part& part : plan.parts) {
    if (part.samples) sequences.push_back(part.sequence);
  }
  sampled.assign(sequences.size(), std::nullopt);
  const auto vocabulary = static_cast<std::size_t>(model->info().vocabulary);
  WorkQueue queue(plan.samples);
  pool.share([&](int worker) {
    while (const std::optional<std::int64_t> unit = queue.next()) {
      const auto row = static_cast<std::size_t>(*unit);
      const Sequence& sequence = *sequences[row];
      sampled[row] = samplers[static_cast<std::size_t>(worker)].sample(
          {.sampling = sequence.request.sampling,
           .prompt = sequence.prompt(),
           .output = sequence.output(),
           .forbidden = sequence.forbidden()},
          std::span(logits).subspan(row * vocabulary, vocabulary));
    }
  });
}

// The state first: whoever has got its last update finds it counted.
void Engine::Impl::deliver(std::vector<StepResult> results, Nanoseconds now) {
  for (const StepResult& result : results) {
    const std::optional<Finish> finish = result.update.finish;
    if (finish) ++state.finished[static_cast<std::size_t>(*finish)];
    if (finish == Finish::kFailed) ++state.nonfinite_logits;
  }
  publish_state(now);
  for (StepResult& result : results) {
    const auto at = sinks.find(result.id);
    NIBBLE_CHECK(at != sinks.end());
    result.update.at = now;
    const bool last = result.update.finish.has_value();
    at->second(std::move(result.update));
    if (last) sinks.erase(at);
  }
}

void Engine::Impl::check_when_idle() {
  if (checked) return;
  checked = true;
  const std::string fault = scheduler.check_integrity();
  if (state.fault.empty()) state.fault = fault;
}

void Engine::Impl::publish_state(Nanoseconds now) {
  const Scheduler::Counts& counts = scheduler.counts();
  state.running = scheduler.running();
  state.waiting = scheduler.waiting();
  state.blocks_in_use = blocks.in_use();
  state.prompt_tokens = counts.prompt_tokens;
  state.cached_prompt_tokens = counts.cached_prompt_tokens;
  state.generation_tokens = counts.generation_tokens;
  state.preemptions = counts.preemptions;
  state.last_sign_of_life = now;
  const std::lock_guard lock(shared->mutex);
  shared->state = state;
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Engine>> Engine::start(std::unique_ptr<Model> model, EngineOptions options) {
  NIBBLE_CHECK(model != nullptr);
  NIBBLE_ASSIGN_OR_RETURN(options, settle(options, model->info(), available_memory_bytes()));
  NIBBLE_RETURN_IF_ERROR(model->reserve({
      .blocks = options.kv_blocks,
      .block_tokens = options.block_tokens,
      .most_rows = options.max_num_batched_tokens,
      .most_logits = options.max_running_requests,
  }));
  auto impl = std::make_unique<Impl>(std::move(model), options);
  impl->thread = std::thread([&impl = *impl] { impl.run(); });
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Engine::~Engine() {
  stop();
}

Result<Ticket> Engine::submit(EngineRequest request, Sink sink) {
  NIBBLE_RETURN_IF_ERROR(admit(request, impl_->options, impl_->model->info()));
  Ticket::Shared& shared = *impl_->shared;
  Ticket ticket;
  {
    const std::lock_guard lock(shared.mutex);
    if (shared.stop_at) return run_error("the server is stopping and takes no more requests");
    const auto arrived = static_cast<std::int64_t>(shared.arrivals.size());
    const std::int64_t inside = shared.state.running + shared.state.waiting + arrived;
    const EngineOptions& options = impl_->options;
    if (inside >= options.max_running_requests + options.max_queued_requests) {
      return run_error(
          "{} requests run or wait already (max_queued_requests is {}); try again later", inside,
          options.max_queued_requests);
    }
    ticket.id_ = ++shared.last_id;
    ticket.shared_ = impl_->shared;
    shared.arrivals.push_back({ticket.id_, std::move(request), std::move(sink)});
  }
  shared.changed.notify_one();
  return ticket;
}

const EngineOptions& Engine::options() const {
  return impl_->options;
}

const ModelInfo& Engine::model() const {
  return impl_->model->info();
}

EngineState Engine::state() const {
  const std::lock_guard lock(impl_->shared->mutex);
  EngineState state = impl_->shared->state;
  state.waiting += static_cast<std::int64_t>(impl_->shared->arrivals.size());
  return state;
}

void Engine::stop(Nanoseconds grace) {
  {
    const std::lock_guard lock(impl_->shared->mutex);
    std::optional<Nanoseconds>& stop_at = impl_->shared->stop_at;
    const Nanoseconds now = monotonic_now();
    constexpr Nanoseconds kYear = 31'536'000'000'000'000;
    const Nanoseconds asked = now + std::clamp<Nanoseconds>(grace, 0, kYear);
    stop_at = std::min(asked, stop_at.value_or(asked));
  }
  impl_->shared->changed.notify_one();
  const std::lock_guard lock(impl_->joining);
  if (impl_->thread.joinable()) impl_->thread.join();
}

}  // namespace nibble::engine
