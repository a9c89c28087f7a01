// What the answers of one mock share, whichever loop they run on.
//
//   Shared& shared = ...;
//   const std::shared_ptr<QueueTicket> ticket = shared.arrive(request.received_at, executor);
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "mock/counters.h"
#include "mock/engine.h"
#include "mock/mock.h"
#include "mock/pump.h"
#include "mock/step_runner.h"

namespace nibble::mock {

// The place of a request in the queue. `start` is written once, before the waiter is woken.
struct QueueTicket {
  std::uint64_t id = 0;
  std::atomic<Nanoseconds> start = 0;  // 0: it waits
  Pump* pump = nullptr;
  boost::asio::any_io_executor executor;
};

class Shared {
 public:
  Shared(MockScript given_script, MockOptions given_options);
  ~Shared();
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  const MockScript script;
  const MockOptions options;
  const Nanoseconds started_at;
  Counters counters;
  WriteErrors error;
  std::function<void(Nanoseconds)> refuse;  // closes the listener for so long
  // Where the script has steps, in place of arrive(), leave() and abandon().
  const std::unique_ptr<StepRunner> runner;

  // The pump of the calling loop.
  Pump& pump() const;
  void add_pump(std::thread::id thread, boost::asio::any_io_executor executor);
  void stop_pumps();   // posts to every loop
  void clear_pumps();  // once the loops stand

  std::uint64_t next_index() { return requests_.fetch_add(1); }
  // A ticket with a start, or one that waits and is woken.
  std::shared_ptr<QueueTicket> arrive(Nanoseconds at, boost::asio::any_io_executor executor);
  void leave(Nanoseconds at);
  // The waiter has gone; true: it had not started, and holds no slot.
  bool abandon(const QueueTicket& ticket);
  std::int64_t running() const { return running_.load(std::memory_order_relaxed); }
  Occupancy occupancy() const;

  bool keeps_truths() const { return options.keep_truths || !options.truth_file.empty(); }
  void record(const RequestTruth& truth);
  std::vector<RequestTruth> take_truths();
  Result<> open_truth_file();
  Result<> close_truth_file();
  MockStats stats() const;
  double generation_rate();  // tokens a second since the last call

 private:
  struct LoopPump {
    std::thread::id thread;
    boost::asio::any_io_executor executor;
    std::unique_ptr<Pump> pump;
  };

  std::vector<LoopPump> pumps_;
  std::atomic<std::uint64_t> requests_ = 0;
  std::atomic<std::int64_t> running_ = 0;
  std::atomic<std::int64_t> most_running_ = 0;

  mutable std::mutex queue_mutex_;
  Slots slots_;
  std::unordered_map<std::uint64_t, std::shared_ptr<QueueTicket>> waiting_;
  std::uint64_t next_ticket_ = 1;

  std::mutex truth_mutex_;
  std::vector<RequestTruth> truths_;
  std::FILE* truth_file_ = nullptr;
  std::optional<Error> truth_fault_;

  std::mutex rate_mutex_;
  Nanoseconds rate_time_ = 0;
  std::int64_t rate_tokens_ = 0;
};

}  // namespace nibble::mock
