// What one row says: every latency that some load tester reports, under one name each. A value that
// the row does not have is absent, never zero.
//
//   const RequestMetrics request = derive(record);
//   request[Metric::kTtft]            // optional<double>, ms
//   for_each_gap(record, [](Nanoseconds from, Nanoseconds to) { ... });
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "load/record.h"

namespace nibble::load {

// In milliseconds. "last token" is the last event with a token, "last byte" the end of the body.
enum class Metric : std::uint8_t {
  kTtft,            // send -> first token of any kind, reasoning and tool calls included
  kTtfr,            // send -> first byte of the body
  kTtfo,            // send -> first token that is no reasoning
  kTpot,            // (last token - first token) / (output tokens - 1)
  kTpotWithFirst,   // (last token - send) / output tokens: guidellm's TPOT, others' NTPOT
  kTpotLastByte,    // (last byte - first token) / (output tokens - 1): SGLang, genai-perf
  kTpotAfterFirst,  // (last token - first) / (output tokens - tokens of the first event)
  kItl,             // gaps between events, pooled: vLLM's ITL, aiperf's ICL
  kTokenItl,        // gap / tokens of the event, pooled, each as often as it has tokens
  kRequestItl,      // mean gap between events of a request
  kLlmperfItl,      // (last token - send) / events: llmperf, which counts TTFT as a gap
  kE2el,            // send -> last token
  kE2eLatency,      // send -> last byte
  kQueue,           // schedule -> send
  kConnect,         // connecting, where a new connection was made; before the send
  kSchedTtft,       // the same from the schedule
  kSchedTtfo,
  kSchedE2el,
  kSchedE2eLatency,
};
inline constexpr std::size_t kMetrics = static_cast<std::size_t>(Metric::kSchedE2eLatency) + 1;

struct MetricInfo {
  Metric metric;
  std::string_view name;        // of the JSON fields: mean_ttft_ms, p99_ttft_ms, ...
  std::string_view title;       // of a table
  std::string_view definition;  // one sentence
};
std::span<const MetricInfo> metric_infos();  // in the order of Metric
const MetricInfo& info_of(Metric metric);

struct TokenCount {
  std::int64_t tokens = 0;
  TokenSource source = TokenSource::kEvents;
  bool usage_was_zero = false;  // the server said 0 although tokens came: not believed
};
// The count that all rates use: the server's where it gave one, else our tokenizer's, else one
// token an event.
TokenCount output_tokens(const RequestRecord& record);
// Sum of the events' own counts; 0 where the server keeps none.
std::int64_t counted_on_events(const RequestRecord& record);

struct RequestMetrics {
  std::array<std::optional<double>, kMetrics> values;
  TokenCount output;
  // How many tokens each event had is known: continuous usage, or as many events as tokens.
  bool tokens_per_event_known = false;
  std::optional<double> operator[](Metric metric) const {
    return values[static_cast<std::size_t>(metric)];
  }
};
// kItl and kTokenItl have many values a request and stay empty here.
RequestMetrics derive(const RequestRecord& record);

// Tokens of an event: its own count where known, else an even share of the request's.
double tokens_of(const RequestRecord& record, const RequestMetrics& request, std::size_t event);

// Calls each(from, to) for the gaps between consecutive events.
template <class Each>
void for_each_gap(const RequestRecord& record, Each&& each) {
  for (std::size_t index = 1; index < record.events.size(); ++index) {
    each(record.events[index - 1].at, record.events[index].at);
  }
}
// Calls each(from, to, tokens that came at `to`) for the gaps between events that brought tokens by
// the server's count: an event that the count stands still at is joined to the next. Nothing when
// the tokens of events are not known.
template <class Each>
void for_each_token_gap(const RequestRecord& record, const RequestMetrics& request, Each&& each) {
  if (!request.tokens_per_event_known || record.events.empty()) return;
  const bool counted = record.token_source == TokenSource::kContinuousUsage;
  Nanoseconds from = record.events.front().at;
  for (std::size_t index = 1; index < record.events.size(); ++index) {
    const TokenEvent& event = record.events[index];
    const std::int64_t tokens = counted ? event.tokens.value_or(0) : 1;
    if (tokens == 0) continue;
    each(from, event.at, tokens);
    from = event.at;
  }
}

}  // namespace nibble::load
