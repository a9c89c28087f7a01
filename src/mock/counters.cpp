#include "mock/counters.h"

#include <algorithm>
#include <fmt/core.h>

#include "base/json.h"

namespace nibble::mock {
namespace {

// The buckets of vLLM's histograms of the same names (vllm/v1/metrics/loggers.py).
constexpr std::array kTtftBounds = {0.001, 0.005, 0.01, 0.02,  0.04,  0.06,  0.08, 0.1,
                                    0.25,  0.5,   0.75, 1.0,   2.5,   5.0,   7.5,  10.0,
                                    20.0,  40.0,  80.0, 160.0, 640.0, 2560.0};
constexpr std::array kItlBounds = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                   0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
constexpr std::array kRequestBounds = {0.3,  0.5,   0.8,   1.0,   1.5,   2.0,    2.5,
                                       5.0,  10.0,  15.0,  20.0,  30.0,  40.0,   50.0,
                                       60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};

// Divided, so that 60 ms are 0.06 as written and fall into the bucket that ends there.
constexpr double exact_seconds(Nanoseconds span) {
  return static_cast<double>(span) / 1e9;
}

constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

void SecondsHistogram::add(Nanoseconds span, std::uint64_t times) {
  const double value = exact_seconds(span);
  const auto bucket = static_cast<std::size_t>(
      std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin());
  buckets_[bucket].fetch_add(times, kRelaxed);
  sum_.fetch_add(span * static_cast<Nanoseconds>(times), kRelaxed);
}

void SecondsHistogram::append(std::string& page, std::string_view name,
                              std::string_view labels) const {
  const std::string_view comma = labels.empty() ? "" : ",";
  std::uint64_t below = 0;
  page += fmt::format("# TYPE {} histogram\n", name);
  for (std::size_t bucket = 0; bucket <= bounds_.size(); ++bucket) {
    below += buckets_[bucket].load(kRelaxed);
    const std::string bound =
        bucket < bounds_.size() ? fmt::format("{}", bounds_[bucket]) : std::string("+Inf");
    page += fmt::format("{}_bucket{{{}{}le=\"{}\"}} {}\n", name, labels, comma, bound, below);
  }
  const std::string braces = labels.empty() ? "" : fmt::format("{{{}}}", labels);
  page += fmt::format("{}_sum{} {}\n", name, braces, exact_seconds(sum_.load(kRelaxed)));
  page += fmt::format("{}_count{} {}\n", name, braces, below);
}

Counters::Counters()
    : ttft_(kTtftBounds), itl_(kItlBounds), end_to_end_(kRequestBounds), queue_(kRequestBounds) {}

void Counters::admit(std::int64_t prompt_tokens, std::int64_t cached_tokens, Nanoseconds queued) {
  prompt_tokens_.fetch_add(prompt_tokens, kRelaxed);
  cached_tokens_.fetch_add(cached_tokens, kRelaxed);
  held_tokens_.fetch_add(prompt_tokens, kRelaxed);
  queue_.add(queued);
}

void Counters::first_token(Nanoseconds since_arrival) {
  ttft_.add(since_arrival);
  prefill_time_.fetch_add(since_arrival, kRelaxed);
}

void Counters::next_tokens(std::int64_t count, Nanoseconds gap) {
  itl_.add(gap / count, static_cast<std::uint64_t>(count));
  decode_time_.fetch_add(gap, kRelaxed);
}

void Counters::generated(std::int64_t count) {
  generation_tokens_.fetch_add(count, kRelaxed);
  held_tokens_.fetch_add(count, kRelaxed);
  chunks_.fetch_add(1, kRelaxed);
}

void Counters::end(Finish finish, Nanoseconds since_arrival, std::int64_t held_tokens) {
  held_tokens_.fetch_sub(held_tokens, kRelaxed);
  ended_[static_cast<std::size_t>(finish)].fetch_add(1, kRelaxed);
  end_to_end_.add(since_arrival);
  std::int64_t seen = longest_.load(kRelaxed);
  while (held_tokens > seen && !longest_.compare_exchange_weak(seen, held_tokens, kRelaxed)) {
  }
}

void WriteErrors::add(Nanoseconds late) {
  late_.record(late);
  early_.record(-late);
  size_.record(std::max(late, -late));
}

ErrorSnapshot WriteErrors::snapshot() const {
  return {.count = size_.count(),
          .p50 = size_.quantile(0.5),
          .p99 = size_.quantile(0.99),
          .late_max = late_.max(),
          .early_max = early_.max()};
}

void WriteErrors::reset() {
  for (LogHistogram* part : {&size_, &late_, &early_}) part->clear();
}

// Writes a page line by line; a friend of Counters so that these need no accessor a page.
class PageWriter {
 public:
  PageWriter(const MockScript& script, const Counters& counters, Occupancy now)
      : script_(script), counters_(counters), now_(now) {}

  std::string vllm();
  std::string sglang();
  std::string llamacpp();

 private:
  void line(std::string_view type, std::string_view name, double value,
            std::string_view more_labels = "");
  double kv_usage() const {
    return static_cast<double>(counters_.held_tokens_.load()) /
           static_cast<double>(script_.kv_capacity_tokens);
  }
  template <class T>
  static double value(const std::atomic<T>& counter) {
    return static_cast<double>(counter.load());
  }

  const MockScript& script_;
  const Counters& counters_;
  Occupancy now_;
  std::string labels_;
  std::string page_;
  std::string typed_;  // the name whose TYPE line was written last
};

void PageWriter::line(std::string_view type, std::string_view name, double value,
                      std::string_view more_labels) {
  if (typed_ != name) page_ += fmt::format("# TYPE {} {}\n", name, type);
  typed_ = name;
  std::string labels = labels_;
  if (!labels.empty() && !more_labels.empty()) labels += ",";
  labels += more_labels;
  const std::string braces = labels.empty() ? "" : fmt::format("{{{}}}", labels);
  page_ += fmt::format("{}{} {}\n", name, braces, value);
}

std::string PageWriter::vllm() {
  labels_ = fmt::format("engine=\"0\",model_name={}", Json(script_.model).dump(0));
  line("gauge", "vllm:num_requests_running", static_cast<double>(now_.running));
  line("gauge", "vllm:num_requests_waiting", static_cast<double>(now_.waiting));
  line("gauge", "vllm:num_requests_waiting_by_reason", static_cast<double>(now_.waiting),
       "reason=\"capacity\"");
  line("gauge", "vllm:num_requests_waiting_by_reason", 0, "reason=\"deferred\"");
  line("gauge", "vllm:kv_cache_usage_perc", kv_usage());
  line("counter", "vllm:num_preemptions_total", 0);
  line("counter", "vllm:prompt_tokens_total", value(counters_.prompt_tokens_));
  line("counter", "vllm:generation_tokens_total", value(counters_.generation_tokens_));
  line("counter", "vllm:prefix_cache_queries_total", value(counters_.prompt_tokens_));
  line("counter", "vllm:prefix_cache_hits_total", value(counters_.cached_tokens_));
  constexpr std::array kReasons = {"length", "stop", "abort"};
  for (std::size_t reason = 0; reason < kReasons.size(); ++reason) {
    line("counter", "vllm:request_success_total", value(counters_.ended_[reason]),
         fmt::format("finished_reason=\"{}\"", kReasons[reason]));
  }
  counters_.ttft_.append(page_, "vllm:time_to_first_token_seconds", labels_);
  counters_.itl_.append(page_, "vllm:inter_token_latency_seconds", labels_);
  counters_.end_to_end_.append(page_, "vllm:e2e_request_latency_seconds", labels_);
  counters_.queue_.append(page_, "vllm:request_queue_time_seconds", labels_);
  return std::move(page_);
}

std::string PageWriter::sglang() {
  labels_ = fmt::format("model_name={}", Json(script_.model).dump(0));
  const double prompt = value(counters_.prompt_tokens_);
  const double ended = value(counters_.ended_[0]) + value(counters_.ended_[1]);
  line("gauge", "sglang:num_running_reqs", static_cast<double>(now_.running));
  line("gauge", "sglang:num_queue_reqs", static_cast<double>(now_.waiting));
  line("gauge", "sglang:num_used_tokens", value(counters_.held_tokens_));
  line("gauge", "sglang:kv_used_tokens", value(counters_.held_tokens_));
  line("gauge", "sglang:max_total_num_tokens", static_cast<double>(script_.kv_capacity_tokens));
  line("gauge", "sglang:token_usage", kv_usage());
  line("gauge", "sglang:gen_throughput", now_.tokens_per_s);
  line("gauge", "sglang:cache_hit_rate", prompt > 0 ? value(counters_.cached_tokens_) / prompt : 0);
  line("counter", "sglang:prompt_tokens_total", prompt);
  line("counter", "sglang:generation_tokens_total", value(counters_.generation_tokens_));
  line("counter", "sglang:cached_tokens_total", value(counters_.cached_tokens_));
  line("counter", "sglang:num_requests_total", ended);
  counters_.ttft_.append(page_, "sglang:time_to_first_token_seconds", labels_);
  counters_.itl_.append(page_, "sglang:inter_token_latency_seconds", labels_);
  counters_.end_to_end_.append(page_, "sglang:e2e_request_latency_seconds", labels_);
  return std::move(page_);
}

std::string PageWriter::llamacpp() {
  const double prompt = value(counters_.prompt_tokens_);
  const double predicted = value(counters_.generation_tokens_);
  const double prompt_seconds = exact_seconds(counters_.prefill_time_.load());
  const double predicted_seconds = exact_seconds(counters_.decode_time_.load());
  const double decodes = value(counters_.chunks_);
  line("counter", "llamacpp:prompt_tokens_total", prompt);
  line("counter", "llamacpp:prompt_seconds_total", prompt_seconds);
  line("counter", "llamacpp:tokens_predicted_total", predicted);
  line("counter", "llamacpp:tokens_predicted_seconds_total", predicted_seconds);
  line("counter", "llamacpp:n_decode_total", decodes);
  line("counter", "llamacpp:n_past_max", value(counters_.longest_));
  line("gauge", "llamacpp:prompt_tokens_seconds", prompt_seconds > 0 ? prompt / prompt_seconds : 0);
  line("gauge", "llamacpp:predicted_tokens_seconds",
       predicted_seconds > 0 ? predicted / predicted_seconds : 0);
  line("gauge", "llamacpp:kv_cache_usage_ratio", kv_usage());
  line("gauge", "llamacpp:kv_cache_tokens", value(counters_.held_tokens_));
  line("gauge", "llamacpp:requests_processing", static_cast<double>(now_.running));
  line("gauge", "llamacpp:requests_deferred", static_cast<double>(now_.waiting));
  return std::move(page_);
}

std::string metrics_page(MetricsStyle style, const MockScript& script, const Counters& counters,
                         Occupancy now) {
  PageWriter writer(script, counters, now);
  switch (style) {
    case MetricsStyle::kVllm:
      return writer.vllm();
    case MetricsStyle::kSglang:
      return writer.sglang();
    case MetricsStyle::kLlamacpp:
      return writer.llamacpp();
    case MetricsStyle::kLlamacppQuoted:
      return Json(writer.llamacpp()).dump(0);
    case MetricsStyle::kNone:
      return "";
  }
  return "";
}

}  // namespace nibble::mock
