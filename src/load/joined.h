// What was seen beside a level by everybody but the client: one number a signal, for the joined
// table of a sweep.
//
//   Joined joined;
//   joined[Seen::kPower] = {.value = 445};
//   joined[Seen::kDram].reason = "no GPU: libnvidia-ml.so.1 is not there";
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"

namespace nibble::load {

// Means over the level's window unless they say otherwise. Of several GPUs: power and energy are
// sums, activities and clocks are means.
enum class Seen : std::uint8_t {
  kRunning,          // requests in the server's batch
  kWaiting,          // requests in the server's queue
  kKvUsage,          // share of the cache, 0 to 1
  kPreemptions,      // how often the server threw a request out, in the window
  kPower,            // W
  kTensor,           // share of time that the tensor units were busy, 0 to 1
  kDram,             // likewise the memory interface
  kSmActive,         // likewise the SMs
  kSmClock,          // MHz
  kThrottled,        // share of time in which a cap of power or heat held the clock down
  kHostCpu,          // share of all cores of the server's (or this) host, 0 to 1
  kEnergyPerOutput,  // J/token
  kEnergyPerTotal,   // J/token, prompts included
};
inline constexpr std::size_t kSeen = static_cast<std::size_t>(Seen::kEnergyPerTotal) + 1;

struct SeenInfo {
  Seen seen;
  std::string_view name;    // of the JSON and CSV field: "server_running", "gpu_power_w", ...
  std::string_view title;   // of a row, a series: "running requests"
  std::string_view column;  // of a narrow column, with its unit: "run", "W", "J/tok"
  std::string_view unit;    // "", "W", "%", "J/token"; shares are shown as %
  std::string_view definition;
};
std::span<const SeenInfo> seen_infos();  // in the order of Seen
const SeenInfo& info_of(Seen seen);
// For a cell whose column or row names the unit; shares get their %: "445", "12 %", "0.3 %".
std::string seen_text(Seen seen, double value);

struct SeenValue {
  std::optional<double> value;
  std::string reason;  // why there is none
};

struct Joined {
  std::array<SeenValue, kSeen> values;
  SeenValue& operator[](Seen seen) { return values[static_cast<std::size_t>(seen)]; }
  const SeenValue& operator[](Seen seen) const { return values[static_cast<std::size_t>(seen)]; }
};

// {"server_running": 32.0, "gpu_power_w": null, ..., "reasons": {"gpu_power_w": "..."}}: each null
// has its reason.
Json to_json(const Joined& joined);

}  // namespace nibble::load
