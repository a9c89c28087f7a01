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

// By content, over feeders, and only what was taken: a prompt that was made ahead and never sent
// comes again in the next level, for the first time.
TEST(JobFeeder, APromptThatWasTakenBeforeIsRepeated) {
  const Target target = target_of("http://127.0.0.1:1");
  std::string text;
  for (const char* prompt : {"a", "b", "a", "c"}) {
    text += R"({"prompt": ")" + std::string(prompt) + R"(", "output_tokens": 2})" + "\n";
  }
  const auto file = load::parse_custom(text, "f", {}, {});
  ASSERT_TRUE(file.ok());
  SentPrompts sent;
  const auto repeated = [&](std::int64_t first, std::size_t count) {
    JobFeeder feeder({.first = {.number = first}, .requests = 4 - first, .sent = &sent}, target,
                     **file);
    feeder.wait_ready(4 - first);
    std::vector<bool> told;
    while (told.size() < count) told.push_back(feeder.take()->prompt_repeated.value());
    return told;
  };
  EXPECT_EQ(repeated(0, 3), (std::vector<bool>{false, false, true}));  // c is made and not taken
  EXPECT_EQ(repeated(1, 3), (std::vector<bool>{true, true, false}));
  // Ids are content, too.
  const auto ids = words(5, 1);
  for (const bool again : {false, true}) {
    JobFeeder feeder({.requests = 1, .sent = &sent}, target, *ids);
    EXPECT_EQ(all_of(feeder)[0].prompt_repeated, again);
  }
  JobFeeder nobody({.requests = 1}, target, *ids);
  EXPECT_EQ(all_of(nobody)[0].prompt_repeated, std::nullopt);
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
