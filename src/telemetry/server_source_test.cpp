#include "telemetry/server_source.h"

#include <gtest/gtest.h>

namespace nibble::telemetry {
namespace {

SignalState state(const SampleStore& store, std::string_view name) {
  return store.state(*store.find(name));
}

TEST(ServerSource, AddsWhatTheServerTellsAndMarksTheRest) {
  SampleStore store;
  const auto source =
      server_source([](std::string_view) { return std::string("vllm:num_requests_running 3\n"); },
                    {.where = "host:8000"}, store, nullptr);
  EXPECT_EQ(state(store, "server.running").signal.reason, "not scraped yet");
  ASSERT_TRUE(source->sample().ok());
  EXPECT_EQ(state(store, "server.running").latest->value, 3);
  EXPECT_TRUE(state(store, "server.running").signal.available);
  EXPECT_EQ(state(store, "server.forward_occupancy").signal.reason, "vllm does not tell it");
}

TEST(ServerSource, LooksInBothPlacesOnce) {
  SampleStore store;
  std::vector<std::string> asked;
  const auto source = server_source(
      [&](std::string_view target) -> Result<std::string> {
        asked.emplace_back(target);
        if (target == "/metrics") return std::string("[{\"numActiveRequests\": 2}]");
        return std::string("trtllm_num_requests_running 3\ntrtllm_kv_cache_utilization 0.5\n");
      },
      {.where = "host:8000", .owner = "server1"}, store, nullptr);
  ASSERT_TRUE(source->sample().ok());
  ASSERT_TRUE(source->sample().ok());
  const std::vector<std::string> expected = {"/metrics", "/prometheus/metrics",
                                             "/prometheus/metrics"};
  EXPECT_EQ(asked, expected);
  EXPECT_EQ(state(store, "server1.running").latest->value, 3);
  EXPECT_EQ(state(store, "server1.running").kept, 2U);
}

TEST(ServerSource, AFailingScrapeIsAnError) {
  SampleStore store;
  bool alive = false;
  const auto source = server_source(
      [&](std::string_view target) -> Result<std::string> {
        if (!alive) return run_error("{}: connection refused", target);
        return std::string("sglang:num_running_reqs 1\n");
      },
      {.where = "host:8000"}, store, nullptr);
  EXPECT_EQ(source->sample().error().message, "/metrics: connection refused");
  alive = true;
  ASSERT_TRUE(source->sample().ok());
  alive = false;
  EXPECT_FALSE(source->sample().ok());
  EXPECT_EQ(state(store, "server.running").kept, 1U);
}

TEST(ServerSource, APageWithoutKnownNamesIsAnError) {
  SampleStore store;
  const auto source =
      server_source([](std::string_view) { return std::string("go_goroutines 7\n"); },
                    {.where = "host:8000"}, store, nullptr);
  EXPECT_EQ(source->sample().error().message,
            "host:8000: its metrics page has no name that is known here");
}

// The page that came says more than the one that did not.
TEST(ServerSource, APageOfSomethingElseIsToldBeforeAMissingOne) {
  SampleStore store;
  const auto source = server_source(
      [](std::string_view target) -> Result<std::string> {
        if (target == "/metrics") return std::string("<html>\n<body>\n");
        return run_error("{} answers status 404", target);
      },
      {.where = "host:8000"}, store, nullptr);
  EXPECT_EQ(source->sample().error().message,
            "host:8000: its metrics page has no name that is known here; 2 lines not understood, "
            "the first: <html>");
}

TEST(ServerSource, AnotherServerAtTheAddressIsFound) {
  SampleStore store;
  bool replaced = false;
  const auto source = server_source(
      [&](std::string_view target) -> Result<std::string> {
        const bool first = target == "/metrics";
        if (!replaced && !first) return std::string("trtllm_num_requests_running 3\n");
        if (replaced && first) return std::string("vllm:num_requests_running 5\n");
        return run_error("{} answers status 404", target);
      },
      {.where = "host:8000"}, store, nullptr);
  ASSERT_TRUE(source->sample().ok());
  replaced = true;
  EXPECT_FALSE(source->sample().ok());
  ASSERT_TRUE(source->sample().ok());
  EXPECT_EQ(state(store, "server.running").latest->value, 5);
}

TEST(ServerSource, AServerThatTurnsToRubbishIsAnError) {
  SampleStore store;
  std::string page = "vllm:num_requests_running 5\n";
  const auto source =
      server_source([&](std::string_view) { return page; }, {.where = "host:8000"}, store, nullptr);
  ASSERT_TRUE(source->sample().ok());
  page = "<html>\n";
  EXPECT_FALSE(source->sample().ok());
}

Histogram histogram(double below, double all) {
  Histogram made;
  made.buckets = {{1, below}, {std::numeric_limits<double>::infinity(), all}};
  made.count = all;
  return made;
}

TEST(HistogramLog, TakesTheScrapesAroundTheWindow) {
  HistogramLog log;
  log.add(10, {{"ttft", histogram(100, 100)}});
  log.add(20, {{"ttft", histogram(110, 110)}});
  log.add(30, {{"ttft", histogram(114, 114)}});
  log.add(40, {{"ttft", histogram(900, 900)}});
  // From the scrape at 20 to the one at 30: four observations up to 1.
  const Result<HistogramQuantile> half = log.quantile("ttft", 0.5, {20, 30});
  ASSERT_TRUE(half.ok());
  EXPECT_EQ(half->value, 0.5);
  EXPECT_FALSE(log.quantile("ttft", 0.5, {5, 30}).ok());
  EXPECT_FALSE(log.quantile("ttft", 0.5, {20, 41}).ok());
  EXPECT_FALSE(log.quantile("itl", 0.5, {20, 30}).ok());
}

TEST(HistogramLog, ABrokenHistogramGivesItsOwnReason) {
  HistogramLog log;
  log.add(10, {}, {{"ttft", "histogram h has no bucket for +Inf"}});
  log.add(40, {}, {{"ttft", "histogram h has no bucket for +Inf"}});
  EXPECT_EQ(log.quantile("ttft", 0.5, {20, 30}).error().message,
            "histogram h has no bucket for +Inf");
  EXPECT_EQ(log.quantile("itl", 0.5, {20, 30}).error().message,
            "no scrape with itl from before the window");
}

}  // namespace
}  // namespace nibble::telemetry
