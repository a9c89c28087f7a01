#include "load/joined.h"

#include <cmath>
#include <fmt/format.h>

#include "base/units.h"

namespace nibble::load {
namespace {

constexpr std::array<SeenInfo, kSeen> kSeenInfos = {{
    {Seen::kRunning, "server_running", "running requests", "run", "",
     "Requests in the server's batch, by its own count: mean over the window."},
    {Seen::kWaiting, "server_waiting", "queued requests", "queue", "",
     "Requests in the server's queue, by its own count: mean over the window."},
    {Seen::kKvUsage, "server_kv_usage", "KV cache in use", "KV", "%",
     "Share of the server's KV cache that is in use, 0 to 1: mean over the window."},
    {Seen::kPreemptions, "server_preemptions", "preemptions", "preempt", "",
     "How often the server threw a running request out of its batch within the window."},
    {Seen::kPower, "gpu_power_w", "power", "W", "W",
     "Mean power over the window, the sum of all GPUs that were seen."},
    {Seen::kTensor, "gpu_tensor_activity", "tensor activity", "tensor", "%",
     "Share of time in which the tensor units were busy, 0 to 1: mean over window and GPUs."},
    {Seen::kDram, "gpu_dram_activity", "DRAM activity", "DRAM", "%",
     "Share of time in which the memory interface moved data, 0 to 1: mean over window and GPUs."},
    {Seen::kSmActive, "gpu_sm_activity", "SM activity", "SM", "%",
     "Share of time in which an SM had work, 0 to 1: mean over window and GPUs. A kernel that "
     "spins counts."},
    {Seen::kSmClock, "gpu_sm_clock_mhz", "SM clock", "MHz", "MHz",
     "Clock of the SMs: mean over window and GPUs."},
    {Seen::kThrottled, "gpu_throttled", "clock held down", "capped", "%",
     "Share of the window in which a cap of power or heat held the clock down, 0 to 1."},
    {Seen::kHostCpu, "host_cpu", "host CPU", "CPU", "%",
     "Share of all cores of the server's host that was busy, 0 to 1; of this host where the "
     "server's sends no telemetry."},
    {Seen::kEnergyPerOutput, "joules_per_output_token", "energy per output token", "J/tok",
     "J/token", "Energy of the GPUs over the window / output tokens that came in it."},
    {Seen::kEnergyPerTotal, "joules_per_total_token", "energy per token, prompts included", "J/all",
     "J/token", "Energy of the GPUs over the window / prompt and output tokens in it."},
}};

constexpr bool in_order() {
  for (std::size_t index = 0; index < kSeen; ++index) {
    if (static_cast<std::size_t>(kSeenInfos[index].seen) != index) return false;
  }
  return true;
}
static_assert(in_order());

}  // namespace

std::span<const SeenInfo> seen_infos() {
  return kSeenInfos;
}

const SeenInfo& info_of(Seen seen) {
  return kSeenInfos[static_cast<std::size_t>(seen)];
}

std::string seen_text(Seen seen, double value) {
  if (!std::isfinite(value)) return "-";
  if (info_of(seen).unit != "%") return format_number(value, 3);
  const double percent = value * 100;
  constexpr double kTenths = 9.95;  // from here on a tenth of a percent says nothing
  if (percent >= kTenths || percent == 0) return fmt::format("{:.0f} %", percent);
  return fmt::format("{:.1f} %", percent);
}

Json to_json(const Joined& joined) {
  Json json = Json::object();
  Json reasons = Json::object();
  for (const SeenInfo& info : kSeenInfos) {
    const SeenValue& seen = joined[info.seen];
    const bool known = seen.value && std::isfinite(*seen.value);
    json.set(info.name, known ? Json(*seen.value) : Json());
    if (known) continue;
    const char* fallback = seen.value ? "what was measured is no number" : "not measured";
    reasons.set(info.name, seen.reason.empty() ? std::string(fallback) : seen.reason);
  }
  return json.set("reasons", std::move(reasons));
}

}  // namespace nibble::load
