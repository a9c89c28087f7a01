// The mock as a server: times, truth, queue, metrics, pages, its end.
#include <algorithm>
#include <chrono>
#include <gtest/gtest.h>
#include <thread>

#include "base/eventually.h"
#include "base/file.h"
#include "base/testing.h"
#include "base/text.h"
#include "mock/request.h"
#include "mock/test_server.h"

namespace nibble::mock {
namespace {

TEST(MockServer, AStreamOfCompletions) {
  RunningMock mock = start(quick());
  TestClient client(mock.url());
  const Answer answer = client.ask(kCompletions, completion(5));
  EXPECT_EQ(answer.exchange.status, 200);
  EXPECT_EQ(answer.arrivals.size(), 5U);
  EXPECT_EQ(count_words(answer.text), 5);
  EXPECT_EQ(answer.end.finish_reason, "length");
  EXPECT_TRUE(answer.end.saw_done);
  EXPECT_FALSE(answer.malformed);
  EXPECT_EQ(answer.end.usage_form, api::UsageForm::kNone);  // nobody asked for it
}

TEST(MockServer, TimesAreThoseOfTheScriptAndOfTheTruth) {
  RunningMock mock = start(quick(20, 5));
  TestClient client(mock.url());
  client.ask(kCompletions, completion(1));  // the connection
  const Answer answer = client.ask(kCompletions, completion(10));
  settle(mock);
  const std::vector<RequestTruth> truths = mock.take_truths();
  ASSERT_EQ(truths.size(), 2U);
  const RequestTruth& truth = truths[1];
  EXPECT_TRUE(truth.complete);
  EXPECT_EQ(truth.start, truth.arrival);
  ASSERT_EQ(truth.chunks.size(), 10U);
  for (std::size_t token = 0; token < 10; ++token) {
    const Nanoseconds due = truth.arrival + (20 + 5 * static_cast<Nanoseconds>(token)) * kMs;
    EXPECT_EQ(truth.chunks[token].due, due);
    // Never early; how late is measured by bench/mock_stream.
    EXPECT_GT(truth.written[token], due - kMs);
    EXPECT_GE(answer.arrivals[token].at, due - kMs);
  }
  EXPECT_EQ(mock.stats().error.count, 11U);
  EXPECT_TRUE(mock.stats().error.early_max <= 50'000);
}

TEST(MockServer, TokensPerChunkAndContinuousUsage) {
  MockScript script = quick();
  script.tokens_per_chunk = Distribution::constant(3);
  RunningMock mock = start(script);
  TestClient client(mock.url());
  const Answer answer = client.ask(kCompletions, completion(9, kUsage));
  EXPECT_EQ(token_counts(answer), (std::vector<std::int64_t>{1, 3, 3, 2}));
  EXPECT_EQ(answer.end.usage_form, api::UsageForm::kContinuous);
  EXPECT_EQ(answer.end.usage.output_tokens, 9);
  EXPECT_EQ(answer.end.usage.prompt_tokens, 3);
}

TEST(MockServer, EarlyEndsSayStop) {
  MockScript script = quick(1, 0);
  script.early_end = {.probability = 1, .tokens = Distribution::constant(2)};
  RunningMock mock = start(script);
  TestClient client(mock.url());
  const Answer answer = client.ask(kChat, chat(50, kUsage));
  EXPECT_EQ(answer.end.finish_reason, "stop");
  EXPECT_EQ(answer.end.usage.output_tokens, 2);
}

TEST(MockServer, FourRunAndTheOthersWait) {
  MockScript script = quick(500, 1);  // all ten have come before the first has ended
  script.capacity = 4;
  RunningMock mock = start(script);
  TestClient client(mock.url());
  const std::vector<Answer> answers =
      client.ask_all(kCompletions, std::vector<std::string>(10, completion(11)));
  settle(mock);
  EXPECT_EQ(mock.stats().most_running, 4);
  EXPECT_EQ(mock.stats().completed, 10);
  std::vector<RequestTruth> truths = mock.take_truths();
  ASSERT_EQ(truths.size(), 10U);
  std::sort(truths.begin(), truths.end(),
            [](const RequestTruth& a, const RequestTruth& b) { return a.index < b.index; });
  for (std::size_t request = 4; request < 10; ++request) {
    // First in, first out: it starts when the one four before it has ended, on time.
    EXPECT_EQ(truths[request].start, truths[request - 4].chunks.back().due) << request;
  }
  for (const Answer& answer : answers) EXPECT_EQ(answer.arrivals.size(), 11U);
}

TEST(MockServer, ThoseWhoLeaveTheQueueLoseTheirPlace) {
  MockScript script = quick(3000, 0);
  script.capacity = 1;
  RunningMock mock = start(script);
  std::thread stays([url = mock.url()] {
    EXPECT_TRUE(TestClient(url).ask(kCompletions, completion(1)).exchange.ok());
  });
  EXPECT_TRUE(eventually([&] { return mock.stats().running == 1; }));
  // Until it has come as far as the queue.
  for (Nanoseconds span = 60 * kMs; mock.stats().requests < 2 && span < 60'000 * kMs; span *= 2) {
    TestClient hasty(mock.url(), {.total = span});
    EXPECT_NE(hasty.ask(kCompletions, completion(1)).exchange.fault, net::NetFault::kNone);
  }
  stays.join();
  settle(mock);
  const MockStats stats = mock.stats();
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.waiting, 0);
  EXPECT_EQ(stats.most_running, 1);
  EXPECT_EQ(stats.completed, 1);
}

TEST(MockServer, MetricsAgreeWithWhatWasServed) {
  RunningMock mock = start(quick(1, 0));
  TestClient client(mock.url());
  for (int request = 0; request < 3; ++request) client.ask(kCompletions, completion(7));
  const std::string page = client.page("/metrics");
  for (const char* line :
       {"generation_tokens_total{engine=\"0\",model_name=\"nibble-mock\"} 21",
        "prompt_tokens_total{engine=\"0\",model_name=\"nibble-mock\"} 9",
        "num_requests_running{engine=\"0\",model_name=\"nibble-mock\"} 0",
        "kv_cache_usage_perc{engine=\"0\",model_name=\"nibble-mock\"} 0",
        "time_to_first_token_seconds_count{engine=\"0\",model_name=\"nibble-mock\"} 3",
        "inter_token_latency_seconds_count{engine=\"0\",model_name=\"nibble-mock\"} 18",
        "finished_reason=\"length\"} 3"}) {
    EXPECT_NE(page.find(line), std::string::npos) << line << "\n" << page;
  }
}

TEST(MockServer, Pages) {
  RunningMock mock = start(quick());
  TestClient client(mock.url());
  EXPECT_NE(client.page("/v1/models").find("nibble-mock"), std::string::npos);
  EXPECT_EQ(client.ask("/health", "", "GET").exchange.status, 200);
  EXPECT_EQ(client.ask("/version", "", "GET").exchange.status, 200);
  EXPECT_EQ(client.ask("/nothing", "", "GET").exchange.status, 404);
  EXPECT_EQ(client.ask(kChat, "", "GET").exchange.status, 405);
  EXPECT_EQ(client.ask(kChat, "{", "POST").exchange.status, 400);
  const auto stats = Json::parse(client.page("/mock/stats"), "stats");
  ASSERT_TRUE(stats.ok());
  EXPECT_NE(stats->find("error_us"), nullptr);
  const auto script = Json::parse(client.page("/mock/script"), "script");
  ASSERT_TRUE(script.ok());
  EXPECT_TRUE(parse_script(*script, "script").ok());
}

TEST(MockServer, ARequestMayNameItsIndex) {
  MockScript script = quick(1, 0);
  script.output_tokens = {.kind = DistributionKind::kList, .list = {2, 4, 6}};
  RunningMock mock = start(script);
  TestClient client(mock.url());
  const Answer answer = client.ask(kCompletions, R"({"prompt": "a", "stream": true})", "POST",
                                   {{"X-Nibble-Request", "2"}});
  EXPECT_EQ(answer.arrivals.size(), 6U);
  const auto truth = net::find_header(answer.exchange.headers, "X-Nibble-Truth");
  ASSERT_TRUE(truth.has_value());
  EXPECT_NE(truth->find("\"index\":2"), std::string_view::npos) << *truth;
}

TEST(MockServer, TheFileOfTruths) {
  const TemporaryFolder folder;
  RunningMock mock = start(quick(1, 0), {.truth_file = folder.path() / "truth.jsonl"});
  TestClient client(mock.url());
  client.ask(kCompletions, completion(3));
  ASSERT_TRUE(mock.stop().ok());
  const auto text = read_file(folder.path() / "truth.jsonl", 1 << 20);
  ASSERT_TRUE(text.ok());
  const auto row = Json::parse(trim(*text), "truth");
  ASSERT_TRUE(row.ok());
  EXPECT_EQ(row->find("due_ns")->as_array().size(), 3U);
  EXPECT_TRUE(row->find("complete")->as_bool());
  EXPECT_FALSE(start_mock(quick(), {.truth_file = folder.path() / "no" / "file"}).ok());
}

TEST(MockServer, StopsAtOnceWhateverIsUnderWay) {
  RunningMock mock = start(quick(10'000, 10'000));
  TestClient client(mock.url());
  std::thread stops([&] {
    while (mock.stats().running < 20) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const Nanoseconds begin = monotonic_now();
    EXPECT_TRUE(mock.stop().ok());
    EXPECT_LT(monotonic_now() - begin, 1500 * kMs);
  });
  const auto answers = client.ask_all(kCompletions, std::vector<std::string>(20, completion(5)));
  stops.join();
  for (const Answer& answer : answers) {
    EXPECT_NE(answer.exchange.fault, net::NetFault::kNone);
    EXPECT_TRUE(answer.arrivals.empty());
  }
}

TEST(MockServer, RefusesWhatItCannotDo) {
  RunningMock first = start(quick());
  const auto second = start_mock(quick(), {.port = first.port()});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::kRun);
  EXPECT_FALSE(start_mock(quick(), {.threads = 0}).ok());
  EXPECT_FALSE(start_mock(quick(), {.host = "no address"}).ok());
  MockScript script;
  script.itl_ms = Distribution::constant(-1);
  EXPECT_FALSE(start_mock(script, {}).ok());
}

}  // namespace
}  // namespace nibble::mock
