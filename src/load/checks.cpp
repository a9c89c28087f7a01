#include "load/checks.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "base/units.h"

namespace nibble::load {
namespace {

Check unknown(std::string id, double limit, std::string why) {
  return {.id = std::move(id), .limit = limit, .sentence = std::move(why)};
}

// ours against theirs, relative to theirs.
Check compare(std::string id, double limit, double ours, double theirs, std::string_view words) {
  Check check{.id = std::move(id), .limit = limit};
  if (theirs == 0 && ours == 0) {
    check.value = 0;
  } else if (theirs != 0) {
    check.value = std::abs(ours - theirs) / std::abs(theirs);
  }
  check.holds = check.value && *check.value < limit;
  check.sentence =
      fmt::format("{}: {} against {}, {}", words, format_number(ours), format_number(theirs),
                  check.value ? format_percent(*check.value) + " apart" : "which cannot be");
  return check;
}

// `unseen`: what the server may have counted beyond ours, of requests that were cut off.
Check check_tokens(std::string id, std::string_view what, double ours, double unseen,
                   const std::optional<double>& server) {
  if (!server) {
    return unknown(std::move(id), kTokenLimit,
                   fmt::format("the server tells no counter of {} tokens", what));
  }
  if (!std::isfinite(*server) || *server < 0) {
    return unknown(
        std::move(id), kTokenLimit,
        fmt::format("the server's counter of {} tokens went backwards: it was restarted", what));
  }
  const double counted = std::clamp(*server, ours, ours + unseen);
  const std::string cut =
      counted > ours ? fmt::format(
                           " ({} of them of requests that were cut off, which the server may "
                           "have counted)",
                           format_count(counted - ours))
                     : "";
  return compare(std::move(id), kTokenLimit, counted, *server,
                 fmt::format("{} tokens by our count{} and the server's", what, cut));
}

}  // namespace

Check check_little(const LevelMetrics& metrics, std::optional<double> mean_in_flight) {
  const char* id = "littles_law";
  const double duration = metrics.durations.benchmark;
  const bool window = metrics.options.window.has_value();
  // Over the whole level every request counts, failures too: all were in flight.
  const std::optional<double> by_law =
      window ? metrics.concurrency
             : (duration > 0 ? std::optional(metrics.sum_e2e_s / duration) : std::nullopt);
  const std::optional<double> seen = mean_in_flight ? mean_in_flight : metrics.mean_in_flight;
  if (!by_law || !seen) return unknown(id, kLittleLimit, "no time passed");
  const char* words = mean_in_flight ? "sum of latencies over time, and requests counted in flight"
                      : window       ? "rate x latency, and requests in flight by their intervals"
                               : "sum of latencies over time, and in flight by the same intervals";
  return compare(id, kLittleLimit, *by_law, *seen, words);
}

Check check_requests(const LevelMetrics& metrics, std::optional<std::int64_t> sent) {
  const Counts& counts = metrics.counts;
  if (!sent) return unknown("requests", 0, "the number of requests sent is not known");
  const std::int64_t rows = counts.ok + counts.failed + counts.cancelled;
  Check check{.id = "requests", .value = static_cast<double>(*sent - rows)};
  check.holds = *sent == rows;
  check.sentence = fmt::format("{} sent; {} succeeded + {} failed + {} cancelled = {}", *sent,
                               counts.ok, counts.failed, counts.cancelled, rows);
  return check;
}

Check check_output_tokens(const LevelMetrics& metrics, std::optional<double> server_tokens) {
  const std::int64_t ours = metrics.tokens.output + metrics.tokens.output_of_others;
  return check_tokens("output_tokens", "output", static_cast<double>(ours),
                      static_cast<double>(metrics.tokens.output_unseen), server_tokens);
}

Check check_prompt_tokens(const LevelMetrics& metrics, std::optional<double> server_tokens) {
  const std::int64_t ours = metrics.tokens.input + metrics.tokens.input_of_others;
  return check_tokens("prompt_tokens", "prompt", static_cast<double>(ours),
                      static_cast<double>(metrics.tokens.input_unseen), server_tokens);
}

Json to_json(const std::vector<Check>& checks) {
  Json list = Json::array();
  for (const Check& check : checks) {
    Json json = Json::object();
    json.set("id", check.id).set("value", check.value).set("limit", check.limit);
    json.set("holds", check.holds ? Json(*check.holds) : Json());
    json.set("sentence", check.sentence);
    list.push(std::move(json));
  }
  return list;
}

}  // namespace nibble::load
