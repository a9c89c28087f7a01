// What a board can do at most, beside what it does now: its link, its clock, the heat that slows
// it.
//
//   BoardLimits limits;
//   for (std::size_t which = 0; which < kBoardLimits.size(); ++which) {
//     const Result<double> value = limits.read(which, device);
//   }
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "base/result.h"
#include "machine/nvml_device.h"

namespace nibble::telemetry {

struct BoardLimit {
  const char* name;
  const char* unit;
  double high;  // more is no such thing
  Result<double> (*read)(const NvmlDevice&);
};
inline constexpr std::array kBoardLimits = {
    BoardLimit{"pcie_generation_max", "", 10,
               [](const NvmlDevice& device) { return device.pcie_generation_max(); }},
    BoardLimit{"pcie_width_max", "", 32,
               [](const NvmlDevice& device) { return device.pcie_width_max(); }},
    BoardLimit{"clock_sm_max", "MHz", 10000,
               [](const NvmlDevice& device) { return device.clock_mhz_max(nvml_abi::kClockSm); }},
    BoardLimit{"temperature_slowdown", "C", 150,
               [](const NvmlDevice& device) { return device.temperature_slowdown_c(); }},
};

// They do not change: each is asked for until it has been told once.
class BoardLimits {
 public:
  Result<double> read(std::size_t which, const NvmlDevice& device) {
    std::optional<double>& known = known_[which];
    if (known) return *known;
    const Result<double> answer = kBoardLimits[which].read(device);
    if (answer) known = *answer;
    return answer;
  }

 private:
  std::array<std::optional<double>, kBoardLimits.size()> known_;
};

}  // namespace nibble::telemetry
