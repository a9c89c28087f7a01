// The words of a level's numbers: what they mean, and what to mind when reading them.
#include <fmt/format.h>

#include "base/units.h"
#include "load/metrics.h"

namespace nibble::load {
namespace {

constexpr double kMuch = 0.01;          // of the prompt from the cache
constexpr double kManyPerChunk = 1.05;  // tokens a chunk: ITL is no longer the time of a token
constexpr double kTailQuantile = 0.99;

std::string count_of(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", format_count(static_cast<double>(count)), what,
                     count == 1 ? "" : "s");
}

class Flags {
 public:
  explicit Flags(const LevelMetrics& metrics) : m_(metrics) {}

  std::vector<std::string> told_elsewhere() {
    success();
    tail();
    return std::move(flags_);
  }

  std::vector<std::string> list() {
    success();
    cancelled();
    tail();
    gaps();
    sources();
    streaming();
    lengths();
    content();
    return std::move(flags_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    flags_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void success() {
    const Counts& counts = m_.counts;
    if (counts.requests == 0) add("no request: there is nothing to measure");
    if (m_.success_ratio && *m_.success_ratio < m_.options.least_success) {
      add("only {} of the requests that ended succeeded, below {}: latencies are those of the ones "
          "that the server chose to answer",
          format_percent(*m_.success_ratio), format_percent(m_.options.least_success));
    } else if (counts.failed > 0) {
      add("{} failed and are in no latency", count_of(counts.failed, "request"));
    }
  }

  void cancelled() {
    if (m_.counts.cancelled == 0) return;
    add("{} were cancelled at the end and are in no latency",
        count_of(m_.counts.cancelled, "request"));
  }

  void tail() {
    const Quantile* p99 = m_[Metric::kE2el].find(kTailQuantile);
    if (p99 != nullptr && !p99->supported()) {
      add("P99 is withheld in tables: {}", p99->reason);
    }
  }

  void gaps() {
    if (m_[Metric::kItl].binned) {
      add("{} gaps between chunks: their percentiles are read off bins 0.1 % wide",
          format_count(static_cast<double>(m_[Metric::kItl].n)));
    }
  }

  void sources() {
    int used = 0;
    std::string list;
    for (int index = 0; index < kTokenSources; ++index) {
      const std::int64_t count = m_.tokens.sources[static_cast<std::size_t>(index)];
      if (count == 0) continue;
      ++used;
      list += fmt::format("{}{} by {}", list.empty() ? "" : ", ", count,
                          to_string(static_cast<TokenSource>(index)));
    }
    const auto by_events = m_.tokens.sources[static_cast<std::size_t>(TokenSource::kEvents)];
    if (used > 1) add("output tokens were counted in different ways: {}", list);
    if (by_events > 0) {
      add("{} without any token count: one token a chunk is assumed, which is wrong where chunks "
          "hold several",
          count_of(by_events, "request"));
    }
    if (m_.counts.zero_usage > 0) {
      add("the server's usage says 0 output tokens for {} that had text; not believed",
          count_of(m_.counts.zero_usage, "request"));
    }
    if (m_.counts.usage_mismatch > 0) {
      add("the counts on the chunks and the final usage differ in {}",
          count_of(m_.counts.usage_mismatch, "request"));
    }
    if (m_.tokens_per_chunk && *m_.tokens_per_chunk > kManyPerChunk) {
      add("chunks hold {} tokens on average: itl is the time of a chunk, token_itl that of a token",
          format_number(*m_.tokens_per_chunk, 3));
    }
  }

  void streaming() {
    const Counts& counts = m_.counts;
    if (counts.not_streamed > 0) {
      add("{} not streamed: no TTFT, TPOT or ITL for them",
          count_of(counts.not_streamed, "answer"));
    }
    if (counts.one_token > 0) {
      add("{} of one token: no TPOT; a TPOT limit counts them as good, as vLLM does",
          count_of(counts.one_token, "answer"));
    }
    if (counts.without_done > 0) {
      add("{} ended without [DONE]", count_of(counts.without_done, "stream"));
    }
    if (counts.data_after_done > 0) {
      add("{} went on after [DONE]", count_of(counts.data_after_done, "stream"));
    }
  }

  void lengths() {
    const Lengths& output = m_.output_lengths;
    const double tolerance = m_.options.length_tolerance;
    if (output.ratio() && std::abs(*output.ratio() - 1) > tolerance) {
      add("outputs are {} of the length asked for ({} ended early): tokens/s does not compare with "
          "runs of full length; use ignore_eos",
          format_percent(*output.ratio()), output.early_eos);
    } else if (output.mismatched > 0) {
      add("{} of {} outputs differ from the length asked for", output.mismatched, output.requests);
    }
    const Lengths& prompt = m_.prompt_lengths;
    if (prompt.ratio() && std::abs(*prompt.ratio() - 1) > tolerance) {
      add("prompts are {} of the length asked for, by the server's count",
          format_percent(*prompt.ratio()));
    }
    if (m_.tokens.input_asked_only > 0) {
      add("the server does not tell the prompt tokens of {}: the length asked for is taken",
          count_of(m_.tokens.input_asked_only, "request"));
    }
  }

  void content() {
    if (m_.tokens.cached && m_.tokens.cached_of_prompt > 0) {
      const double share =
          static_cast<double>(*m_.tokens.cached) / static_cast<double>(m_.tokens.cached_of_prompt);
      if (share > kMuch) {
        add("{} of the prompt tokens came from the server's prefix cache", format_percent(share));
      }
    }
    if (m_.counts.degenerate > 0) {
      add("{} repeat one token or a short period: the server's output may be broken",
          count_of(m_.counts.degenerate, "answer"));
    }
  }

  const LevelMetrics& m_;
  std::vector<std::string> flags_;
};

constexpr std::pair<std::string_view, std::string_view> kDefinitions[] = {
    {"percentiles",
     "Linear between order statistics (numpy.percentile); std is that of the "
     "population (numpy.std). n stands beside each."},
    {"ci",
     "95 % interval from order statistics with equal tails (binomial, no distribution "
     "assumed). Gaps of one request are alike: for itl and token_itl it is the interval that "
     "one value a request would have. P99 needs 368 requests."},
    {"icl", "The same numbers as itl, under aiperf's name."},
    {"duration",
     "First send to last byte of all requests of the level, warm-up left out, ramp and "
     "drain included: vLLM's. steady{} has the numbers without ramp and drain."},
    {"duration_from_schedule", "First scheduled time to last byte."},
    {"duration_to_last_token", "First send to the last token of a success."},
    {"completed",
     "Requests that succeeded. failed: all others but those that we cancelled "
     "(cancelled). num_requests is the sum of the three."},
    {"success_ratio", "completed / (completed + failed)."},
    {"total_output_tokens",
     "Of successes, by token_source: the server's usage, else our tokenizer, "
     "else one token a chunk. The other counts are in token_counts{}."},
    {"total_input_tokens", "Of successes: the server's prompt tokens, else the length asked for."},
    {"output_throughput",
     "total_output_tokens / duration; in steady{}: tokens that came in the "
     "window / its length, those of requests we cancelled later included."},
    {"total_token_throughput",
     "(input + output tokens) / duration; also as total_throughput, "
     "SGLang's name."},
    {"request_throughput",
     "completed / duration; in steady{}: successes that ended in the window / "
     "its length."},
    {"request_goodput",
     "Successes that hold every limit (value <= limit, ms) / duration. A request "
     "of one token passes a tpot or itl limit, as in vLLM; goodput.strict counts "
     "them as missed. A request without the value (not streamed) does not pass. In steady{}: the "
     "good ones of those that ended in the window / its length, as request_throughput."},
    {"goodput",
     "Shares of good requests of all sent (of_sent), of completed + failed (of_finished), "
     "of completed (of_ok); in steady{} of those that ended in the window. The itl limit is on the "
     "request's mean gap between "
     "chunks."},
    {"concurrency", "Sum of e2e_latency of successes / duration: SGLang's, by Little's law."},
    {"mean_in_flight",
     "Mean number of requests between send and last byte, failures included; exact, "
     "from the intervals."},
    {"max_concurrent_requests",
     "Peak of the same, exact, by a sweep over all starts and ends; not "
     "the peak of one-second buckets."},
    {"max_output_tokens_per_s",
     "Most tokens (not chunks) in any second that starts at a tenth of a "
     "second; where the tokens of chunks are not known, a request's are "
     "spread evenly over its chunks. null below one second."},
    {"cached_fraction",
     "Cached / prompt tokens by the server's usage, over the requests that tell; "
     "null where none does, which is not the same as 0."},
    {"repeated_prompts",
     "Requests whose prompt, by its content, had been sent before in the run (warm-ups and earlier "
     "levels included) / num_requests."},
    {"rate_drift",
     "Output tokens/s of the last third of the steady window (of the whole level where there is "
     "none) / those of its first third, minus 1. null below 3 s."},
    {"units",
     "Fields that end in _ms are milliseconds, goodput limits too; duration and other "
     "times are seconds; rates are per second."},
    {"tail",
     "Requests that failed or were cancelled are in no latency. A latency that a request "
     "does not have is left out and counted in ci{}.missing, never taken for 0."},
};

}  // namespace

std::vector<std::string> flags_of(const LevelMetrics& metrics) {
  return Flags(metrics).list();
}

std::vector<std::string> flags_told_elsewhere(const LevelMetrics& metrics) {
  return Flags(metrics).told_elsewhere();
}

Json definitions() {
  Json json = Json::object();
  for (const MetricInfo& info : metric_infos()) json.set(info.name, info.definition);
  for (const auto& [name, sentence] : kDefinitions) json.set(name, sentence);
  return json;
}

}  // namespace nibble::load
