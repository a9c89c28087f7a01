#include "load/server_limit.h"

#include <gtest/gtest.h>

#include "load/run_report.h"

namespace nibble::load {
namespace {

LevelResult told(double users, double running, double waiting, std::optional<double> kv) {
  LevelResult level;
  level.report.plan.max_concurrency = users;
  level.joined[Seen::kRunning].value = running;
  level.joined[Seen::kWaiting].value = waiting;
  level.joined[Seen::kKvUsage].value = kv;
  return level;
}

// 32 at once: 16 users fit, 32 fill it, of 64 and 128 the rest waits.
std::vector<LevelResult> capped(std::optional<double> kv) {
  return {told(16, 16, 0, 0.1), told(32, 31.4, 0, 0.2), told(64, 32, 31.6, kv),
          told(128, 32, 95.8, kv)};
}

TEST(ServerLimit, AQueueThatGrowsBehindAConstantNumber) {
  const auto levels = capped(0.44);
  const auto limit = find_server_limit(levels);
  ASSERT_TRUE(limit);
  EXPECT_EQ(limit->from, 32);  // 31.4 is within 5 % of 32, 16 is not
  EXPECT_EQ(limit->running, 32);
  EXPECT_EQ(limit->queue, 95.8);
  EXPECT_EQ(limit->kv_usage, 0.44);
  EXPECT_EQ(sentence_of(*limit),
            "flat from 32 on: running stays at 32, the queue grows to 96: a limit of its "
            "scheduler, with 44.0 % of the KV cache in use");
  EXPECT_EQ(to_json(*limit).find("cause")->as_string(), "scheduler");
  // In any order.
  const auto reversed = std::vector<LevelResult>(levels.rbegin(), levels.rend());
  EXPECT_EQ(find_server_limit(reversed)->from, 32);
}

TEST(ServerLimit, AFullCacheIsAnotherCause) {
  const auto limit = find_server_limit(capped(0.97));
  ASSERT_TRUE(limit);
  EXPECT_NE(sentence_of(*limit).find("KV cache is full (97.0 %)"), std::string::npos)
      << sentence_of(*limit);
  EXPECT_EQ(to_json(*limit).find("cause")->as_string(), "kv_cache");
  auto levels = capped(std::nullopt);
  for (LevelResult& level : levels) level.joined[Seen::kKvUsage].value.reset();
  const auto unknown = find_server_limit(levels);
  ASSERT_TRUE(unknown);
  EXPECT_NE(sentence_of(*unknown).find("it does not tell"), std::string::npos);
  EXPECT_TRUE(to_json(*unknown).find("cause")->is_null());
}

TEST(ServerLimit, OneLevelHasNoShape) {
  const std::vector<LevelResult> one = {told(64, 32, 32, 0.5)};
  const auto limit = find_server_limit(one);
  ASSERT_TRUE(limit);
  EXPECT_EQ(sentence_of(*limit),
            "the server runs 32 requests at once, and 32 wait in its queue: a limit of its "
            "scheduler, with 50.0 % of the KV cache in use");
}

TEST(ServerLimit, NoneWhereNothingWaitsOrNothingIsTold) {
  const auto none = [](std::vector<LevelResult> levels) { return !find_server_limit(levels); };
  EXPECT_TRUE(none({}));
  EXPECT_TRUE(none({told(16, 16, 0, 0.1), told(32, 32, 0, 0.2)}));
  EXPECT_TRUE(none({told(64, 60, 0, 0.1)}));     // four are elsewhere, none waits
  EXPECT_TRUE(none({told(100, 94, 4.9, 0.1)}));  // less than 5 % wait
  EXPECT_TRUE(none({told(100, 95.1, 5, 0.1)}));  // all but 5 % run
  EXPECT_TRUE(none({told(4, 3, 0.9, 0.1)}));     // not even one
  LevelResult silent = told(64, 32, 32, 0.5);
  silent.joined[Seen::kWaiting].value.reset();
  EXPECT_TRUE(none({silent}));
}

TEST(ServerLimit, RunningThatStillGrowsIsNoPlateau) {
  // 30 and 32 differ by more than 5 % of 32 (1.6).
  const std::vector<LevelResult> levels = {told(32, 30, 2, 0.5), told(64, 32, 32, 0.5)};
  EXPECT_EQ(find_server_limit(levels)->from, 64);
  // A queue that shrinks with more users is another thing.
  const std::vector<LevelResult> odd = {told(48, 32, 40, 0.5), told(64, 32, 32, 0.5)};
  EXPECT_EQ(find_server_limit(odd)->from, 64);
}

}  // namespace
}  // namespace nibble::load
