#include "diagnose/evidence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

#include "base/check.h"
#include "base/names.h"
#include "base/stats.h"
#include "base/units.h"

namespace nibble::diagnose {
namespace {

constexpr double kCoverMsPerUs = 1e-3;

constexpr std::array<FactInfo, kFacts> kFactInfos = {{
    {Fact::kUsers, "users", "users", ""},
    {Fact::kInFlight, "in_flight", "requests in flight", ""},
    {Fact::kOutputRate, "output_rate", "output rate", "tok/s"},
    {Fact::kRateNoise, "rate_noise", "noise of the output rate", "%"},
    {Fact::kRequestRate, "request_rate", "request rate", "req/s"},
    {Fact::kTtft, "ttft", "time to the first token", "ms"},
    {Fact::kTpot, "tpot", "time per output token", "ms"},
    {Fact::kItlP50, "itl_p50", "median gap between tokens", "ms"},
    {Fact::kItlP99, "itl_p99", "P99 gap between tokens", "ms"},
    {Fact::kPromptTokens, "prompt_tokens", "prompt tokens a request", ""},
    {Fact::kOutputTokens, "output_tokens", "output tokens a request", ""},
    {Fact::kCachedShare, "cached_share", "prompt tokens from the prefix cache", "%"},
    {Fact::kRepeatedShare, "repeated_share", "prompts sent before", "%"},
    {Fact::kDegenerateShare, "degenerate_share", "answers that repeat themselves", "%"},
    {Fact::kFailedShare, "failed_share", "failed requests", "%"},
    {Fact::kRateDrift, "rate_drift", "drift of the output rate", "%"},
    {Fact::kClientLag, "client_lag", "lag of the client's loops, P99", "ms"},
    {Fact::kClientCpu, "client_cpu", "core that the client's busiest loop takes", "%"},
    {Fact::kRunning, "server_running", "running requests", ""},
    {Fact::kWaiting, "server_waiting", "waiting requests", ""},
    {Fact::kKvUsage, "kv_usage", "use of the KV cache", "%"},
    {Fact::kPreemptions, "preemptions", "preemptions a request", ""},
    {Fact::kOccupancy, "occupancy", "time that the engine spends in steps", "%"},
    {Fact::kServerStep, "server_step", "length of an engine step", "ms"},
    {Fact::kStepRate, "step_rate", "engine steps", "steps/s"},
    {Fact::kPromptRate, "prompt_rate", "prompt tokens computed", "tok/s"},
    {Fact::kBusiestExpert, "busiest_expert", "tokens of the busiest expert to the mean", "x"},
    {Fact::kPower, "power", "power of a GPU", "W"},
    {Fact::kPowerShare, "power_share", "share of the power limit", "%"},
    {Fact::kUtilization, "utilization", "utilization", "%"},
    {Fact::kSmActive, "sm_active", "SM activity", "%"},
    {Fact::kTensor, "tensor_active", "tensor activity", "%"},
    {Fact::kDram, "dram_active", "DRAM activity", "%"},
    {Fact::kSmClock, "sm_clock", "SM clock", "MHz"},
    {Fact::kThrottledPower, "throttled_power", "time held down by a power cap", "%"},
    {Fact::kThrottledHeat, "throttled_heat", "time held down by heat", "%"},
    {Fact::kTemperature, "temperature", "temperature of the hottest GPU", "C"},
    {Fact::kLinkGeneration, "link_generation", "PCIe generation under load", ""},
    {Fact::kLinkWidth, "link_width", "PCIe lanes under load", ""},
    {Fact::kGpuSpread, "gpu_spread", "spread of the GPUs' DRAM activity", "%"},
    {Fact::kHostCpu, "host_cpu", "processor time of the server's host", "%"},
    {Fact::kFloor, "floor", "floor of a step", "ms"},
    {Fact::kKernels, "kernels", "kernels of a step alone", "ms"},
    {Fact::kPrefillPerToken, "prefill_per_token", "kernels of one more prompt token", "ms"},
}};

constexpr Named<Origin> kOrigins[] = {{"measured", Origin::kMeasured},
                                      {"recorded", Origin::kRecorded},
                                      {"data sheet", Origin::kDataSheet},
                                      {"derived", Origin::kDerived}};

constexpr double kGroupedFrom = 1000;  // digits before the point are grouped by commas from here on
constexpr int kFactDigits = 3;

std::string plain_text(double value) {
  if (std::abs(value) >= kGroupedFrom) return format_count(std::round(value));
  std::string text = format_number(value, kFactDigits);
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

std::span<const FactInfo> fact_infos() {
  return kFactInfos;
}

const FactInfo& info_of(Fact fact) {
  const auto index = static_cast<std::size_t>(fact);
  NIBBLE_CHECK(index < kFacts && kFactInfos[index].fact == fact);
  return kFactInfos[index];
}

std::optional<Fact> fact_from_name(std::string_view name) {
  for (const FactInfo& info : kFactInfos) {
    if (info.name == name) return info.fact;
  }
  return std::nullopt;
}

std::string fact_text(Fact fact, double value) {
  const std::string_view unit = info_of(fact).unit;
  if (unit.empty()) return plain_text(value);
  if (unit == "%") return plain_text(value * 100) + " %";
  return fmt::format("{} {}", plain_text(value), unit);
}

std::string_view to_string(Origin origin) {
  return name_of(kOrigins, origin);
}

Datum measured(double value, std::string source) {
  return {.value = value, .source = std::move(source), .origin = Origin::kMeasured, .reason = {}};
}

Datum recorded(double value, std::string source) {
  return {.value = value, .source = std::move(source), .origin = Origin::kRecorded, .reason = {}};
}

Datum derived(double value, std::string source) {
  return {.value = value, .source = std::move(source), .origin = Origin::kDerived, .reason = {}};
}

Datum missing(std::string reason) {
  return {.value = std::nullopt,
          .source = {},
          .origin = Origin::kMeasured,
          .reason = std::move(reason)};
}

std::size_t KernelCover::covered() const {
  return static_cast<std::size_t>(
      std::count_if(ops.begin(), ops.end(), [](const CoveredOp& op) { return op.time_us; }));
}

double KernelCover::ms() const {
  double us = 0;
  for (const CoveredOp& op : ops) us += op.time_us ? op.count * *op.time_us : 0;
  return us * kCoverMsPerUs;
}

double KernelCover::floor_ms() const {
  double us = 0;
  for (const CoveredOp& op : ops) us += op.time_us ? op.count * op.floor_us : 0;
  return us * kCoverMsPerUs;
}

double KernelCover::open_floor_ms() const {
  double us = 0;
  for (const CoveredOp& op : ops) us += op.time_us ? 0 : op.count * op.floor_us;
  return us * kCoverMsPerUs;
}

GpuConditions conditions_over(const std::vector<GpuRow>& rows) {
  GpuConditions all;
  std::vector<double> clocks, powers;
  for (const GpuRow& row : rows) {
    const GpuConditions& one = row.conditions;
    if (one.clock_mhz) clocks.push_back(*one.clock_mhz);
    if (one.power_w) powers.push_back(*one.power_w);
    if (one.temperature_c) {
      all.temperature_c =
          std::max(all.temperature_c.value_or(*one.temperature_c), *one.temperature_c);
    }
    for (const std::string& reason : one.throttled) {
      const bool known =
          std::find(all.throttled.begin(), all.throttled.end(), reason) != all.throttled.end();
      if (!known) all.throttled.push_back(reason);
    }
    all.samples += one.samples;
    if (all.reason.empty()) all.reason = one.reason;
  }
  if (!clocks.empty()) all.clock_mhz = median(clocks);
  if (!powers.empty()) all.power_w = mean(powers);
  const bool any = all.clock_mhz || all.power_w || all.temperature_c;
  if (any) all.reason.clear();
  return all;
}

}  // namespace nibble::diagnose
