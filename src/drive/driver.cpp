#include "drive/driver.h"

#include <chrono>
#include <deque>
#include <thread>
#include <utility>

#include "drive/job_feeder.h"
#include "drive/lane.h"
#include "drive/level_task.h"
#include "drive/level_watch.h"
#include "drive/row_finisher.h"

namespace nibble::drive {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(5);
constexpr Nanoseconds kTellEvery = 250'000'000;
// A warm-up wants whole prompts, which are what servers compile for, and few tokens of answers.
constexpr std::int64_t kWarmUpTokens = 32;
constexpr std::int64_t kMostPrepared = 512;  // bodies that must be ready before a level begins
// At the end of a level whose last requests lost the server: how long it may take to come back.
constexpr Nanoseconds kComeBack = 1'000'000'000;

Result<std::optional<load::ArrivalTimes>> arrivals_of(const LevelOptions& options) {
  if (!options.trace.empty()) {
    return std::optional(load::ArrivalTimes::replay(options.trace));
  }
  if (!options.arrivals) return std::optional<load::ArrivalTimes>();
  NIBBLE_ASSIGN_OR_RETURN(load::ArrivalTimes times, load::ArrivalTimes::make(*options.arrivals));
  return std::optional(std::move(times));
}

}  // namespace

struct Driver::Impl {
  Impl(DriverParts given, load::RowWriter& to)
      : parts(std::move(given)), loops(parts.loops), finisher(to, parts.tokenizer) {}

  Result<> make_lanes();
  void reset_lanes();
  bool server_came_back(const std::atomic<bool>& interrupted);
  void collect(const LevelOptions& options, LevelRun& run) const;

  DriverParts parts;
  net::Loops loops;
  std::deque<Lane> lanes;
  RowFinisher finisher;
  std::int64_t next_number = 0;  // of the run's prompts
  SentPrompts sent_prompts;
};

Result<> Driver::Impl::make_lanes() {
  lanes.clear();
  for (std::size_t loop = 0; loop < loops.size(); ++loop) {
    NIBBLE_ASSIGN_OR_RETURN(
        net::HttpClient client,
        net::HttpClient::make(loops, loop, parts.target.url, parts.target.client));
    lanes.emplace_back(loops, loop, std::move(client));
  }
  return {};
}

// Counts of the level before are forgotten; connections stay.
void Driver::Impl::reset_lanes() {
  for (Lane& lane : lanes) lane.reset();
}

// Any answer will do. A server that is restarted has a second.
bool Driver::Impl::server_came_back(const std::atomic<bool>& interrupted) {
  const Nanoseconds until = monotonic_now() + kComeBack;
  const Result<std::unique_ptr<Prober>> prober =
      Prober::make(parts.target.url, parts.target.client, interrupted);
  if (!prober.ok()) return false;
  while (!interrupted) {
    if ((*prober)->get("/v1/models").exchange.status != 0) return true;
    if (monotonic_now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

void Driver::Impl::collect(const LevelOptions& options, LevelRun& run) const {
  Nanoseconds flight = 0;
  for (const Lane& lane : lanes) {
    run.rows += lane.done;
    run.tokens += lane.tally.tokens;
    run.events += lane.tally.events;
    if (!options.users || !options.open()) run.late += lane.late;
    if (lane.first_sent != 0) {
      run.begin = run.begin == 0 ? lane.first_sent : std::min(run.begin, lane.first_sent);
    }
    run.end = std::max(run.end, lane.last_end);
    flight += lane.flight;
    run.loops.push_back(loops.audit(lane.loop));
  }
  if (run.begin != 0 && run.end > run.begin) {
    run.mean_in_flight = static_cast<double>(flight) / static_cast<double>(run.end - run.begin);
  }
}

Driver::Driver(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Driver::~Driver() = default;
Driver::Driver(Driver&&) noexcept = default;
Driver& Driver::operator=(Driver&&) noexcept = default;

Result<Driver> Driver::make(DriverParts parts, load::RowWriter& writer) {
  NIBBLE_CHECK(parts.dataset != nullptr && parts.loops > 0);
  auto impl = std::make_unique<Impl>(std::move(parts), writer);
  NIBBLE_RETURN_IF_ERROR(impl->make_lanes());
  return Driver(std::move(impl));
}

void Driver::warm_up(std::int32_t level, const LevelOptions& options,
                     const std::atomic<bool>& interrupted) {
  if (options.warmups <= 0) return;
  Impl& self = *impl_;
  self.reset_lanes();
  // Behind the level's own prompts, where the dataset has as many.
  const std::int64_t number = self.next_number + options.requests;
  JobFeeder feeder({.first = {.run = self.parts.nonce, .level = -1 - level, .number = number},
                    .requests = options.warmups,
                    .most_output = kWarmUpTokens,
                    .reuse = true,
                    .sent = &self.sent_prompts},
                   self.parts.target, *self.parts.dataset);
  const std::int64_t users = std::min(options.warmups, options.users.value_or(options.warmups));
  LevelTask task({.level = level, .warmup = true, .users = users}, self.parts.target, self.loops,
                 self.lanes, feeder, self.finisher);
  task.start();
  while (!task.ended()) {
    std::this_thread::sleep_for(kLookEvery);
    if (interrupted && !task.stopping()) task.cancel();
  }
}

LevelRun Driver::run_level(std::int32_t level, const LevelOptions& options,
                           const std::atomic<bool>& interrupted,
                           const std::function<void(const Progress&)>& on_progress) {
  Impl& self = *impl_;
  LevelRun run;
  Result<std::optional<load::ArrivalTimes>> arrivals = arrivals_of(options);
  if (!arrivals.ok()) {
    run.fault = arrivals.error();
    run.incomplete = run.fault->message;
    return run;
  }
  Progress progress{.level = static_cast<std::size_t>(level),
                    .users = options.users.value_or(0),
                    .requests = options.requests};
  self.reset_lanes();
  JobFeeder feeder({.first = {.run = self.parts.nonce, .level = level, .number = self.next_number},
                    .requests = options.requests,
                    .arrivals = std::move(*arrivals),
                    .sent = &self.sent_prompts},
                   self.parts.target, *self.parts.dataset);
  feeder.wait_ready(std::min(options.users.value_or(kMostPrepared), kMostPrepared));
  LevelTask task(
      {.level = level, .users = options.users, .open = options.open(), .ramp = options.ramp},
      self.parts.target, self.loops, self.lanes, feeder, self.finisher);
  self.loops.reset_audit();
  task.start();
  LevelWatch watch(options, self.parts.stop, task, self.lanes, feeder, self.finisher);
  Nanoseconds tell_at = 0;
  while (!task.ended()) {
    std::this_thread::sleep_for(kLookEvery);
    const Nanoseconds now = monotonic_now();
    watch.look(now, interrupted);
    if (!on_progress || now < tell_at) continue;
    tell_at = now + kTellEvery;
    const LevelCount count = count_of(self.lanes);
    progress.in_flight = count.in_flight;
    progress.done = count.done;
    progress.failed = count.failed;
    progress.tokens_per_s = watch.tokens_per_s();
    progress.phase = watch.phase();
    on_progress(progress);
  }
  self.collect(options, run);
  self.finisher.drain();
  watch.look(monotonic_now(), interrupted);  // what the last rows brought to light
  run.sent = feeder.taken() - task.unsent();
  run.fault = watch.fault();
  if (!run.fault && task.lost_in_row() > 0 && !self.server_came_back(interrupted)) {
    run.fault = run_error("the server has gone: {}; what was measured until then is kept",
                          task.last_failure());
  }
  if (run.fault) run.incomplete = run.fault->message;
  self.next_number += feeder.taken() + std::max<std::int64_t>(0, options.warmups);
  return run;
}

}  // namespace nibble::drive
