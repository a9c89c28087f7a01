// Point 7: utilization counts time with any kernel resident; power says more, but as a range.
#include <algorithm>

#include "base/stats.h"
#include "base/units.h"
#include "explain/explain_parts.h"

namespace nibble {
namespace {

bool exceeds_limit(const Scene& scene, double watts) {
  const std::optional<Sourced>& limit = scene.machine().power.limit_w;
  return limit && watts > limit->value;
}

void explain_share(Scene& scene, const LevelAnalysis& level, double watts) {
  const std::string slug = level_slug(level.measured.concurrency);
  if (!scene.machine().power.limit_w) {
    scene.cannot_say("power.share." + slug, 7, "Share of the power limit",
                     fmt::format("the power limit of {} is not known", scene.machine().name));
    return;
  }
  const double limit = scene.machine().power.limit_w->value;
  const bool impossible = exceeds_limit(scene, watts);
  const std::string at = "At " + counted(level.measured.concurrency, "request");
  scene.conclude(
      {.id = "power.share." + slug,
       .point = 7,
       .title = impossible ? "Power above the limit" : "Share of the power limit",
       // A share over 100 % would be no share.
       .value = impossible ? watts : watts / limit * 100,
       .unit = impossible ? "W" : "%",
       .verdict = impossible ? "accounting error" : "",
       .formula = impossible ? "mean power" : "mean power / limit",
       .inputs = Inputs(scene)
                     .concurrency(level.measured)
                     .given("power", watts, "W", level.measured.path + ".gpus.power_w")
                     .number("limit", *scene.machine().power.limit_w, "W")
                     .list(),
       .sentence = impossible
                       ? fmt::format("{} a GPU is said to draw {} W on average, more than its "
                                     "limit of {} W: the samples, their unit or the limit are "
                                     "wrong.",
                                     at, format_number(watts), format_number(limit))
                       : fmt::format("{} a GPU draws {} W on average, {} of its {} W.", at,
                                     format_number(watts), percent_text(watts / limit),
                                     format_number(limit))});
}

struct Anchor {
  std::string name;
  const Sourced* watts;
};

// The share of the time at copy power that explains the mean, if the GPU does `low` otherwise.
double copy_share(double watts, const Anchor& low, const Anchor& copy) {
  return std::clamp((watts - low.watts->value) / (copy.watts->value - low.watts->value), 0.0, 1.0);
}

void explain_position(Scene& scene, const LevelAnalysis& level, double watts) {
  const std::string slug = level_slug(level.measured.concurrency);
  const PowerSpec& power = scene.machine().power;
  std::vector<Anchor> low;
  if (power.idle_context_w) low.push_back({"idle", &*power.idle_context_w});
  if (power.waiting_w) low.push_back({"waiting", &*power.waiting_w});
  if (low.empty() || !power.copy_w || low.back().watts->value >= power.copy_w->value) {
    scene.cannot_say("power.position." + slug, 7, "What the power says",
                     fmt::format("idle and copy power of {} are not known", scene.machine().name));
    return;
  }
  const Anchor copy{"copy", &*power.copy_w};
  Inputs inputs(scene);
  inputs.concurrency(level.measured)
      .given("power", watts, "W", level.measured.path + ".gpus.power_w");
  std::string names;
  for (const Anchor& anchor : low) {
    inputs.number(anchor.name, *anchor.watts, "W");
    names += fmt::format("{} ({} W) ", anchor.name, format_number(anchor.watts->value));
  }
  inputs.number("copy", *power.copy_w, "W");
  const bool below = watts < low.front().watts->value;
  const bool above = watts > copy.watts->value;
  const double most = copy_share(watts, low.front(), copy);
  const double least = copy_share(watts, low.back(), copy);
  const std::string verdict =
      below   ? "below idle"
      : above ? "above copy"
              : fmt::format("between {} and copy",
                            low.back().watts->value > watts ? "idle" : low.back().name);
  scene.conclude(
      {.id = "power.position." + slug,
       .point = 7,
       .title = "What the power says",
       .value = least * 100,
       .unit = "%",
       .verdict = verdict,
       .formula = "(power - waiting) / (copy - waiting)",
       .inputs = inputs.list(),
       .assumptions = {"power mixes linearly in time; anchors are of other cards of the same kind"},
       .confidence = Confidence::kPossible,
       .sentence = above ? fmt::format("{} W is more than copying memory draws ({} W): matrix "
                                       "units work part of the time.",
                                       format_number(watts), format_number(copy.watts->value))
                         : fmt::format("{} W lies {}: {}and copy ({} W), as if memory were busy {} "
                                       "to {} of the time; "
                                       "waiting in collectives looks like this too.",
                                       format_number(watts), verdict, names,
                                       format_number(copy.watts->value), percent_text(least),
                                       percent_text(most))});
}

void explain_utilization(Scene& scene, const LevelAnalysis& level) {
  const std::string slug = level_slug(level.measured.concurrency);
  const std::vector<double>& samples = level.measured.gpus->utilization_pct;
  if (samples.empty()) {
    scene.cannot_say("utilization." + slug, 7, "Utilization",
                     fmt::format("the level at concurrency {} has no utilization", slug));
    return;
  }
  const double percent = mean(samples);
  scene.conclude({.id = "utilization." + slug,
                  .point = 7,
                  .title = "Utilization",
                  .value = percent,
                  .unit = "%",
                  .verdict = "time with any kernel resident",
                  .formula = "mean over GPUs",
                  .inputs = Inputs(scene)
                                .concurrency(level.measured)
                                .given("utilization", percent, "%",
                                       level.measured.path + ".gpus.utilization_pct")
                                .list(),
                  .sentence = fmt::format(
                      "{} % utilization means that some kernel was resident {} % of the time; a "
                      "rank that spins in a collective counts too.",
                      format_number(percent), format_number(percent))});
}

void explain_clock(Scene& scene, const LevelAnalysis& level) {
  const std::vector<double>& samples = level.measured.gpus->sm_mhz;
  if (samples.empty() || !scene.machine().clock_mhz) return;
  const double mhz = mean(samples);
  const double boost = scene.machine().clock_mhz->value;
  const bool throttled = mhz < 0.9 * boost;
  scene.conclude({.id = "clock." + level_slug(level.measured.concurrency),
                  .point = 7,
                  .title = "Clock",
                  .value = mhz,
                  .unit = "MHz",
                  .verdict = throttled ? "below boost" : "at boost",
                  .formula = "mean over GPUs",
                  .inputs = Inputs(scene)
                                .concurrency(level.measured)
                                .given("clock", mhz, "MHz", level.measured.path + ".gpus.sm_mhz")
                                .number("boost", *scene.machine().clock_mhz, "MHz")
                                .list(),
                  .sentence = fmt::format(
                      "SMs run at {} MHz of {} MHz: {}.", format_number(mhz), format_number(boost),
                      throttled ? "power, heat or a locked clock holds them back"
                                : "neither power nor heat holds them back")});
}

}  // namespace

void explain_power(Scene& scene) {
  bool any = false;
  for (std::size_t index = 0; index < scene.analysis.levels.size(); ++index) {
    const LevelAnalysis level = scene.analysis.levels[index];
    if (!level.measured.gpus) continue;
    if (!level.measured.gpus->power_w.empty()) {
      any = true;
      const double watts = mean(level.measured.gpus->power_w);
      explain_share(scene, level, watts);
      // Power that cannot be says nothing about what the GPU does.
      if (!exceeds_limit(scene, watts)) explain_position(scene, level, watts);
    }
    explain_utilization(scene, level);
    explain_clock(scene, level);
  }
  if (any) return;
  scene.cannot_say("power.share", 7, "Share of the power limit", "no level has power samples");
  scene.lacks("power per GPU under load: whether the GPUs wait, copy or compute");
}

}  // namespace nibble
