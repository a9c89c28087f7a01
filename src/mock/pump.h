// Waits of thousands of streams on one loop, with one timer: whatever is due within 50 us of each
// other wakes together, so that a burst of tokens costs one wake of the thread and not one each.
//
//   const bool on_time = co_await pump.until(due);   // false: the server stops
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace nibble::mock {

// Used on its loop only.
class Pump {
 public:
  explicit Pump(boost::asio::any_io_executor executor);
  Pump(const Pump&) = delete;
  Pump& operator=(const Pump&) = delete;

  // Resumes the caller at `due`, at most kTogether before it. False: stop() was called.
  boost::asio::awaitable<bool> until(Nanoseconds due) { return wait(due, 0); }
  // The same, and ended early by wake(key); keys are of one waiter at a time and not 0.
  boost::asio::awaitable<bool> until_woken(Nanoseconds due, std::uint64_t key) {
    return wait(due, key);
  }
  void wake(std::uint64_t key);
  // The same for many; `keys` ascend.
  void wake_all(std::span<const std::uint64_t> keys);

  // What is due within so much of each other leaves together: 50 us are a quarter of the precision
  // that the mock promises.
  static constexpr Nanoseconds kTogether = 50'000;

  // Ends all waits, and every later one at once.
  void stop();

 private:
  // Less than kTogether, so that what the timer was set for is due when it fires exactly.
  static constexpr Nanoseconds kMostLead = 45'000;
  static constexpr Nanoseconds kLeadMemory = 16;  // firings that the lead is a mean of

  // A suspended coroutine, whatever its type.
  struct Waiter {
    virtual ~Waiter() = default;
    virtual void resume(bool on_time) = 0;
  };
  template <class Handler>
  struct WaiterOf final : Waiter {
    explicit WaiterOf(Handler given) : handler(std::move(given)) {}
    void resume(bool on_time) override { std::move(handler)(on_time); }
    Handler handler;
  };
  struct Entry {
    Nanoseconds due = 0;
    std::uint64_t order = 0;  // those due together resume in the order in which they came
    std::uint64_t key = 0;
    std::unique_ptr<Waiter> waiter;
  };
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const {
      return a.due != b.due ? a.due > b.due : a.order > b.order;
    }
  };

  boost::asio::awaitable<bool> wait(Nanoseconds due, std::uint64_t key) {
    return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void(bool)>(
        [this, due, key](auto handler) {
          using Handler = decltype(handler);
          add(due, key, std::make_unique<WaiterOf<Handler>>(std::move(handler)));
        },
        boost::asio::use_awaitable);
  }

  void add(Nanoseconds due, std::uint64_t key, std::unique_ptr<Waiter> waiter);
  void arm();
  void run_due();
  Entry take_first();

  boost::asio::steady_timer timer_;
  std::vector<Entry> heap_;
  std::uint64_t order_ = 0;
  Nanoseconds armed_for_ = 0;  // 0: not armed
  Nanoseconds lead_ = 0;       // how late the timer fires
  bool running_ = false;       // run_due() arms once it is through
  bool stopped_ = false;
};

}  // namespace nibble::mock
