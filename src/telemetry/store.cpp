#include "telemetry/store.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/units.h"

namespace nibble::telemetry {

SignalId SampleStore::declare(Signal signal) {
  const std::lock_guard lock(mutex_);
  const auto found = ids_.find(signal.name);
  if (found != ids_.end()) {
    entries_[found->second].state.signal = std::move(signal);
    tell(found->second);
    return found->second;
  }
  const auto id = static_cast<SignalId>(entries_.size());
  ids_.emplace(signal.name, id);
  entries_.emplace_back().state.signal = std::move(signal);
  tell(id);
  return id;
}

void SampleStore::set_unavailable(SignalId id, std::string_view reason) {
  const std::lock_guard lock(mutex_);
  NIBBLE_CHECK(id < entries_.size());
  Signal& signal = entries_[id].state.signal;
  if (!signal.available && signal.reason == reason) return;
  signal.available = false;
  signal.reason = reason;
  tell(id);
}

bool SampleStore::drop(Entry& entry, std::string why) {
  ++entry.state.dropped;
  entry.state.dropped_why = std::move(why);
  return false;
}

bool SampleStore::add(SignalId id, Nanoseconds at, double value) {
  const std::lock_guard lock(mutex_);
  NIBBLE_CHECK(id < entries_.size());
  Entry& entry = entries_[id];
  Signal& signal = entry.state.signal;
  if (!std::isfinite(value)) return drop(entry, "not a finite number");
  if (value < signal.low || value > signal.high) {
    return drop(entry,
                fmt::format("{} is outside of {} to {} {}", format_number(value),
                            format_number(signal.low), format_number(signal.high), signal.unit));
  }
  if (!entry.points.empty() && at < entry.points.back().at) {
    return drop(entry, "older than the sample before it");
  }
  const Point point{at, value};
  entry.points.push_back(point);
  ++entry.state.kept;
  entry.state.latest = point;
  while (entry.points.front().at < at - retention_) entry.points.pop_front();
  if (!signal.available) {
    signal.available = true;
    signal.reason.clear();
    tell(id);
  }
  for (const auto& [number, subscriber] : subscribers_) subscriber.on_value(id, point);
  return true;
}

std::optional<SignalId> SampleStore::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = ids_.find(name);
  return found == ids_.end() ? std::nullopt : std::optional<SignalId>(found->second);
}

std::size_t SampleStore::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

SignalState SampleStore::state(SignalId id) const {
  const std::lock_guard lock(mutex_);
  NIBBLE_CHECK(id < entries_.size());
  return entries_[id].state;
}

std::vector<SignalState> SampleStore::states() const {
  const std::lock_guard lock(mutex_);
  std::vector<SignalState> states;
  states.reserve(entries_.size());
  for (const Entry& entry : entries_) states.push_back(entry.state);
  return states;
}

std::vector<Point> SampleStore::points(SignalId id, Nanoseconds t0, Nanoseconds t1,
                                       bool margin) const {
  const std::lock_guard lock(mutex_);
  NIBBLE_CHECK(id < entries_.size());
  const std::deque<Point>& all = entries_[id].points;
  const auto earlier = [](const Point& point, Nanoseconds time) { return point.at < time; };
  const auto later = [](Nanoseconds time, const Point& point) { return time < point.at; };
  auto first = std::lower_bound(all.begin(), all.end(), t0, earlier);
  auto last = std::upper_bound(all.begin(), all.end(), t1, later);
  if (last < first) return {};  // t1 before t0
  if (margin) {
    if (first != all.begin()) --first;
    if (last != all.end()) ++last;
  }
  return {first, last};
}

int SampleStore::subscribe(SignalSink on_signal, ValueSink on_value) {
  const std::lock_guard lock(mutex_);
  for (std::size_t id = 0; id < entries_.size(); ++id) {
    on_signal(static_cast<SignalId>(id), entries_[id].state.signal);
  }
  subscribers_.emplace(next_subscriber_, Subscriber{std::move(on_signal), std::move(on_value)});
  return next_subscriber_++;
}

void SampleStore::unsubscribe(int subscription) {
  const std::lock_guard lock(mutex_);
  subscribers_.erase(subscription);
}

void SampleStore::tell(SignalId id) const {
  for (const auto& [number, subscriber] : subscribers_) {
    subscriber.on_signal(id, entries_[id].state.signal);
  }
}

}  // namespace nibble::telemetry
