// The mock with an engine of steps, spoken to by a client.
#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <thread>
#include <variant>

#include "base/eventually.h"
#include "base/text.h"
#include "mock/test_server.h"
#include "telemetry/remote_source.h"
#include "telemetry/server_metrics.h"
#include "telemetry/stream.h"

namespace nibble::mock {
namespace {

MockScript step_script() {
  MockScript script;
  script.steps = StepsScript{.prefill_chunk_tokens = 64,
                             .weights_ms = 8,
                             .kv_ms_per_1k_tokens = 0,
                             .per_sequence_ms = 0.5,
                             .prefill_ms_per_token = 0};
  return script;
}

std::vector<RequestTruth> truths_of(RunningMock& mock) {
  settle(mock);
  std::vector<RequestTruth> truths = mock.take_truths();
  std::sort(truths.begin(), truths.end(),
            [](const RequestTruth& a, const RequestTruth& b) { return a.index < b.index; });
  return truths;
}

TEST(MockSteps, OneStreamHasTheTimesOfItsSteps) {
  RunningMock mock = start(step_script());
  TestClient client(mock.url());
  const Answer answer = client.ask(kChat, chat(6, kUsage));
  EXPECT_EQ(answer.exchange.status, 200);
  EXPECT_EQ(token_counts(answer), (std::vector<std::int64_t>{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(answer.end.finish_reason, "length");
  EXPECT_TRUE(answer.end.saw_done);
  EXPECT_EQ(answer.end.usage.output_tokens, 6);
  const auto truths = truths_of(mock);
  ASSERT_EQ(truths.size(), 1U);
  const RequestTruth& truth = truths[0];
  EXPECT_TRUE(truth.complete);
  EXPECT_EQ(truth.start, truth.arrival);  // the engine was idle
  ASSERT_EQ(truth.chunks.size(), 6U);
  for (std::size_t token = 0; token < 6; ++token) {
    const Nanoseconds due = truth.arrival + 8 * kMs + static_cast<Nanoseconds>(token) * 8'500'000;
    EXPECT_EQ(truth.chunks[token].due, due) << token;
    EXPECT_GE(truth.written[token], due - kMs);  // how late is measured by bench/mock_stream
  }
}

TEST(MockSteps, ManyStreamsShareTheSteps) {
  for (const std::size_t threads : {1U, 2U}) {
    MockScript script = step_script();
    script.capacity = 8;
    RunningMock mock = start(script, {.threads = threads});
    TestClient client(mock.url());
    const auto answers = client.ask_all(kCompletions, std::vector<std::string>(20, completion(6)));
    for (const Answer& answer : answers) EXPECT_EQ(answer.arrivals.size(), 6U);
    const auto truths = truths_of(mock);
    const MockStats stats = mock.stats();
    EXPECT_EQ(stats.most_running, 8);
    EXPECT_EQ(stats.completed, 20);
    EXPECT_EQ(stats.generation_tokens, 120);
    EXPECT_EQ(stats.prompt_tokens, 60);
    EXPECT_GE(stats.steps, 18);  // three rounds of six
    // All tokens leave at the ends of steps, and no two steps are nearer than the weights take.
    std::vector<Nanoseconds> ends;
    for (const RequestTruth& truth : truths) {
      EXPECT_TRUE(truth.complete);
      for (const Chunk& chunk : truth.chunks) ends.push_back(chunk.due);
    }
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    EXPECT_LE(static_cast<std::int64_t>(ends.size()), stats.steps);
    for (std::size_t step = 1; step < ends.size(); ++step) {
      EXPECT_GE(ends[step] - ends[step - 1], 8 * kMs);
    }
  }
}

TEST(MockSteps, WhatNeverFitsIsRefused) {
  MockScript script = step_script();
  script.kv_capacity_tokens = 20;
  RunningMock mock = start(script);
  TestClient client(mock.url());
  const Answer refused = client.ask(kChat, chat(19));  // 3 of prompt, and 18 of 19 are held
  EXPECT_EQ(refused.exchange.status, 400);
  EXPECT_NE(refused.body.find("never fit into a cache of 20 tokens"), std::string::npos);
  EXPECT_EQ(client.ask(kChat, chat(18)).arrivals.size(), 18U);
}

TEST(MockSteps, PreemptionsAreCountedAndLoseNoToken) {
  MockScript script = step_script();
  script.kv_capacity_tokens = 20;
  script.steps->weights_ms = 20;  // long enough for all four to run together
  RunningMock mock = start(script);
  TestClient client(mock.url());
  const auto answers = client.ask_all(kCompletions, std::vector<std::string>(4, completion(12)));
  for (const Answer& answer : answers) EXPECT_EQ(answer.arrivals.size(), 12U);
  settle(mock);
  EXPECT_GT(mock.stats().preemptions, 0);
  const auto reading = telemetry::read_server_metrics(client.page("/metrics"));
  EXPECT_EQ(reading.values.at("server.preemptions"), static_cast<double>(mock.stats().preemptions));
  EXPECT_EQ(reading.values.at("server.kv_usage"), 0);
  EXPECT_EQ(reading.values.at("server.running"), 0);
  EXPECT_EQ(reading.values.at("server.prompt_tokens"), 12);
  EXPECT_EQ(reading.values.at("server.generation_tokens"), 48);
  ASSERT_TRUE(reading.histograms.contains("iteration_tokens"));
}

TEST(MockSteps, SglangTellsItsOccupancy) {
  MockScript script = step_script();
  script.metrics_style = MetricsStyle::kSglang;
  script.steps->host_gap_ms = 8;
  RunningMock mock = start(script);
  TestClient client(mock.url());
  client.ask(kCompletions, completion(24));  // 0.4 s, nearly all of its life
  const auto reading = telemetry::read_server_metrics(client.page("/metrics"));
  EXPECT_NEAR(reading.values.at("server.forward_occupancy"), 8.5 / 16.5, 0.06);
}

// A client that has its first tokens and goes.
void leave_while_it_runs(const RunningMock& mock) {
  for (Nanoseconds span = 60 * kMs; mock.stats().generation_tokens == 0 && span < 60'000 * kMs;
       span *= 2) {
    TestClient hasty(mock.url(), {.total = span});
    EXPECT_NE(hasty.ask(kCompletions, completion(100'000)).exchange.fault, net::NetFault::kNone);
  }
}

TEST(MockSteps, AClientThatLeavesFreesItsSlot) {
  MockScript script = step_script();
  script.capacity = 1;
  RunningMock mock = start(script);
  leave_while_it_runs(mock);
  TestClient client(mock.url());
  EXPECT_EQ(client.ask(kCompletions, completion(2)).arrivals.size(), 2U);
  settle(mock);
  EXPECT_EQ(mock.stats().aborted, mock.stats().requests - 1);
}

TEST(MockSteps, FaultsThatMoveNoTimesStrike) {
  MockScript script = step_script();
  script.faults = {{.kind = FaultKind::kReset, .requests = {0}, .after_tokens = 2},
                   {.kind = FaultKind::kErrorEvent, .requests = {1}, .after_tokens = 1},
                   {.kind = FaultKind::kStatus, .requests = {2}}};
  RunningMock mock = start(script);
  TestClient client(mock.url(), {}, false);
  const Answer reset = client.ask(kChat, chat(5));
  EXPECT_NE(reset.exchange.fault, net::NetFault::kNone);
  EXPECT_TRUE(client.ask(kChat, chat(5)).error_event);
  EXPECT_EQ(client.ask(kChat, chat(5)).exchange.status, 503);
  EXPECT_EQ(client.ask(kChat, chat(5)).arrivals.size(), 5U);
  settle(mock);
  EXPECT_EQ(mock.stats().running, 0);
}

TEST(MockSteps, AnswersInOneBody) {
  RunningMock mock = start(step_script());
  TestClient client(mock.url());
  std::string body = chat(4);
  body.replace(body.find("true"), 4, "false");
  const Answer answer = client.ask(kChat, body);
  EXPECT_EQ(api::read_body(api::Dialect::kChat, answer.body).usage.output_tokens, 4);
  EXPECT_GE(answer.exchange.stamps.end - answer.exchange.stamps.send_start, 33 * kMs);
}

TEST(MockSteps, EndsWhileStreamsRun) {
  RunningMock mock = start(step_script());
  std::thread streams([url = mock.url()] {
    const Answer answer = TestClient(url).ask(kCompletions, completion(100'000));  // a quarter hour
    EXPECT_NE(answer.exchange.fault, net::NetFault::kNone);
  });
  EXPECT_TRUE(eventually([&] { return mock.stats().generation_tokens > 3; }));
  const Nanoseconds before = monotonic_now();
  EXPECT_TRUE(mock.stop().ok());
  EXPECT_LT(monotonic_now() - before, 20'000 * kMs);
  streams.join();
}

// Without a last one that was cut off.
std::string_view whole_lines(std::string_view text) {
  return text.substr(0, text.rfind('\n') + 1);
}

TEST(MockSteps, TheSensorsAreServed) {
  MockScript script = step_script();
  script.steps->ranks = 2;
  RunningMock mock = start(script);
  std::map<std::string, double> values;
  std::size_t signals = 0;
  // The page has no end: read for longer until each sensor has told something.
  for (Nanoseconds span = 400 * kMs; values.size() < 34 && span < 60'000 * kMs; span *= 2) {
    TestClient reader(mock.url(), {.total = span});
    const std::string lines = reader.page("/stream");
    signals = 0;
    for (const std::string_view line : split(whole_lines(lines), '\n')) {
      if (line.empty()) continue;
      const auto parsed = telemetry::parse_stream_line(line);
      ASSERT_TRUE(parsed.ok()) << parsed.error().message;
      if (std::holds_alternative<telemetry::Signal>(*parsed)) ++signals;
      if (const auto* moment = std::get_if<telemetry::StreamValues>(&*parsed)) {
        for (const auto& [name, value] : moment->values) values[name] = value;
      }
    }
  }
  EXPECT_EQ(signals, 34U);  // 17 sensors of each
  EXPECT_EQ(values.size(), 34U);
  EXPECT_EQ(values["gpu1.power_limit"], 700);
  EXPECT_EQ(values["gpu1.pcie_width_max"], 16);
  EXPECT_NEAR(values["gpu0.power"], 117, 1e-6);
  EXPECT_TRUE(telemetry::parse_clock_answer(TestClient(mock.url()).page("/clock")).ok());
}

TEST(MockSteps, ReadersOfSensorsDoNotHoldTheMockUp) {
  RunningMock mock = start(step_script());
  std::thread reads([&] { TestClient(mock.url()).page("/stream"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const Nanoseconds before = monotonic_now();
  EXPECT_TRUE(mock.stop().ok());
  EXPECT_LT(monotonic_now() - before, 1000 * kMs);
  reads.join();
}

TEST(MockSteps, WithoutStepsThereAreNoSensors) {
  RunningMock mock = start(quick());
  EXPECT_EQ(TestClient(mock.url()).ask("/stream", "", "GET").exchange.status, 404);
}

}  // namespace
}  // namespace nibble::mock
