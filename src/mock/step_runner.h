// The engine of steps while it serves: it moves with the clock, tells requests of their tokens and
// lets the GPUs' sensors be read.
//
//   loops.spawn(0, [&] { return runner.drive(pump, executor); });
//   const std::shared_ptr<StepTicket> ticket = runner.arrive(request, pump, executor);
//   while (!runner.take(*ticket)) co_await pump.until_woken(later, ticket->id());
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "mock/counters.h"
#include "mock/gpu_telemetry.h"
#include "mock/pump.h"
#include "mock/step_engine.h"

namespace nibble::mock {

// A request in the engine; its parts are the runner's own.
class StepTicket {
 public:
  std::uint64_t id() const { return id_; }

 private:
  friend class StepRunner;
  std::uint64_t id_ = 0;
  Pump* pump_ = nullptr;
  boost::asio::any_io_executor executor_;
  Nanoseconds start_ = 0;
  std::deque<Nanoseconds> due_;  // of tokens that have not been taken
};

// A token that may leave now.
struct DueToken {
  Nanoseconds due = 0;
  Nanoseconds start = 0;  // of the request's first step
};

class StepRunner {
 public:
  // All given must outlive the runner.
  StepRunner(const MockScript& script, Counters& counters, Nanoseconds started_at);

  // Moves the engine until the pump stops. Once, before anything arrives.
  boost::asio::awaitable<void> drive(Pump& pump, boost::asio::any_io_executor executor);

  // The waiter at `pump` with the ticket's id as key is woken for each token. Null: the request
  // could never fit into the cache. `id` and `at` of the request are set here.
  std::shared_ptr<StepTicket> arrive(StepRequest request, Nanoseconds at, Pump& pump,
                                     boost::asio::any_io_executor executor);
  std::optional<DueToken> take(StepTicket& ticket);
  // Harmless when its request has ended.
  void leave(const StepTicket& ticket);

  StepCounts counts() const;
  std::uint64_t steps() const;
  // Requests that run, or have run and not left: their last token is on its way.
  std::int64_t in_service() const;
  // Share of the last second, or of the time since the start, in which steps ran.
  double busy_share(Nanoseconds now) const;
  const std::shared_ptr<telemetry::SampleStore>& store() const { return telemetry_.store(); }

 private:
  struct Span {
    Nanoseconds start = 0;
    Nanoseconds end = 0;
  };
  Nanoseconds move(Pump& pump, Nanoseconds now);
  void account(const Step& step);
  void deliver(Pump& pump, const Step& step);

  Counters& counters_;
  const Nanoseconds started_at_;

  mutable std::mutex mutex_;
  StepEngine engine_;
  GpuTelemetry telemetry_;
  Nanoseconds next_sample_;
  std::unordered_map<std::uint64_t, std::shared_ptr<StepTicket>> tickets_;
  std::uint64_t next_id_ = 1;
  std::deque<Span> busy_;  // of the last second
  std::uint64_t steps_ = 0;
  Pump* driver_pump_ = nullptr;
  boost::asio::any_io_executor driver_executor_;
};

}  // namespace nibble::mock
