// What a loop is made of, for the files of this room that open sockets.
//
//   asio::post(loop->context, [] { ... });
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <mutex>
#include <optional>
#include <thread>

#include "base/histogram.h"
#include "net/loop.h"

namespace nibble::net {

namespace asio = boost::asio;

inline std::chrono::steady_clock::time_point time_point_of(Nanoseconds time) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(time));
}

// An io_context whose waiting coroutines can be destroyed while its sockets are still to be closed.
class LoopContext : public asio::io_context {
 public:
  LoopContext() : asio::io_context(1) {}
  void destroy_waiting() { asio::execution_context::shutdown(); }
};

struct Loops::Loop {
  Loop();

  void start();
  void run();  // the thread
  void probe();
  void tick();
  LoopAudit audit() const;
  void reset_audit();
  Nanoseconds thread_cpu() const;

  LoopContext context;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  asio::steady_timer timer;
  Nanoseconds expected = 0;  // when the timer should fire
  std::thread thread;
  std::atomic<bool> stopped = false;

  mutable std::mutex mutex;  // of what audit() reads
  LogHistogram lag;
  Nanoseconds wall_start = 0;
  Nanoseconds cpu_start = 0;
  std::optional<Nanoseconds> cpu_at_end;  // a thread that has ended has no clock
};

}  // namespace nibble::net
