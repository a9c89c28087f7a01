// The exchanges of a client that are under way, and what ends them from outside: a deadline or
// cancel_all().
//
//   Run run;
//   const RunningSet::Entry entry(running, run);
//   run.expect(monotonic_now(), timeouts.idle, NetFault::kIdleTimeout);
#pragma once

#include <memory>
#include <string_view>

#include "net/exchange.h"
#include "net/loop_state.h"
#include "net/stream.h"

namespace nibble::net {

// One exchange. Its deadline is a number, not a timer, because it moves with every read: a sweep
// over all exchanges each 10 ms looks at it, so that a timeout is up to 10 ms late.
struct Run {
  Stream* stream = nullptr;  // what it reads from now
  Event* event = nullptr;    // what it waits for now
  NetFault interrupted = NetFault::kNone;
  Nanoseconds deadline = 0;  // 0: none
  NetFault on_deadline = NetFault::kNone;
  Nanoseconds last = 0;  // of the exchange as a whole; 0: none
  std::size_t index = 0;

  // `time` and `span` 0: for as long as it takes.
  void expect_by(Nanoseconds time, NetFault fault) {
    deadline = time;
    on_deadline = fault;
  }
  void expect(Nanoseconds from, Nanoseconds span, NetFault fault) {
    expect_by(span == 0 ? 0 : from + span, fault);
  }
  void limit(Nanoseconds from, Nanoseconds span) { last = span == 0 ? 0 : from + span; }
  void interrupt(NetFault fault);  // its read or wait ends now
};

class RunningSet {
 public:
  explicit RunningSet(std::shared_ptr<Loops::Loop> loop);

  class Entry {
   public:
    Entry(RunningSet& set, Run& run);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    RunningSet& set_;
    Run& run_;
  };

  void interrupt_all(NetFault fault);
  asio::io_context& context() const;
  bool on_loop() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

std::string_view sentence_of(NetFault interrupted);  // of a timeout or a cancellation

}  // namespace nibble::net
