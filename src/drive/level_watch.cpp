#include "drive/level_watch.h"

#include <algorithm>
#include <utility>

#include "base/units.h"

namespace nibble::drive {
namespace {

// Without a byte from the server for so long, while connections fail: it has died.
constexpr Nanoseconds kDeadAfter = 5'000'000'000;
constexpr std::int64_t kLeastLost = 3;
// A rate is not judged before this many mean requests: users that began together come in waves.
constexpr double kLeastLatencies = 4;
constexpr double kBusy = 0.95;

}  // namespace

LevelCount count_of(const std::deque<Lane>& lanes) {
  LevelCount count;
  for (const Lane& lane : lanes) {
    count.in_flight += lane.in_flight.load(std::memory_order_relaxed);
    count.done += lane.done.load(std::memory_order_relaxed);
    count.failed += lane.failed.load(std::memory_order_relaxed);
    count.tokens += lane.tally.tokens.load(std::memory_order_relaxed);
    count.last_answer =
        std::max(count.last_answer, lane.tally.last_answer.load(std::memory_order_relaxed));
  }
  return count;
}

LevelWatch::LevelWatch(const LevelOptions& options, const load::StopOptions& stop, LevelTask& task,
                       const std::deque<Lane>& lanes, const JobFeeder& feeder,
                       const RowFinisher& finisher)
    : options_(options),
      task_(task),
      lanes_(lanes),
      feeder_(feeder),
      finisher_(finisher),
      rule_(stop, task.started_at()),
      second_began_(task.started_at()) {}

void LevelWatch::look(Nanoseconds now, bool interrupted) {
  const LevelCount count = count_of(lanes_);
  look_at_rate(count, now);
  if (!cancelled_) look_for_faults(count, now, interrupted);
  if (cancel_at_ == 0 && time_is_over(count, now)) end(std::nullopt, now, false);
  if (cancel_at_ != 0 && now >= cancel_at_ && !cancelled_) {
    cancelled_ = true;
    task_.cancel();
  }
}

void LevelWatch::end(std::optional<Error> fault, Nanoseconds now, bool at_once) {
  if (fault && !fault_) fault_ = std::move(fault);
  task_.stop();
  const Nanoseconds cancel_at = at_once ? now : now + options_.grace;
  cancel_at_ = cancel_at_ == 0 ? cancel_at : std::min(cancel_at_, cancel_at);
}

void LevelWatch::look_for_faults(const LevelCount& count, Nanoseconds now, bool interrupted) {
  if (interrupted) {
    return end(run_error("interrupted: what was measured until then is kept"), now, true);
  }
  if (const auto fault = finisher_.fault()) return end(fault, now, true);
  if (const std::string local = task_.local_fault(); !local.empty()) {
    return end(run_error("this host cannot send any more: {}", local), now, true);
  }
  if (server_is_dead(count, now)) {
    return end(run_error("the server has gone: {} requests in a row got no connection or lost it, "
                         "the last: {}; what was measured until then is kept",
                         task_.lost_in_row(), task_.last_failure()),
               now, true);
  }
  // Jobs that were made before are sent still.
  if (const auto fault = feeder_.fault(); fault && !fault_ && feeder_.finished()) {
    end(fault, now, false);
  }
}

bool LevelWatch::server_is_dead(const LevelCount& count, Nanoseconds now) const {
  const Nanoseconds heard = std::max(count.last_answer, task_.started_at());
  const std::int64_t least = std::max(kLeastLost, options_.users.value_or(0));
  return task_.lost_in_row() >= least && now - heard > kDeadAfter;
}

void LevelWatch::look_at_rate(const LevelCount& count, Nanoseconds now) {
  rule_.add(now, static_cast<double>(count.tokens - tokens_));
  tokens_ = count.tokens;
  const Nanoseconds since = now - second_began_;
  if (since >= 1'000'000'000) {
    tokens_per_s_ = static_cast<double>(count.tokens - second_tokens_) / seconds(since);
    second_tokens_ = count.tokens;
    second_began_ = now;
  }
  if (measured_since_ != 0) return;
  const auto users = static_cast<double>(options_.users.value_or(1));
  const bool open = options_.open();
  const bool busy = open || static_cast<double>(count.in_flight) >= kBusy * users;
  const bool first_answers = static_cast<double>(count.done) >= (open ? 1 : users);
  if (!busy || !first_answers) return;
  measured_since_ = now;
  rule_.restart(now);
}

bool LevelWatch::time_is_over(const LevelCount& count, Nanoseconds now) {
  const Nanoseconds since = now - task_.started_at();
  if (options_.duration > 0) return since >= options_.duration;
  if (options_.requests > 0) return false;
  return since >= options_.longest || known_well_enough(count, now);
}

bool LevelWatch::known_well_enough(const LevelCount& count, Nanoseconds now) const {
  if (measured_since_ == 0 || count.done == 0) return false;
  // By Little's law: what was in flight, over the rate at which it ended.
  const double elapsed_s = seconds(now - task_.started_at());
  const double latency_s =
      static_cast<double>(count.in_flight) * elapsed_s / static_cast<double>(count.done);
  const double seen_s = seconds(now - measured_since_);
  return seen_s >= seconds(options_.shortest) && seen_s >= kLeastLatencies * latency_s &&
         rule_.state().converged;
}

std::string LevelWatch::phase() const {
  if (cancel_at_ != 0) return "draining";
  return measured_since_ == 0 ? "ramp" : "measuring";
}

}  // namespace nibble::drive
