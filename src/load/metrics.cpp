#include "load/metrics.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"

namespace nibble::load {
namespace {

// Gaps are the one kind of value of which a run has tens of millions: exact up to two million
// (16 MB), binned above.
constexpr std::size_t kMostExactGaps = std::size_t{1} << 21;
constexpr std::size_t kMostMessages = 1000;  // that are told apart: some hold a number of their own
constexpr double kShortestRate = 1;          // s: below it no whole second was observed

std::array<Distribution, kMetrics> make_distributions() {
  std::array<Distribution, kMetrics> distributions;
  distributions[static_cast<std::size_t>(Metric::kItl)] = Distribution(kMostExactGaps);
  distributions[static_cast<std::size_t>(Metric::kTokenItl)] = Distribution(kMostExactGaps);
  return distributions;
}

void keep_least(std::optional<Nanoseconds>& least, Nanoseconds at) {
  least = least ? std::min(*least, at) : at;
}
void keep_most(std::optional<Nanoseconds>& most, Nanoseconds at) {
  most = most ? std::max(*most, at) : at;
}

std::optional<double> ratio(double part, double whole) {
  return whole > 0 ? std::optional(part / whole) : std::nullopt;
}

// A sum that exists only while every row has its part.
void add_or_void(std::optional<std::int64_t>& sum, const std::optional<std::int64_t>& part) {
  if (!sum) return;
  if (part) {
    *sum += *part;
  } else {
    sum.reset();
  }
}

void add_length(Lengths& lengths, std::int64_t asked, std::int64_t came) {
  ++lengths.requests;
  lengths.asked += static_cast<double>(asked);
  lengths.came += static_cast<double>(came);
  if (asked != came) ++lengths.mismatched;
}

}  // namespace

LevelAccumulator::LevelAccumulator(MetricsOptions options)
    : options_(std::move(options)), distributions_(make_distributions()) {
  metrics_.tokens.output_usage = 0;
  metrics_.tokens.output_counted = 0;
  metrics_.tokens.output_asked = 0;
}

// One at the very start belongs to the time before, one at the very stop to the window.
bool LevelAccumulator::departs_within(const RequestRecord& record) const {
  if (!options_.window) return true;
  return record.end > options_.window->start && record.end <= options_.window->stop;
}

bool LevelAccumulator::inside(const RequestRecord& record) const {
  if (!options_.window) return true;
  return record.sent >= options_.window->start && record.end <= options_.window->stop;
}

void LevelAccumulator::add(const RequestRecord& record) {
  if (record.warmup) {
    ++metrics_.counts.warmup;
    return;
  }
  const RequestMetrics request = derive(record);
  if (record.scheduled != 0) keep_least(first_scheduled_, record.scheduled);
  if (record.sent != 0) {
    sweep_.add(record.sent, record.end);
    keep_least(first_sent_, record.sent);
    keep_most(last_end_, record.end);
  }
  add_tokens(record, request);
  if (options_.slo.any()) add_goodput(record, request);
  if (!inside(record)) return;
  Counts& counts = metrics_.counts;
  ++counts.requests;
  ++counts.by_outcome[static_cast<std::size_t>(record.outcome)];
  if (record.sent != 0) {
    metrics_.sum_e2e_s += seconds(record.end - record.sent);
    if (const auto queue = request[Metric::kQueue]) of(Metric::kQueue).add(*queue);
    if (const auto connect = request[Metric::kConnect]) of(Metric::kConnect).add(*connect);
  }
  if (record.connected_anew) ++counts.connected_anew;
  if (!record.prompt_repeated) ++counts.repeat_unknown;
  if (record.prompt_repeated.value_or(false)) ++counts.repeated;
  if (record.outcome == Outcome::kCancelled) {
    ++counts.cancelled;
  } else if (record.outcome != Outcome::kOk) {
    ++counts.failed;
    add_message(record);
  } else {
    ++counts.ok;
    add_ok(record, request);
  }
}

void LevelAccumulator::add_tokens(const RequestRecord& record, const RequestMetrics& request) {
  const bool ok = record.outcome == Outcome::kOk;
  if (!ok) {
    metrics_.tokens.output_of_others += request.output.tokens;
    metrics_.tokens.output_unseen +=
        std::max<std::int64_t>(0, record.output_tokens_asked - request.output.tokens);
    if (record.events.empty()) metrics_.tokens.input_unseen += record.prompt_tokens_asked;
    if (!record.events.empty()) {
      metrics_.tokens.input_of_others += record.prompt_tokens.value_or(record.prompt_tokens_asked);
    }
  }
  // What a request had sent before we ended it was real output; a failure's is worth nothing.
  if (!ok && record.outcome != Outcome::kCancelled) return;
  if (!record.events.empty() && ok) keep_most(last_token_, record.events.back().at);
  const auto count = [&](Nanoseconds at, double tokens) {
    if (options_.window && !options_.window->holds(at)) return;
    window_tokens_ += tokens;
    rate_.add(at, tokens);
  };
  for (std::size_t event = 0; event < record.events.size(); ++event) {
    count(record.events[event].at, tokens_of(record, request, event));
  }
  if (record.events.empty() && request.output.tokens > 0) {
    count(record.end, static_cast<double>(request.output.tokens));
  }
  if (ok && options_.window && departs_within(record)) ++window_requests_;
}

void LevelAccumulator::add_ok(const RequestRecord& record, const RequestMetrics& request) {
  add_latencies(record, request);
  add_counts(record, request);
  add_lengths(record, request);
}

void LevelAccumulator::add_message(const RequestRecord& record) {
  if (record.message.empty()) return;
  const std::pair key(record.outcome, record.message);
  if (messages_.size() < kMostMessages || messages_.contains(key)) ++messages_[key];
}

void LevelAccumulator::add_latencies(const RequestRecord& record, const RequestMetrics& request) {
  for (const MetricInfo& info : metric_infos()) {
    switch (info.metric) {
      case Metric::kItl:
      case Metric::kTokenItl:
      case Metric::kQueue:
      case Metric::kConnect:
        continue;  // pooled below, or of every request
      default:
        break;
    }
    if (const auto value = request[info.metric]) {
      of(info.metric).add(*value);
    } else {
      of(info.metric).add_missing();
    }
  }
  ok_e2e_s_ += seconds(record.end - record.sent);
  const bool gaps = record.streamed && record.events.size() >= 2;
  if (gaps) {
    ++requests_with_gaps_;
    for_each_gap(record, [&](Nanoseconds from, Nanoseconds to) {
      of(Metric::kItl).add(milliseconds(to - from));
    });
  } else {
    of(Metric::kItl).add_missing();
  }
  if (gaps && request.tokens_per_event_known) {
    ++requests_with_token_gaps_;
    for_each_token_gap(record, request, [&](Nanoseconds from, Nanoseconds to, std::int64_t tokens) {
      of(Metric::kTokenItl).add(milliseconds(to - from) / static_cast<double>(tokens), tokens);
    });
  } else {
    of(Metric::kTokenItl).add_missing();
  }
}

void LevelAccumulator::add_counts(const RequestRecord& record, const RequestMetrics& request) {
  Counts& counts = metrics_.counts;
  if (!record.streamed || record.events.empty()) ++counts.not_streamed;
  if (record.streamed && !record.saw_done) ++counts.without_done;
  if (record.data_after_done) ++counts.data_after_done;
  if (record.degenerate) ++counts.degenerate;
  if (request.output.usage_was_zero) ++counts.zero_usage;
  if (request.output.tokens == 1) ++counts.one_token;
  if (record.token_source == TokenSource::kContinuousUsage && record.output_tokens &&
      counted_on_events(record) != *record.output_tokens) {
    ++counts.usage_mismatch;
  }
}

void LevelAccumulator::add_lengths(const RequestRecord& record, const RequestMetrics& request) {
  Tokens& tokens = metrics_.tokens;
  tokens.output += request.output.tokens;
  tokens.input += record.prompt_tokens.value_or(record.prompt_tokens_asked);
  tokens.events += static_cast<std::int64_t>(record.events.size());
  ++tokens.sources[static_cast<std::size_t>(request.output.source)];
  const bool asks = record.output_tokens_asked > 0;
  add_or_void(tokens.output_usage,
              request.output.usage_was_zero ? std::nullopt : record.output_tokens);
  add_or_void(tokens.output_counted, record.counted_tokens);
  add_or_void(tokens.output_asked, asks ? std::optional(record.output_tokens_asked) : std::nullopt);
  if (record.reasoning_tokens) {
    tokens.reasoning = tokens.reasoning.value_or(0) + *record.reasoning_tokens;
  }
  if (record.cached_tokens) {
    tokens.cached = tokens.cached.value_or(0) + *record.cached_tokens;
    tokens.cached_of_prompt += record.prompt_tokens.value_or(record.prompt_tokens_asked);
  }
  if (!record.prompt_tokens) ++tokens.input_asked_only;
  // A number of events is no length: without any count there is nothing to compare.
  if (asks && request.output.source != TokenSource::kEvents) {
    add_length(metrics_.output_lengths, record.output_tokens_asked, request.output.tokens);
    const bool stopped = record.finish_reason != "length";
    if (stopped && request.output.tokens < record.output_tokens_asked) {
      ++metrics_.output_lengths.early_eos;
    }
  }
  if (record.prompt_tokens_asked > 0 && record.prompt_tokens) {
    add_length(metrics_.prompt_lengths, record.prompt_tokens_asked, *record.prompt_tokens);
  }
}

void LevelAccumulator::add_goodput(const RequestRecord& record, const RequestMetrics& request) {
  if (!departs_within(record)) return;
  ++ended_;
  if (record.outcome == Outcome::kCancelled) return;
  ++finished_;
  if (record.outcome != Outcome::kOk) return;
  ++succeeded_;
  judge_limits(request);
}

void LevelAccumulator::judge_limits(const RequestMetrics& request) {
  bool good = true;
  bool unknown = false;
  const auto hold = [&](const std::optional<double>& limit, std::optional<double> value) {
    if (!limit) return;
    if (!value) unknown = true;
    good = good && value && *value <= *limit;
  };
  hold(options_.slo.ttft_ms, request[Metric::kTtft]);
  hold(options_.slo.itl_ms, request.output.tokens == 1 ? 0.0 : request[Metric::kRequestItl]);
  hold(options_.slo.e2el_ms, request[Metric::kE2el]);
  // One token has no time per token. vLLM takes it for zero, which passes.
  const bool one_token = request.output.tokens == 1;
  hold(options_.slo.tpot_ms, one_token ? 0.0 : request[Metric::kTpot]);
  if (unknown) ++goodput_.unknown;
  if (!good) return;
  ++goodput_.good;
  if (!(one_token && (options_.slo.tpot_ms || options_.slo.itl_ms))) ++goodput_.strict;
}

void LevelAccumulator::finish_durations(LevelMetrics& metrics) const {
  Durations& durations = metrics.durations;
  if (options_.window) {
    durations.benchmark = options_.window->length_s();
    durations.from_schedule = durations.benchmark;
    durations.to_last_token = durations.benchmark;
    return;
  }
  if (!first_sent_) return;
  durations.benchmark = seconds(*last_end_ - *first_sent_);
  durations.from_schedule =
      first_scheduled_ ? seconds(*last_end_ - *first_scheduled_) : durations.benchmark;
  if (last_token_) durations.to_last_token = seconds(*last_token_ - *first_sent_);
}

void LevelAccumulator::finish_rates(LevelMetrics& metrics) const {
  const double duration = metrics.durations.benchmark;
  const auto ok = static_cast<double>(metrics.counts.ok);
  const bool window = options_.window.has_value();
  const double requests = window ? static_cast<double>(window_requests_) : ok;
  metrics.request_throughput = ratio(requests, duration);
  metrics.output_throughput =
      ratio(window ? window_tokens_ : static_cast<double>(metrics.tokens.output), duration);
  // In a window, input goes at the rate of requests: their prompts have no time of their own.
  const auto input = static_cast<double>(metrics.tokens.input);
  const double mean_input = ok > 0 ? input / ok : 0;
  metrics.input_throughput = ratio(requests * mean_input, duration);
  if (metrics.output_throughput) {
    metrics.total_throughput = *metrics.output_throughput + *metrics.input_throughput;
  }
  // Little's law: rate x time. Without a window that is the sum over the duration.
  const double mean_e2e_s = ok > 0 ? ok_e2e_s_ / ok : 0;
  metrics.concurrency = ratio(requests * mean_e2e_s, duration);
  const Window span = options_.window.value_or(sweep_.span());
  const InFlight flight = sweep_.count(span);
  if (span.length_s() > 0) metrics.mean_in_flight = flight.mean;
  metrics.max_in_flight = flight.peak;
  const auto judged = static_cast<double>(metrics.counts.ok + metrics.counts.failed);
  metrics.success_ratio = ratio(ok, judged);
  metrics.tokens_per_chunk =
      ratio(static_cast<double>(metrics.tokens.output), static_cast<double>(metrics.tokens.events));
  if (metrics.counts.ok > 0 && metrics.counts.not_streamed == metrics.counts.ok) {
    metrics.max_output_reason = "not streamed: the times of tokens are not known";
  } else if (duration < kShortestRate) {
    metrics.max_output_reason = "shorter than a second";
  } else {
    metrics.max_output_tokens_per_s = rate_.best_second();
  }
}

void LevelAccumulator::finish_goodput(LevelMetrics& metrics) const {
  if (!options_.slo.any()) return;
  Goodput goodput = goodput_;
  const auto good = static_cast<double>(goodput.good);
  goodput.of_sent = ratio(good, static_cast<double>(ended_));
  goodput.of_finished = ratio(good, static_cast<double>(finished_));
  goodput.of_ok = ratio(good, static_cast<double>(succeeded_));
  goodput.per_s = ratio(good, metrics.durations.benchmark);
  metrics.goodput = goodput;
}

LevelMetrics LevelAccumulator::finish() {
  LevelMetrics metrics = metrics_;
  metrics.options = options_;
  if (metrics.counts.ok == 0) {
    metrics.tokens.output_usage.reset();
    metrics.tokens.output_counted.reset();
    metrics.tokens.output_asked.reset();
  }
  finish_durations(metrics);
  finish_rates(metrics);
  finish_goodput(metrics);
  for (const MetricInfo& info : metric_infos()) {
    std::optional<std::int64_t> independent;
    if (info.metric == Metric::kItl) independent = requests_with_gaps_;
    if (info.metric == Metric::kTokenItl) independent = requests_with_token_gaps_;
    metrics.summaries[static_cast<std::size_t>(info.metric)] =
        of(info.metric).summarize(options_.quantiles, independent);
  }
  std::array<std::int64_t, kOutcomes> most{};
  for (const auto& [key, count] : messages_) {
    const auto outcome = static_cast<std::size_t>(key.first);
    if (count <= most[outcome]) continue;
    most[outcome] = count;
    metrics.messages[outcome] = key.second;
  }
  metrics.flags = flags_of(metrics);
  return metrics;
}

}  // namespace nibble::load
