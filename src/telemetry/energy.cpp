#include "telemetry/energy.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"

namespace nibble::telemetry {
namespace {

// Sampling threads are late now and then; more than twice the cadence is a hole.
Result<> check_gaps(std::span<const Point> points, const Window& window, Nanoseconds cadence,
                    const char* what) {
  Nanoseconds longest = 0;
  for (std::size_t at = 1; at < points.size(); ++at) {
    if (points[at].at < window.begin || points[at - 1].at > window.end) continue;
    longest = std::max(longest, points[at].at - points[at - 1].at);
  }
  if (longest <= 2 * cadence) return {};
  return run_error("{} has a gap of {:.0f} ms; more than twice its cadence of {:.0f} ms is a hole",
                   what, milliseconds(longest), milliseconds(cadence));
}

WindowEnergy refuse(WindowEnergy energy, std::string reason) {
  energy.valid = false;
  energy.reason = std::move(reason);
  return energy;
}

}  // namespace

Result<double> integrate(std::span<const Point> watts, const Window& window, Nanoseconds cadence) {
  const std::optional<double> first = value_at(watts, window.begin);
  const std::optional<double> last = value_at(watts, window.end);
  if (!first || !last) return run_error("power does not cover the window");
  NIBBLE_RETURN_IF_ERROR(check_gaps(watts, window, cadence, "power"));
  double joules = 0;
  Point before{window.begin, *first};
  const auto step_to = [&](const Point& point) {
    joules += seconds(point.at - before.at) * (before.value + point.value) / 2;
    before = point;
  };
  for (const Point& point : watts) {
    if (point.at > window.begin && point.at < window.end) step_to(point);
  }
  step_to({window.end, *last});
  return joules;
}

WindowEnergy window_energy(std::span<const Point> watts, std::span<const Point> joules,
                           const Window& window, const EnergyCadence& cadence) {
  WindowEnergy energy;
  if (window.length_s() < kShortestEnergyWindow_s) {
    return refuse(energy, fmt::format("the window is {:.1f} s long; energy needs {:.0f} s",
                                      window.length_s(), kShortestEnergyWindow_s));
  }
  const Result<double> integral = integrate(watts, window, cadence.power);
  if (integral) energy.integral_j = *integral;
  const Result<double> counter = counter_difference(joules, window);
  if (counter) energy.counter_j = *counter;
  if (!counter) return refuse(energy, "energy counter: " + counter.error().message);
  if (!integral) return refuse(energy, integral.error().message);
  const Result<> holes = check_gaps(joules, window, cadence.counter, "the energy counter");
  if (!holes) return refuse(energy, holes.error().message);
  if (*counter <= 0) return refuse(energy, "the energy counter stands still");
  energy.residual = (*integral - *counter) / *counter;
  if (std::abs(*energy.residual) > kLargestEnergyResidual) {
    return refuse(energy, fmt::format("counter ({} J) and integrated power ({} J) differ by {}",
                                      format_number(*counter), format_number(*integral),
                                      format_percent(std::abs(*energy.residual))));
  }
  energy.valid = true;
  energy.joules = *counter;
  return energy;
}

WindowEnergy window_energy(const SampleStore& store, std::string_view owner, const Window& window,
                           const EnergyCadence& cadence) {
  const auto points = [&](const char* quantity, std::string& reason) -> std::vector<Point> {
    const auto id = store.find(fmt::format("{}.{}", owner, quantity));
    if (!id) {
      reason = fmt::format("{} has no signal \"{}\"", owner, quantity);
      return {};
    }
    const Signal signal = store.state(*id).signal;
    std::vector<Point> found = store.points(*id, window.begin, window.end, true);
    if (found.empty() && !signal.available) reason = fmt::format("{}: {}", quantity, signal.reason);
    return found;
  };
  std::string reason;
  const std::vector<Point> watts = points("power", reason);
  const std::vector<Point> joules = points("energy", reason);
  WindowEnergy energy = window_energy(watts, joules, window, cadence);
  if (!energy.valid && !reason.empty()) energy.reason = reason;
  return energy;
}

WindowEnergy total_energy(std::span<const WindowEnergy> parts) {
  WindowEnergy total;
  if (parts.empty()) return refuse(total, "no device gives its energy");
  double counter = 0;
  double integral = 0;
  for (const WindowEnergy& part : parts) {
    if (!part.valid) return refuse(total, part.reason);
    counter += part.counter_j.value_or(0);
    integral += part.integral_j.value_or(0);
  }
  total.valid = true;
  total.joules = counter;
  total.counter_j = counter;
  total.integral_j = integral;
  total.residual = (integral - counter) / counter;
  return total;
}

Json energy_json(const WindowEnergy& energy) {
  Json json = Json::object()
                  .set("valid", energy.valid)
                  .set("joules", energy.valid ? Json(energy.joules) : Json())
                  .set("counter_j", energy.counter_j)
                  .set("integral_j", energy.integral_j)
                  .set("residual", energy.residual);
  if (!energy.valid) json.set("reason", energy.reason);
  return json;
}

}  // namespace nibble::telemetry
