#include "drive/job_feeder.h"

#include <chrono>
#include <set>
#include <thread>

#include "api/request.h"
#include "drive/test_drive.h"

namespace nibble::drive {
namespace {

std::vector<Job> all_of(JobFeeder& feeder) {
  std::vector<Job> jobs;
  while (!feeder.finished()) {
    if (auto job = feeder.take()) {
      jobs.push_back(std::move(*job));
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return jobs;
}

TEST(JobFeeder, GivesEveryJobOnceInOrder) {
  const Target target = target_of("http://127.0.0.1:1");
  const auto dataset = words(10, 7);
  JobFeeder feeder({.requests = 9000}, target, *dataset);  // more than it keeps
  feeder.wait_ready(100);
  const std::vector<Job> jobs = all_of(feeder);
  ASSERT_EQ(jobs.size(), 9000U);
  std::set<std::string> bodies;
  for (std::size_t index = 0; index < jobs.size(); ++index) {
    EXPECT_EQ(jobs[index].index, static_cast<std::int64_t>(index));
    bodies.insert(jobs[index].body);
  }
  EXPECT_EQ(bodies.size(), 9000U);  // no prompt comes twice
  EXPECT_EQ(feeder.taken(), 9000);
}

TEST(JobFeeder, BodiesAreWhatTheServerReads) {
  const Target target = target_of("http://127.0.0.1:1");
  const auto dataset = words(10, 7);
  JobFeeder feeder({.requests = 1}, target, *dataset);
  const std::vector<Job> jobs = all_of(feeder);
  ASSERT_EQ(jobs.size(), 1U);
  const auto request = api::parse_request(api::Dialect::kCompletions, jobs[0].body);
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->prompt_ids.size(), 10U);
  EXPECT_EQ(request->max_tokens, 7);
  EXPECT_EQ(request->min_tokens, 7);
  EXPECT_TRUE(request->ignore_eos);
  EXPECT_TRUE(request->continuous_usage);
  EXPECT_EQ(request->temperature, 0);
  EXPECT_EQ(jobs[0].output_tokens_asked, 7);
  EXPECT_EQ(jobs[0].prompt_tokens_asked, 10);
}

TEST(JobFeeder, ArrivalsAreInTheJobs) {
  const Target target = target_of("http://127.0.0.1:1");
  const auto dataset = words(1, 1);
  JobFeeder feeder({.requests = 5, .arrivals = load::ArrivalTimes::replay({100, 250, 300})}, target,
                   *dataset);
  const std::vector<Job> jobs = all_of(feeder);
  ASSERT_EQ(jobs.size(), 3U);  // the trace is shorter
  EXPECT_EQ(jobs[0].due, 0);
  EXPECT_EQ(jobs[1].due, 150);
  EXPECT_EQ(jobs[2].due, 200);
}

TEST(JobFeeder, WithoutANumberItGoesOnUntilNobodyTakes) {
  const Target target = target_of("http://127.0.0.1:1");
  const auto dataset = words(1, 1);
  JobFeeder feeder({}, target, *dataset);
  feeder.wait_ready(4096);
  EXPECT_TRUE(feeder.take().has_value());
  EXPECT_FALSE(feeder.finished());
}

TEST(JobFeeder, LargeBodiesAreNotHoarded) {
  const Target target = target_of("http://127.0.0.1:1");
  const auto dataset = words(128 << 10, 1, false);
  JobFeeder feeder({.requests = 500}, target, *dataset);
  feeder.wait_ready(500);  // comes back when the store is full
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(feeder.taken(), 0);
  EXPECT_FALSE(feeder.finished());
}

TEST(JobFeeder, ADatasetThatRunsOutIsAFaultOrBeginsAgain) {
  const Target target = target_of("http://127.0.0.1:1");
  const auto file =
      load::parse_custom("{\"prompt\": \"only one\", \"output_tokens\": 2}", "f", {}, {});
  ASSERT_TRUE(file.ok());
  JobFeeder strict({.requests = 2}, target, **file);
  EXPECT_EQ(all_of(strict).size(), 1U);
  ASSERT_TRUE(strict.fault().has_value());
  JobFeeder again({.first = {.number = 5}, .requests = 1, .reuse = true}, target, **file);
  EXPECT_EQ(all_of(again).size(), 1U);
  EXPECT_FALSE(again.fault().has_value());
}

TEST(JobFeeder, WhatABackendCannotCarryIsAFault) {
  const Target chat = target_of("http://127.0.0.1:1", "openai-chat");
  const auto ids = words(3, 3);
  JobFeeder feeder({.requests = 1}, chat, *ids);
  EXPECT_TRUE(all_of(feeder).empty());
  ASSERT_TRUE(feeder.fault().has_value());
}

}  // namespace
}  // namespace nibble::drive
