// What a loop is made of, for the files of this room that open sockets.
//
//   asio::post(loop->context, [] { ... });
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <mutex>
#include <thread>

#include "net/loop.h"

namespace nibble::net {

namespace asio = boost::asio;

inline std::chrono::steady_clock::time_point time_point_of(Nanoseconds time) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(time));
}

// Counts of spans in buckets of 1/16 of their value: fixed in size, exact at the maximum.
class LagHistogram {
 public:
  void add(Nanoseconds span);
  std::uint64_t count() const { return count_; }
  Nanoseconds maximum() const { return maximum_; }
  Nanoseconds quantile(double q) const;  // upper end of its bucket; 0 without samples

 private:
  static constexpr int kSubBits = 4;
  static constexpr std::size_t kBuckets = (64 - kSubBits + 1) << kSubBits;
  static std::size_t bucket_of(Nanoseconds span);
  static Nanoseconds upper_end(std::size_t bucket);

  std::array<std::uint64_t, kBuckets> counts_ = {};
  std::uint64_t count_ = 0;
  Nanoseconds maximum_ = 0;
};

// An io_context whose waiting coroutines can be destroyed while its sockets are still to be closed.
class LoopContext : public asio::io_context {
 public:
  LoopContext() : asio::io_context(1) {}
  void destroy_waiting() { asio::execution_context::shutdown(); }
};

struct Loops::Loop {
  Loop();

  void start();
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
  LagHistogram lag;
  Nanoseconds wall_start = 0;
  Nanoseconds cpu_start = 0;
  Nanoseconds cpu_at_stop = 0;
};

}  // namespace nibble::net
