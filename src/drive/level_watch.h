// Decides when a level ends: when its time is over, when its rate is known, when nothing can come
// of it any more.
//
//   LevelWatch watch(options, stop_options, task, lanes, feeder, finisher);
//   while (!task.ended()) { sleep_for_a_moment(); watch.look(monotonic_now(), interrupted); }
//   run.fault = watch.fault();
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "drive/driver.h"
#include "drive/job_feeder.h"
#include "drive/lane.h"
#include "drive/level_task.h"
#include "load/stop_rule.h"

namespace nibble::drive {

// Sums over the lanes, at one moment.
struct LevelCount {
  std::int64_t in_flight = 0;
  std::int64_t done = 0;
  std::int64_t failed = 0;
  std::int64_t tokens = 0;
  Nanoseconds last_answer = 0;
};
LevelCount count_of(const std::deque<Lane>& lanes);

class LevelWatch {
 public:
  LevelWatch(const LevelOptions& options, const load::StopOptions& stop, LevelTask& task,
             const std::deque<Lane>& lanes, const JobFeeder& feeder, const RowFinisher& finisher);

  // To be called every some milliseconds, from one thread.
  void look(Nanoseconds now, bool interrupted);

  // Why the run ends with this level; nullopt: it does not.
  const std::optional<Error>& fault() const { return fault_; }
  // Tokens/s of the last second.
  double tokens_per_s() const { return tokens_per_s_; }
  // "ramp", "measuring", "draining".
  std::string phase() const;

 private:
  void look_for_faults(const LevelCount& count, Nanoseconds now, bool interrupted);
  bool server_is_dead(const LevelCount& count, Nanoseconds now) const;
  void look_at_rate(const LevelCount& count, Nanoseconds now);
  bool time_is_over(const LevelCount& count, Nanoseconds now);
  bool known_well_enough(const LevelCount& count, Nanoseconds now) const;
  void end(std::optional<Error> fault, Nanoseconds now, bool at_once);

  const LevelOptions& options_;
  LevelTask& task_;
  const std::deque<Lane>& lanes_;
  const JobFeeder& feeder_;
  const RowFinisher& finisher_;
  load::StopRule rule_;
  Nanoseconds measured_since_ = 0;  // all users are busy and a first answer of each has ended
  std::int64_t tokens_ = 0;         // at the last look
  Nanoseconds second_began_ = 0;
  std::int64_t second_tokens_ = 0;
  double tokens_per_s_ = 0;
  Nanoseconds cancel_at_ = 0;  // 0: it is not ending
  bool cancelled_ = false;
  std::optional<Error> fault_;
};

}  // namespace nibble::drive
