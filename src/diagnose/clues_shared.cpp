// The questions that several classes ask.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "diagnose/clues.h"
#include "diagnose/thresholds.h"
#include "load/knee.h"

namespace nibble::diagnose {
namespace {

// Power, or without it what DRAM and tensor units do: true where it is that of waiting.
std::optional<bool> draws_little(const LevelView& view) {
  if (const auto power = view.get(Fact::kPowerShare)) return *power < kPowerLow;
  const auto dram = view.get(Fact::kDram), tensor = view.get(Fact::kTensor);
  if (!dram || !tensor) return std::nullopt;
  return *dram < kDramIdle && *tensor < kTensorIdle;
}

std::string draw_text(const LevelView& view) {
  if (!view.get(Fact::kPowerShare)) {
    return fmt::format("DRAM is active {} and tensor units {} of the time", view.text(Fact::kDram),
                       view.text(Fact::kTensor));
  }
  const std::string share = view.text(Fact::kPowerShare) + " of the power limit";
  return view.get(Fact::kPower) ? fmt::format("a GPU draws {}, {}", view.text(Fact::kPower), share)
                                : fmt::format("a GPU draws {}", share);
}

}  // namespace

Heard hear_fewer_run(const LevelView& view) {
  const std::optional<double> all = view.in_flight(), running = view.get(Fact::kRunning);
  const std::optional<double> cap = view.setting().max_running;
  if (!all) return unknown();
  if (!running) {
    if (!cap || !std::isfinite(*cap) || *cap <= 0 || *all <= *cap * (1 + kShortFew))
      return unknown();
    return holds(fmt::format("{} requests are in flight and the configured cap is {}",
                             number_text(*all), number_text(*cap)));
  }
  const double missing = *all - *running;
  const std::string text =
      fmt::format("{} of {} requests in flight run", number_text(*running), number_text(*all));
  if (missing < kWholeRequest || missing <= kShortFew * *all) return against(text);
  return missing >= kShortMany * *all ? holds(text) : nothing();
}

Heard hear_requests_wait(const LevelView& view) {
  const std::optional<double> all = view.in_flight(), waiting = view.get(Fact::kWaiting);
  if (!all || !waiting) return unknown();
  const double outside = view.outside().value_or(0);
  const std::string text = fmt::format("{} of {} requests wait in the server's queue",
                                       number_text(*waiting), number_text(*all));
  if (*waiting < kWholeRequest || *waiting <= kWaitFew * *all || outside > 2 * *waiting) {
    return against(text);
  }
  return *waiting >= kWaitMany * *all && *waiting >= outside ? holds(text) : nothing();
}

Heard hear_throughput_flat(const LevelView& view) {
  const std::optional<double> gain = view.gain(), more = view.more_users();
  if (!view.below()) return unknown("no lower level was measured");
  if (!gain || !more) return unknown();
  const double noise = view.get(Fact::kRateNoise).value_or(0);
  const double a_doubling = std::pow(*gain, 1 / std::log2(*more)) - 1;
  if (a_doubling > load::kFlatGain + std::min(noise, load::kFlatGain)) return nothing();
  return holds(fmt::format("{} x the requests in flight give {} x the throughput",
                           number_text(*more), number_text(*gain)));
}

Heard hear_ttft_grew(const LevelView& view) {
  const std::optional<LevelView> lowest = view.lowest();
  if (!lowest) return unknown("no lower level was measured");
  const auto grew = quotient(view.get(Fact::kTtft), lowest->get(Fact::kTtft));
  if (!grew) return unknown();
  if (*grew < kTtftGrew) return nothing();
  return holds(fmt::format("the first token takes {}, {} x as long as at {}",
                           view.text(Fact::kTtft), number_text(*grew), lowest->level().name));
}

Heard hear_outside(const LevelView& view) {
  const std::optional<double> outside = view.outside(), all = view.in_flight();
  if (!outside) return unknown();
  const std::string text =
      fmt::format("{} of {} requests in flight neither run nor wait in the engine",
                  number_text(*outside), number_text(*all));
  if (*outside < kWholeRequest || *outside <= kOutsideFew * *all) return against(text);
  return *outside >= kOutsideMany * *all ? holds(text) : nothing();
}

Heard hear_queue_empty(const LevelView& view) {
  const std::optional<double> waiting = view.get(Fact::kWaiting), outside = view.outside();
  if (!waiting || !outside) return unknown();
  const std::string text =
      fmt::format("the engine's queue holds {} requests", number_text(*waiting));
  if (*waiting > std::max(*outside, kWholeRequest)) return against(text);
  return *waiting <= std::max(*outside / 3, kWholeRequest) ? holds(text) : nothing();
}

Heard hear_engine_has_time(const LevelView& view) {
  const std::optional<double> busy = view.busy();
  if (!busy) return unknown();
  if (*busy >= (view.setting().is_cpu ? 1 - kNoGapShareCpu : kBusy)) return nothing();
  const Fact fact = view.get(Fact::kOccupancy) ? Fact::kOccupancy : Fact::kSmActive;
  return holds(fmt::format("{} is busy {} of the time",
                           fact == Fact::kOccupancy ? "the engine" : "the GPU",
                           fact_text(fact, *busy)));
}

Heard hear_client_on_time(const LevelView& view) {
  const std::optional<double> late = quotient(view.get(Fact::kClientLag), view.token_gap());
  const std::optional<double> cpu = view.get(Fact::kClientCpu);
  if (cpu && *cpu >= kClientFull) {
    return against(
        fmt::format("a loop of the client takes {} of a core", view.text(Fact::kClientCpu)));
  }
  if (!late) return unknown();
  const std::string text =
      fmt::format("the client's loops are late by {} (P99) where tokens come every {}",
                  view.text(Fact::kClientLag), fact_text(Fact::kTpot, *view.token_gap()));
  return *late > kClientLate ? against(text) : holds(text);
}

Heard hear_all_run(const LevelView& view) {
  const Heard fewer = hear_fewer_run(view);
  if (fewer.says == Says::kHolds) return against(fewer.sentence);
  return fewer.says == Says::kAgainst ? holds(fewer.sentence) : fewer;
}

Heard hear_no_gaps(const LevelView& view) {
  const std::optional<double> share = view.gap_share();
  if (!share) return unknown();
  const bool steps = view.get(Fact::kOccupancy).has_value();
  const std::string text =
      steps ? fmt::format("the engine is in steps {} of the time", view.text(Fact::kOccupancy))
            : fmt::format("kernels are resident {} of the time",
                          fact_text(Fact::kSmActive, *view.gpu_busy()));
  const bool cpu = view.setting().is_cpu;
  if (*share <= (cpu ? kNoGapShareCpu : 1 - kBusy)) return holds(text);
  return *share > (cpu ? kGapShareCpu : 2 * kGapShare) ? against(text) : nothing();
}

Heard hear_busy_but_cold(const LevelView& view) {
  const std::optional<double> active = view.get(Fact::kSmActive);
  const std::optional<double> busy = view.gpu_busy();
  const std::optional<bool> little = draws_little(view);
  if (!busy || !little) return unknown();
  const bool always = *busy >= (active ? kBusy : kBusyAll);
  const std::string text = fmt::format("kernels are resident {} of the time, but {}",
                                       fact_text(Fact::kSmActive, *busy), draw_text(view));
  if (*little) return always ? holds(text) : nothing();
  const std::optional<double> power = view.get(Fact::kPowerShare);
  return power && *power >= kPowerHigh ? against(draw_text(view)) : nothing();
}

Heard hear_above_floor(const LevelView& view) {
  const std::optional<double> times = quotient(view.step(), view.whole_floor());
  if (!times) return unknown();
  const std::string text = fmt::format(
      "a step takes {}, {} x its floor of {}", fact_text(Fact::kServerStep, *view.step()),
      number_text(*times), fact_text(Fact::kFloor, *view.whole_floor()));
  if (*times >= kStepFar) return holds(text);
  return *times < kStepNear ? against(text) : nothing();
}

Heard hear_clock_down(const LevelView& view) {
  const std::optional<double> clock = view.get(Fact::kSmClock);
  if (!clock) return unknown();
  const std::optional<LevelView> lowest = view.lowest();
  const std::optional<double> before = lowest ? lowest->get(Fact::kSmClock) : std::nullopt;
  if (const auto fell = quotient(clock, before); fell && *fell < kClockFell) {
    return holds(fmt::format("the SM clock is {}, after {} at {}", view.text(Fact::kSmClock),
                             fact_text(Fact::kSmClock, *before), lowest->level().name));
  }
  const std::optional<double> most = view.setting().clock_mhz;
  const std::optional<double> share = quotient(clock, most);
  if (!share) return unknown("the clock that the GPU should have is not known");
  const std::string text = fmt::format("the SM clock is {} of {}", view.text(Fact::kSmClock),
                                       fact_text(Fact::kSmClock, *most));
  if (*share < kClockDown) return holds(text);
  return *share >= kClockFull ? against(text) : nothing();
}

}  // namespace nibble::diagnose
