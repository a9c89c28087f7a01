// What one event loop keeps during a level: its client, what is in flight, what has come.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "drive/send.h"
#include "net/http_client.h"
#include "net/loop.h"

namespace nibble::drive {

// Belongs to its loop: only the atomics are read by others while the level runs, the rest when it
// has ended.
struct Lane {
  Lane(const net::Loops& loops, std::size_t index, net::HttpClient http)
      : loop(index), client(std::move(http)), slot_free(loops.executor(index)) {}

  std::size_t loop;
  net::HttpClient client;
  net::Event slot_free;  // a request of this lane has ended
  Tally tally;
  std::atomic<std::int64_t> in_flight = 0;
  std::atomic<std::int64_t> done = 0;  // ended, whatever became of them
  std::atomic<std::int64_t> failed = 0;
  std::int64_t late = 0;       // sent more than 1 ms behind their schedule
  Nanoseconds first_sent = 0;  // 0: none yet
  Nanoseconds last_end = 0;
  // Requests in flight, integrated over time, without what they waited for a connection.
  Nanoseconds flight = 0;
  Nanoseconds changed = 0;

  // Forgets the level before.
  void reset() {
    in_flight = done = failed = 0;
    tally.tokens = tally.events = 0;
    late = 0;
    first_sent = last_end = flight = changed = 0;
  }

  void enter(Nanoseconds now) { change(now, 1); }

  void leave(const Sent& sent, Nanoseconds now) {
    change(now, -1);
    const load::RequestRecord& record = sent.record;
    const Nanoseconds on_wire = record.sent != 0 ? record.sent : now;
    flight -= on_wire - sent.start;
    if (record.sent != 0) {
      first_sent = first_sent == 0 ? record.sent : std::min(first_sent, record.sent);
      const Nanoseconds waited = record.sent - record.scheduled - record.connect_time;
      if (waited > kLate) ++late;
    }
    last_end = std::max(last_end, record.end);
    done.store(done.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    slot_free.notify_all();
  }

 private:
  static constexpr Nanoseconds kLate = 1'000'000;

  void change(Nanoseconds now, std::int64_t by) {
    const std::int64_t before = in_flight.load(std::memory_order_relaxed);
    flight += before * (now - changed);
    changed = now;
    in_flight.store(before + by, std::memory_order_relaxed);
  }
};

}  // namespace nibble::drive
