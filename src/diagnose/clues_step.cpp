// Classes of a step that takes long: host gaps, slow kernels, the wrong tactic, prompts among
// decodes.
#include <algorithm>
#include <fmt/format.h>

#include "base/units.h"
#include "diagnose/clues.h"
#include "diagnose/thresholds.h"

namespace nibble::diagnose {
namespace {

std::string step_text(double value) {
  return fact_text(Fact::kServerStep, value);
}

std::optional<double> step_to_kernels(const LevelView& view) {
  return quotient(view.served_step(), view.kernels());
}

std::string step_to_kernels_text(const LevelView& view) {
  return fmt::format("a step takes {}, {} x its kernels alone ({})", step_text(*view.served_step()),
                     number_text(*step_to_kernels(view)), step_text(*view.kernels()));
}

// --- Launch and host.

Heard hear_gap(const LevelView& view) {
  const std::optional<double> share = view.gap_share();
  if (!share) return unknown();
  const bool steps = view.get(Fact::kOccupancy).has_value();
  const std::string text = fmt::format("{} {} of the time although requests run",
                                       steps ? "the engine is in no step" : "no SM is active",
                                       fact_text(Fact::kOccupancy, *share));
  if (view.get(Fact::kRunning).value_or(1) < kWholeRequest) return nothing();
  const bool cpu = view.setting().is_cpu;
  if (*share > (cpu ? kGapShareCpu : kGapShare)) return holds(text);
  return *share <= (cpu ? kNoGapShareCpu : kNoGapShare) ? against(text) : nothing();
}

Heard hear_not_starved(const LevelView& view) {
  const std::optional<double> outside = view.outside(), all = view.in_flight();
  if (!outside || !all) {  // without the queue's length: when all run
    const Heard run = hear_all_run(view);
    return run.says == Says::kHolds ? run : unknown();
  }
  const std::string text = fmt::format("{} of {} requests in flight are with the engine",
                                       number_text(*all - *outside), number_text(*all));
  if (*outside < kWholeRequest || *outside <= kShortMany * *all) return holds(text);
  return *outside >= kOutsideMany * *all ? against(text) : nothing();
}

Heard hear_gap_constant(const LevelView& view) {
  const std::optional<LevelView> lowest = view.lowest();
  if (!lowest) return unknown("no lower level was measured");
  const std::optional<double> here = view.gap(), there = lowest->gap();
  const std::optional<double> grew = quotient(here, there);
  if (!grew) return here && there ? nothing() : unknown();
  const std::string text = fmt::format("the gap between steps is {}, and {} at {}",
                                       step_text(*here), step_text(*there), lowest->level().name);
  if (*grew * kGapAlike >= 1 && *grew <= kGapAlike) return holds(text);
  return *grew * kGapOther < 1 ? against(text) : nothing();
}

Heard hear_kernels_fast(const LevelView& view) {
  const std::optional<double> times = step_to_kernels(view);
  if (!times) return unknown();
  if (*times <= kStepNear) return holds(step_to_kernels_text(view));
  return *times >= kStepFar ? against(step_to_kernels_text(view)) : nothing();
}

Heard hear_power_low(const LevelView& view) {
  const std::optional<double> share = view.get(Fact::kPowerShare);
  if (!share) return unknown();
  const std::string text =
      fmt::format("a GPU draws {} of its power limit", view.text(Fact::kPowerShare));
  if (*share < kPowerLow) return holds(text);
  return *share >= kPowerHigh ? against(text) : nothing();
}

Heard hear_trace_gaps(const LevelView& view) {
  const TraceEvidence& trace = *view.evidence().trace;
  if (!trace_is_of(view)) return nothing();
  const std::optional<double> busy = quotient(trace.busy_ms, trace.step_ms);
  if (!busy) return unknown("the trace has no steps");
  const std::string text = fmt::format("in the trace kernels run {} of a step of {}",
                                       step_text(trace.busy_ms), step_text(trace.step_ms));
  return *busy < kBusy ? holds(text) : against(text);
}

// --- Kernels.

Heard hear_kernels_alone(const LevelView& view) {
  const std::optional<double> times = quotient(view.get(Fact::kKernels), view.floor());
  if (!times) return unknown();
  const bool cpu = view.setting().is_cpu;
  const std::string text =
      fmt::format("the step's kernels alone take {}, {} x their floor of {}",
                  view.text(Fact::kKernels), number_text(*times), step_text(*view.floor()));
  if (*times >= (cpu ? kKernelsFarCpu : kKernelsFar)) return holds(text);
  return *times < (cpu ? kKernelsNearCpu : kKernelsNear) ? against(text) : nothing();
}

// Without kernels measured alone: SMs work all the time on what should take half of it.
Heard hear_slow_kernels(const LevelView& view) {
  const Heard alone = hear_kernels_alone(view);
  if (alone.says != Says::kUnknown || view.setting().is_cpu) return alone;
  const std::optional<double> active = view.get(Fact::kSmActive);
  const std::optional<double> busy = view.gpu_busy();
  if (!busy) return unknown();
  const Heard above = hear_above_floor(view);
  if (above.says != Says::kHolds) return above;
  return *busy >= (active ? kBusy : kBusyAll) ? above : nothing();
}

Heard hear_served_is_kernels(const LevelView& view) {
  const std::optional<double> times = step_to_kernels(view);
  if (!times) return unknown();
  if (*times <= kStepNear) return holds(step_to_kernels_text(view));
  return *times >= kStepFar ? against(step_to_kernels_text(view)) : nothing();
}

Heard hear_power_mid(const LevelView& view) {
  const std::optional<double> share = view.get(Fact::kPowerShare);
  if (!share) return unknown();
  const std::string text =
      fmt::format("a GPU draws {} of its power limit", view.text(Fact::kPowerShare));
  if (*share < kPowerLow) return against(text);
  return *share < kPowerAtLimit ? holds(text) : nothing();
}

Heard hear_dram_below(const LevelView& view) {
  const std::optional<double> dram = view.get(Fact::kDram);
  if (!dram) return unknown();
  const std::string text = fmt::format("DRAM is active {} of the time", view.text(Fact::kDram));
  if (*dram < kDramLow) return holds(text);
  return *dram >= kDramHigh ? against(text) : nothing();
}

Heard hear_tactic_best(const LevelView& view) {
  const Setting& setting = view.setting();
  if (setting.tactic.empty() || setting.best_tactic.empty()) {
    return unknown("the server does not tell which tactic runs");
  }
  const std::string text = fmt::format("the server runs {}, and this machine could run {}",
                                       setting.tactic, setting.best_tactic);
  return setting.tactic == setting.best_tactic ? holds(text) : against(text);
}

// --- The wrong tactic.

Heard hear_tactic_not_best(const LevelView& view) {
  const Heard best = hear_tactic_best(view);
  if (best.says == Says::kAgainst) return holds(best.sentence);
  return best.says == Says::kHolds ? against(best.sentence) : best;
}

Heard hear_slower_than_best(const LevelView& view) {
  const std::optional<double> times = step_to_kernels(view);
  if (!times) return unknown();
  if (*times >= kSlowerSurely) return holds(step_to_kernels_text(view));
  return *times < kSlowerNot ? against(step_to_kernels_text(view)) : nothing();
}

Heard hear_slower_at_lowest(const LevelView& view) {
  const std::optional<LevelView> lowest = view.lowest();
  if (!lowest) return unknown("no lower level was measured");
  const std::optional<double> times = step_to_kernels(*lowest);
  if (!times) return unknown();
  if (*times < kSlowerSurely) return nothing();
  return holds(fmt::format("at {}, too, a step takes {} x its kernels alone", lowest->level().name,
                           number_text(*times)));
}

// --- Prompts among the decodes.

}  // namespace

std::optional<PromptTime> prompt_time(const LevelView& view) {
  const std::optional<double> rate = view.prompt_rate();
  const std::optional<double> price = view.get(Fact::kPrefillPerToken);
  if (rate && price) {
    const double share = *rate * *price / 1000;
    return PromptTime{
        share, fmt::format("{} prompt tokens/s at {} each take {} of the time", format_count(*rate),
                           step_text(*price), fact_text(Fact::kOccupancy, share))};
  }
  const std::optional<double> floor = view.level().prefill_floor;
  const std::optional<double> share = quotient(floor, view.step());
  if (!share || *share < 0) return std::nullopt;
  return PromptTime{*share, fmt::format("the prompts that come in while a step runs take {} of its "
                                        "{} at the speed of the machine",
                                        step_text(*floor), step_text(*view.step()))};
}

namespace {

// Where prompts come without end, every step holds some, and the gaps are all alike: the median is
// that of steps with prompts. Empty where it is not so.
std::string all_gaps_hold_prompts(const LevelView& view) {
  const std::optional<double> alone =
      view.get(Fact::kKernels) ? view.get(Fact::kKernels) : view.floor();
  const std::optional<double> times = quotient(view.get(Fact::kItlP50), alone);
  const auto time = prompt_time(view);
  if (!times || !time || *times < kStepFar || time->share < kPromptTimeMuch) return "";
  return fmt::format("the median gap between tokens is {}, {} x a step without prompts ({})",
                     view.text(Fact::kItlP50), number_text(*times), step_text(*alone));
}

Heard hear_tail_long(const LevelView& view) {
  const std::optional<double> times = quotient(view.get(Fact::kItlP99), view.get(Fact::kItlP50));
  if (!times) return unknown();
  const std::string text =
      fmt::format("one gap in a hundred between tokens is {} or more, the median {}",
                  view.text(Fact::kItlP99), view.text(Fact::kItlP50));
  if (*times >= kTailLong) return holds(text);
  if (const std::string all = all_gaps_hold_prompts(view); !all.empty()) return holds(all);
  return *times < kTailShort ? against(text) : nothing();
}

Heard hear_prompts_take_time(const LevelView& view) {
  if (const auto time = prompt_time(view)) {
    if (time->share >= kPromptTimeMuch) return holds(time->text);
    return time->share <= kPromptTimeLittle ? against(time->text) : nothing();
  }
  const std::optional<double> prompts = view.prompt_rate(), output = view.get(Fact::kOutputRate);
  if (!prompts || !output) return unknown();
  const std::optional<double> rows = quotient(prompts, *prompts + *output);
  if (!rows) return unknown();
  const std::string text = fmt::format("{} of the tokens that steps compute are of prompts",
                                       fact_text(Fact::kOccupancy, *rows));
  if (*rows >= kPromptRowsMost) return holds(text);
  if (*rows <= kPromptTimeLittle) return against(text);
  return unknown("what a prompt token costs on this machine is not known");
}

Heard hear_mean_above_median(const LevelView& view) {
  const std::optional<double> times = quotient(view.get(Fact::kTpot), view.get(Fact::kItlP50));
  if (!times) return unknown();
  const std::string text = fmt::format("the mean gap between tokens is {}, the median {}",
                                       view.text(Fact::kTpot), view.text(Fact::kItlP50));
  if (*times >= kMeanAboveMedian) return holds(text);
  if (!all_gaps_hold_prompts(view).empty()) return nothing();
  return *times < kMeanAtMedian ? against(text) : nothing();
}

Heard hear_slower_than_decode(const LevelView& view) {
  const std::optional<double> times = quotient(view.served_step(), view.get(Fact::kKernels));
  if (!times) return unknown();
  const std::string text =
      fmt::format("a step takes {}, {} x the kernels of one that only decodes ({})",
                  step_text(*view.served_step()), number_text(*times), view.text(Fact::kKernels));
  if (*times >= kSlowerSurely) return holds(text);
  return *times < kSlowerNot ? against(text) : nothing();
}

Heard hear_not_preempted(const LevelView& view) {
  const std::optional<double> preempted = view.get(Fact::kPreemptions);
  if (!preempted) return unknown();
  const std::string text = fmt::format("{} preemptions a request", number_text(*preempted));
  if (*preempted < kPreemptedSome) return holds(text);
  return *preempted >= kPreemptedMany ? against(text) : nothing();
}

constexpr auto kAboutKernels = {Fact::kKernels, Fact::kServerStep};
const ClueDef kNoGapsClue{.id = "no_gaps",
                          .weight = 1,
                          .facts = {Fact::kOccupancy, Fact::kSmActive, Fact::kUtilization},
                          .settles = "whether something runs all the time",
                          .hear = hear_no_gaps};

}  // namespace

std::span<const ClueDef> launch_host_clues() {
  static const std::vector<ClueDef> clues = {
      {.id = "gap_between_steps",
       .weight = 4,
       .role = Role::kNeeded,
       .facts = {Fact::kOccupancy, Fact::kSmActive, Fact::kUtilization},
       .settles = "whether time passes between steps",
       .hear = hear_gap},
      {.id = "not_starved",
       .weight = 2,
       .role = Role::kNeeded,
       .facts = {Fact::kRunning, Fact::kWaiting, Fact::kInFlight},
       .settles = "whether the engine lacks requests",
       .hear = hear_not_starved},
      {.id = "client_on_time",
       .weight = 1,
       .role = Role::kVeto,
       .facts = {Fact::kClientLag, Fact::kItlP50, Fact::kClientCpu},
       .settles = "whether it is the client that makes the engine wait",
       .hear = hear_client_on_time},
      {.id = "gap_constant",
       .weight = 2,
       .facts = {Fact::kOccupancy, Fact::kSmActive, Fact::kServerStep},
       .settles = "whether the gap is the host's: as long at each load",
       .hear = hear_gap_constant},
      {.id = "kernels_fast",
       .weight = 2,
       .facts = kAboutKernels,
       .settles = "whether steps themselves are slow",
       .hear = hear_kernels_fast},
      {.id = "power_low",
       .weight = 1,
       .applies = Applies::kGpu,
       .facts = {Fact::kPowerShare},
       .settles = "whether the GPU works or waits",
       .hear = hear_power_low},
      {.id = "trace_gaps",
       .weight = 2,
       .applies = Applies::kTrace,
       .settles = "how long no kernel runs in a step",
       .hear = hear_trace_gaps}};
  return clues;
}

std::span<const ClueDef> kernel_inefficiency_clues() {
  static const std::vector<ClueDef> clues = {
      {.id = "slow_kernels",
       .weight = 4,
       .role = Role::kNeeded,
       .facts = {Fact::kKernels, Fact::kFloor, Fact::kSmActive, Fact::kUtilization},
       .settles = "whether the kernels are what takes long",
       .hear = hear_slow_kernels},
      {.id = "kernels_alone",
       .weight = 2,
       .facts = {Fact::kKernels, Fact::kFloor},
       .settles = "how far the kernels are from their floor without a server",
       .hear = hear_kernels_alone},
      {.id = "served_is_kernels",
       .weight = 2,
       .facts = kAboutKernels,
       .settles = "whether a step is longer than its kernels",
       .hear = hear_served_is_kernels},
      kNoGapsClue,
      {.id = "power_mid",
       .weight = 2,
       .applies = Applies::kGpu,
       .facts = {Fact::kPowerShare},
       .settles = "whether the GPU works or waits",
       .hear = hear_power_mid},
      {.id = "dram_below",
       .weight = 1,
       .applies = Applies::kGpu,
       .facts = {Fact::kDram},
       .settles = "whether memory is the limit",
       .hear = hear_dram_below},
      {.id = "tactic_best",
       .weight = 1,
       .facts = {},
       .settles = "whether another tactic is there already",
       .hear = hear_tactic_best}};
  return clues;
}

std::span<const ClueDef> wrong_tactic_clues() {
  static const std::vector<ClueDef> clues = {
      {.id = "tactic_not_best",
       .weight = 4,
       .role = Role::kNeeded,
       .facts = {},
       .settles = "which tactic runs, and which one could",
       .hear = hear_tactic_not_best},
      {.id = "slower_than_best",
       .weight = 3,
       .facts = kAboutKernels,
       .settles = "what the best tactic takes alone",
       .hear = hear_slower_than_best},
      {.id = "no_gaps",
       .weight = 2,
       .facts = {Fact::kOccupancy, Fact::kSmActive, Fact::kUtilization},
       .settles = "whether the time goes into steps",
       .hear = hear_no_gaps},
      {.id = "slower_at_lowest",
       .weight = 1,
       .facts = kAboutKernels,
       .settles = "whether it is slower at each load",
       .hear = hear_slower_at_lowest}};
  return clues;
}

std::span<const ClueDef> prefill_interference_clues() {
  static const std::vector<ClueDef> clues = {
      {.id = "prompts_take_time",
       .weight = 4,
       .role = Role::kNeeded,
       .facts = {Fact::kPromptRate, Fact::kPrefillPerToken, Fact::kRequestRate,
                 Fact::kPromptTokens},
       .settles = "how much of the time goes into prompts",
       .hear = hear_prompts_take_time},
      {.id = "tail_long",
       .weight = 3,
       .facts = {Fact::kItlP99, Fact::kItlP50},
       .settles = "whether some gaps between tokens are much longer than the others",
       .hear = hear_tail_long},
      {.id = "mean_above_median",
       .weight = 1,
       .facts = {Fact::kTpot, Fact::kItlP50},
       .settles = "whether the long gaps matter on average",
       .hear = hear_mean_above_median},
      {.id = "slower_than_decode",
       .weight = 2,
       .facts = kAboutKernels,
       .settles = "whether steps hold more than decodes",
       .hear = hear_slower_than_decode},
      kNoGapsClue,
      {.id = "client_on_time",
       .weight = 1,
       .facts = {Fact::kClientLag, Fact::kItlP50, Fact::kClientCpu},
       .settles = "whether the client makes the gaps",
       .hear = hear_client_on_time},
      {.id = "not_preempted",
       .weight = 1,
       .facts = {Fact::kPreemptions},
       .settles = "whether preemptions make the gaps",
       .hear = hear_not_preempted}};
  return clues;
}

}  // namespace nibble::diagnose
