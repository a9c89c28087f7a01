// What a level of a load test says, from its rows and nothing else (docs/load_metrics.md).
//
//   LevelAccumulator level({.slo = {.ttft_ms = 200}});
//   ... level.add(record);                       // in any order; memory does not hold the rows
//   const LevelMetrics metrics = level.finish();
//   metrics[Metric::kTtft].mean, metrics.output_throughput, metrics.flags
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "load/metrics_intervals.h"
#include "load/metrics_request.h"
#include "load/quantiles.h"
#include "load/record_json.h"

namespace nibble::load {

// Limits of a good request, in ms, each held when the value is at most the limit.
struct Slo {
  std::optional<double> ttft_ms;
  std::optional<double> tpot_ms;
  std::optional<double> itl_ms;  // mean gap between the request's chunks
  std::optional<double> e2el_ms;
  bool any() const { return ttft_ms || tpot_ms || itl_ms || e2el_ms; }
};

struct MetricsOptions {
  std::vector<double> quantiles = {0.5, 0.9, 0.95, 0.99};
  std::vector<double> asked;  // those of them that somebody named: shown whatever they are worth
  bool is_asked(double q) const { return std::find(asked.begin(), asked.end(), q) != asked.end(); }
  Slo slo;
  double least_success = 0.95;     // below it latencies are flagged: servers that refuse look fast
  double length_tolerance = 0.05;  // of mean output or prompt length against what was asked
  // Only what lies in the window: requests sent and ended there, tokens that came there.
  std::optional<Window> window;
};

struct Counts {
  std::int64_t requests = 0;  // all but warm-up: ok + failed + cancelled
  std::int64_t ok = 0;
  std::int64_t failed = 0;
  std::int64_t cancelled = 0;  // by us: neither success nor failure
  std::int64_t warmup = 0;
  std::int64_t repeated = 0;        // of `requests`, whose prompt had been sent before in the run
  std::int64_t repeat_unknown = 0;  // of which that is not known
  std::array<std::int64_t, kOutcomes> by_outcome{};  // index: Outcome
  std::int64_t not_streamed = 0;                     // of the successes, as all below
  std::int64_t one_token = 0;                        // no TPOT
  std::int64_t degenerate = 0;
  std::int64_t without_done = 0;
  std::int64_t data_after_done = 0;
  std::int64_t zero_usage = 0;      // the server counted 0 tokens although some came
  std::int64_t usage_mismatch = 0;  // counts on events and at the end differ
  std::int64_t connected_anew = 0;
};

struct Lengths {                // of what was asked and what came, over successes
  std::int64_t requests = 0;    // that asked for a length and tell theirs
  std::int64_t mismatched = 0;  // of another length
  std::int64_t early_eos = 0;   // shorter, and the server says "stop" or nothing
  double asked = 0;             // tokens, sums
  double came = 0;
  std::optional<double> ratio() const {
    return asked > 0 ? std::optional(came / asked) : std::nullopt;
  }
};

struct Tokens {
  std::int64_t output = 0;            // of successes, by the best source of each
  std::int64_t input = 0;             // likewise: usage, else what was asked
  std::int64_t output_of_others = 0;  // that came in failed and cancelled requests
  std::int64_t input_of_others = 0;   // prompts of those of them that got a token
  // What a server may have counted for failed and cancelled requests, and we have not seen.
  std::int64_t output_unseen = 0;
  std::int64_t input_unseen = 0;
  std::int64_t events = 0;
  std::optional<std::int64_t> output_usage;    // the other counts, where every success has them
  std::optional<std::int64_t> output_counted;  // by our tokenizer
  std::optional<std::int64_t> output_asked;
  std::optional<std::int64_t> reasoning;
  std::optional<std::int64_t> cached;  // of those that tell it:
  std::int64_t cached_of_prompt = 0;   // prompt tokens of the same requests
  std::int64_t input_asked_only = 0;   // successes without a prompt count of the server
  std::array<std::int64_t, kTokenSources> sources{};  // successes by TokenSource
};

// Over the requests that the request rate counts: in a window those that ended in it, whenever they
// were sent. Of a window that is hardly longer than a request, those both sent and ended inside are
// few, and none of them may be good.
struct Goodput {
  std::int64_t good = 0;     // 1-token outputs pass a TPOT limit, as in vLLM
  std::int64_t strict = 0;   // they do not
  std::int64_t unknown = 0;  // lack a value that a limit is on (not streamed): not good
  std::optional<double> per_s;
  std::optional<double> of_sent, of_finished, of_ok;  // good / requests, / ok + failed, / ok
};

// Lengths of time, s, of the same run: what rates are divided by is `benchmark`.
struct Durations {
  double benchmark = 0;  // first send -> last end, of all requests; the window's when there is one
  double from_schedule = 0;  // first schedule -> last end
  double to_last_token = 0;  // first send -> last token of a success
};

struct LevelMetrics {
  MetricsOptions options;
  Counts counts;
  Tokens tokens;
  Lengths output_lengths;
  Lengths prompt_lengths;
  Durations durations;
  std::array<Summary, kMetrics> summaries;
  const Summary& operator[](Metric metric) const {
    return summaries[static_cast<std::size_t>(metric)];
  }
  // null where the duration is zero, never infinite.
  std::optional<double> output_throughput;  // tokens/s
  std::optional<double> input_throughput;
  std::optional<double> total_throughput;
  std::optional<double> request_throughput;
  std::optional<double> concurrency;     // sum of e2e_latency of successes / duration: SGLang
  std::optional<double> mean_in_flight;  // of all requests, exact
  std::int64_t max_in_flight = 0;        // exact, by a sweep over all intervals
  std::optional<double> max_output_tokens_per_s;  // best second, by tokens
  std::string max_output_reason;                  // why there is none
  double sum_e2e_s = 0;                           // of all requests, to the last byte
  std::optional<double> success_ratio;            // ok / (ok + failed)
  std::optional<double> tokens_per_chunk;
  std::optional<Goodput> goodput;               // when an SLO is given
  std::array<std::string, kOutcomes> messages;  // of failures, the commonest of each class
  std::vector<std::string> flags;               // sentences: what to mind when reading the numbers
};

class LevelAccumulator {
 public:
  explicit LevelAccumulator(MetricsOptions options);
  void add(const RequestRecord& record);
  // What was added so far; adding may go on.
  LevelMetrics finish();

 private:
  bool departs_within(const RequestRecord& record) const;
  bool inside(const RequestRecord& record) const;
  void add_tokens(const RequestRecord& record, const RequestMetrics& request);
  void add_ok(const RequestRecord& record, const RequestMetrics& request);
  void add_latencies(const RequestRecord& record, const RequestMetrics& request);
  void add_counts(const RequestRecord& record, const RequestMetrics& request);
  void add_lengths(const RequestRecord& record, const RequestMetrics& request);
  void add_goodput(const RequestRecord& record, const RequestMetrics& request);
  void judge_limits(const RequestMetrics& request);
  void add_message(const RequestRecord& record);
  void finish_durations(LevelMetrics& metrics) const;
  void finish_rates(LevelMetrics& metrics) const;
  void finish_goodput(LevelMetrics& metrics) const;
  Distribution& of(Metric metric) { return distributions_[static_cast<std::size_t>(metric)]; }

  MetricsOptions options_;
  LevelMetrics metrics_;
  std::array<Distribution, kMetrics> distributions_;
  std::int64_t requests_with_gaps_ = 0;
  std::int64_t requests_with_token_gaps_ = 0;
  double window_tokens_ = 0;          // that came in the window
  std::int64_t window_requests_ = 0;  // successes that ended in it
  double ok_e2e_s_ = 0;
  Goodput goodput_;
  // Of the requests that goodput is over: all, ok + failed, ok.
  std::int64_t ended_ = 0;
  std::int64_t finished_ = 0;
  std::int64_t succeeded_ = 0;
  std::map<std::pair<Outcome, std::string>, std::int64_t> messages_;
  IntervalSweep sweep_;
  TokenRate rate_;
  std::optional<Nanoseconds> first_sent_, first_scheduled_, last_end_, last_token_;
};

// What each field of a level means, name -> sentence: `definitions` of nibble.load/1.
Json definitions();
// Sentences for what is odd about the numbers.
std::vector<std::string> flags_of(const LevelMetrics& metrics);
// Those of them that say what a report says anyway: failures, and percentiles that are withheld.
std::vector<std::string> flags_told_elsewhere(const LevelMetrics& metrics);

}  // namespace nibble::load
