#include "load/client_audit.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "base/units.h"

namespace nibble::load {
namespace {

std::string time_of(double ms) {
  return format_time_us(ms * 1e3);
}

std::string age_words(const Calibration& calibration) {
  if (!calibration.cached) return "in this run";
  return fmt::format("{} before on this machine", format_quantity(calibration.age_s, "s"));
}

// What the client adds by its own measurement.
std::string own_error(const ClientAudit& audit) {
  if (!audit.calibration) {
    const std::string& why = audit.calibration_reason;
    return fmt::format("its own error was not measured{}{}", why.empty() ? "" : ": ", why);
  }
  const Calibration& own = *audit.calibration;
  const std::string loose =
      mock_kept_up(own)
          ? ""
          : fmt::format("; a loose bound: the mock itself was {} off its times at P99",
                        time_of(own.mock_error_p99_ms));
  return fmt::format(
      "against the built-in mock ({} streams, {} between chunks, measured {}) TTFT is off by {} at "
      "the median and {} at P99, a gap between chunks by {} and {}{}",
      format_compact(own.concurrency), time_of(own.itl_ms), age_words(own),
      time_of(own.ttft_error_ms.p50), time_of(own.ttft_error_ms.p99), time_of(own.itl_error_ms.p50),
      time_of(own.itl_error_ms.p99), loose);
}

std::string cost_words(const ClientAudit& audit, const LoopLoad& worst,
                       std::optional<double> itl_ms) {
  std::string text = fmt::format("its loops were up to {} late at P99", time_of(worst.lag_p99_ms));
  if (itl_ms) text += fmt::format(" beside {} between chunks", time_of(*itl_ms));
  text += fmt::format(", the busiest used {} of a core", format_percent(worst.cpu_share));
  if (audit.cpu_us_per_event) {
    text += fmt::format(", a chunk cost {} of CPU", format_time_us(*audit.cpu_us_per_event));
  }
  if (audit.late_sends > 0) {
    text +=
        fmt::format(", {} requests were sent more than 1 ms behind their time", audit.late_sends);
  }
  return text;
}

Json spread_json(const ErrorSpread& spread) {
  return Json::object().set("p50", spread.p50).set("p99", spread.p99).set("max", spread.max);
}

ErrorSpread read_spread(ObjectReader& outer, std::string_view key) {
  ErrorSpread spread;
  const Json* found = outer.object(key);
  if (found == nullptr) {
    outer.fault_at(key, "is missing; an object with p50, p99 and max is needed");
    return spread;
  }
  ObjectReader reader(*found, fmt::format("{}.{}", outer.where(), key));
  spread.p50 = reader.require_number("p50");
  spread.p99 = reader.require_number("p99");
  spread.max = reader.require_number("max");
  if (const auto status = reader.finish(); !status.ok()) outer.fault(status.error());
  return spread;
}

// Which numbers are not the server's.
std::string doubt_words(const ClientAudit& audit, const LoopLoad& worst) {
  if (audit.cpu_limited) {
    return "throughput and latencies are the client's, so that the level is in no knee and no fit";
  }
  if (!audit.late) return "";
  return fmt::format(
      "single gaps and percentiles of latencies are uncertain by about {}; throughput counts",
      time_of(worst.lag_p99_ms));
}

}  // namespace

LoopLoad worst_of(const std::vector<LoopLoad>& loops) {
  LoopLoad worst;
  for (const LoopLoad& loop : loops) {
    worst.lag_p50_ms = std::max(worst.lag_p50_ms, loop.lag_p50_ms);
    worst.lag_p99_ms = std::max(worst.lag_p99_ms, loop.lag_p99_ms);
    worst.lag_max_ms = std::max(worst.lag_max_ms, loop.lag_max_ms);
    worst.cpu_share = std::max(worst.cpu_share, loop.cpu_share);
  }
  return worst;
}

void judge(ClientAudit& audit, std::optional<double> itl_ms) {
  if (itl_ms && !(*itl_ms > 0)) itl_ms.reset();
  const LoopLoad worst = worst_of(audit.loops);
  audit.gap_ms = itl_ms;
  audit.late = itl_ms && worst.lag_p99_ms > kMostLagOfItl * *itl_ms;
  audit.cpu_limited = worst.cpu_share > kMostLoopCpu;
  audit.in_doubt = doubt_words(audit, worst);
  if (audit.loops.empty()) {
    audit.verdict =
        "whether the client kept up is not known: its loops were not watched; " + own_error(audit);
    return;
  }
  const std::string cost = cost_words(audit, worst, itl_ms);
  if (!audit.client_limited()) {
    audit.verdict = fmt::format("the client kept up: {}; {}", cost, own_error(audit));
    return;
  }
  audit.verdict =
      fmt::format("client-limited: {}; {}: give the client cores of its own{}; {}", cost,
                  audit.in_doubt, audit.cpu_limited ? " or fewer streams" : "", own_error(audit));
}

Json to_json(const Calibration& calibration) {
  return Json::object()
      .set("concurrency", calibration.concurrency)
      .set("itl_ms", calibration.itl_ms)
      .set("ttft_ms", calibration.ttft_ms)
      .set("requests", calibration.requests)
      .set("events", calibration.events)
      .set("failed", calibration.failed)
      .set("ttft_error_ms", spread_json(calibration.ttft_error_ms))
      .set("itl_error_ms", spread_json(calibration.itl_error_ms))
      .set("mock_error_p99_ms", calibration.mock_error_p99_ms)
      .set("client_cpu_us_per_event", calibration.client_cpu_us_per_event)
      .set("taken_unix_s", calibration.taken_unix_s)
      .set("age_s", calibration.age_s)
      .set("cached", calibration.cached);
}

Result<Calibration> parse_calibration(const Json& json, std::string_view where) {
  if (!json.is_object()) {
    return input_error("{} is {}; a calibration is an object", where, json.kind_name());
  }
  constexpr NumberRange kAmount = {.min = 0};
  ObjectReader reader(json, std::string(where));
  Calibration calibration;
  calibration.concurrency = reader.require_number("concurrency", {.above = 0});
  calibration.itl_ms = reader.require_number("itl_ms", kAmount);
  calibration.ttft_ms = reader.require_number("ttft_ms", kAmount);
  calibration.requests = reader.require_integer("requests", kAmount);
  calibration.events = reader.require_integer("events", kAmount);
  calibration.failed = reader.require_integer("failed", kAmount);
  calibration.ttft_error_ms = read_spread(reader, "ttft_error_ms");
  calibration.itl_error_ms = read_spread(reader, "itl_error_ms");
  calibration.mock_error_p99_ms = reader.require_number("mock_error_p99_ms", kAmount);
  calibration.client_cpu_us_per_event = reader.require_number("client_cpu_us_per_event", kAmount);
  calibration.taken_unix_s = reader.require_number("taken_unix_s", kAmount);
  calibration.age_s = reader.number("age_s", kAmount).value_or(0);
  calibration.cached = reader.boolean("cached").value_or(false);
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  return calibration;
}

Json to_json(const ClientAudit& audit) {
  Json loops = Json::array();
  for (const LoopLoad& loop : audit.loops) {
    loops.push(Json::object()
                   .set("lag_p50_ms", loop.lag_p50_ms)
                   .set("lag_p99_ms", loop.lag_p99_ms)
                   .set("lag_max_ms", loop.lag_max_ms)
                   .set("cpu_share", loop.cpu_share));
  }
  const LoopLoad worst = worst_of(audit.loops);
  const bool watched = !audit.loops.empty();
  const auto& reason = audit.calibration_reason;
  return Json::object()
      .set("client_limited", audit.client_limited())
      .set("cpu_limited", audit.cpu_limited)
      .set("late", audit.late)
      .set("in_doubt", audit.in_doubt.empty() ? Json() : Json(audit.in_doubt))
      .set("verdict", audit.verdict)
      .set("loop_lag_p99_ms", watched ? Json(worst.lag_p99_ms) : Json())
      .set("loop_cpu_share", watched ? Json(worst.cpu_share) : Json())
      .set("loops", std::move(loops))
      .set("cpu_us_per_event", audit.cpu_us_per_event)
      .set("late_sends", audit.late_sends)
      .set("calibration", audit.calibration ? to_json(*audit.calibration) : Json())
      .set("calibration_reason",
           audit.calibration ? Json() : Json(reason.empty() ? "not measured" : reason));
}

}  // namespace nibble::load
