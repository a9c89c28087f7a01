// What is said where no fault is: healthy, at the roof, or slow for a reason that nothing tells.
#include <cmath>
#include <fmt/format.h>

#include "diagnose/clues.h"
#include "diagnose/thresholds.h"

namespace nibble::diagnose {
namespace {

struct StepRatio {
  double times = 0;
  bool of_kernels = false;
  std::string text;
};

// The step against its kernels, else against its floor.
std::optional<StepRatio> step_ratio(const LevelView& view) {
  if (const auto times = quotient(view.step(), view.kernels())) {
    return StepRatio{*times, true,
                     fmt::format("a step takes {}, {} x its kernels alone ({})",
                                 fact_text(Fact::kServerStep, *view.step()), number_text(*times),
                                 fact_text(Fact::kKernels, *view.kernels()))};
  }
  const std::optional<double> times = quotient(view.step(), view.whole_floor());
  if (!times) return std::nullopt;
  return StepRatio{*times, false,
                   fmt::format("a step takes {}, {} x its floor of {}",
                               fact_text(Fact::kServerStep, *view.step()), number_text(*times),
                               fact_text(Fact::kFloor, *view.whole_floor()))};
}

double far_ratio(const LevelView& view, const StepRatio& ratio) {
  return !ratio.of_kernels && view.setting().is_cpu ? kKernelsFarCpu : kStepFar;
}

Heard hear_step_as_it_should(const LevelView& view) {
  const std::optional<StepRatio> ratio = step_ratio(view);
  if (!ratio) return unknown();
  // Faster than the machine can be: another model, machine or layout than was said. A CPU's cache
  // may hold weights that the floor reads from memory.
  if (!ratio->of_kernels && !view.setting().is_cpu && ratio->times < kBelowFloor) {
    return against(ratio->text + ": an accounting error");
  }
  const double far = far_ratio(view, *ratio);
  // Kernels take longer than the floor when all is well, and a step not much longer than kernels.
  const double near = ratio->of_kernels ? kStepNear : far;
  if (ratio->times <= near) return holds(ratio->text);
  return ratio->times >= far ? against(ratio->text) : nothing();
}

Heard hear_step_far(const LevelView& view) {
  const std::optional<StepRatio> ratio = step_ratio(view);
  if (!ratio) return unknown();
  if (ratio->times >= far_ratio(view, *ratio)) return holds(ratio->text);
  return ratio->times <= kStepNear ? against(ratio->text) : nothing();
}

// Growth against what kernels or floor predict; without them against proportion.
Heard hear_grows(const LevelView& view) {
  if (!view.below()) return unknown("no lower level was measured");
  const std::optional<double> gain = view.gain(), more = view.more_users();
  if (!gain || !more) return unknown();
  const std::string text =
      fmt::format("{} x the requests in flight give {} x the throughput of {}", number_text(*more),
                  number_text(*gain), view.below()->level().name);
  if (const auto predicted = view.predicted_gain()) {
    const double share = *gain / *predicted;
    const std::string words =
        fmt::format("{}, where {} x is to be expected", text, number_text(*predicted));
    if (share >= kGrowsAsPredicted) return holds(words);
    return share < kGrowsLess ? against(words) : nothing();
  }
  return *gain > 0 && std::log(*gain) >= kGrowsWell * std::log(*more) ? holds(text) : nothing();
}

// Growth as predicted says nothing: a step that is twice too long at each load grows as well.
Heard hear_grows_less(const LevelView& view) {
  const Heard grows = hear_grows(view);
  if (grows.says == Says::kAgainst) return holds(grows.sentence);
  return grows.says == Says::kHolds ? nothing() : grows;
}

Heard hear_none_fails(const LevelView& view) {
  const std::optional<double> share = view.get(Fact::kFailedShare);
  if (!share) return unknown();
  const std::string text = fmt::format("{} of the requests fail", view.text(Fact::kFailedShare));
  return *share <= kFailedFew ? holds(text) : against(text);
}

Heard hear_near_floor(const LevelView& view) {
  const std::optional<double> times = quotient(view.step(), view.whole_floor());
  if (!times) return unknown();
  const std::string text = fmt::format(
      "a step takes {}, {} x its floor of {}", fact_text(Fact::kServerStep, *view.step()),
      number_text(*times), fact_text(Fact::kFloor, *view.whole_floor()));
  if (*times < kBelowFloor) {
    return against(text + ": faster than it can be, so one of both is wrong");
  }
  if (*times <= kStepNear) return holds(text);
  return *times >= kRoofFar ? against(text) : nothing();
}

Heard hear_kernels_near_floor(const LevelView& view) {
  const std::optional<double> times = quotient(view.get(Fact::kKernels), view.floor());
  if (!times) return unknown();
  const std::string text = fmt::format("the step's kernels alone take {}, {} x their floor",
                                       view.text(Fact::kKernels), number_text(*times));
  if (*times <= kStepNear) return holds(text);
  return *times >= kRoofFar ? against(text) : nothing();
}

Heard hear_dram_busy(const LevelView& view) {
  const std::optional<double> dram = view.get(Fact::kDram);
  if (!dram) return unknown();
  const std::string text = fmt::format("DRAM is active {} of the time", view.text(Fact::kDram));
  if (*dram >= kDramRoof) return holds(text);
  return *dram < kDramLow ? against(text) : nothing();
}

Heard hear_trace_is_there(const LevelView& view) {
  return view.evidence().trace ? nothing() : unknown(view.evidence().trace_reason);
}

const ClueDef kAllRunClue{.id = "all_run",
                          .weight = 2,
                          .facts = {Fact::kRunning, Fact::kInFlight},
                          .settles = "whether all requests in flight run",
                          .hear = hear_all_run};

}  // namespace

std::span<const ClueDef> healthy_clues() {
  static const std::vector<ClueDef> clues = {
      {.id = "grows",
       .weight = 3,
       .facts = {Fact::kOutputRate, Fact::kInFlight, Fact::kKernels, Fact::kFloor},
       .settles = "whether throughput grows with the load",
       .hear = hear_grows},
      kAllRunClue,
      {.id = "step_as_it_should",
       .weight = 2,
       .role = Role::kVeto,
       .facts = {Fact::kKernels, Fact::kFloor},
       .settles = "whether a step takes what it must",
       .hear = hear_step_as_it_should},
      {.id = "no_gaps",
       .weight = 1,
       .facts = {Fact::kOccupancy, Fact::kSmActive, Fact::kUtilization},
       .settles = "whether the engine works all the time",
       .hear = hear_no_gaps},
      {.id = "client_on_time",
       .weight = 1,
       .facts = {Fact::kClientLag, Fact::kItlP50, Fact::kClientCpu},
       .settles = "whether the client keeps up",
       .hear = hear_client_on_time},
      {.id = "none_fails",
       .weight = 1,
       .facts = {Fact::kFailedShare},
       .settles = "whether requests fail",
       .hear = hear_none_fails}};
  return clues;
}

std::span<const ClueDef> at_the_roof_clues() {
  static const std::vector<ClueDef> clues = {
      {.id = "near_floor",
       .weight = 4,
       .role = Role::kNeeded,
       .facts = {Fact::kFloor, Fact::kOutputRate, Fact::kRunning},
       .settles = "how far a step is from its floor",
       .hear = hear_near_floor},
      {.id = "dram_busy",
       .weight = 2,
       .applies = Applies::kGpu,
       .facts = {Fact::kDram},
       .settles = "whether memory is busy all the time",
       .hear = hear_dram_busy},
      {.id = "kernels_near_floor",
       .weight = 1,
       .facts = {Fact::kKernels, Fact::kFloor},
       .settles = "whether the kernels are at their floor",
       .hear = hear_kernels_near_floor},
      kAllRunClue};
  return clues;
}

std::span<const ClueDef> unexplained_clues() {
  static const std::vector<ClueDef> clues = {
      {.id = "step_far",
       .weight = 4,
       .role = Role::kNeeded,
       .facts = {Fact::kKernels, Fact::kFloor},
       .settles = "whether a step takes longer than it must",
       .hear = hear_step_far},
      {.id = "grows_less",
       .weight = 2,
       .facts = {Fact::kOutputRate, Fact::kInFlight, Fact::kKernels, Fact::kFloor},
       .settles = "whether throughput grows with the load",
       .hear = hear_grows_less},
      kAllRunClue,
      // What takes the time is not known, so that this is never certain.
      {.id = "trace",
       .weight = 2,
       .settles = "which operations of a step take the time",
       .hear = hear_trace_is_there}};
  return clues;
}

}  // namespace nibble::diagnose
