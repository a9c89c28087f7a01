#include "telemetry/server_metrics.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace nibble::telemetry {
namespace {

using Values = std::map<std::string, double, std::less<>>;

TEST(ServerMetrics, Vllm) {
  const ServerReading reading = read_server_metrics(R"(# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
vllm:num_requests_waiting{engine="0",model_name="m"} 5.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 5.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
vllm:gpu_cache_usage_perc{engine="0"} 0.11
vllm:num_preemptions_total{engine="0"} 2
vllm:num_preemptions_created{engine="0"} 1.79e+09
vllm:generation_tokens_total{engine="0"} 100
vllm:prompt_tokens_total{engine="0"} 1000
vllm:prefix_cache_queries_total{engine="0"} 1000
vllm:prefix_cache_hits_total{engine="0"} 791
vllm:request_success_total{finished_reason="stop"} 50
vllm:request_success_total{finished_reason="length"} 7
vllm:time_to_first_token_seconds_bucket{le="0.1"} 3
vllm:time_to_first_token_seconds_bucket{le="+Inf"} 3
vllm:time_to_first_token_seconds_sum 0.2
vllm:iteration_tokens_total_bucket{engine="0",le="1.0"} 30
vllm:iteration_tokens_total_bucket{engine="0",le="+Inf"} 40
vllm:iteration_tokens_total_sum{engine="0"} 5000
vllm:iteration_tokens_total_count{engine="0"} 40
vllm:iteration_tokens_total_bucket{engine="1",le="1.0"} 1
vllm:iteration_tokens_total_bucket{engine="1",le="+Inf"} 2
vllm:iteration_tokens_total_sum{engine="1"} 9
vllm:iteration_tokens_total_count{engine="1"} 2
python_gc_objects_collected_total{generation="0"} 5.0
)");
  EXPECT_EQ(reading.engine, "vllm");
  const Values expected = {{"server.running", 7},
                           {"server.waiting", 5},
                           {"server.kv_usage", 0.75},
                           {"server.preemptions", 2},
                           {"server.generation_tokens", 100},
                           {"server.prompt_tokens", 1000},
                           {"server.prefix_queries", 1000},
                           {"server.prefix_hits", 791},
                           {"server.prefix_hit_rate", 0.791},
                           {"server.finished", 57},
                           {"server.steps", 42}};
  EXPECT_EQ(reading.values, expected);
  EXPECT_EQ(reading.names.at("server.prefix_hits"), "vllm:prefix_cache_hits_total");
  ASSERT_TRUE(reading.histograms.contains("ttft"));
  EXPECT_EQ(reading.histograms.at("ttft").count, 3);
  EXPECT_TRUE(reading.faults.empty());
}

TEST(ServerMetrics, VllmUnderItsOldNames) {
  const ServerReading reading = read_server_metrics(
      "vllm:gpu_cache_usage_perc 0.5\nvllm:prefix_cache_hits{engine=\"0\"} 9\n"
      "vllm:gpu_prefix_cache_queries 20\n");
  const Values expected = {{"server.kv_usage", 0.5},
                           {"server.prefix_hits", 9},
                           {"server.prefix_queries", 20},
                           {"server.prefix_hit_rate", 0.45}};
  EXPECT_EQ(reading.values, expected);
  EXPECT_EQ(reading.names.at("server.prefix_hit_rate"),
            "vllm:prefix_cache_hits / vllm:gpu_prefix_cache_queries");
}

TEST(ServerMetrics, NoHitRateOfNoQueries) {
  const ServerReading reading = read_server_metrics(
      "nibble:prefix_cache_hits_total 0\nnibble:prefix_cache_queries_total 0\n");
  EXPECT_FALSE(reading.values.contains("server.prefix_hit_rate"));
}

TEST(ServerMetrics, NibbleServe) {
  const ServerReading reading = read_server_metrics(R"(# TYPE nibble:num_requests_running gauge
nibble:num_requests_running{model_name="m"} 3
nibble:num_requests_waiting{model_name="m"} 5
nibble:kv_cache_usage_perc{model_name="m"} 0.25
nibble:prefix_cache_queries_total{model_name="m"} 1000
nibble:prefix_cache_hits_total{model_name="m"} 791
nibble:num_preemptions_total{model_name="m"} 2
nibble:prompt_tokens_total{model_name="m"} 1001
nibble:generation_tokens_total{model_name="m"} 100
nibble:nonfinite_logits_total{model_name="m"} 0
nibble:engine_steps_total{model_name="m"} 4000
nibble:engine_step_seconds_total{model_name="m"} 31.25
nibble:expert_load_ratio{model_name="m"} 2.5
nibble:request_success_total{model_name="m",finished_reason="stop"} 50
nibble:request_success_total{model_name="m",finished_reason="length"} 7
nibble:time_to_first_token_seconds_bucket{model_name="m",le="0.1"} 3
nibble:time_to_first_token_seconds_bucket{model_name="m",le="+Inf"} 3
nibble:time_to_first_token_seconds_sum{model_name="m"} 0.2
nibble:time_to_first_token_seconds_count{model_name="m"} 3
)");
  EXPECT_EQ(reading.engine, "nibble");
  const Values expected = {{"server.running", 3},
                           {"server.waiting", 5},
                           {"server.kv_usage", 0.25},
                           {"server.preemptions", 2},
                           {"server.generation_tokens", 100},
                           {"server.prompt_tokens", 1001},
                           {"server.prefix_queries", 1000},
                           {"server.prefix_hits", 791},
                           {"server.prefix_hit_rate", 0.791},
                           {"server.finished", 57},
                           {"server.steps", 4000},
                           {"server.step_time", 31.25},
                           {"server.expert_load_ratio", 2.5}};
  EXPECT_EQ(reading.values, expected);
  EXPECT_EQ(reading.histograms.at("ttft").count, 3);
  EXPECT_TRUE(reading.faults.empty());
}

// Ranks of tensor parallelism report the same requests; ranks of data parallelism have their own.
TEST(ServerMetrics, SglangCountsRanksOnce) {
  const ServerReading reading = read_server_metrics(R"(
sglang:num_running_reqs{dp_rank="0",tp_rank="0"} 8
sglang:num_running_reqs{dp_rank="0",tp_rank="1"} 8
sglang:num_running_reqs{dp_rank="1",tp_rank="2"} 5
sglang:num_queue_reqs{tp_rank="0"} 2
sglang:token_usage{tp_rank="0"} 0.62
sglang:num_retracted_reqs 1
sglang:num_retracted_requests_total 48
sglang:generation_tokens_total{is_streaming="false"} 10
sglang:generation_tokens_total{is_streaming="true"} 30
sglang:prompt_tokens_total 4096
sglang:cached_tokens_total{cache_source="device"} 3000
sglang:cached_tokens_total{cache_source="host"} 168
sglang:cache_hit_rate 0.78
sglang:gen_throughput 1234.5
sglang:fwd_occupancy 0.93
)");
  EXPECT_EQ(reading.engine, "sglang");
  const Values expected = {{"server.running", 13},
                           {"server.waiting", 2},
                           {"server.kv_usage", 0.62},
                           {"server.preemptions", 48},
                           {"server.generation_tokens", 40},
                           {"server.prompt_tokens", 4096},
                           {"server.prefix_queries", 4096},
                           {"server.prefix_hits", 3168},
                           {"server.prefix_hit_rate", 0.78},
                           {"server.generation_rate", 1234.5},
                           {"server.forward_occupancy", 0.93}};
  EXPECT_EQ(reading.values, expected);
}

TEST(ServerMetrics, TensorRtLlmInBothForms) {
  const ServerReading text = read_server_metrics(
      "trtllm_kv_cache_utilization{model_name=\"m\",engine_type=\"trtllm\"} 0.62\n"
      "trtllm_num_requests_running 3\ntrtllm_num_requests_waiting 1\n");
  EXPECT_EQ(text.engine, "trtllm");
  EXPECT_EQ(text.values.at("server.kv_usage"), 0.62);
  EXPECT_EQ(text.values.at("server.running"), 3);
  const ServerReading json = read_server_metrics(R"([
    {"numActiveRequests": 99},
    {"numActiveRequests": 2, "numQueuedRequests": 3, "iterLatencyMS": 12.5,
     "kvCacheStats": {"usedNumBlocks": 25, "maxNumBlocks": 100, "cacheHitRate": 0.5},
     "inflightBatchingStats": {"numScheduledRequests": 1}}])");
  EXPECT_EQ(json.engine, "trtllm");
  const Values expected = {{"server.running", 1},
                           {"server.waiting", 3},
                           {"server.iteration_time", 12.5},
                           {"server.prefix_hit_rate", 0.5},
                           {"server.kv_usage", 0.25}};
  EXPECT_EQ(json.values, expected);
}

TEST(ServerMetrics, LlamaCppAlsoInQuotes) {
  const std::string page =
      "# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total 3000\n"
      "llamacpp:tokens_predicted_total 150\nllamacpp:requests_processing 1\n"
      "llamacpp:requests_deferred 3\nllamacpp:kv_cache_usage_ratio 0.4\n"
      "llamacpp:n_busy_slots_per_decode 1.5\nllamacpp:n_tokens_max 12000\n";
  const Values expected = {{"server.prompt_tokens", 3000}, {"server.generation_tokens", 150},
                           {"server.running", 1},          {"server.waiting", 3},
                           {"server.kv_usage", 0.4},       {"server.busy_slots", 1.5}};
  for (const std::string& body : {page, Json(page).dump(0)}) {
    const ServerReading reading = read_server_metrics(body);
    EXPECT_EQ(reading.engine, "llamacpp");
    EXPECT_EQ(reading.values, expected);
  }
}

TEST(ServerMetrics, OtherPagesGiveNothingAndNoHarm) {
  for (const char* body : {"", "{}", "[]", "[1]", "[", "{\"kvCacheStats\": 3}", "null", "\"\"",
                           "<html><body>404</body></html>", "other_metric 1\n",
                           "{\"kvCacheStats\": {\"usedNumBlocks\": 1, \"maxNumBlocks\": 0}}",
                           "vllm:num_requests_running NaN\n"}) {
    EXPECT_TRUE(read_server_metrics(body).values.empty()) << body;
  }
  EXPECT_EQ(read_server_metrics("vllm:num_requests_running 1\n<html>\n<body>\n").faults.front(),
            "2 lines not understood, the first: <html>");
}

TEST(ServerMetrics, ABrokenHistogramDoesNotHideTheRest) {
  const ServerReading reading = read_server_metrics(
      "vllm:num_requests_running 1\nvllm:time_to_first_token_seconds_bucket{le=\"1\"} 1\n");
  EXPECT_EQ(reading.values.size(), 1U);
  EXPECT_EQ(reading.histogram_faults.at("ttft"),
            "histogram vllm:time_to_first_token_seconds has no bucket for +Inf");
}

TEST(ServerMetrics, EveryNameIsADescribedSignal) {
  for (const Signal& signal : server_signals()) EXPECT_EQ(owner_of(signal.name), "server");
  EXPECT_EQ(server_signals().size(), 18U);
}

}  // namespace
}  // namespace nibble::telemetry
