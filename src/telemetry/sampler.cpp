#include "telemetry/sampler.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace nibble::telemetry {
namespace {

struct Slot {
  std::unique_ptr<Source> source;
  SourceInfo info;
  Nanoseconds due = 0;
  int failures_in_a_row = 0;
  bool ever_gave = false;
  // Below: under the lane's mutex, because health() reads them.
  SourceHealth health;
  double total_cost_us = 0;
  Nanoseconds in_call_since = 0;  // 0: not in a call
  std::vector<SignalId> signals;  // as of when it was last heard of
};

}  // namespace

// A thread and its sources. The thread shares ownership, so that one that hangs can be left behind.
struct Sampler::Lane {
  std::shared_ptr<SampleStore> store;
  std::vector<Slot> slots;
  std::mutex mutex;
  std::condition_variable wake;
  bool stopping = false;
  bool ended = false;
  std::thread thread;

  void run();
  void sample(Slot& slot);
  void settle(Slot& slot, const Result<>& result, Nanoseconds begin, Nanoseconds end);
};

void Sampler::Lane::run() {
  std::unique_lock lock(mutex);
  while (!stopping) {
    const auto next = std::min_element(slots.begin(), slots.end(),
                                       [](const Slot& a, const Slot& b) { return a.due < b.due; });
    const Nanoseconds now = monotonic_now();
    if (next->due > now) {
      wake.wait_for(lock, std::chrono::nanoseconds(next->due - now));
      continue;
    }
    next->in_call_since = now;
    lock.unlock();
    sample(*next);
    lock.lock();
  }
  ended = true;
  wake.notify_all();
}

void Sampler::Lane::sample(Slot& slot) {
  const Nanoseconds begin = monotonic_now();
  const Result<> result = slot.source->sample();
  const Nanoseconds end = monotonic_now();
  std::vector<SignalId> signals = slot.source->signals();
  if (result) {
    slot.failures_in_a_row = 0;
    slot.ever_gave = true;
  } else if (++slot.failures_in_a_row >= kFailuresUntilDead || !slot.ever_gave) {
    for (const SignalId id : signals) store->set_unavailable(id, result.error().message);
  }
  const std::lock_guard lock(mutex);
  slot.signals = std::move(signals);
  settle(slot, result, begin, end);
}

void Sampler::Lane::settle(Slot& slot, const Result<>& result, Nanoseconds begin, Nanoseconds end) {
  SourceHealth& health = slot.health;
  const double cost_us = static_cast<double>(end - begin) * 1e-3;
  slot.in_call_since = 0;
  slot.total_cost_us += cost_us;
  ++health.samples;
  health.mean_cost_us = slot.total_cost_us / static_cast<double>(health.samples);
  health.max_cost_us = std::max(health.max_cost_us, cost_us);
  Nanoseconds period = slot.info.period;
  if (!result) {
    ++health.failures;
    health.last_failure = result.error().message;
    for (int at = kFailuresUntilDead; at <= slot.failures_in_a_row && period < kLongestRetry;
         ++at) {
      period *= 2;
    }
    period = std::max(slot.info.period, std::min(period, kLongestRetry));
  }
  // On the grid of its period: what was missed is not made up for, and a source that takes longer
  // than its period is not asked without a pause.
  slot.due += period;
  if (slot.due < end && !result) slot.due = end + period;
  if (slot.due < end) slot.due += (end - slot.due + period - 1) / period * period;
}

Sampler::Sampler(std::shared_ptr<SampleStore> store, std::vector<std::unique_ptr<Source>> sources)
    : store_(std::move(store)) {
  for (std::unique_ptr<Source>& source : sources) {
    SourceInfo info = source->info();
    info.period = std::max<Nanoseconds>(info.period, 1'000'000);
    auto lane = std::find_if(lanes_.begin(), lanes_.end(), [&](const auto& existing) {
      return existing->slots.front().info.lane == info.lane;
    });
    if (lane == lanes_.end()) {
      lanes_.push_back(std::make_shared<Lane>());
      lanes_.back()->store = store_;
      lane = lanes_.end() - 1;
    }
    order_.emplace_back(static_cast<std::size_t>(lane - lanes_.begin()), (*lane)->slots.size());
    Slot& slot = (*lane)->slots.emplace_back();
    slot.source = std::move(source);
    slot.signals = slot.source->signals();
    slot.health.name = info.name;
    slot.health.period = info.period;
    slot.info = std::move(info);
  }
}

Sampler::~Sampler() {
  stop();
}

void Sampler::start() {
  for (const std::shared_ptr<Lane>& lane : lanes_) {
    if (lane->thread.joinable() || lane->stopping) continue;
    for (Slot& slot : lane->slots) slot.due = monotonic_now();
    lane->thread = std::thread([lane] { lane->run(); });
  }
}

void Sampler::stop(std::chrono::milliseconds patience) {
  for (const std::shared_ptr<Lane>& lane : lanes_) {
    const std::lock_guard lock(lane->mutex);
    lane->stopping = true;
    lane->wake.notify_all();
  }
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (const std::shared_ptr<Lane>& lane : lanes_) {
    if (!lane->thread.joinable()) continue;
    std::unique_lock lock(lane->mutex);
    const bool ended = lane->wake.wait_until(lock, deadline, [&] { return lane->ended; });
    lock.unlock();
    if (ended) {
      lane->thread.join();
    } else {
      lane->thread.detach();
    }
  }
}

std::vector<SourceHealth> Sampler::health(Nanoseconds hangs_after) {
  std::vector<SourceHealth> all;
  const Nanoseconds now = monotonic_now();
  for (const auto& [lane_at, slot_at] : order_) {
    Lane& lane = *lanes_[lane_at];
    std::unique_lock lock(lane.mutex);
    const Slot& slot = lane.slots[slot_at];
    SourceHealth health = slot.health;
    if (slot.in_call_since > 0 && now - slot.in_call_since > hangs_after) {
      health.hung_for = now - slot.in_call_since;
      health.last_failure = fmt::format("no answer for {:.0f} s", seconds(health.hung_for));
    }
    const std::vector<SignalId> hung = health.hung_for > 0 ? slot.signals : std::vector<SignalId>();
    lock.unlock();
    for (const SignalId id : hung) {
      store_->set_unavailable(id, health.name + " does not answer: its last call hangs");
    }
    all.push_back(std::move(health));
  }
  return all;
}

Json health_json(const SourceHealth& health) {
  Json json = Json::object()
                  .set("name", health.name)
                  .set("period_ms", milliseconds(health.period))
                  .set("samples", static_cast<std::int64_t>(health.samples))
                  .set("failures", static_cast<std::int64_t>(health.failures))
                  .set("mean_cost_us", health.mean_cost_us)
                  .set("max_cost_us", health.max_cost_us);
  if (!health.last_failure.empty()) json.set("last_failure", health.last_failure);
  if (health.hung_for > 0) json.set("hung_s", seconds(health.hung_for));
  return json;
}

}  // namespace nibble::telemetry
