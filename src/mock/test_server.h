// What the tests of the mock's server share: quick scripts, requests, a running mock.
//
//   RunningMock mock = start(quick());
//   const Answer answer = TestClient(mock.url()).ask(kChat, chat(4, kUsage));
#pragma once

#include <chrono>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <vector>

#include "api/test_client.h"
#include "mock/mock.h"
#include "mock/test_time.h"

namespace nibble::mock {

using api::Answer;
using api::TestClient;
using api::TokenArrival;

inline MockScript quick(double ttft_ms = 5, double itl_ms = 1) {
  MockScript script;
  script.ttft_ms = Distribution::constant(ttft_ms);
  script.itl_ms = Distribution::constant(itl_ms);
  return script;
}

inline RunningMock start(MockScript script, MockOptions options = {}) {
  options.keep_truths = true;
  Result<RunningMock> mock = start_mock(std::move(script), options);
  EXPECT_TRUE(mock.ok()) << (mock.ok() ? "" : mock.error().message);
  return std::move(*mock);
}

// A client has its last byte a moment before the server has noted that the request ended: what the
// mock says of it is asked for after this. Two seconds at most; the tests then see what is wrong.
inline void settle(const RunningMock& mock) {
  const Nanoseconds patience = monotonic_now() + 2000 * kMs;
  while (mock.stats().running > 0 && monotonic_now() < patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

inline constexpr const char* kCompletions = "/v1/completions";
inline constexpr const char* kChat = "/v1/chat/completions";

inline std::string completion(int tokens, const std::string& more = "") {
  return fmt::format(R"({{"prompt": "a b c", "max_tokens": {}, "stream": true{}}})", tokens, more);
}
inline std::string chat(int tokens, const std::string& more = "") {
  return fmt::format(
      R"({{"messages": [{{"role": "user", "content": "a b c"}}], "max_tokens": {}, "stream": true{}}})",
      tokens, more);
}
inline constexpr const char* kUsage =
    R"(, "stream_options": {"include_usage": true, "continuous_usage_stats": true})";

inline std::vector<std::int64_t> token_counts(const Answer& answer) {
  std::vector<std::int64_t> counts;
  for (const TokenArrival& arrival : answer.arrivals) counts.push_back(arrival.tokens.value_or(-1));
  return counts;
}

}  // namespace nibble::mock
