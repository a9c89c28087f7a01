#include "diagnose/read_floor.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/units.h"
#include "diagnose/read_evidence.h"
#include "diagnose/read_level.h"
#include "ledger/shares.h"

namespace nibble::diagnose {
namespace {

constexpr double kMsPerMicrosecond = 1e-3;
// Prompts are priced in passes of so many tokens at least, as schedulers batch them.
constexpr double kPassTokens = 2048;

void no_floor(LevelEvidence& level, std::string reason) {
  level.floor.reset();
  level.prefill_floor.reset();
  level.floor_reason = std::move(reason);
  level[Fact::kFloor] = missing(level.floor_reason);
}

// The share of a prefill pass that one decode step's worth of time brings.
std::optional<double> prefill_ms(const Ledger& ledger, const LevelEvidence& level, double running,
                                 double prompt) {
  const auto rate = level.get(Fact::kOutputRate);
  const auto arriving = level.get(Fact::kPromptRate);
  if (!rate || !arriving || !(*rate > 0) || !(prompt > 0)) return std::nullopt;
  const double tokens = *arriving * running / *rate;  // that come in while one step's tokens go out
  if (tokens == 0) return 0.0;
  const double in_pass = std::max({1.0, tokens / prompt, kPassTokens / prompt});
  const Result<Step> pass = ledger.prefill(in_pass * prompt, in_pass, 0);
  if (!pass) return std::nullopt;
  return pass->step_us * kMsPerMicrosecond * tokens / (in_pass * prompt);
}

void fill_level(const Deployment& deployment, const Setting& setting, LevelEvidence& level) {
  const std::optional<double> running = sequences_of(level, setting);
  if (!running) return no_floor(level, "how many sequences ran is not known");
  const std::optional<double> context = context_of(level);
  if (!context) return no_floor(level, "the lengths of prompts and answers are not known");
  Deployment at_context = deployment;
  at_context.context = *context;
  const Result<Ledger> ledger = Ledger::make(std::move(at_context));
  if (!ledger) return no_floor(level, ledger.error().message);
  const Result<Step> step = ledger->decode(*running);
  if (!step) return no_floor(level, step.error().message);
  level.floor = floor_parts(*step);
  level.floor_reason.clear();
  level[Fact::kFloor] =
      derived(level.floor->total(), fmt::format("ledger: {} sequences of {} tokens",
                                                format_number(*running), format_number(*context)));
  level.prefill_floor =
      prefill_ms(*ledger, level, *running, level.get(Fact::kPromptTokens).value_or(0));
}

}  // namespace

std::optional<double> sequences_of(const LevelEvidence& level, const Setting& setting) {
  std::optional<double> running = level.get(Fact::kRunning);
  if (!running) {
    running = level.get(Fact::kUsers);
    if (!running) running = level.get(Fact::kInFlight);
    if (running && setting.max_running) running = std::min(*running, *setting.max_running);
  }
  // The mean over a window with empty moments lies below one; a step has one at least.
  return running && *running > 0 ? std::optional(std::max(1.0, *running)) : std::nullopt;
}

std::optional<double> context_of(const LevelEvidence& level) {
  const auto prompt = level.get(Fact::kPromptTokens);
  const auto output = level.get(Fact::kOutputTokens);
  if (!prompt || !output) return std::nullopt;
  return std::max(1.0, *prompt + *output / 2);
}

FloorParts floor_parts(const Step& step) {
  const StepShares shares = shares_of(step);
  return {.expert_weights = shares.expert_weights * kMsPerMicrosecond,
          .other_weights = shares.other_weights * kMsPerMicrosecond,
          .kv = shares.kv * kMsPerMicrosecond,
          .activations = shares.activations * kMsPerMicrosecond,
          .compute = shares.compute * kMsPerMicrosecond,
          .collectives = shares.collectives * kMsPerMicrosecond,
          .launches = shares.launches * kMsPerMicrosecond,
          .pipeline_bubble = shares.pipeline_bubble * kMsPerMicrosecond};
}

void read_machine_setting(const MachineSpec& machine, Setting& setting) {
  const auto take = [](std::optional<double>& number, const std::optional<Sourced>& known) {
    if (!number && known) number = known->value;
  };
  take(setting.power_limit_w, machine.power.limit_w);
  take(setting.copy_power_w, machine.power.copy_w);
  take(setting.clock_mhz, machine.clock_mhz);
  if (setting.machine.empty()) setting.machine = machine.title;
  setting.is_cpu = setting.is_cpu || machine.is_cpu;
}

void fill_floor(const Ledger& ledger, Evidence& evidence) {
  const Deployment& deployment = ledger.deployment();
  Setting& setting = evidence.setting;
  read_machine_setting(deployment.machine, setting);
  const ParallelLayout& layout = deployment.layout;
  setting.tp = layout.tp;
  setting.pp = layout.pp;
  setting.ep = layout.ep;
  setting.gpus = layout.gpus();
  if (setting.model.empty()) setting.model = deployment.model.title;
  for (LevelEvidence& level : evidence.levels) {
    fill_level(deployment, setting, level);
    // The share of the limit may have waited for the machine's.
    if (!level[Fact::kPowerShare].known()) level[Fact::kPowerShare] = {};
    derive_power_facts(level, setting);
  }
}

}  // namespace nibble::diagnose
