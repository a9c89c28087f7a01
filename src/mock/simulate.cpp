// simulate() of engine.h: the server's own parts, driven by a list of moments instead of a clock.
#include <algorithm>
#include <queue>

#include "mock/engine.h"
#include "mock/step_engine.h"

namespace nibble::mock {
namespace {

// The next chunk of a request is due, or (without a chunk) the request arrives.
struct Moment {
  Nanoseconds at = 0;
  std::uint64_t order = 0;  // of those at the same time, the one that was known first
  std::size_t request = 0;
  bool arrival = false;
};
struct Later {
  bool operator()(const Moment& a, const Moment& b) const {
    return a.at != b.at ? a.at > b.at : a.order > b.order;
  }
};

class Simulation {
 public:
  Simulation(const MockScript& script, std::span<const Arrival> arrivals)
      : script_(script), arrivals_(arrivals), slots_(script.capacity), answers_(arrivals.size()) {
    schedules_.resize(arrivals.size());
    pending_.resize(arrivals.size());
    plans_fault_.resize(arrivals.size());
    for (std::size_t request = 0; request < arrivals.size(); ++request) {
      moments_.push({arrivals[request].at, order_++, request, true});
    }
  }

  std::vector<SimulatedAnswer> run() {
    while (!moments_.empty()) {
      const Moment moment = moments_.top();
      moments_.pop();
      if (moment.arrival) {
        arrive(moment);
      } else {
        answers_[moment.request].chunks.push_back(*pending_[moment.request]);
        advance(moment.request);
      }
    }
    return std::move(answers_);
  }

 private:
  void arrive(const Moment& moment) {
    if (const auto start = slots_.arrive(moment.request, moment.at)) begin(*start);
  }

  void begin(const Slots::Start& start) {
    const auto request = static_cast<std::size_t>(start.id);
    const RequestPlan plan = plan_request(script_, start.id, arrivals_[request].asked);
    answers_[request].start = start.at;
    schedules_[request].emplace(script_, plan, start.at);
    plans_fault_[request] = plan.fault;
    advance(request);
  }

  // Puts the next chunk among the moments, or ends the answer.
  void advance(std::size_t request) {
    ChunkSchedule& schedule = *schedules_[request];
    if (schedule.struck() && plans_fault_[request]->kind == FaultKind::kHang) {
      if (!plans_fault_[request]->ms) {
        answers_[request].hangs = true;
        return;
      }
      schedule.delay(from_milliseconds(*plans_fault_[request]->ms));
      schedule.fault_is_over();
    }
    const double factor = load_factor(script_, slots_.running(), schedule.due());
    pending_[request] = schedule.next(factor);
    if (pending_[request]) {
      moments_.push({pending_[request]->due, order_++, request, false});
      return;
    }
    answers_[request].end = schedule.due();
    if (const auto start = slots_.leave(schedule.due())) begin(*start);
  }

  const MockScript& script_;
  std::span<const Arrival> arrivals_;
  Slots slots_;
  std::vector<SimulatedAnswer> answers_;
  std::vector<std::optional<ChunkSchedule>> schedules_;
  std::vector<std::optional<Chunk>> pending_;
  std::vector<const Fault*> plans_fault_;
  std::priority_queue<Moment, std::vector<Moment>, Later> moments_;
  std::uint64_t order_ = 0;
};

}  // namespace

std::vector<SimulatedAnswer> simulate(const MockScript& script, std::span<const Arrival> arrivals) {
  if (script.steps) return simulate_steps(script, arrivals).answers;
  return Simulation(script, arrivals).run();
}

}  // namespace nibble::mock
