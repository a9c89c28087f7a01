#include "telemetry/server_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/json.h"
#include "base/text.h"

namespace nibble::telemetry {
namespace {

// How series of one metric become one number. Ranks of one engine all report its state, so that
// series which differ only in tp_rank, pp_rank or pid count once, by the largest.
enum class Combine { kSum, kMax };

struct NameRow {
  const char* engine;
  const char* metric;  // also found with "_total" behind it
  const char* signal;
  Combine combine = Combine::kSum;
};

// Sources: the servers' own documentation and code. The first row of
// a signal that the page has is taken: new names stand before old ones.
constexpr std::array kNames = {
    NameRow{"vllm", "vllm:num_requests_running", "server.running"},
    NameRow{"vllm", "vllm:num_requests_waiting", "server.waiting"},
    NameRow{"vllm", "vllm:kv_cache_usage_perc", "server.kv_usage", Combine::kMax},
    NameRow{"vllm", "vllm:gpu_cache_usage_perc", "server.kv_usage", Combine::kMax},
    NameRow{"vllm", "vllm:num_preemptions", "server.preemptions"},
    NameRow{"vllm", "vllm:generation_tokens", "server.generation_tokens"},
    NameRow{"vllm", "vllm:prompt_tokens", "server.prompt_tokens"},
    NameRow{"vllm", "vllm:prefix_cache_hits", "server.prefix_hits"},
    NameRow{"vllm", "vllm:gpu_prefix_cache_hits", "server.prefix_hits"},
    NameRow{"vllm", "vllm:prefix_cache_queries", "server.prefix_queries"},
    NameRow{"vllm", "vllm:gpu_prefix_cache_queries", "server.prefix_queries"},
    NameRow{"vllm", "vllm:request_success", "server.finished"},
    // A histogram of which every step is one observation.
    NameRow{"vllm", "vllm:iteration_tokens_total_count", "server.steps"},

    // Our own: vLLM's words.
    NameRow{"nibble", "nibble:num_requests_running", "server.running"},
    NameRow{"nibble", "nibble:num_requests_waiting", "server.waiting"},
    NameRow{"nibble", "nibble:kv_cache_usage_perc", "server.kv_usage", Combine::kMax},
    NameRow{"nibble", "nibble:num_preemptions", "server.preemptions"},
    NameRow{"nibble", "nibble:generation_tokens", "server.generation_tokens"},
    NameRow{"nibble", "nibble:prompt_tokens", "server.prompt_tokens"},
    NameRow{"nibble", "nibble:prefix_cache_hits", "server.prefix_hits"},
    NameRow{"nibble", "nibble:prefix_cache_queries", "server.prefix_queries"},
    NameRow{"nibble", "nibble:request_success", "server.finished"},
    NameRow{"nibble", "nibble:engine_steps", "server.steps"},
    NameRow{"nibble", "nibble:engine_step_seconds", "server.step_time"},
    NameRow{"nibble", "nibble:expert_load_ratio", "server.expert_load_ratio", Combine::kMax},

    NameRow{"sglang", "sglang:num_running_reqs", "server.running"},
    NameRow{"sglang", "sglang:num_queue_reqs", "server.waiting"},
    NameRow{"sglang", "sglang:token_usage", "server.kv_usage", Combine::kMax},
    // sglang:num_retracted_reqs is the last batch's gauge, not a count of them.
    NameRow{"sglang", "sglang:num_retracted_requests_total", "server.preemptions"},
    NameRow{"sglang", "sglang:num_retracted_reqs_total", "server.preemptions"},
    NameRow{"sglang", "sglang:generation_tokens", "server.generation_tokens"},
    NameRow{"sglang", "sglang:prompt_tokens", "server.prompt_tokens"},
    NameRow{"sglang", "sglang:cached_tokens", "server.prefix_hits"},
    NameRow{"sglang", "sglang:prompt_tokens", "server.prefix_queries"},
    NameRow{"sglang", "sglang:cache_hit_rate", "server.prefix_hit_rate", Combine::kMax},
    NameRow{"sglang", "sglang:gen_throughput", "server.generation_rate"},
    NameRow{"sglang", "sglang:fwd_occupancy", "server.forward_occupancy", Combine::kMax},
    NameRow{"sglang", "sglang:spec_accept_length", "server.accept_length", Combine::kMax},
    NameRow{"sglang", "sglang:num_requests", "server.finished"},

    NameRow{"trtllm", "trtllm_num_requests_running", "server.running"},
    NameRow{"trtllm", "trtllm_num_requests_waiting", "server.waiting"},
    NameRow{"trtllm", "trtllm_kv_cache_utilization", "server.kv_usage", Combine::kMax},
    NameRow{"trtllm", "trtllm_kv_cache_hit_rate", "server.prefix_hit_rate", Combine::kMax},
    NameRow{"trtllm", "trtllm_request_success", "server.finished"},

    NameRow{"llamacpp", "llamacpp:requests_processing", "server.running"},
    NameRow{"llamacpp", "llamacpp:requests_deferred", "server.waiting"},
    NameRow{"llamacpp", "llamacpp:kv_cache_usage_ratio", "server.kv_usage", Combine::kMax},
    NameRow{"llamacpp", "llamacpp:tokens_predicted_total", "server.generation_tokens"},
    NameRow{"llamacpp", "llamacpp:prompt_tokens_total", "server.prompt_tokens"},
    NameRow{"llamacpp", "llamacpp:prompt_tokens_cached_total", "server.prefix_hits"},
    NameRow{"llamacpp", "llamacpp:n_busy_slots_per_decode", "server.busy_slots", Combine::kMax},
};

struct HistogramRow {
  const char* engine;
  const char* metric;
  const char* name;
};
constexpr std::array kHistograms = {
    HistogramRow{"vllm", "vllm:time_to_first_token_seconds", "ttft"},
    HistogramRow{"vllm", "vllm:inter_token_latency_seconds", "itl"},
    HistogramRow{"vllm", "vllm:time_per_output_token_seconds", "itl"},
    HistogramRow{"vllm", "vllm:e2e_request_latency_seconds", "e2e"},
    HistogramRow{"vllm", "vllm:request_queue_time_seconds", "queue_time"},
    HistogramRow{"vllm", "vllm:request_prefill_time_seconds", "prefill_time"},
    HistogramRow{"vllm", "vllm:request_decode_time_seconds", "decode_time"},
    HistogramRow{"vllm", "vllm:iteration_tokens_total", "iteration_tokens"},
    HistogramRow{"nibble", "nibble:time_to_first_token_seconds", "ttft"},
    HistogramRow{"nibble", "nibble:inter_token_latency_seconds", "itl"},
    HistogramRow{"nibble", "nibble:e2e_request_latency_seconds", "e2e"},
    HistogramRow{"sglang", "sglang:time_to_first_token_seconds", "ttft"},
    HistogramRow{"sglang", "sglang:inter_token_latency_seconds", "itl"},
    HistogramRow{"sglang", "sglang:e2e_request_latency_seconds", "e2e"},
    HistogramRow{"sglang", "sglang:queue_time_seconds", "queue_time"},
    HistogramRow{"trtllm", "trtllm_time_to_first_token_seconds", "ttft"},
    HistogramRow{"trtllm", "trtllm_time_per_output_token_seconds", "itl"},
    HistogramRow{"trtllm", "trtllm_e2e_request_latency_seconds", "e2e"},
    HistogramRow{"trtllm", "trtllm_request_queue_time_seconds", "queue_time"},
};

constexpr double kMostRequests = 1e7;

const std::vector<Signal>& signal_list() {
  const auto gauge = [](const char* name, const char* unit, double high) {
    return Signal{.name = name, .unit = unit, .source = "server", .low = 0, .high = high};
  };
  const auto counter = [](const char* name, const char* unit) {
    return Signal{.name = name,
                  .unit = unit,
                  .source = "server",
                  .kind = SignalKind::kCounter,
                  .low = 0,
                  .high = 1e18};
  };
  static const std::vector<Signal> list = {gauge("server.running", "requests", kMostRequests),
                                           gauge("server.waiting", "requests", kMostRequests),
                                           gauge("server.kv_usage", "ratio", 1.0001),
                                           counter("server.preemptions", "requests"),
                                           counter("server.generation_tokens", "tokens"),
                                           counter("server.prompt_tokens", "tokens"),
                                           counter("server.prefix_hits", "tokens"),
                                           counter("server.prefix_queries", "tokens"),
                                           gauge("server.prefix_hit_rate", "ratio", 1.0001),
                                           gauge("server.generation_rate", "tok/s", 1e9),
                                           gauge("server.forward_occupancy", "ratio", 1.5),
                                           gauge("server.accept_length", "tokens", 1000),
                                           gauge("server.busy_slots", "requests", kMostRequests),
                                           gauge("server.iteration_time", "ms", 1e6),
                                           counter("server.finished", "requests"),
                                           counter("server.steps", "steps"),
                                           counter("server.step_time", "s"),
                                           gauge("server.expert_load_ratio", "ratio", 1e6)};
  return list;
}

// All other labels tell one engine's state from another's.
constexpr std::array<std::string_view, 3> kRankLabels = {"tp_rank", "pp_rank", "pid"};

std::optional<double> combined(const MetricsPage& page, std::string_view name, Combine combine) {
  std::map<std::string, double> by_engine;
  for (const MetricSample& sample : page.samples) {
    if (sample.name != name || !std::isfinite(sample.value)) continue;
    const auto [known, fresh] = by_engine.emplace(series_key(sample, kRankLabels), sample.value);
    if (!fresh) known->second = std::max(known->second, sample.value);
  }
  if (by_engine.empty()) return std::nullopt;
  double result = by_engine.begin()->second;
  for (auto at = std::next(by_engine.begin()); at != by_engine.end(); ++at) {
    result = combine == Combine::kSum ? result + at->second : std::max(result, at->second);
  }
  return result;
}

void set(ServerReading& reading, const char* engine, const char* signal, std::string_view name,
         double value) {
  if (reading.engine.empty()) reading.engine = engine;
  if (!reading.values.emplace(signal, value).second) return;
  reading.names.emplace(signal, name);
}

// Since the server's start, where it counts both and gives no rate of its own.
void derive_hit_rate(ServerReading& reading) {
  const auto hits = reading.values.find("server.prefix_hits");
  const auto queries = reading.values.find("server.prefix_queries");
  if (hits == reading.values.end() || queries == reading.values.end()) return;
  if (queries->second <= 0) return;
  const std::string names = fmt::format("{} / {}", reading.names.at("server.prefix_hits"),
                                        reading.names.at("server.prefix_queries"));
  set(reading, "", "server.prefix_hit_rate", names, hits->second / queries->second);
}

void read_page(const MetricsPage& page, ServerReading& reading) {
  for (const NameRow& row : kNames) {
    if (reading.values.contains(row.signal)) continue;
    for (const std::string& name : {std::string(row.metric), std::string(row.metric) + "_total"}) {
      const std::optional<double> value = combined(page, name, row.combine);
      if (!value) continue;
      set(reading, row.engine, row.signal, name, *value);
      break;
    }
  }
  derive_hit_rate(reading);
  for (const HistogramRow& row : kHistograms) {
    if (reading.histograms.contains(row.name)) continue;
    Result<std::optional<Histogram>> found = find_histogram(page, row.metric);
    if (!found) {
      reading.histogram_faults.emplace(row.name, found.error().message);
    } else if (found->has_value()) {
      if (reading.engine.empty()) reading.engine = row.engine;
      reading.histograms.emplace(row.name, std::move(**found));
    }
  }
}

std::optional<double> number_in(const Json& json, std::string_view key) {
  const Json* found = json.find(key);
  if (found == nullptr || !found->is_number()) return std::nullopt;
  return found->as_number();
}

// One iteration of TensorRT-LLM's /metrics.
void read_iteration(const Json& iteration, ServerReading& reading) {
  const auto take = [&](const Json* json, const char* key, const char* signal) {
    const auto value = json == nullptr ? std::nullopt : number_in(*json, key);
    if (value) set(reading, "trtllm", signal, key, *value);
  };
  take(iteration.find("inflightBatchingStats"), "numScheduledRequests", "server.running");
  take(&iteration, "numActiveRequests", "server.running");
  take(&iteration, "numQueuedRequests", "server.waiting");
  take(&iteration, "iterLatencyMS", "server.iteration_time");
  const Json* cache = iteration.find("kvCacheStats");
  if (cache == nullptr) return;
  take(cache, "cacheHitRate", "server.prefix_hit_rate");
  const auto used = number_in(*cache, "usedNumBlocks");
  const auto most = number_in(*cache, "maxNumBlocks");
  if (used && most && *most > 0) {
    set(reading, "trtllm", "server.kv_usage", "usedNumBlocks / maxNumBlocks", *used / *most);
  }
}

}  // namespace

ServerReading read_server_metrics(std::string_view body) {
  ServerReading reading;
  const std::string_view text = trim(body);
  if (text.starts_with('[') || text.starts_with('{')) {
    const Result<Json> json = Json::parse(text, "metrics");
    if (!json) {
      reading.faults.push_back(json.error().message);
    } else if (json->is_object()) {
      read_iteration(*json, reading);
    } else if (json->is_array() && !json->as_array().empty()) {
      read_iteration(json->as_array().back(), reading);  // the newest
    }
    return reading;
  }
  const MetricsPage page = parse_metrics(body);
  read_page(page, reading);
  if (page.bad_lines > 0) {
    reading.faults.push_back(fmt::format("{} line{} not understood, the first: {}", page.bad_lines,
                                         page.bad_lines == 1 ? "" : "s", page.first_bad_line));
  }
  return reading;
}

std::span<const Signal> server_signals() {
  return signal_list();
}

}  // namespace nibble::telemetry
