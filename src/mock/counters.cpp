#include "mock/counters.h"

#include <algorithm>
#include <array>
#include <fmt/core.h>

#include "base/json.h"

namespace nibble::mock {
namespace {

using api::exact_seconds;

constexpr auto kRelaxed = std::memory_order_relaxed;

// vLLM's buckets of the tokens of a step.
constexpr std::array kStepTokensBounds = {1.0,   8.0,    16.0,   32.0,   64.0,   128.0,  256.0,
                                          512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0};

}  // namespace

Counters::Counters()
    : ttft_(api::kTtftBounds),
      itl_(api::kItlBounds),
      end_to_end_(api::kRequestBounds),
      queue_(api::kRequestBounds),
      step_tokens_(kStepTokensBounds) {}

void Counters::admit(std::int64_t prompt_tokens, std::int64_t cached_tokens, Nanoseconds queued) {
  prompt(prompt_tokens, cached_tokens);
  start(prompt_tokens, queued);
}

void Counters::prompt(std::int64_t tokens, std::int64_t cached_tokens) {
  prompt_tokens_.fetch_add(tokens, kRelaxed);
  cached_tokens_.fetch_add(cached_tokens, kRelaxed);
}

void Counters::start(std::int64_t held_tokens, Nanoseconds queued) {
  held_tokens_.fetch_add(held_tokens, kRelaxed);
  queue_.add(queued);
}

void Counters::step(std::int64_t decode_rows, std::int64_t prompt_tokens) {
  constexpr Nanoseconds kOneToken = 1'000'000'000;
  step_tokens_.add((decode_rows + prompt_tokens) * kOneToken);
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
  PageWriter(std::string labels, const MockScript& script, const Counters& counters, Occupancy now)
      : script_(script), counters_(counters), now_(now), page_(std::move(labels)) {}

  std::string vllm();
  std::string sglang();
  std::string llamacpp();

 private:
  void line(std::string_view type, std::string_view name, double value,
            std::string_view more_labels = "") {
    page_.line(type, name, value, more_labels);
  }
  double kv_tokens() const {
    return now_.engine ? static_cast<double>(now_.engine->kv_tokens)
                       : value(counters_.held_tokens_);
  }
  double kv_usage() const { return kv_tokens() / static_cast<double>(script_.kv_capacity_tokens); }
  double preemptions() const {
    return now_.engine ? static_cast<double>(now_.engine->preemptions) : 0;
  }
  template <class T>
  static double value(const std::atomic<T>& counter) {
    return static_cast<double>(counter.load());
  }

  const MockScript& script_;
  const Counters& counters_;
  Occupancy now_;
  api::MetricsPage page_;
};

std::string PageWriter::vllm() {
  line("gauge", "vllm:num_requests_running", static_cast<double>(now_.running));
  line("gauge", "vllm:num_requests_waiting", static_cast<double>(now_.waiting));
  line("gauge", "vllm:num_requests_waiting_by_reason", static_cast<double>(now_.waiting),
       "reason=\"capacity\"");
  line("gauge", "vllm:num_requests_waiting_by_reason", 0, "reason=\"deferred\"");
  line("gauge", "vllm:kv_cache_usage_perc", kv_usage());
  line("counter", "vllm:num_preemptions_total", preemptions());
  line("counter", "vllm:prompt_tokens_total", value(counters_.prompt_tokens_));
  line("counter", "vllm:generation_tokens_total", value(counters_.generation_tokens_));
  line("counter", "vllm:prefix_cache_queries_total", value(counters_.prompt_tokens_));
  line("counter", "vllm:prefix_cache_hits_total", value(counters_.cached_tokens_));
  constexpr std::array kReasons = {"length", "stop", "abort"};
  for (std::size_t reason = 0; reason < kReasons.size(); ++reason) {
    line("counter", "vllm:request_success_total", value(counters_.ended_[reason]),
         fmt::format("finished_reason=\"{}\"", kReasons[reason]));
  }
  page_.histogram("vllm:time_to_first_token_seconds", counters_.ttft_);
  page_.histogram("vllm:inter_token_latency_seconds", counters_.itl_);
  page_.histogram("vllm:e2e_request_latency_seconds", counters_.end_to_end_);
  page_.histogram("vllm:request_queue_time_seconds", counters_.queue_);
  if (now_.engine) page_.histogram("vllm:iteration_tokens_total", counters_.step_tokens_);
  return page_.take();
}

std::string PageWriter::sglang() {
  const double prompt = value(counters_.prompt_tokens_);
  const double ended = value(counters_.ended_[0]) + value(counters_.ended_[1]);
  line("gauge", "sglang:num_running_reqs", static_cast<double>(now_.running));
  line("gauge", "sglang:num_queue_reqs", static_cast<double>(now_.waiting));
  line("gauge", "sglang:num_used_tokens", kv_tokens());
  line("gauge", "sglang:kv_used_tokens", kv_tokens());
  line("gauge", "sglang:max_total_num_tokens", static_cast<double>(script_.kv_capacity_tokens));
  line("gauge", "sglang:token_usage", kv_usage());
  line("gauge", "sglang:gen_throughput", now_.tokens_per_s);
  line("gauge", "sglang:cache_hit_rate", prompt > 0 ? value(counters_.cached_tokens_) / prompt : 0);
  line("counter", "sglang:prompt_tokens_total", prompt);
  line("counter", "sglang:generation_tokens_total", value(counters_.generation_tokens_));
  line("counter", "sglang:cached_tokens_total", value(counters_.cached_tokens_));
  line("counter", "sglang:num_requests_total", ended);
  if (now_.engine) {
    line("gauge", "sglang:fwd_occupancy", now_.engine->busy_share);
    line("counter", "sglang:num_retracted_requests_total", preemptions());
  }
  page_.histogram("sglang:time_to_first_token_seconds", counters_.ttft_);
  page_.histogram("sglang:inter_token_latency_seconds", counters_.itl_);
  page_.histogram("sglang:e2e_request_latency_seconds", counters_.end_to_end_);
  return page_.take();
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
  line("gauge", "llamacpp:kv_cache_tokens", kv_tokens());
  line("gauge", "llamacpp:requests_processing", static_cast<double>(now_.running));
  line("gauge", "llamacpp:requests_deferred", static_cast<double>(now_.waiting));
  return page_.take();
}

std::string metrics_page(MetricsStyle style, const MockScript& script, const Counters& counters,
                         Occupancy now) {
  const std::string model = Json(script.model).dump(0);
  const bool vllm = style == MetricsStyle::kVllm;
  const bool sglang = style == MetricsStyle::kSglang;
  PageWriter writer(vllm     ? fmt::format("engine=\"0\",model_name={}", model)
                    : sglang ? fmt::format("model_name={}", model)
                             : std::string(),
                    script, counters, now);
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
