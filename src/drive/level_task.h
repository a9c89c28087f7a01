// The coroutines of one level: users of a closed loop, or arrivals of an open one.
//
//   LevelTask task(setup, loops, lanes, feeder, finisher);
//   task.start();
//   while (!task.ended()) look_after(task);      // task.stop(), task.cancel()
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "drive/job_feeder.h"
#include "drive/lane.h"
#include "drive/row_finisher.h"
#include "drive/run.h"
#include "net/loop.h"

namespace nibble::drive {

struct TaskSetup {
  std::int32_t level = 0;
  bool warmup = false;
  std::optional<std::int64_t> users;  // closed loop, or the limit of an open one
  bool open = false;
  Nanoseconds ramp = 0;
};

class LevelTask {
 public:
  // Everything given must outlive the task, and the task its coroutines: until ended().
  LevelTask(const TaskSetup& setup, const Target& target, net::Loops& loops,
            std::deque<Lane>& lanes, JobFeeder& feeder, RowFinisher& finisher);

  void start();
  void stop() { stopping_ = true; }  // no new requests
  void cancel();                     // and the running ones end now
  bool stopping() const { return stopping_; }
  bool ended() const { return live_ == 0; }

  // Jobs that were taken and then not wanted any more.
  std::int64_t unsent() const { return unsent_; }
  Nanoseconds started_at() const { return start_; }
  // Requests in a row, whichever lane, that got no connection or lost it.
  std::int64_t lost_in_row() const { return lost_in_row_; }
  // Of the last request that failed.
  std::string last_failure() const;
  // Why this host cannot send, such as no descriptor left; empty: it can.
  std::string local_fault() const;

 private:
  void spawn(Lane& lane, net::Loops::Task task);
  boost::asio::awaitable<void> user(Lane& lane, Nanoseconds first);
  boost::asio::awaitable<void> arrivals(Lane& lane, std::int64_t most);
  boost::asio::awaitable<bool> send_one(Lane& lane, Job job, Nanoseconds scheduled);
  boost::asio::awaitable<std::optional<Job>> next_job();
  boost::asio::awaitable<void> rest_until(Nanoseconds time);
  void note_outcome(Lane& lane, const Sent& sent);

  TaskSetup setup_;
  const Target& target_;
  net::Loops& loops_;
  std::deque<Lane>& lanes_;
  JobFeeder& feeder_;
  RowFinisher& finisher_;
  Nanoseconds start_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::int64_t> live_ = 0;
  std::atomic<std::int64_t> unsent_ = 0;
  std::atomic<std::int64_t> lost_in_row_ = 0;
  mutable std::mutex mutex_;
  std::string last_failure_;
  std::string local_fault_;
};

}  // namespace nibble::drive
