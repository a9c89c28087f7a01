#include "drive/server_counters.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "drive/test_pages.h"

namespace nibble::drive {
namespace {

ServerCounters read_page(std::map<std::string, PageServer::Page> pages) {
  PageServer server(std::move(pages));
  auto reader = CounterReader::make(server.url(), {});
  EXPECT_TRUE(reader.ok());
  return reader->read();
}

TEST(ServerCounters, ReadsVllmOverItsEngines) {
  const ServerCounters counters = read_page({{"/metrics", {200, R"(
vllm:prompt_tokens_total{engine="0",model_name="m"} 1000
vllm:prompt_tokens_total{engine="1",model_name="m"} 24
vllm:generation_tokens_total{engine="0",model_name="m"} 200
vllm:generation_tokens_total{engine="1",model_name="m"} 56
vllm:request_success_total{engine="0",finished_reason="length"} 3
vllm:request_success_total{engine="0",finished_reason="stop"} 4
)"}}});
  EXPECT_EQ(counters.prompt_tokens, 1024);
  EXPECT_EQ(counters.output_tokens, 256);
  EXPECT_EQ(counters.requests, 7);
  EXPECT_EQ(counters.reason, "");
}

TEST(ServerCounters, ReadsSglangWhoseRanksSayTheSame) {
  const ServerCounters counters = read_page({{"/metrics", {200, R"(
sglang:prompt_tokens_total{tp_rank="0"} 900.0
sglang:prompt_tokens_total{tp_rank="1"} 900.0
sglang:generation_tokens_total{tp_rank="0"} 70
sglang:num_requests_total 5
)"}}});
  EXPECT_EQ(counters.prompt_tokens, 900);
  EXPECT_EQ(counters.output_tokens, 70);
  EXPECT_EQ(counters.requests, 5);
}

TEST(ServerCounters, LlamacppHasNoCountOfRequests) {
  const ServerCounters counters = read_page({{"/metrics", {200, R"(
llamacpp:prompt_tokens_total 30
llamacpp:tokens_predicted_total 8
)"}}});
  EXPECT_EQ(counters.prompt_tokens, 30);
  EXPECT_EQ(counters.output_tokens, 8);
  EXPECT_EQ(counters.requests, std::nullopt);
  EXPECT_EQ(counters.reason, "server.finished: llamacpp does not tell it");
  EXPECT_EQ(counters.why_not_since(counters), "");  // tokens are all that checks need
}

TEST(ServerCounters, TrtLlmHasTheSecondPlaceAndNoTokens) {
  const ServerCounters counters =
      read_page({{"/metrics", {200, R"([{"numActiveRequests": 2}])"}},
                 {"/prometheus/metrics",
                  {200, "trtllm_request_success_total 12\ntrtllm_num_requests_running 1\n"}}});
  EXPECT_EQ(counters.prompt_tokens, std::nullopt);
  EXPECT_EQ(counters.requests, 12);
  EXPECT_EQ(counters.reason, "server.prompt_tokens: trtllm does not tell it");
  EXPECT_EQ(counters.why_not_since(counters), counters.reason);
}

TEST(ServerCounters, NoPageIsAReason) {
  const ServerCounters counters = read_page({});
  EXPECT_EQ(counters.output_tokens, std::nullopt);
  EXPECT_NE(counters.reason.find("status 404"), std::string::npos) << counters.reason;
}

TEST(ServerCounters, DifferencesAndACounterThatWentBack) {
  const ServerCounters before{.prompt_tokens = 100, .output_tokens = 50, .requests = 3};
  const ServerCounters after{.prompt_tokens = 160, .output_tokens = 50, .requests = 5};
  EXPECT_EQ(after.prompt_since(before), 60);
  EXPECT_EQ(after.output_since(before), 0);
  EXPECT_EQ(after.requests_since(before), 2);
  EXPECT_EQ(after.why_not_since(before), "");
  EXPECT_EQ(before.prompt_since(after), std::nullopt);
  EXPECT_EQ(before.why_not_since(after), "the server's counters went back: it was restarted");
  EXPECT_EQ(ServerCounters{}.prompt_since(before), std::nullopt);
  EXPECT_EQ(ServerCounters{}.why_not_since(before), "the server's counters were not read");
}

TEST(ServerCounters, AValueThatIsGoneIsNotTheOldOne) {
  PageServer server({{"/metrics", {200, "vllm:prompt_tokens_total 5\n"}}});
  auto reader = CounterReader::make(server.url(), {});
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(reader->read().prompt_tokens, 5);
  server.set("/metrics", {200, "vllm:generation_tokens_total 6\n"});
  const ServerCounters counters = reader->read();
  EXPECT_EQ(counters.prompt_tokens, std::nullopt);
  EXPECT_EQ(counters.output_tokens, 6);
  server.set("/metrics", {500, ""});
  EXPECT_EQ(reader->read().output_tokens, std::nullopt);
}

TEST(ServerCounters, SettledWaitsForWhatRuns) {
  PageServer server(
      {{"/metrics", {200, "vllm:prompt_tokens_total 5\nvllm:num_requests_running 0\n"}}});
  auto reader = CounterReader::make(server.url(), {});
  ASSERT_TRUE(reader.ok());
  const Nanoseconds begin = monotonic_now();
  EXPECT_EQ(reader->read_settled().prompt_tokens, 5);
  EXPECT_GE(monotonic_now() - begin, 200'000'000);
  // It never stands still while one runs: a second is enough.
  server.set("/metrics", {200, "vllm:prompt_tokens_total 9\nvllm:num_requests_running 1\n"});
  const Nanoseconds busy = monotonic_now();
  EXPECT_EQ(reader->read_settled().prompt_tokens, 9);
  EXPECT_GE(monotonic_now() - busy, 1'000'000'000);
}

}  // namespace
}  // namespace nibble::drive
