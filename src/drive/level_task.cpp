#include "drive/level_task.h"

#include <algorithm>
#include <utility>

#include "load/schedule.h"

namespace nibble::drive {
namespace {

using boost::asio::awaitable;
using load::Outcome;

constexpr Nanoseconds kLookForJobs = 500'000;
constexpr Nanoseconds kLookForStop = 50'000'000;
// After a failure a user waits, or a server that refuses would be stormed.
constexpr Nanoseconds kFirstPause = 50'000'000;
constexpr Nanoseconds kLongestPause = 1'000'000'000;

bool lost(Outcome outcome) {
  return outcome == Outcome::kRefused || outcome == Outcome::kReset ||
         outcome == Outcome::kConnectTimeout || outcome == Outcome::kResolve;
}

// The part of `whole` that falls to one of `parts`.
std::int64_t share(std::int64_t whole, std::size_t part, std::size_t parts) {
  const auto count = static_cast<std::int64_t>(parts);
  return whole / count + (static_cast<std::int64_t>(part) < whole % count ? 1 : 0);
}

}  // namespace

LevelTask::LevelTask(const TaskSetup& setup, const Target& target, net::Loops& loops,
                     std::deque<Lane>& lanes, JobFeeder& feeder, RowFinisher& finisher)
    : setup_(setup),
      target_(target),
      loops_(loops),
      lanes_(lanes),
      feeder_(feeder),
      finisher_(finisher) {}

void LevelTask::spawn(Lane& lane, net::Loops::Task task) {
  ++live_;
  loops_.spawn(lane.loop, [this, task = std::move(task)]() -> awaitable<void> {
    co_await task();
    --live_;
  });
}

void LevelTask::start() {
  ++live_;  // until all are spawned
  start_ = monotonic_now();
  for (Lane& lane : lanes_) lane.changed = start_;
  const std::size_t lanes = lanes_.size();
  if (setup_.open) {
    for (std::size_t index = 0; index < lanes; ++index) {
      Lane& lane = lanes_[index];
      const std::int64_t most = setup_.users ? share(*setup_.users, index, lanes) : INT64_MAX;
      if (most > 0) spawn(lane, [this, &lane, most] { return arrivals(lane, most); });
    }
  } else {
    const std::int64_t users = setup_.users.value_or(1);
    for (std::int64_t slot = 0; slot < users; ++slot) {
      Lane& lane = lanes_[static_cast<std::size_t>(slot) % lanes];
      const Nanoseconds first = start_ + load::stagger(slot, users, setup_.ramp);
      spawn(lane, [this, &lane, first] { return user(lane, first); });
    }
  }
  --live_;
}

void LevelTask::cancel() {
  stopping_ = true;
  for (Lane& lane : lanes_) lane.client.cancel_all();
}

// Sleeps, but not long past stop().
awaitable<void> LevelTask::rest_until(Nanoseconds time) {
  for (Nanoseconds now = monotonic_now(); now < time && !stopping_; now = monotonic_now()) {
    co_await net::sleep_until(std::min(time, now + kLookForStop));
  }
}

// nullopt: there are no more, or none are wanted.
awaitable<std::optional<Job>> LevelTask::next_job() {
  while (!stopping_) {
    std::optional<Job> job = feeder_.take();
    if (job) co_return job;
    if (feeder_.finished()) break;
    co_await net::sleep_for(kLookForJobs);
  }
  co_return std::nullopt;
}

awaitable<void> LevelTask::user(Lane& lane, Nanoseconds first) {
  co_await rest_until(first);
  Nanoseconds free_at = std::max(first, start_);
  Nanoseconds pause = kFirstPause;
  while (true) {
    std::optional<Job> job = co_await next_job();
    if (!job) break;
    const bool good = co_await send_one(lane, std::move(*job), free_at);
    if (!good) {
      co_await rest_until(monotonic_now() + pause);
      pause = std::min(2 * pause, kLongestPause);
    } else {
      pause = kFirstPause;
    }
    free_at = monotonic_now();
  }
}

awaitable<void> LevelTask::arrivals(Lane& lane, std::int64_t most) {
  while (true) {
    std::optional<Job> job = co_await next_job();
    if (!job) break;
    const Nanoseconds due = start_ + job->due;
    co_await rest_until(due);
    while (lane.in_flight >= most && !stopping_) {
      co_await lane.slot_free.wait_until(monotonic_now() + kLookForStop);
    }
    if (stopping_) {
      ++unsent_;
      break;
    }
    auto shared = std::make_shared<Job>(std::move(*job));
    lane.enter(monotonic_now());
    spawn(lane, [this, &lane, shared, due]() -> awaitable<void> {
      co_await send_one(lane, std::move(*shared), due);
    });
  }
}

awaitable<bool> LevelTask::send_one(Lane& lane, Job job, Nanoseconds scheduled) {
  // An open loop has entered already: its limit counts requests from the moment they are let go.
  if (!setup_.open) lane.enter(monotonic_now());
  Sent sent =
      co_await send(lane.client, target_, std::move(job), finisher_.counts_tokens(), lane.tally);
  sent.record.level = setup_.level;
  sent.record.warmup = setup_.warmup;
  sent.record.scheduled = scheduled;
  const bool good = sent.record.outcome == Outcome::kOk;
  note_outcome(lane, sent);
  lane.leave(sent, monotonic_now());
  finisher_.push(std::move(sent.record), std::move(sent.text));
  co_return good;
}

void LevelTask::note_outcome(Lane& lane, const Sent& sent) {
  const load::RequestRecord& record = sent.record;
  if (record.outcome == Outcome::kOk) {
    if (lost_in_row_.load(std::memory_order_relaxed) != 0) lost_in_row_ = 0;
    return;
  }
  if (record.outcome != Outcome::kCancelled) ++lane.failed;
  if (lost(record.outcome)) {
    ++lost_in_row_;
  } else if (record.outcome != Outcome::kCancelled) {
    lost_in_row_ = 0;
  }
  const std::lock_guard lock(mutex_);
  last_failure_ = record.message;
  if (sent.local_fault) local_fault_ = record.message;
}

std::string LevelTask::last_failure() const {
  const std::lock_guard lock(mutex_);
  return last_failure_;
}

std::string LevelTask::local_fault() const {
  const std::lock_guard lock(mutex_);
  return local_fault_;
}

}  // namespace nibble::drive
