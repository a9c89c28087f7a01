#include "load/metrics.h"

#include <gtest/gtest.h>

#include "load/test_rows.h"

namespace nibble::load {
namespace {

LevelMetrics metrics_of(const std::vector<RequestRecord>& rows, MetricsOptions options = {}) {
  LevelAccumulator level(std::move(options));
  for (const RequestRecord& row : rows) level.add(row);
  return level.finish();
}

bool flagged(const LevelMetrics& metrics, std::string_view words) {
  for (const std::string& flag : metrics.flags) {
    if (flag.find(words) != std::string::npos) return true;
  }
  return false;
}

// Two successes and a failure, on which the load testers of docs/load_metrics.md disagree.
//   A: scheduled at -20, sent at 0; a role-only chunk at 40; one token at 50, 60, 70, 80; end
//   at 85. B: sent at 10; chunks of three tokens 60, 90 and 120 ms later; [DONE] 130 ms later. C:
//   sent at 100, refused with status 503 at 110.
std::vector<RequestRecord> disagreement() {
  RequestRecord a = make_row(
      {.sent = 0, .events = {50, 60, 70, 80}, .end = 85, .queue = 20, .output = 4, .asked = 4});
  a.first_byte = test_time(40);
  const RequestRecord b = make_row({.sent = 10,
                                    .events = {60, 90, 120},
                                    .end = 130,
                                    .output = 9,
                                    .asked = 9,
                                    .tokens = {3, 3, 3}});
  return {a, b, failed_row(100, 10, Outcome::kHttpStatus)};
}

TEST(Disagreements, ByHand) {
  const LevelMetrics m = metrics_of(disagreement());
  const auto expect_mean = [&](Metric metric, double mean) {
    EXPECT_NEAR(m[metric].mean, mean, 1e-9) << info_of(metric).name;
  };
  // 1. TPOT. vLLM: A (80 - 50) / 3 = 10, B (120 - 60) / 8 = 7.5. guidellm, first token included:
  //    A 80 / 4 = 20, B 120 / 9. SGLang and genai-perf, to the last byte: A 35 / 3, B 70 / 8
  //    = 8.75. After the first chunk: A 30 / 3, B 60 / 6, both 10.
  expect_mean(Metric::kTpot, 8.75);
  expect_mean(Metric::kTpotWithFirst, (20 + 120.0 / 9) / 2);
  expect_mean(Metric::kTpotLastByte, (35.0 / 3 + 8.75) / 2);
  expect_mean(Metric::kTpotAfterFirst, 10);
  // 2. ITL. Pooled over chunks (vLLM): 10, 10, 10, 30, 30. By tokens (SGLang native): 10 nine
  // times.
  //    A mean a request: 10 and 30. With TTFT as a gap (llmperf): A 80 / 4 = 20, B 120 / 3 = 40.
  expect_mean(Metric::kItl, 18);
  EXPECT_EQ(m[Metric::kItl].n, 5);
  expect_mean(Metric::kTokenItl, 10);
  EXPECT_EQ(m[Metric::kTokenItl].n, 9);
  EXPECT_NEAR(m[Metric::kTokenItl].std, 0, 1e-9);
  expect_mean(Metric::kRequestItl, 20);
  expect_mean(Metric::kLlmperfItl, 30);
  // 3. First token: A 50, B 60; the role-only chunk that vLLM takes for A's came at 40.
  expect_mean(Metric::kTtft, 55);
  expect_mean(Metric::kTtfr, 50);
  expect_mean(Metric::kTtfo, 55);
  // 4. End of a request: the last token (80, 120) or the last byte (85, 130).
  expect_mean(Metric::kE2el, 100);
  expect_mean(Metric::kE2eLatency, 107.5);
  // 5. Output tokens: 4 + 9 by usage, as many as asked for, 4 + 3 chunks, none counted here.
  EXPECT_EQ(m.tokens.output, 13);
  EXPECT_EQ(m.tokens.output_usage, 13);
  EXPECT_EQ(m.tokens.output_asked, 13);
  EXPECT_EQ(m.tokens.events, 7);
  EXPECT_FALSE(m.tokens.output_counted);
  EXPECT_NEAR(*m.tokens_per_chunk, 13.0 / 7, 1e-12);
  // 6. Duration: first send to last byte of any request (0 to 140), from the schedule (-20), to the
  //    last token (130).
  EXPECT_NEAR(m.durations.benchmark, 0.140, 1e-12);
  EXPECT_NEAR(m.durations.from_schedule, 0.160, 1e-12);
  EXPECT_NEAR(m.durations.to_last_token, 0.130, 1e-12);
  EXPECT_NEAR(*m.output_throughput, 13 / 0.14, 1e-9);
  EXPECT_NEAR(*m.input_throughput, 20 / 0.14, 1e-9);
  EXPECT_NEAR(*m.total_throughput, 33 / 0.14, 1e-9);
  EXPECT_NEAR(*m.request_throughput, 2 / 0.14, 1e-9);
  // 7. Percentiles are linear: P90 of 50 and 60 is 59; sorted[int(n p)] would say 60.
  EXPECT_NEAR(m[Metric::kTtft].find(0.9)->value, 59, 1e-9);
  EXPECT_NEAR(m[Metric::kTtft].std, 5, 1e-9);  // population; a sample's would be 7.07
  // 12. Tokens in the best second are not known below one second; never less than the mean.
  EXPECT_FALSE(m.max_output_tokens_per_s);
  EXPECT_EQ(m.max_output_reason, "shorter than a second");
  // 13. Concurrency: SGLang (85 + 130) / 140; in flight, the failure included, 225 / 140; peak 2.
  EXPECT_NEAR(*m.concurrency, 215.0 / 140, 1e-12);
  EXPECT_NEAR(*m.mean_in_flight, 225.0 / 140, 1e-12);
  EXPECT_EQ(m.max_in_flight, 2);
  // 14. From the schedule: A waited 20 ms in the client.
  expect_mean(Metric::kQueue, 20.0 / 3);
  expect_mean(Metric::kSchedTtft, (70 + 60) / 2.0);
  expect_mean(Metric::kSchedTtfo, (70 + 60) / 2.0);
  expect_mean(Metric::kSchedE2el, (100 + 120) / 2.0);
  expect_mean(Metric::kSchedE2eLatency, (105 + 130) / 2.0);
  EXPECT_EQ(m.counts.failed, 1);
  EXPECT_NEAR(*m.success_ratio, 2.0 / 3, 1e-12);
  EXPECT_TRUE(flagged(m, "below 95"));
  EXPECT_TRUE(flagged(m, "token_itl that of a token"));
}

TEST(Goodput, DenominatorsAndOneTokenAreExplicit) {
  // A: TTFT 50, TPOT 10. One-token answer: TTFT 30, no TPOT. Not streamed: no TTFT at all.
  std::vector<RequestRecord> rows = {
      make_row({.sent = 0, .events = {50, 60, 70}, .end = 70, .output = 3}),
      make_row({.sent = 0, .events = {30}, .end = 30, .output = 1}),
      make_row({.sent = 0, .events = {90}, .end = 90, .output = 9}),
      failed_row(0, 10, Outcome::kReset), failed_row(0, 1000, Outcome::kCancelled)};
  rows[2].streamed = false;
  LevelMetrics m = metrics_of(rows, {.slo = {.ttft_ms = 50, .tpot_ms = 10}});
  ASSERT_TRUE(m.goodput);
  EXPECT_EQ(m.goodput->good, 2);  // limits themselves are within
  EXPECT_EQ(m.goodput->strict, 1);
  EXPECT_EQ(m.goodput->unknown, 1);
  EXPECT_NEAR(*m.goodput->per_s, 2, 1e-12);  // in 1 s
  EXPECT_NEAR(*m.goodput->of_sent, 2.0 / 5, 1e-12);
  EXPECT_NEAR(*m.goodput->of_finished, 2.0 / 4, 1e-12);
  EXPECT_NEAR(*m.goodput->of_ok, 2.0 / 3, 1e-12);
  EXPECT_EQ(metrics_of(rows, {.slo = {.ttft_ms = 49.9}}).goodput->good, 1);
  EXPECT_EQ(metrics_of(rows, {.slo = {.itl_ms = 9.9}}).goodput->good, 1);
  EXPECT_EQ(metrics_of(rows, {.slo = {.e2el_ms = 80}}).goodput->good, 2);
  EXPECT_FALSE(metrics_of(rows).goodput);
}

// In a window the good ones are counted as the request rate is: those that ended in it. Here none
// is both sent and ended inside and good.
TEST(Goodput, InAWindowThoseThatEndedInItCount) {
  const std::vector<RequestRecord> rows = {
      make_row({.sent = 50, .events = {20, 100}, .end = 100, .output = 2}),   // good, ends at 150
      make_row({.sent = 110, .events = {60, 80}, .end = 80, .output = 2}),    // too late
      make_row({.sent = 150, .events = {20, 100}, .end = 100, .output = 2}),  // ends behind it
      make_row({.sent = 60, .events = {20, 40}, .end = 40, .output = 2}),     // ends at its start
      failed_row(120, 10, Outcome::kReset),
      failed_row(100, 80, Outcome::kCancelled)};
  const LevelMetrics m =
      metrics_of(rows, {.slo = {.ttft_ms = 50}, .window = Window{test_time(100), test_time(200)}});
  ASSERT_TRUE(m.goodput);
  EXPECT_NEAR(*m.request_throughput, 20, 1e-9);  // two in 100 ms
  EXPECT_EQ(m.goodput->good, 1);
  EXPECT_NEAR(*m.goodput->per_s, 10, 1e-9);
  EXPECT_NEAR(*m.goodput->of_sent, 1.0 / 4, 1e-12);
  EXPECT_NEAR(*m.goodput->of_finished, 1.0 / 3, 1e-12);
  EXPECT_NEAR(*m.goodput->of_ok, 1.0 / 2, 1e-12);
}

TEST(Metrics, TheCommonestMessageOfEachClass) {
  std::vector<RequestRecord> rows;
  for (const char* message : {"503: busy", "503: full", "503: full", ""}) {
    rows.push_back(failed_row(0, 10, Outcome::kHttpStatus));
    rows.back().message = message;
  }
  rows.push_back(failed_row(0, 10, Outcome::kReset));
  rows.back().message = "connection reset";
  const LevelMetrics m = metrics_of(rows);
  EXPECT_EQ(m.messages[static_cast<std::size_t>(Outcome::kHttpStatus)], "503: full");
  EXPECT_EQ(m.messages[static_cast<std::size_t>(Outcome::kReset)], "connection reset");
  EXPECT_EQ(m.messages[static_cast<std::size_t>(Outcome::kRefused)], "");
}

// T2: three tokens a chunk, a chunk every 30 ms.
TEST(Chunks, ThreeTokensEach) {
  TestRow row{.events = {}, .output = 30};
  for (int chunk = 0; chunk < 10; ++chunk) {
    row.events.push_back(50 + 30 * chunk);
    row.tokens.push_back(3);
  }
  row.end = row.events.back();
  const LevelMetrics m = metrics_of({make_row(row)});
  EXPECT_NEAR(m[Metric::kTpot].mean, 270.0 / 29, 1e-9);
  EXPECT_NEAR(m[Metric::kTpotAfterFirst].mean, 10, 1e-9);
  EXPECT_NEAR(m[Metric::kItl].mean, 30, 1e-9);
  EXPECT_NEAR(m[Metric::kTokenItl].mean, 10, 1e-9);
  EXPECT_EQ(m[Metric::kTokenItl].n, 27);
  // With usage at the end alone the tokens of a chunk are not known, and nothing is guessed.
  row.tokens.clear();
  const LevelMetrics unknown = metrics_of({make_row(row)});
  EXPECT_NEAR(unknown[Metric::kTpot].mean, 270.0 / 29, 1e-9);
  EXPECT_TRUE(unknown[Metric::kTokenItl].empty());
  EXPECT_TRUE(unknown[Metric::kTpotAfterFirst].empty());
}

TEST(Chunks, ACountThatStandsStillJoinsTheNextGap) {
  // Cumulative usage 1, 1, 3: the chunk at 60 brought half of a character, the one at 90 the rest
  // and one more token: 40 ms for two tokens.
  const LevelMetrics m =
      metrics_of({make_row({.events = {50, 60, 90}, .end = 90, .output = 3, .tokens = {1, 0, 2}})});
  EXPECT_EQ(m[Metric::kTokenItl].n, 2);
  EXPECT_NEAR(m[Metric::kTokenItl].mean, 20, 1e-9);
  EXPECT_EQ(m[Metric::kItl].n, 2);
  // An event that the server does not count is joined in the same way: 60 is one, 90 tells three.
  RequestRecord uncounted =
      make_row({.events = {50, 60, 90}, .end = 90, .output = 3, .tokens = {1, 0, 2}});
  uncounted.events[1].tokens.reset();
  const LevelMetrics same = metrics_of({uncounted});
  EXPECT_EQ(same[Metric::kTokenItl].n, 2);
  EXPECT_NEAR(same[Metric::kTokenItl].mean, 20, 1e-9);
}

// T4: a role-only delta and empty ones are no events; the first byte came with the role.
TEST(FirstToken, EmptyDeltasDoNotCount) {
  RequestRecord record =
      make_row({.events = {50, 60, 70, 80, 90}, .end = 95, .output = 5, .asked = 5});
  record.first_byte = test_time(5);
  const LevelMetrics m = metrics_of({record});
  EXPECT_NEAR(m[Metric::kTtft].mean, 50, 1e-9);
  EXPECT_NEAR(m[Metric::kTtfr].mean, 5, 1e-9);
  EXPECT_EQ(m[Metric::kItl].n, 4);
}

// T6: reasoning first.
TEST(FirstToken, ReasoningAndToolCalls) {
  RequestRecord record = make_row({.events = {50, 60, 300, 310}, .end = 320, .output = 4});
  record.events[0].kind = TokenKind::kReasoning;
  record.events[1].kind = TokenKind::kReasoning;
  record.events[2].kind = TokenKind::kTool;
  LevelMetrics m = metrics_of({record});
  EXPECT_NEAR(m[Metric::kTtft].mean, 50, 1e-9);
  EXPECT_NEAR(m[Metric::kTtfo].mean, 300, 1e-9);
  for (TokenEvent& event : record.events) event.kind = TokenKind::kReasoning;
  m = metrics_of({record});
  EXPECT_NEAR(m[Metric::kTtft].mean, 50, 1e-9);
  EXPECT_TRUE(m[Metric::kTtfo].empty());  // no answer came: no time, rather than zero
  EXPECT_EQ(m[Metric::kTtfo].missing, 1);
}

// T5: where the count comes from.
TEST(TokenSources, BestOfWhatThereIs) {
  const auto source_of = [](const RequestRecord& record) { return output_tokens(record); };
  RequestRecord record = make_row({.events = {1, 2, 3}, .end = 4, .output = 7});
  EXPECT_EQ(source_of(record).tokens, 7);
  EXPECT_EQ(source_of(record).source, TokenSource::kUsage);
  record.counted_tokens = 8;
  EXPECT_EQ(source_of(record).tokens, 7);
  record.output_tokens = 0;  // zero with text is not believed
  EXPECT_EQ(source_of(record).tokens, 8);
  EXPECT_EQ(source_of(record).source, TokenSource::kTokenizer);
  EXPECT_TRUE(source_of(record).usage_was_zero);
  record.counted_tokens.reset();
  record.output_tokens.reset();
  record.token_source = TokenSource::kEvents;
  EXPECT_EQ(source_of(record).tokens, 3);
  EXPECT_EQ(source_of(record).source, TokenSource::kEvents);
  // A continuous count survives a stream without a last usage.
  RequestRecord cut = make_row({.events = {1, 2}, .end = 4, .tokens = {2, 3}});
  EXPECT_EQ(source_of(cut).tokens, 5);
  EXPECT_EQ(source_of(cut).source, TokenSource::kContinuousUsage);
}

TEST(TokenSources, AMixIsFlagged) {
  const RequestRecord usage = make_row({.events = {1, 2}, .end = 2, .output = 2});
  const RequestRecord none = make_row({.events = {1, 2}, .end = 2});
  RequestRecord zero = make_row({.events = {1, 2}, .end = 2, .output = 0});
  EXPECT_TRUE(metrics_of({usage}).flags.size() == 1);  // P99 of one request, nothing else
  const LevelMetrics m = metrics_of({usage, none, zero});
  EXPECT_TRUE(flagged(m, "different ways"));
  EXPECT_TRUE(flagged(m, "one token a chunk is assumed"));
  EXPECT_TRUE(flagged(m, "says 0 output tokens"));
  EXPECT_FALSE(m.tokens.output_usage);  // not every success has one
  RequestRecord differs = make_row({.events = {1, 2}, .end = 2, .output = 5, .tokens = {1, 1}});
  EXPECT_TRUE(flagged(metrics_of({differs}), "differ in 1 request"));
}

// T10: answers that end before they should.
TEST(Lengths, EarlyEndsAreTold) {
  std::vector<RequestRecord> rows;
  for (const std::int64_t tokens : {100, 40, 60, 100}) {
    rows.push_back(make_row({.events = {10, 20}, .end = 20, .output = tokens, .asked = 100}));
    if (tokens < 100) rows.back().finish_reason = "stop";
  }
  const LevelMetrics m = metrics_of(rows);
  EXPECT_EQ(m.output_lengths.requests, 4);
  EXPECT_EQ(m.output_lengths.mismatched, 2);
  EXPECT_EQ(m.output_lengths.early_eos, 2);
  EXPECT_NEAR(*m.output_lengths.ratio(), 0.75, 1e-12);
  EXPECT_TRUE(flagged(m, "75.0 % of the length"));
  rows[0].prompt_tokens = 30;
  const LevelMetrics prompts = metrics_of({rows[0]});
  EXPECT_EQ(prompts.prompt_lengths.mismatched, 1);
  EXPECT_TRUE(flagged(prompts, "prompts are 300 %"));
}

// T16: not streamed.
TEST(NotStreamed, HasNoFirstToken) {
  RequestRecord whole = make_row({.events = {500}, .end = 500, .output = 20});
  whole.streamed = false;
  const LevelMetrics m = metrics_of({whole});
  for (const Metric metric : {Metric::kTtft, Metric::kTtfo, Metric::kTpot, Metric::kItl,
                              Metric::kTokenItl, Metric::kSchedTtft}) {
    EXPECT_TRUE(m[metric].empty()) << info_of(metric).name;
    EXPECT_EQ(m[metric].missing, 1) << info_of(metric).name;
  }
  EXPECT_NEAR(m[Metric::kE2el].mean, 500, 1e-9);
  EXPECT_EQ(m.tokens.output, 20);
  EXPECT_EQ(m.counts.not_streamed, 1);
  EXPECT_TRUE(flagged(m, "not streamed"));
  // Beside a streamed one it does not pull the mean towards zero.
  const RequestRecord streamed = make_row({.events = {50, 60}, .end = 60, .output = 2});
  EXPECT_NEAR(metrics_of({whole, streamed})[Metric::kTtft].mean, 50, 1e-9);
}

// T8: every class of failure is counted, and none enters a latency.
TEST(Failures, AreCountedByClassAndNeverTimed) {
  std::vector<RequestRecord> rows = {
      make_row({.events = {50, 60}, .end = 60, .output = 2, .asked = 2})};
  for (int outcome = 1; outcome < kOutcomes; ++outcome) {
    RequestRecord row = make_row({.events = {1, 5000}, .end = 9000, .output = 2});
    row.outcome = static_cast<Outcome>(outcome);
    rows.push_back(row);
  }
  const LevelMetrics m = metrics_of(rows);
  EXPECT_EQ(m.counts.requests, kOutcomes);
  EXPECT_EQ(m.counts.ok, 1);
  EXPECT_EQ(m.counts.cancelled, 1);
  EXPECT_EQ(m.counts.failed, kOutcomes - 2);
  for (int outcome = 0; outcome < kOutcomes; ++outcome) {
    EXPECT_EQ(m.counts.by_outcome[static_cast<std::size_t>(outcome)], 1) << outcome;
  }
  for (const Metric metric : {Metric::kTtft, Metric::kE2el, Metric::kE2eLatency, Metric::kTpot,
                              Metric::kTpotWithFirst, Metric::kRequestItl}) {
    EXPECT_EQ(m[metric].n, 1) << info_of(metric).name;
  }
  EXPECT_NEAR(m[Metric::kTtft].mean, 50, 1e-9);
  EXPECT_EQ(m[Metric::kItl].max, 10);
  EXPECT_EQ(m.tokens.output, 2);
  EXPECT_EQ(m.tokens.output_of_others, 2 * (kOutcomes - 1));
  const LevelMetrics none = metrics_of({failed_row(0, 5, Outcome::kRefused)});
  EXPECT_TRUE(none[Metric::kE2el].empty());
  EXPECT_EQ(*none.success_ratio, 0);
}

TEST(Level, WarmUpAndUnsentRequestsStandApart) {
  RequestRecord warm = make_row({.events = {500, 600}, .end = 600, .output = 2});
  warm.warmup = true;
  RequestRecord unsent;
  unsent.outcome = Outcome::kCancelled;
  const LevelMetrics m = metrics_of({warm, unsent});
  EXPECT_EQ(m.counts.warmup, 1);
  EXPECT_EQ(m.counts.cancelled, 1);
  EXPECT_EQ(m.durations.benchmark, 0);
  EXPECT_FALSE(m.output_throughput);
  EXPECT_FALSE(m.mean_in_flight);
  EXPECT_TRUE(metrics_of({}).flags.size() == 1);  // "no request"
}

TEST(Level, BestSecondIsAtLeastTheMean) {
  // sglang#33193, vllm#37666: 414 tokens/s in chunks of four had a "peak" of 111, its chunks.
  TestRow row{.events = {}, .output = 400};
  for (int chunk = 0; chunk < 100; ++chunk) {
    row.events.push_back(20 * chunk);
    row.tokens.push_back(4);
  }
  row.end = 2000;
  const LevelMetrics m = metrics_of({make_row(row)});
  EXPECT_NEAR(*m.output_throughput, 200, 1e-9);
  EXPECT_NEAR(*m.max_output_tokens_per_s, 200, 1e-9);
}

TEST(Level, CachedTokensAndDegenerateAnswers) {
  RequestRecord record = make_row({.events = {1, 2}, .end = 2, .output = 2});
  EXPECT_FALSE(metrics_of({record}).tokens.cached);  // not told is not zero
  record.cached_tokens = 4;
  record.degenerate = true;
  const LevelMetrics m = metrics_of({record});
  EXPECT_EQ(m.tokens.cached, 4);
  EXPECT_EQ(m.tokens.cached_of_prompt, 10);
  EXPECT_TRUE(flagged(m, "40.0 % of the prompt"));
  EXPECT_TRUE(flagged(m, "repeat one token"));
}

TEST(Window, HoldsWhatLiesInside) {
  // Window from 100 to 200. A ends in it but began before: its tokens at 110 and 150 count. B lies
  // inside. C goes on after it and is cancelled: its token at 190 counts.
  const RequestRecord a = make_row({.sent = 50, .events = {10, 60, 100}, .end = 100, .output = 3});
  const RequestRecord b = make_row({.sent = 120, .events = {10, 20}, .end = 30, .output = 2});
  RequestRecord c = make_row({.sent = 180, .events = {10, 40}, .end = 50, .output = 2});
  c.outcome = Outcome::kCancelled;
  MetricsOptions options;
  options.window = Window{test_time(100), test_time(200)};
  const LevelMetrics m = metrics_of({a, b, c}, options);
  EXPECT_EQ(m.counts.requests, 1);  // B alone began and ended inside
  EXPECT_NEAR(m[Metric::kTtft].mean, 10, 1e-9);
  EXPECT_NEAR(m.durations.benchmark, 0.1, 1e-12);
  EXPECT_NEAR(*m.output_throughput, (2 + 2 + 1) / 0.1, 1e-9);
  EXPECT_NEAR(*m.request_throughput, 2 / 0.1, 1e-9);  // A and B ended inside
  // In flight: A for 50 ms, B for 30, C for 20.
  EXPECT_NEAR(*m.mean_in_flight, 1.0, 1e-9);
}

TEST(Words, EveryMetricIsDefined) {
  const Json json = definitions();
  for (const MetricInfo& info : metric_infos()) {
    EXPECT_EQ(&info, &info_of(info.metric));
    ASSERT_NE(json.find(info.name), nullptr) << info.name;
    EXPECT_FALSE(json.find(info.name)->as_string().empty());
  }
  // The members of goodput{} by the names that they have there.
  for (const char* member : {"strict", "of_sent", "of_finished", "of_ok"}) {
    const std::string said =
        json.find("goodput")->as_string() + json.find("request_goodput")->as_string();
    EXPECT_NE(said.find(member), std::string::npos) << member;
  }
}

}  // namespace
}  // namespace nibble::load
