// A level as JSON and as a line of CSV: the names are vLLM's and SGLang's, so that scripts made for
// their files go on working (docs/load_metrics.md).
#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

#include "base/json_parts.h"
#include "base/units.h"
#include "load/level_report.h"

namespace nibble::load {
namespace {

Json whole_or_null(const std::optional<std::int64_t>& value) {
  return value ? Json(*value) : Json();
}

// "p99", "p99.9".
std::string percentile_name(double q) {
  return "p" + format_compact(q * 100);
}

void add_statistics(Json& json, std::string_view name, const Summary& summary) {
  const auto value = [&](double number) { return summary.empty() ? Json() : Json(number); };
  json.set(fmt::format("mean_{}_ms", name), value(summary.mean));
  const Quantile* median = summary.find(0.5);
  json.set(fmt::format("median_{}_ms", name), median != nullptr ? Json(median->value) : Json());
  json.set(fmt::format("std_{}_ms", name), value(summary.std));
  json.set(fmt::format("min_{}_ms", name), value(summary.min));
  json.set(fmt::format("max_{}_ms", name), value(summary.max));
  for (const Quantile& quantile : summary.quantiles) {
    json.set(fmt::format("{}_{}_ms", percentile_name(quantile.q), name), quantile.value);
  }
}

// vLLM's scripts expect the asked percentiles even where nothing was measured.
void add_empty_percentiles(Json& json, std::string_view name, const MetricsOptions& options) {
  for (const double q : options.quantiles) {
    json.set(fmt::format("{}_{}_ms", percentile_name(q), name), nullptr);
  }
}

Json interval_json(const Summary& summary, const std::string& reason) {
  Json json = Json::object();
  json.set("n", summary.n).set("missing", summary.missing);
  json.set("reason", text_or_null(reason));
  json.set("binned", summary.binned);
  for (const Quantile& quantile : summary.quantiles) {
    const std::string name = percentile_name(quantile.q);
    json.set(name, quantile.interval
                       ? Json::array({quantile.interval->low, quantile.interval->high})
                       : Json());
    if (!quantile.supported()) json.set(name + "_reason", quantile.reason);
  }
  return json;
}

void add_latencies(Json& json, const LevelMetrics& metrics) {
  Json intervals = Json::object();
  for (const MetricInfo& info : metric_infos()) {
    const Summary& summary = metrics[info.metric];
    add_statistics(json, info.name, summary);
    if (summary.empty()) add_empty_percentiles(json, info.name, metrics.options);
    intervals.set(info.name, interval_json(summary, why_missing(metrics, info.metric)));
    if (info.metric != Metric::kItl) continue;
    add_statistics(json, "icl", summary);  // aiperf's name of the same
    if (summary.empty()) add_empty_percentiles(json, "icl", metrics.options);
  }
  json.set("ci", std::move(intervals));
}

void add_repeated(Json& json, const Counts& counts) {
  const bool known = counts.requests > 0 && counts.repeat_unknown == 0;
  json.set("repeated_prompts",
           known ? Json(static_cast<double>(counts.repeated) / static_cast<double>(counts.requests))
                 : Json());
  const char* reason = counts.requests == 0
                           ? "no request"
                           : "the rows do not tell whether prompts had been sent before";
  json.set("repeated_prompts_reason", known ? Json() : Json(reason));
}

void add_counts(Json& json, const LevelMetrics& metrics) {
  const Counts& counts = metrics.counts;
  json.set("num_requests", counts.requests);
  json.set("completed", counts.ok).set("failed", counts.failed);
  json.set("cancelled", counts.cancelled).set("warmup_requests", counts.warmup);
  json.set("success_ratio", metrics.success_ratio);
  json.set("latency_valid", metrics.success_ratio
                                ? Json(*metrics.success_ratio >= metrics.options.least_success)
                                : Json(false));
  Json errors = Json::object();
  for (int index = 1; index < kOutcomes; ++index) {
    const auto count = counts.by_outcome[static_cast<std::size_t>(index)];
    if (count > 0) errors.set(to_string(static_cast<Outcome>(index)), count);
  }
  json.set("errors_by_class", std::move(errors));
  Json messages = Json::object();
  for (int index = 1; index < kOutcomes; ++index) {
    const std::string& message = metrics.messages[static_cast<std::size_t>(index)];
    if (!message.empty()) messages.set(to_string(static_cast<Outcome>(index)), message);
  }
  json.set("error_messages", std::move(messages));
  json.set("not_streamed", counts.not_streamed).set("one_token_outputs", counts.one_token);
  json.set("degenerate", counts.degenerate).set("without_done", counts.without_done);
  json.set("data_after_done", counts.data_after_done).set("zero_usage", counts.zero_usage);
  json.set("usage_mismatch", counts.usage_mismatch);
  json.set("new_connections", counts.connected_anew);
  add_repeated(json, counts);
}

Json lengths_json(const Lengths& lengths) {
  return Json::object()
      .set("requests", lengths.requests)
      .set("mismatched", lengths.mismatched)
      .set("early_eos", lengths.early_eos)
      .set("mean_ratio", lengths.ratio());
}

void add_tokens(Json& json, const LevelMetrics& metrics) {
  const Tokens& tokens = metrics.tokens;
  json.set("total_input_tokens", tokens.input).set("total_output_tokens", tokens.output);
  json.set("total_output_tokens_retokenized", whole_or_null(tokens.output_counted));
  json.set("output_tokens_of_failed_and_cancelled", tokens.output_of_others);
  Json sources = Json::object();
  std::string only;
  for (int index = 0; index < kTokenSources; ++index) {
    const std::int64_t count = tokens.sources[static_cast<std::size_t>(index)];
    const auto name = to_string(static_cast<TokenSource>(index));
    sources.set(name, count);
    if (count > 0) only = only.empty() ? std::string(name) : "mixed";
  }
  json.set("token_source", text_or_null(only)).set("token_sources", std::move(sources));
  json.set("token_counts", Json::object()
                               .set("usage", whole_or_null(tokens.output_usage))
                               .set("tokenizer", whole_or_null(tokens.output_counted))
                               .set("asked", whole_or_null(tokens.output_asked))
                               .set("chunks", tokens.events));
  json.set("tokens_per_chunk", metrics.tokens_per_chunk);
  json.set("reasoning_tokens", whole_or_null(tokens.reasoning));
  json.set("cached_tokens", whole_or_null(tokens.cached));
  json.set("cached_fraction", tokens.cached && tokens.cached_of_prompt > 0
                                  ? Json(static_cast<double>(*tokens.cached) /
                                         static_cast<double>(tokens.cached_of_prompt))
                                  : Json());
  json.set("output_lengths", lengths_json(metrics.output_lengths));
  json.set("prompt_lengths", lengths_json(metrics.prompt_lengths));
}

void add_rates(Json& json, const LevelMetrics& metrics) {
  json.set("duration", metrics.durations.benchmark);
  json.set("duration_from_schedule", metrics.durations.from_schedule);
  json.set("duration_to_last_token", metrics.durations.to_last_token);
  json.set("request_throughput", metrics.request_throughput);
  json.set("input_throughput", metrics.input_throughput);
  json.set("output_throughput", metrics.output_throughput);
  json.set("total_token_throughput", metrics.total_throughput);
  json.set("total_throughput", metrics.total_throughput);
  json.set("max_output_tokens_per_s", metrics.max_output_tokens_per_s);
  json.set("max_output_tokens_per_s_reason", text_or_null(metrics.max_output_reason));
  json.set("concurrency", metrics.concurrency);
  json.set("mean_in_flight", metrics.mean_in_flight);
  json.set("max_concurrent_requests", metrics.max_in_flight);
  json.set("accept_length", nullptr);  // SGLang's own server tells it, no client can
}

void add_goodput(Json& json, const LevelMetrics& metrics) {
  const Slo& slo = metrics.options.slo;
  const auto& goodput = metrics.goodput;
  json.set("request_goodput", goodput ? Json(goodput->per_s) : Json());
  if (!goodput) {
    json.set("goodput", nullptr);
    return;
  }
  json.set("goodput", Json::object()
                          .set("limits_ms", Json::object()
                                                .set("ttft", slo.ttft_ms)
                                                .set("tpot", slo.tpot_ms)
                                                .set("itl", slo.itl_ms)
                                                .set("e2el", slo.e2el_ms))
                          .set("good", goodput->good)
                          .set("strict", goodput->strict)
                          .set("unknown", goodput->unknown)
                          .set("of_sent", goodput->of_sent)
                          .set("of_finished", goodput->of_finished)
                          .set("of_ok", goodput->of_ok));
}

void add_metrics(Json& json, const LevelMetrics& metrics) {
  add_counts(json, metrics);
  add_tokens(json, metrics);
  add_rates(json, metrics);
  add_goodput(json, metrics);
  add_latencies(json, metrics);
  Json flags = Json::array();
  for (const std::string& flag : metrics.flags) flags.push(flag);
  json.set("flags", std::move(flags));
}

Json steady_json(const LevelReport& report) {
  const Steady& steady = report.steady;
  const bool valid = steady.valid();
  Json json = Json::object();
  json.set("reason", text_or_null(steady.reason));
  json.set("note", text_or_null(steady.note));
  json.set("start_ns", valid ? Json(steady.window.start) : Json());
  json.set("stop_ns", valid ? Json(steady.window.stop) : Json());
  json.set("ramp_s", valid ? Json(steady.ramp_s) : Json());
  json.set("drain_s", valid ? Json(steady.drain_s) : Json());
  json.set("unstable_requests", steady.unstable);
  json.set("share_at_target", valid ? Json(steady.share_at_target) : Json());
  json.set("enough", valid && steady.enough);
  if (report.inside) add_metrics(json, *report.inside);
  return json;
}

Json rate_json(const StopState& rate) {
  return Json::object()
      .set("batches", static_cast<std::int64_t>(rate.batches))
      .set("batch_s", rate.batch_s)
      .set("mean", rate.batches >= 2 ? Json(rate.rate) : Json())
      .set("interval",
           rate.interval ? Json::array({rate.interval->low, rate.interval->high}) : Json())
      .set("half_width", rate.half_width)
      .set("correlation", rate.correlation)
      .set("converged", rate.converged)
      .set("reason", text_or_null(rate.reason));
}

constexpr std::array<std::string_view, 12> kCsvFirst = {"level",
                                                        "max_concurrency",
                                                        "request_rate",
                                                        "num_requests",
                                                        "completed",
                                                        "failed",
                                                        "cancelled",
                                                        "duration",
                                                        "request_throughput",
                                                        "input_throughput",
                                                        "output_throughput",
                                                        "total_token_throughput"};
constexpr std::array<std::string_view, 12> kCsvLast = {
    "concurrency",      "mean_in_flight",     "max_concurrent_requests", "max_output_tokens_per_s",
    "request_goodput",  "total_input_tokens", "total_output_tokens",     "token_source",
    "tokens_per_chunk", "cached_fraction",    "success_ratio",           "complete"};
constexpr std::array<std::string_view, 5> kCsvStatistics = {"mean", "median", "p90", "p95", "p99"};

std::vector<std::string> csv_columns() {
  std::vector<std::string> columns(kCsvFirst.begin(), kCsvFirst.end());
  for (const MetricInfo& info : metric_infos()) {
    for (const std::string_view statistic : kCsvStatistics) {
      columns.push_back(fmt::format("{}_{}_ms", statistic, info.name));
    }
  }
  columns.insert(columns.end(), kCsvLast.begin(), kCsvLast.end());
  return columns;
}

// JSON has no infinity; vLLM writes the word, too.
Json number_or_inf(const std::optional<double>& value) {
  return value && std::isinf(*value) ? Json("inf") : Json(value);
}

}  // namespace

std::string why_missing(const LevelMetrics& metrics, Metric metric) {
  if (!metrics[metric].empty()) return "";
  if (metric == Metric::kConnect && metrics.counts.requests > 0) return "no new connection";
  if (metric == Metric::kQueue) return "no scheduled request";
  if (metrics.counts.ok == 0) return "no request succeeded";
  if (metrics.counts.not_streamed == metrics.counts.ok) return "not streamed";
  if (metric == Metric::kTokenItl || metric == Metric::kTpotAfterFirst) {
    return "the server does not count tokens on each chunk";
  }
  if (metric == Metric::kTtfo || metric == Metric::kSchedTtfo) return "reasoning tokens only";
  return "no answer of two tokens or more";
}

Json to_json(const LevelReport& report) {
  Json json = Json::object();
  const LevelPlan& plan = report.plan;
  json.set("level", static_cast<std::int64_t>(plan.level));
  json.set("max_concurrency", plan.max_concurrency);
  json.set("request_rate", number_or_inf(plan.request_rate.value_or(HUGE_VAL)));
  // A closed loop has none, and vLLM writes its default, which scripts take for a number.
  const std::optional<double> none = plan.closed_loop() ? std::optional(1.0) : std::nullopt;
  json.set("burstiness", number_or_inf(plan.burstiness ? plan.burstiness : none));
  json.set("complete", report.incomplete.empty());
  json.set("incomplete_reason", text_or_null(report.incomplete));
  json.set("rows_note", text_or_null(report.rows_note));
  add_metrics(json, report.all);
  json.set("output_throughput_ci", rate_json(report.rate));
  json.set("rate_drift", report.rate_drift);
  json.set("rate_drift_reason", text_or_null(report.rate_drift_reason));
  json.set("steady", steady_json(report));
  json.set("checks", to_json(report.checks));
  return json;
}

std::string csv_cell(const Json* value) {
  if (value == nullptr || value->is_null()) return "";
  if (!value->is_string()) return value->dump(0);
  const std::string& text = value->as_string();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_header() {
  std::string line;
  for (const std::string& column : csv_columns()) line += (line.empty() ? "" : ",") + column;
  return line + "\n";
}

std::string csv_row(const Json& level) {
  std::string line;
  for (const std::string& column : csv_columns()) {
    if (column != kCsvFirst.front()) line += ',';
    line += csv_cell(level.find(column));
  }
  return line + "\n";
}

}  // namespace nibble::load
