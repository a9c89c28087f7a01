// Where samples are kept: all signals of a run with their points, from many threads, for as long as
// a window may ask for them.
//
//   SampleStore store;
//   const SignalId power = store.declare({.name = "gpu0.power", .unit = "W", .high = 3000});
//   store.add(power, monotonic_now(), 445.0);
//   const std::vector<Point> points = store.points(power, t0, t1);
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "telemetry/signal.h"

namespace nibble::telemetry {

// What became of a signal's values so far.
struct SignalState {
  Signal signal;
  std::uint64_t kept = 0;
  std::uint64_t dropped = 0;  // implausible, or older than the last one
  std::string dropped_why;    // of the last one dropped
  std::optional<Point> latest;
};

class SampleStore {
 public:
  // Points older than `retention` before the newest of their signal are forgotten.
  explicit SampleStore(Nanoseconds retention = kDefaultRetention) : retention_(retention) {}

  // Declares a signal, or finds the one of that name, whose description is then replaced.
  SignalId declare(Signal signal);
  // The reason replaces an earlier one; a value that comes makes the signal available again.
  void set_unavailable(SignalId id, std::string_view reason);
  // False: the value was dropped.
  bool add(SignalId id, Nanoseconds at, double value);

  std::optional<SignalId> find(std::string_view name) const;
  std::size_t size() const;
  SignalState state(SignalId id) const;
  std::vector<SignalState> states() const;  // by id
  // The points of [t0, t1], and with `margin` also the last before and the first after.
  std::vector<Point> points(SignalId id, Nanoseconds t0, Nanoseconds t1, bool margin = false) const;

  // What is called with every value that is kept, and with every change of a description: a file or
  // a stream. Called under the store's lock, so that it must be quick and must not call back.
  using ValueSink = std::function<void(SignalId, const Point&)>;
  using SignalSink = std::function<void(SignalId, const Signal&)>;
  // All signals are described to the sink at once. The number is for unsubscribe().
  int subscribe(SignalSink on_signal, ValueSink on_value);
  void unsubscribe(int subscription);

  static constexpr Nanoseconds kDefaultRetention = 3600LL * 1'000'000'000;

 private:
  struct Entry {
    SignalState state;
    std::deque<Point> points;
  };
  struct Subscriber {
    SignalSink on_signal;
    ValueSink on_value;
  };
  void tell(SignalId id) const;
  bool drop(Entry& entry, std::string why);

  mutable std::mutex mutex_;
  Nanoseconds retention_;
  std::vector<Entry> entries_;
  std::map<std::string, SignalId, std::less<>> ids_;
  std::map<int, Subscriber> subscribers_;
  int next_subscriber_ = 0;
};

}  // namespace nibble::telemetry
