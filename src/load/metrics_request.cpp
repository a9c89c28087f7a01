#include "load/metrics_request.h"

#include <algorithm>

#include "base/check.h"

namespace nibble::load {
namespace {

constexpr std::array<MetricInfo, kMetrics> kMetricInfos = {{
    {Metric::kTtft, "ttft", "TTFT",
     "From the send of a request to its first token: text, reasoning or tool call. Deltas "
     "without a token (the role, an empty string) do not count. null where an answer was not "
     "streamed."},
    {Metric::kTtfr, "ttfr", "TTFR",
     "From the send to the first byte of the body, whatever it holds: what vLLM and "
     "genai-perf call TTFT where the first chunk carries no token."},
    {Metric::kTtfo, "ttfo", "TTFO",
     "From the send to the first token that is no reasoning; equals ttft for models that do not "
     "reason. What llmperf calls TTFT."},
    {Metric::kTpot, "tpot", "TPOT",
     "(last token - first token) / (output tokens - 1), one value a request, without the first "
     "token, as vLLM, SGLang and evalscope; requests with one output token have none."},
    {Metric::kTpotWithFirst, "tpot_with_first", "TPOT with the first",
     "(last token - send) / output tokens: guidellm's TPOT and inference-perf's NTPOT, which "
     "include the first token and its wait."},
    {Metric::kTpotLastByte, "tpot_last_byte", "TPOT to the last byte",
     "(last byte - first token) / (output tokens - 1): SGLang and genai-perf, whose request ends "
     "with the line of usage or [DONE]."},
    {Metric::kTpotAfterFirst, "tpot_after_first_chunk", "TPOT after the first chunk",
     "(last token - first token) / (output tokens - tokens of the first chunk): free of the "
     "bias of tpot where a chunk has several tokens; null where the tokens of chunks are not "
     "known."},
    {Metric::kItl, "itl", "ITL (chunk)",
     "Gaps between consecutive chunks that carry tokens, pooled over requests, as vLLM and "
     "SGLang's OpenAI backends. Where chunks hold several tokens this is not the time of a "
     "token."},
    {Metric::kTokenItl, "token_itl", "ITL (token)",
     "Gap / tokens of the chunk, each counted as often as the chunk has tokens, pooled over "
     "requests, as SGLang's native backend; null where the tokens of chunks are not known."},
    {Metric::kRequestItl, "request_itl", "ITL (request)",
     "Mean gap between the chunks of a request, one value a request, so that long answers do not "
     "outweigh short ones."},
    {Metric::kLlmperfItl, "llmperf_itl", "ITL (llmperf)",
     "(last token - send) / chunks: llmperf's inter-token latency, which counts TTFT as a gap."},
    {Metric::kE2el, "e2el", "E2E",
     "From the send to the last token, as vLLM. An answer that was not streamed ends with its last "
     "byte."},
    {Metric::kE2eLatency, "e2e_latency", "E2E to the last byte",
     "From the send to the last byte of the body (usage and [DONE] included), as SGLang."},
    {Metric::kQueue, "client_queue", "Client queue",
     "From the time that the plan gave a request to its send: what the client or its concurrency "
     "limit held back. vLLM's queue_times."},
    {Metric::kConnect, "connect", "Connect",
     "Name look-up, TCP and TLS of new connections. It lies before the send and is in no other "
     "latency but those from the schedule."},
    {Metric::kSchedTtft, "sched_ttft", "TTFT from schedule",
     "ttft from the scheduled time instead of the send: includes what waited in the client "
     "(coordinated omission)."},
    {Metric::kSchedTtfo, "sched_ttfo", "TTFO from schedule", "ttfo from the scheduled time."},
    {Metric::kSchedE2el, "sched_e2el", "E2E from schedule", "e2el from the scheduled time."},
    {Metric::kSchedE2eLatency, "sched_e2e_latency", "E2E to the last byte from schedule",
     "e2e_latency from the scheduled time."},
}};

class Deriver {
 public:
  explicit Deriver(const RequestRecord& record) : record_(record) {}

  RequestMetrics derive() {
    result_.output = output_tokens(record_);
    if (record_.sent == 0) return result_;
    result_.tokens_per_event_known = knows_tokens_of_events();
    client();
    first_events();
    if (record_.outcome == Outcome::kOk) ends();
    return result_;
  }

 private:
  void set(Metric metric, double ms) { result_.values[static_cast<std::size_t>(metric)] = ms; }
  // From the send, and where there is a name for it, from the schedule.
  void set_since(Metric from_send, std::optional<Metric> from_schedule, Nanoseconds at) {
    set(from_send, milliseconds(at - record_.sent));
    if (from_schedule && record_.scheduled != 0) {
      set(*from_schedule, milliseconds(std::max<Nanoseconds>(0, at - record_.scheduled)));
    }
  }

  bool knows_tokens_of_events() const {
    if (record_.events.empty() || !record_.streamed) return false;
    if (record_.token_source == TokenSource::kContinuousUsage)
      return counted_on_events(record_) > 0;
    return result_.output.source != TokenSource::kEvents &&
           result_.output.tokens == static_cast<std::int64_t>(record_.events.size());
  }

  void client() {
    if (record_.scheduled != 0) {
      set(Metric::kQueue, milliseconds(std::max<Nanoseconds>(0, record_.sent - record_.scheduled)));
    }
    if (record_.connected_anew) set(Metric::kConnect, milliseconds(record_.connect_time));
    if (record_.first_byte != 0) set_since(Metric::kTtfr, std::nullopt, record_.first_byte);
  }

  void first_events() {
    if (!record_.streamed || record_.events.empty()) return;
    set_since(Metric::kTtft, Metric::kSchedTtft, record_.events.front().at);
    const auto output =
        std::find_if(record_.events.begin(), record_.events.end(),
                     [](const TokenEvent& event) { return event.kind != TokenKind::kReasoning; });
    if (output != record_.events.end()) set_since(Metric::kTtfo, Metric::kSchedTtfo, output->at);
  }

  void ends() {
    set_since(Metric::kE2eLatency, Metric::kSchedE2eLatency, record_.end);
    const bool streamed = record_.streamed && !record_.events.empty();
    const Nanoseconds last = record_.events.empty() ? record_.end : record_.events.back().at;
    set_since(Metric::kE2el, Metric::kSchedE2el, last);
    const auto tokens = static_cast<double>(result_.output.tokens);
    const double since_send = milliseconds(last - record_.sent);
    if (tokens >= 1) set(Metric::kTpotWithFirst, since_send / tokens);
    if (streamed) per_token(last, since_send);
  }

  void per_token(Nanoseconds last, double since_send) {
    const Nanoseconds first = record_.events.front().at;
    const auto tokens = static_cast<double>(result_.output.tokens);
    const auto events = static_cast<double>(record_.events.size());
    const double span = milliseconds(last - first);
    set(Metric::kLlmperfItl, since_send / events);
    if (events >= 2) set(Metric::kRequestItl, span / (events - 1));
    if (tokens < 2) return;
    set(Metric::kTpot, span / (tokens - 1));
    set(Metric::kTpotLastByte, milliseconds(record_.end - first) / (tokens - 1));
    const double after_first = tokens - tokens_of(record_, result_, 0);
    if (result_.tokens_per_event_known && after_first > 0) {
      set(Metric::kTpotAfterFirst, span / after_first);
    }
  }

  const RequestRecord& record_;
  RequestMetrics result_;
};

}  // namespace

std::span<const MetricInfo> metric_infos() {
  return kMetricInfos;
}

const MetricInfo& info_of(Metric metric) {
  return kMetricInfos[static_cast<std::size_t>(metric)];
}

std::int64_t counted_on_events(const RequestRecord& record) {
  std::int64_t total = 0;
  for (const TokenEvent& event : record.events) total += event.tokens.value_or(0);
  return total;
}

TokenCount output_tokens(const RequestRecord& record) {
  const auto events = static_cast<std::int64_t>(record.events.size());
  const bool from_server = record.token_source == TokenSource::kContinuousUsage ||
                           record.token_source == TokenSource::kUsage;
  const bool zero = record.output_tokens == 0 && events > 0;
  if (record.output_tokens && !zero) {
    return {*record.output_tokens, from_server ? record.token_source : TokenSource::kUsage, false};
  }
  // A stream that was cut has no last usage, but its events may have told.
  if (record.token_source == TokenSource::kContinuousUsage && counted_on_events(record) > 0) {
    return {counted_on_events(record), TokenSource::kContinuousUsage, zero};
  }
  if (record.counted_tokens) return {*record.counted_tokens, TokenSource::kTokenizer, zero};
  return {events, TokenSource::kEvents, zero};
}

RequestMetrics derive(const RequestRecord& record) {
  return Deriver(record).derive();
}

double tokens_of(const RequestRecord& record, const RequestMetrics& request, std::size_t event) {
  NIBBLE_CHECK(event < record.events.size());
  if (!request.tokens_per_event_known) {
    return static_cast<double>(request.output.tokens) / static_cast<double>(record.events.size());
  }
  if (record.token_source != TokenSource::kContinuousUsage) return 1;
  return record.events[event].tokens.value_or(0);
}

}  // namespace nibble::load
