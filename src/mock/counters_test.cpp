#include "mock/counters.h"

#include <gtest/gtest.h>

#include "mock/test_time.h"

namespace nibble::mock {
namespace {

bool has_line(const std::string& page, const std::string& line) {
  return ("\n" + page).find("\n" + line + "\n") != std::string::npos;
}

// Two answers: 10 + 3 tokens in flight, 20 + 5 done.
void serve(Counters& counters) {
  counters.admit(20, 8, 0);
  counters.first_token(60 * kMs);
  counters.generated(1);
  counters.next_tokens(4, 40 * kMs);
  counters.generated(4);
  counters.end(Finish::kLength, 100 * kMs, 25);
  counters.admit(10, 4, 400 * kMs);
  counters.first_token(30 * kMs);
  counters.generated(3);
}

MockScript script_of_100() {
  MockScript script;
  script.kv_capacity_tokens = 100;
  return script;
}

TEST(MockMetrics, Vllm) {
  Counters counters;
  serve(counters);
  const std::string page =
      metrics_page(MetricsStyle::kVllm, script_of_100(), counters, {.running = 1, .waiting = 2});
  const std::string labels = R"({engine="0",model_name="nibble-mock")";
  for (const char* line :
       {"vllm:num_requests_running%} 1", "vllm:num_requests_waiting%} 2",
        "vllm:num_requests_waiting_by_reason%,reason=\"capacity\"} 2",
        "vllm:kv_cache_usage_perc%} 0.13", "vllm:num_preemptions_total%} 0",
        "vllm:prompt_tokens_total%} 30", "vllm:generation_tokens_total%} 8",
        "vllm:prefix_cache_hits_total%} 12",
        "vllm:request_success_total%,finished_reason=\"length\"} 1",
        "vllm:request_success_total%,finished_reason=\"stop\"} 0",
        "vllm:time_to_first_token_seconds_bucket%,le=\"0.04\"} 1",
        "vllm:time_to_first_token_seconds_bucket%,le=\"0.06\"} 2",
        "vllm:time_to_first_token_seconds_bucket%,le=\"+Inf\"} 2",
        "vllm:time_to_first_token_seconds_sum%} 0.09", "vllm:time_to_first_token_seconds_count%} 2",
        "vllm:inter_token_latency_seconds_bucket%,le=\"0.01\"} 4",
        "vllm:inter_token_latency_seconds_count%} 4",
        "vllm:request_queue_time_seconds_bucket%,le=\"0.3\"} 1"}) {
    std::string expected = line;
    expected.replace(expected.find('%'), 1, labels);
    EXPECT_TRUE(has_line(page, expected)) << expected << "\n" << page;
  }
}

TEST(MockMetrics, SglangAndLlamacpp) {
  Counters counters;
  serve(counters);
  const Occupancy now = {.running = 1, .waiting = 2, .tokens_per_s = 80};
  const std::string sglang = metrics_page(MetricsStyle::kSglang, script_of_100(), counters, now);
  for (const char* line : {"sglang:num_running_reqs%} 1", "sglang:num_queue_reqs%} 2",
                           "sglang:token_usage%} 0.13", "sglang:gen_throughput%} 80",
                           "sglang:cache_hit_rate%} 0.4", "sglang:generation_tokens_total%} 8"}) {
    std::string expected = line;
    expected.replace(expected.find('%'), 1, R"({model_name="nibble-mock")");
    EXPECT_TRUE(has_line(sglang, expected)) << expected << "\n" << sglang;
  }
  const std::string llama = metrics_page(MetricsStyle::kLlamacpp, script_of_100(), counters, now);
  for (const char* line :
       {"llamacpp:requests_processing 1", "llamacpp:requests_deferred 2",
        "llamacpp:kv_cache_tokens 13", "llamacpp:n_past_max 25", "llamacpp:prompt_tokens_total 30",
        "llamacpp:tokens_predicted_total 8", "llamacpp:n_decode_total 3"}) {
    EXPECT_TRUE(has_line(llama, line)) << line << "\n" << llama;
  }
  const std::string quoted =
      metrics_page(MetricsStyle::kLlamacppQuoted, script_of_100(), counters, now);
  const auto json = Json::parse(quoted, "page");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->as_string(), llama);
  EXPECT_EQ(metrics_page(MetricsStyle::kNone, script_of_100(), counters, now), "");
}

TEST(WriteErrors, RanksAndExtremes) {
  WriteErrors errors;
  EXPECT_EQ(errors.snapshot().count, 0U);
  for (Nanoseconds error = 1; error <= 1000; ++error) errors.add(error * 1000);
  errors.add(-5000);
  const ErrorSnapshot snapshot = errors.snapshot();
  EXPECT_EQ(snapshot.count, 1001U);
  // Rounded up to at most 1/16 above.
  EXPECT_GE(snapshot.p50, 500'000);
  EXPECT_LE(snapshot.p50, 500'000 * 17 / 16);
  EXPECT_GE(snapshot.p99, 990'000);
  EXPECT_LE(snapshot.p99, 1'000'000);
  EXPECT_EQ(snapshot.late_max, 1'000'000);
  EXPECT_EQ(snapshot.early_max, 5'000);
  errors.reset();
  EXPECT_EQ(errors.snapshot().count, 0U);
  EXPECT_EQ(errors.snapshot().late_max, 0);
}

TEST(MockMetrics, AnEngineOfStepsKnowsMore) {
  Counters counters;
  counters.prompt(30, 10);
  counters.start(30, 0);
  counters.step(4, 26);
  counters.step(8, 0);
  const Occupancy now = {
      .running = 1,
      .engine = Occupancy::Engine{.kv_tokens = 25, .preemptions = 3, .busy_share = 0.75}};
  const std::string vllm = metrics_page(MetricsStyle::kVllm, script_of_100(), counters, now);
  const std::string labels = R"({engine="0",model_name="nibble-mock")";
  for (const char* line :
       {"vllm:kv_cache_usage_perc%} 0.25", "vllm:num_preemptions_total%} 3",
        "vllm:prompt_tokens_total%} 30", "vllm:prefix_cache_hits_total%} 10",
        "vllm:iteration_tokens_total_bucket%,le=\"8\"} 1",
        "vllm:iteration_tokens_total_bucket%,le=\"32\"} 2", "vllm:iteration_tokens_total_sum%} 38",
        "vllm:iteration_tokens_total_count%} 2"}) {
    std::string expected = line;
    expected.replace(expected.find('%'), 1, labels);
    EXPECT_TRUE(has_line(vllm, expected)) << expected << "\n" << vllm;
  }
  const std::string sglang = metrics_page(MetricsStyle::kSglang, script_of_100(), counters, now);
  for (const char* line : {"sglang:fwd_occupancy{model_name=\"nibble-mock\"} 0.75",
                           "sglang:num_retracted_requests_total{model_name=\"nibble-mock\"} 3",
                           "sglang:kv_used_tokens{model_name=\"nibble-mock\"} 25"}) {
    EXPECT_TRUE(has_line(sglang, line)) << line;
  }
  const std::string llamacpp =
      metrics_page(MetricsStyle::kLlamacpp, script_of_100(), counters, now);
  EXPECT_TRUE(has_line(llamacpp, "llamacpp:kv_cache_tokens 25"));
}

}  // namespace
}  // namespace nibble::mock
