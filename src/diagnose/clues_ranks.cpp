// Classes of several GPUs and experts: collectives, links, uneven work.
#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

#include "diagnose/clues.h"
#include "diagnose/thresholds.h"

namespace nibble::diagnose {
namespace {

// --- Collectives.

Heard hear_several_gpus(const LevelView& view) {
  const Setting& setting = view.setting();
  const std::string text = fmt::format("{} GPU{} work{} on a step", setting.gpus,
                                       setting.gpus == 1 ? "" : "s", setting.gpus == 1 ? "s" : "");
  return !setting.is_cpu && setting.gpus > 1 ? holds(text) : against(text);
}

Heard hear_little_memory(const LevelView& view) {
  const std::optional<double> dram = view.get(Fact::kDram);
  if (!dram) return unknown();
  const std::string text = fmt::format("DRAM is active {} of the time", view.text(Fact::kDram));
  if (*dram < kDramLow) return holds(text);
  return *dram >= kDramHigh ? against(text) : nothing();
}

Heard hear_excess_grew(const LevelView& view) {
  const std::optional<LevelView> lowest = view.lowest();
  if (!lowest) return unknown("no lower level was measured");
  const auto step = view.step(), floor = view.floor();
  const auto step_there = lowest->step(), floor_there = lowest->floor();
  if (!step || !floor || !step_there || !floor_there) return unknown();
  const double here = *step - *floor, there = *step_there - *floor_there;
  if (here <= 0 || here < kExcessGrew * std::max(there, 0.0)) return nothing();
  return holds(fmt::format("a step lies {} above its floor, and {} at {}",
                           fact_text(Fact::kFloor, here), fact_text(Fact::kFloor, there),
                           lowest->level().name));
}

Heard hear_clock_full(const LevelView& view) {
  const Heard down = hear_clock_down(view);
  if (down.says == Says::kHolds) return against(down.sentence);
  return down.says == Says::kAgainst ? holds(down.sentence) : down;
}

Heard hear_ranks_alike(const LevelView& view) {
  const std::optional<double> spread = view.get(Fact::kGpuSpread);
  if (!spread) return unknown();
  const std::string text =
      fmt::format("the DRAM activity of the GPUs differs by {}", view.text(Fact::kGpuSpread));
  if (*spread < kRanksAlike) return holds(text);
  return *spread >= kRanksDiffer ? against(text) : nothing();
}

Heard hear_no_slow_rank(const LevelView& view) {
  const Heard alike = hear_ranks_alike(view);
  if (alike.says != Says::kAgainst) return alike;
  return *view.get(Fact::kGpuSpread) >= kRanksUneven ? alike : nothing();
}

bool is_collective_op(std::string_view op) {
  constexpr std::array<std::string_view, 6> kParts = {"all_reduce", "all_gather",  "all_to_all",
                                                      "dispatch",   "moe.combine", "send"};
  return std::any_of(kParts.begin(), kParts.end(), [&](std::string_view part) {
    return op.find(part) != std::string_view::npos;
  });
}

Heard hear_trace_collectives(const LevelView& view) {
  const TraceEvidence& trace = *view.evidence().trace;
  if (!trace_is_of(view)) return nothing();
  double ms = 0;
  for (const ServedOp& op : trace.ops) {
    if (is_collective_op(op.op)) ms += op.ms;
  }
  const std::optional<double> share = quotient(ms, trace.busy_ms);
  if (!share) return unknown("no kernel runs in the trace");
  const std::string text =
      fmt::format("in the trace collectives take {} of the {} in which kernels run",
                  fact_text(Fact::kFloor, ms), fact_text(Fact::kFloor, trace.busy_ms));
  return *share >= kTraceCollectives ? holds(text) : against(text);
}

// --- The link.

struct LinkState {
  int known = 0;  // of generation and width
  bool less = false;
  std::string text;
};

LinkState link_state(const LevelView& view) {
  LinkState state;
  const auto compare = [&](Fact fact, std::optional<double> should, std::string_view name) {
    const std::optional<double> share = quotient(view.get(fact), should);
    if (!share) return;
    ++state.known;
    state.less = state.less || *share < kLinkLess;
    state.text += fmt::format("{}{} {} of {}", state.text.empty() ? "" : ", ", name,
                              view.text(fact), number_text(*should));
  };
  compare(Fact::kLinkGeneration, view.setting().link_generation, "PCIe generation");
  compare(Fact::kLinkWidth, view.setting().link_width, "lanes");
  return state;
}

Heard hear_link_less(const LevelView& view) {
  const LinkState state = link_state(view);
  if (state.less) return holds("under load: " + state.text);
  if (state.known == 2) return against("under load: " + state.text);
  const bool read = view.get(Fact::kLinkGeneration) && view.get(Fact::kLinkWidth);
  return unknown(read ? "what the link should be is not known" : "");
}

Heard hear_link_whole(const LevelView& view) {
  const Heard less = hear_link_less(view);
  if (less.says == Says::kHolds) return against(less.sentence);
  return less.says == Says::kAgainst ? holds(less.sentence) : less;
}

// --- Experts and ranks.

Heard hear_hot_expert(const LevelView& view) {
  const std::optional<double> times = view.get(Fact::kBusiestExpert);
  if (!times) return unknown();
  const std::string text =
      fmt::format("the busiest expert gets {} x the mean", number_text(*times));
  if (*times >= kHotExpert) return holds(text);
  return *times < kEvenExperts ? against(text) : nothing();
}

Heard hear_ranks_differ(const LevelView& view) {
  const Heard alike = hear_ranks_alike(view);
  if (alike.says == Says::kAgainst) return holds(alike.sentence);
  return alike.says == Says::kHolds ? against(alike.sentence) : alike;
}

Heard hear_uneven(const LevelView& view) {
  const Heard expert = hear_hot_expert(view);
  if (expert.says != Says::kUnknown || view.setting().gpus < 2) return expert;
  return hear_ranks_differ(view);
}

Heard hear_costs_time(const LevelView& view) {
  const std::optional<double> times = quotient(view.served_step(), view.kernels());
  if (!times) {
    const Heard above = hear_above_floor(view);
    return above.says == Says::kAgainst ? nothing() : above;
  }
  if (*times < kSlowerSurely) return nothing();
  return holds(
      fmt::format("a step takes {} x its kernels alone, which were timed with even routing",
                  number_text(*times)));
}

constexpr auto kAboutStep = {Fact::kFloor, Fact::kOutputRate, Fact::kRunning};

}  // namespace

std::span<const ClueDef> collectives_clues() {
  static const std::vector<ClueDef> clues = {
      {.id = "several_gpus",
       .weight = 1,
       .role = Role::kNeeded,
       .settles = "whether GPUs wait for each other at all",
       .hear = hear_several_gpus},
      {.id = "busy_but_cold",
       .weight = 5,
       .role = Role::kNeeded,
       .facts = {Fact::kPowerShare, Fact::kSmActive, Fact::kUtilization, Fact::kDram,
                 Fact::kTensor},
       .settles = "whether GPUs wait with a kernel resident",
       .hear = hear_busy_but_cold},
      {.id = "above_floor",
       .weight = 3,
       .facts = kAboutStep,
       .settles = "whether a step takes longer than it must",
       .hear = hear_above_floor},
      {.id = "little_memory",
       .weight = 2,
       .applies = Applies::kGpu,
       .facts = {Fact::kDram},
       .settles = "whether memory is busy meanwhile",
       .hear = hear_little_memory},
      {.id = "excess_grew",
       .weight = 1,
       .facts = kAboutStep,
       .settles = "whether the excess grows with the rows, as messages do",
       .hear = hear_excess_grew},
      {.id = "no_gaps",
       .weight = 1,
       .facts = {Fact::kOccupancy, Fact::kSmActive, Fact::kUtilization},
       .settles = "whether the host leaves gaps",
       .hear = hear_no_gaps},
      {.id = "clock_full",
       .weight = 1,
       .applies = Applies::kGpu,
       .facts = {Fact::kSmClock},
       .settles = "whether power or heat holds the clock down",
       .hear = hear_clock_full},
      {.id = "link_whole",
       .weight = 1,
       .role = Role::kVeto,
       .applies = Applies::kGpu,
       .facts = {Fact::kLinkGeneration, Fact::kLinkWidth},
       .settles = "whether the link is what it should be",
       .hear = hear_link_whole},
      {.id = "ranks_alike",
       .weight = 2,
       .role = Role::kVeto,
       .applies = Applies::kSeveralGpus,
       .facts = {Fact::kGpuSpread},
       .settles = "whether all ranks have the same work",
       .hear = hear_no_slow_rank},
      {.id = "trace_collectives",
       .weight = 2,
       .applies = Applies::kTrace,
       .settles = "how long collectives take",
       .hear = hear_trace_collectives}};
  return clues;
}

std::span<const ClueDef> link_degraded_clues() {
  static const std::vector<ClueDef> clues = {
      {.id = "link_less",
       .weight = 8,
       .role = Role::kNeeded,
       .applies = Applies::kGpu,
       .facts = {Fact::kLinkGeneration, Fact::kLinkWidth},
       .settles = "what the link is under load",
       .hear = hear_link_less},
      {.id = "several_gpus",
       .weight = 1,
       .applies = Applies::kGpu,
       .settles = "whether steps use the link",
       .hear = hear_several_gpus},
      {.id = "above_floor",
       .weight = 1,
       .applies = Applies::kGpu,
       .facts = kAboutStep,
       .settles = "whether a step takes longer than it must",
       .hear = hear_above_floor},
      {.id = "busy_but_cold",
       .weight = 1,
       .applies = Applies::kGpu,
       .facts = {Fact::kPowerShare, Fact::kSmActive, Fact::kUtilization},
       .settles = "whether GPUs wait with a kernel resident",
       .hear = hear_busy_but_cold}};
  return clues;
}

std::span<const ClueDef> expert_imbalance_clues() {
  static const std::vector<ClueDef> clues = {
      {.id = "uneven",
       .weight = 4,
       .role = Role::kNeeded,
       .facts = {Fact::kBusiestExpert, Fact::kGpuSpread},
       .settles = "whether experts or ranks have uneven work",
       .hear = hear_uneven},
      {.id = "hot_expert",
       .weight = 3,
       .facts = {Fact::kBusiestExpert},
       .settles = "how much work the busiest expert has",
       .hear = hear_hot_expert},
      {.id = "ranks_differ",
       .weight = 3,
       .applies = Applies::kSeveralGpus,
       .facts = {Fact::kGpuSpread},
       .settles = "whether the ranks differ",
       .hear = hear_ranks_differ},
      {.id = "costs_time",
       .weight = 2,
       .facts = {Fact::kKernels, Fact::kFloor},
       .settles = "whether steps are longer for it",
       .hear = hear_costs_time}};
  return clues;
}

}  // namespace nibble::diagnose
