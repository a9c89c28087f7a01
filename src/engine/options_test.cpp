#include "engine/options.h"

#include <gtest/gtest.h>
#include <string>

namespace nibble::engine {
namespace {

constexpr double kGigabyte = 1e9;
const ModelInfo kSmallModel = {
    .architecture = "Fake", .vocabulary = 100, .max_context = 4096, .kv_bytes_per_token = 1000};

TEST(EngineOptions, ZerosAreReplacedByWhatTheyStandFor) {
  const auto options = settle({.max_running_requests = 8}, kSmallModel, 100 * kGigabyte);
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->max_model_len, 4096);
  EXPECT_EQ(options->kv_blocks, 8 * 1024 / 16);
  EXPECT_GE(options->threads, 1);
  EXPECT_EQ(most_tokens(*options), 4096);
}

TEST(EngineOptions, OneRequestOfFullLengthFitsThePool) {
  const auto options = settle({.max_running_requests = 1}, kSmallModel, 100 * kGigabyte);
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->kv_blocks, 4096 / 16);
}

// A block is 16 tokens of 1000 bytes of keys and values and 4 of the token, and 128 bytes: 16 192.
TEST(EngineOptions, ThePoolTakesAtMostHalfOfTheMemory) {
  const auto options = settle({}, kSmallModel, 10 * 2 * 16'192 + 40'000);
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->kv_blocks, 11);  // 363 840 / 2 / 16 192 = 11.2
  EXPECT_EQ(most_tokens(*options), 176);
}

struct BadOptions {
  const char* begins;
  EngineOptions options;
  double memory = 100 * kGigabyte;
};

TEST(EngineOptions, EveryBadOneIsNamed) {
  const BadOptions cases[] = {
      {"max_running_requests is 0", {.max_running_requests = 0}},
      {"max_running_requests is -1", {.max_running_requests = -1}},
      {"max_num_batched_tokens is 0", {.max_num_batched_tokens = 0}},
      {"max_num_batched_tokens is 63, less than max_running_requests (64)",
       {.max_num_batched_tokens = 63}},
      {"max_queued_requests is 0", {.max_queued_requests = 0}},
      {"max_model_len is -1", {.max_model_len = -1}},
      {"max_model_len is 1;", {.max_model_len = 1}},
      {"max_model_len is 4097", {.max_model_len = 4097}},
      {"kv_blocks is -1", {.kv_blocks = -1}},
      {"kv_blocks is 1 and block_tokens 1", {.kv_blocks = 1, .block_tokens = 1}},
      {"kv_blocks is 1000000000000", {.kv_blocks = 1'000'000'000'000}},
      {"32384 MB for kv_blocks 2000000", {.kv_blocks = 2'000'000}, 32 * kGigabyte},
      {"block_tokens is 0", {.block_tokens = 0}},
      {"threads is -1", {.threads = -1}},
      {"half of the 0 MB of free memory", {}, 20'000},
  };
  for (const BadOptions& bad : cases) {
    const auto options = settle(bad.options, kSmallModel, bad.memory);
    ASSERT_FALSE(options.ok()) << bad.begins;
    EXPECT_TRUE(options.error().message.starts_with(bad.begins)) << options.error().message;
  }
}

}  // namespace
}  // namespace nibble::engine
