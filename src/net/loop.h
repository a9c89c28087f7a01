// Event loops: a few threads that run thousands of coroutines, and how well they keep time.
//
//   Loops loops(loops_for(streams));
//   loops.spawn(0, [&]() -> boost::asio::awaitable<void> { co_await sleep_for(kMillisecond); });
//   const LoopAudit audit = loops.audit(0);   // how late the loop was, what it cost
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/result.h"

namespace nibble::net {

// How late a loop's probe, a timer each 10 ms, fired: what any event of that loop may have waited.
struct LoopAudit {
  std::uint64_t ticks = 0;
  Nanoseconds lag_p50 = 0;  // to 1/16 of the value, rounded up
  Nanoseconds lag_p99 = 0;
  Nanoseconds lag_max = 0;
  Nanoseconds wall = 0;  // since the start or the last reset_audit()
  Nanoseconds cpu = 0;   // of the loop's thread in that time
};

// One loop for 256 streams, which at 100 events a second each take 40 % of a core in a client and
// 66 % in a server (bench/net_stream 256 10); beyond them as many as there are cores, at most four.
std::size_t loops_for(std::size_t streams);

// Raises this process's limit of open files so that `count` are possible, or says what to do.
Result<> allow_descriptors(std::size_t count);

// Each loop is one thread; what is spawned on a loop stays on it, so that things of one loop need
// no locks. spawn, run, audit and stop are called from any thread but stop and run from outside.
class Loops {
 public:
  using Task = std::function<boost::asio::awaitable<void>()>;
  struct Loop;

  explicit Loops(std::size_t count = 1);
  ~Loops();  // stop()
  Loops(const Loops&) = delete;
  Loops& operator=(const Loops&) = delete;

  std::size_t size() const;
  boost::asio::any_io_executor executor(std::size_t loop) const;

  // Starts a task; the function lives as long as its coroutine. A task must not throw.
  void spawn(std::size_t loop, Task task);
  // Starts a task and waits for its end; false when stop() came first.
  bool run(std::size_t loop, Task task);

  // Ends the threads; coroutines that have not ended are destroyed where they wait, on the calling
  // thread. Harmless when called again.
  void stop();

  LoopAudit audit(std::size_t loop) const;
  void reset_audit();

  // For this room: what sockets need to outlive, whoever is destroyed first.
  const std::shared_ptr<Loop>& share(std::size_t loop) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Within a coroutine: waits until the clock (base/clock.h) shows `time`, to some 0.1 ms on an idle
// loop; never spins.
boost::asio::awaitable<void> sleep_until(Nanoseconds time);
boost::asio::awaitable<void> sleep_for(Nanoseconds span);

// Lets coroutines of one loop wait for something that another coroutine of that loop does. Check
// the condition in a loop around wait(): notify_all() wakes those who wait at that moment.
class Event {
 public:
  explicit Event(boost::asio::any_io_executor executor);
  ~Event();
  Event(Event&&) noexcept;
  Event& operator=(Event&&) noexcept;

  boost::asio::awaitable<void> wait();
  // False: the time came first.
  boost::asio::awaitable<bool> wait_until(Nanoseconds time);
  void notify_all();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace nibble::net
