// Makes prompts and request bodies ahead of their time, on a thread of its own: a body of 128 K
// tokens takes milliseconds to make, which no event loop has.
//
//   JobFeeder feeder(plan, dataset);
//   feeder.wait_ready(64);                 // enough to begin with
//   while (auto job = feeder.take()) ...   // empty: wait a little, or finished()
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "drive/run.h"
#include "load/dataset.h"
#include "load/schedule.h"

namespace nibble::drive {

struct Job {
  std::int64_t index = 0;  // within the level
  Nanoseconds due = 0;     // of an open loop, from the start of the level
  std::string body;
  bool stream = true;
  std::int64_t prompt_tokens_asked = 0;
  std::int64_t output_tokens_asked = 0;
  std::uint64_t prompt_hash = 0;        // of its content
  std::optional<bool> prompt_repeated;  // taken before; none: nobody keeps what was
};

// What prompts a run has sent, by their hashes.
using SentPrompts = std::unordered_set<std::uint64_t>;

struct FeedPlan {
  load::PromptKey first;      // index and number count up from here
  std::int64_t requests = 0;  // 0: as many as are taken
  std::optional<load::ArrivalTimes> arrivals = std::nullopt;
  std::int64_t most_output = INT64_MAX;  // tokens to ask for
  // Where the dataset has no more, prompts begin again at number 0: of warm-ups alone.
  bool reuse = false;
  // What was taken before, to which this feeder adds; must outlive it. nullptr: nobody asks.
  SentPrompts* sent = nullptr;
};

class JobFeeder {
 public:
  // Target and dataset must outlive the feeder.
  JobFeeder(FeedPlan plan, const Target& target, const load::Dataset& dataset);
  ~JobFeeder();
  JobFeeder(const JobFeeder&) = delete;
  JobFeeder& operator=(const JobFeeder&) = delete;

  // Waits until `jobs` are ready, or all that there will be, or the store is full.
  void wait_ready(std::int64_t jobs);
  // The next job in order; nullopt: none is ready.
  std::optional<Job> take();
  // Nothing is left and nothing will come.
  bool finished() const;
  // Why it ended before its requests were made.
  std::optional<Error> fault() const;
  std::int64_t taken() const;

 private:
  void work();
  Result<Job> make(std::int64_t ordinal);
  bool full() const { return bytes_ >= kMostBytes || queue_.size() >= kMostJobs; }

  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  static constexpr std::size_t kMostJobs = 4096;

  FeedPlan plan_;
  const Target& target_;
  const load::Dataset& dataset_;
  mutable std::mutex mutex_;
  std::condition_variable room_, ready_;
  std::deque<Job> queue_;
  std::size_t bytes_ = 0;
  std::int64_t taken_ = 0;
  bool ended_ = false;   // the thread makes no more
  bool ending_ = false;  // nobody wants more
  std::optional<Error> fault_;
  std::thread thread_;
};

// The body of one request to the target.
Result<Job> make_job(const Target& target, load::Prompt prompt);

}  // namespace nibble::drive
