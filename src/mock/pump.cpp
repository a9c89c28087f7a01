#include "mock/pump.h"

#include <algorithm>
#include <chrono>

namespace nibble::mock {

Pump::Pump(boost::asio::any_io_executor executor) : timer_(std::move(executor)) {}

void Pump::add(Nanoseconds due, std::uint64_t key, std::unique_ptr<Waiter> waiter) {
  heap_.push_back({stopped_ ? 0 : due, order_++, key, std::move(waiter)});
  std::push_heap(heap_.begin(), heap_.end(), Later());
  arm();
}

void Pump::wake(std::uint64_t key) {
  const auto found = std::find_if(heap_.begin(), heap_.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  if (found == heap_.end()) return;
  found->due = 0;
  std::make_heap(heap_.begin(), heap_.end(), Later());
  arm();
}

void Pump::wake_all(std::span<const std::uint64_t> keys) {
  for (Entry& entry : heap_) {
    if (std::binary_search(keys.begin(), keys.end(), entry.key)) entry.due = 0;
  }
  std::make_heap(heap_.begin(), heap_.end(), Later());
  arm();
}

void Pump::stop() {
  stopped_ = true;
  for (Entry& entry : heap_) entry.due = 0;
  std::make_heap(heap_.begin(), heap_.end(), Later());
  arm();
}

void Pump::arm() {
  if (running_ || heap_.empty()) return;
  const Nanoseconds first = heap_.front().due - lead_;
  if (armed_for_ != 0 && armed_for_ <= first) return;  // it fires early enough
  armed_for_ = std::max<Nanoseconds>(first, 1);
  timer_.expires_at(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(first)));
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) run_due();
  });
}

Pump::Entry Pump::take_first() {
  std::pop_heap(heap_.begin(), heap_.end(), Later());
  Entry entry = std::move(heap_.back());
  heap_.pop_back();
  return entry;
}

void Pump::run_due() {
  const Nanoseconds now = monotonic_now();
  // An idle processor wakes late, by much the same each time: the timer is set that much earlier.
  const Nanoseconds late = std::clamp<Nanoseconds>(now - armed_for_, 0, kMostLead);
  lead_ += (late - lead_) / kLeadMemory;
  armed_for_ = 0;
  running_ = true;
  // At most those that wait now: one that is late and comes back at once must not keep the loop
  // from reading and accepting.
  const Nanoseconds until = now + kTogether;
  for (std::size_t left = heap_.size(); left > 0; --left) {
    if (heap_.empty() || heap_.front().due > until) break;
    const Entry entry = take_first();
    entry.waiter->resume(!stopped_);
  }
  running_ = false;
  arm();
}

}  // namespace nibble::mock
