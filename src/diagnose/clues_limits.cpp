// Classes of a clock that is held down: by a power cap, by heat.
#include <algorithm>
#include <fmt/format.h>

#include "diagnose/clues.h"
#include "diagnose/thresholds.h"

namespace nibble::diagnose {
namespace {

Heard hear_share(const LevelView& view, Fact fact, std::string_view what) {
  const std::optional<double> share = view.get(fact);
  if (!share) return unknown();
  const std::string text =
      fmt::format("{} holds the clock down {} of the time", what, view.text(fact));
  if (*share > kThrottled) return holds(text);
  return *share < kThrottledNot ? against(text) : nothing();
}

Heard hear_power_throttles(const LevelView& view) {
  return hear_share(view, Fact::kThrottledPower, "a power cap");
}

Heard hear_heat_throttles(const LevelView& view) {
  return hear_share(view, Fact::kThrottledHeat, "heat");
}

Heard opposite_of(const Heard& heard) {
  if (heard.says == Says::kHolds) return against(heard.sentence);
  return heard.says == Says::kAgainst ? holds(heard.sentence) : heard;
}

Heard hear_no_power_throttle(const LevelView& view) {
  return opposite_of(hear_power_throttles(view));
}

Heard hear_no_heat_throttle(const LevelView& view) {
  return opposite_of(hear_heat_throttles(view));
}

Heard hear_power_at_limit(const LevelView& view) {
  const std::optional<double> share = view.get(Fact::kPowerShare);
  if (!share) return unknown();
  const std::string text =
      fmt::format("a GPU draws {} of its power limit", view.text(Fact::kPowerShare));
  if (*share >= kPowerAtLimit) return holds(text);
  return *share < kPowerBelowLimit ? against(text) : nothing();
}

Heard hear_hot(const LevelView& view) {
  const std::optional<double> hottest = view.get(Fact::kTemperature);
  if (!hottest) return unknown();
  const double limit = view.setting().throttle_temperature_c.value_or(kThrottleCelsius);
  const std::string text =
      fmt::format("the hottest GPU has {}, where {} is the limit", view.text(Fact::kTemperature),
                  fact_text(Fact::kTemperature, limit));
  if (*hottest >= limit - kHotMargin) return holds(text);
  return *hottest < limit - kCoolMargin ? against(text) : nothing();
}

// Where the counters are not known, a clock that falls at the limit says the same.
Heard held_down_by(const LevelView& view, const Heard& counter, const Heard& at_limit) {
  if (counter.says != Says::kUnknown) return counter;
  const Heard clock = hear_clock_down(view);
  if (at_limit.says == Says::kAgainst) return at_limit;
  if (at_limit.says != Says::kHolds || clock.says == Says::kUnknown) return unknown();
  return clock.says == Says::kHolds ? holds(at_limit.sentence + ", and " + clock.sentence) : clock;
}

Heard hear_held_by_power(const LevelView& view) {
  return held_down_by(view, hear_power_throttles(view), hear_power_at_limit(view));
}

Heard hear_held_by_heat(const LevelView& view) {
  return held_down_by(view, hear_heat_throttles(view), hear_hot(view));
}

Heard hear_rate_drifts(const LevelView& view) {
  const std::optional<double> drift = view.get(Fact::kRateDrift);
  const std::optional<double> noise = view.get(Fact::kRateNoise);
  if (!drift || !noise) return unknown();
  if (*drift > -std::max(kRateDrifts, *noise)) return nothing();
  return holds(fmt::format("the rate at the end of the level is {} below that at its beginning",
                           fact_text(Fact::kRateDrift, -*drift)));
}

const ClueDef kClockDownClue{.id = "clock_down",
                             .weight = 2,
                             .applies = Applies::kGpu,
                             .facts = {Fact::kSmClock},
                             .settles = "whether the clock falls",
                             .hear = hear_clock_down};

}  // namespace

std::span<const ClueDef> power_cap_clues() {
  static const std::vector<ClueDef> clues = {
      {.id = "held_by_power",
       .weight = 3,
       .role = Role::kNeeded,
       .applies = Applies::kGpu,
       .facts = {Fact::kThrottledPower, Fact::kPowerShare, Fact::kSmClock},
       .settles = "whether a power cap holds the clock down",
       .hear = hear_held_by_power},
      {.id = "power_throttles",
       .weight = 3,
       .applies = Applies::kGpu,
       .facts = {Fact::kThrottledPower},
       .settles = "how long, by the GPU's own counter",
       .hear = hear_power_throttles},
      {.id = "power_at_limit",
       .weight = 2,
       .applies = Applies::kGpu,
       .facts = {Fact::kPowerShare},
       .settles = "whether the GPU draws all that it may",
       .hear = hear_power_at_limit},
      kClockDownClue,
      {.id = "no_heat_throttle",
       .weight = 1,
       .applies = Applies::kGpu,
       .facts = {Fact::kThrottledHeat},
       .settles = "whether it is heat instead",
       .hear = hear_no_heat_throttle}};
  return clues;
}

std::span<const ClueDef> thermal_clues() {
  static const std::vector<ClueDef> clues = {
      {.id = "held_by_heat",
       .weight = 3,
       .role = Role::kNeeded,
       .applies = Applies::kGpu,
       .facts = {Fact::kThrottledHeat, Fact::kTemperature, Fact::kSmClock},
       .settles = "whether heat holds the clock down",
       .hear = hear_held_by_heat},
      {.id = "heat_throttles",
       .weight = 3,
       .applies = Applies::kGpu,
       .facts = {Fact::kThrottledHeat},
       .settles = "how long, by the GPU's own counter",
       .hear = hear_heat_throttles},
      {.id = "hot",
       .weight = 2,
       .applies = Applies::kGpu,
       .facts = {Fact::kTemperature},
       .settles = "whether the GPU is near its limit",
       .hear = hear_hot},
      kClockDownClue,
      {.id = "rate_drifts",
       .weight = 1,
       .applies = Applies::kGpu,
       .facts = {Fact::kRateDrift, Fact::kRateNoise},
       .settles = "whether the rate falls while the load stays",
       .hear = hear_rate_drifts},
      {.id = "no_power_throttle",
       .weight = 1,
       .applies = Applies::kGpu,
       .facts = {Fact::kThrottledPower},
       .settles = "whether it is a power cap instead",
       .hear = hear_no_power_throttle}};
  return clues;
}

}  // namespace nibble::diagnose
