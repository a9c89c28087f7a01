#include "diagnose/waterfall_parts.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/units.h"

namespace nibble::diagnose {
namespace {

constexpr double kMsInS = 1e3;

}  // namespace

InSystem in_system(const Setting& setting, const LevelEvidence& level, double in_flight) {
  InSystem counts{.in_flight = in_flight,
                  .running = in_flight,
                  .running_known = false,
                  .waiting = level.get(Fact::kWaiting),
                  .note = {}};
  const std::optional<double> running = level.get(Fact::kRunning);
  const std::optional<double> cap = setting.max_running;
  if (running) {
    counts.running_known = true;
    counts.running = std::min(*running, in_flight);
  } else if (cap && *cap < in_flight) {
    counts.running = *cap;
    if (!counts.waiting) {
      counts.waiting = in_flight - *cap;
      counts.note =
          fmt::format("not counted: more than the cap of {} cannot run", format_number(*cap));
    }
  }
  if (counts.waiting) counts.waiting = std::clamp(*counts.waiting, 0.0, in_flight - counts.running);
  return counts;
}

void put_energy(const Setting& setting, const LevelEvidence& level, double running,
                LevelDiagnosis& diagnosis) {
  diagnosis.joules_per_token = level.joules_per_token;
  diagnosis.joules_floor.reset();
  const std::optional<double> drawn = level.get(Fact::kPower);
  const std::optional<double> rate = level.get(Fact::kOutputRate);
  const auto gpus = static_cast<double>(setting.gpus);
  if (!diagnosis.joules_per_token && drawn && rate && *rate > 0) {
    diagnosis.joules_per_token = *drawn * gpus / *rate;
  }
  if (!diagnosis.joules_per_token) {
    diagnosis.joules_reason = level[Fact::kPower].reason;
    if (diagnosis.joules_reason.empty()) diagnosis.joules_reason = "energy was not measured";
  }
  // At the floor a GPU does little but read memory.
  std::optional<double> watts = setting.copy_power_w ? setting.copy_power_w : drawn;
  if (!watts) watts = setting.power_limit_w;
  if (!level.floor) {
    diagnosis.joules_floor_reason = level.floor_reason;
  } else if (!watts) {
    diagnosis.joules_floor_reason = "the power that the machine draws at its floor is not known";
  } else if (running > 0) {
    diagnosis.joules_floor = level.floor->total() / kMsInS * *watts * gpus / running;
  }
  if (!diagnosis.joules_floor && diagnosis.joules_floor_reason.empty()) {
    diagnosis.joules_floor_reason = "no request ran";
  }
}

}  // namespace nibble::diagnose
