// Energy of a window, told twice: by the device's energy counter and by its instant power
// integrated over time. They must agree, or there is no number.
//
//   const WindowEnergy energy = window_energy(power_points, counter_points, window, cadence);
//   if (energy.valid) joules_per_token = energy.joules / tokens;
//   else print(energy.reason);
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/json.h"
#include "telemetry/window.h"

namespace nibble::telemetry {

// The counter moves in steps of about 100 ms: differenced over 0.5 s it is off by 26 %, over 2 s by
// 3.7 %, over 5 s by nothing that shows (a measurement of ninfer's authors).
inline constexpr double kShortestEnergyWindow_s = 5;
inline constexpr double kLargestEnergyResidual = 0.05;

struct WindowEnergy {
  bool valid = false;
  std::string reason;  // why it is not
  double joules = 0;   // the counter's, when valid
  std::optional<double> counter_j;
  std::optional<double> integral_j;
  std::optional<double> residual;  // (integral - counter) / counter
};

// Watts over time by trapezoids, both ends of the window by interpolation. Refuses a window whose
// ends lie outside of the points, and gaps of more than twice the cadence.
Result<double> integrate(std::span<const Point> watts, const Window& window, Nanoseconds cadence);

struct EnergyCadence {
  Nanoseconds power = 0;    // the period at which power is sampled
  Nanoseconds counter = 0;  // and the counter
};

// `watts` and `joules` with a margin on both sides. The energy of a board is not that of its host.
WindowEnergy window_energy(std::span<const Point> watts, std::span<const Point> joules,
                           const Window& window, const EnergyCadence& cadence);

// Of "gpu0" in a store that has its power and energy.
WindowEnergy window_energy(const SampleStore& store, std::string_view owner, const Window& window,
                           const EnergyCadence& cadence);

// The sum over GPUs is valid only when each part is.
WindowEnergy total_energy(std::span<const WindowEnergy> parts);

Json energy_json(const WindowEnergy& energy);

}  // namespace nibble::telemetry
