// Deployments as each kind of run tells them, healthy and with one thing wrong, for tests of the
// classes. Numbers are of the mechanism: rate = running / step (Little's law), step = what the
// fault makes of it, and what the machine would show meanwhile.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "diagnose/diagnosis.h"

namespace nibble::diagnose::testing {

using Facts = std::initializer_list<std::pair<Fact, double>>;

inline void put(LevelEvidence& level, Facts facts) {
  for (const auto& [fact, value] : facts) level[fact] = measured(value, "by hand");
}

// Requests by where they are, and the step that gives each running one a token.
inline void flow(LevelEvidence& level, double running, double waiting, double step_ms) {
  put(level, {{Fact::kRunning, running},
              {Fact::kWaiting, waiting},
              {Fact::kOutputRate, running / step_ms * 1000},
              {Fact::kRequestRate, running / step_ms * 1000 / 32},
              {Fact::kTpot, step_ms},
              {Fact::kItlP50, step_ms},
              {Fact::kItlP99, 1.3 * step_ms}});
}

inline LevelEvidence level_of(double users) {
  LevelEvidence level;
  level.name = std::to_string(static_cast<int>(users)) + " users";
  for (Datum& datum : level.facts) datum = missing("this run does not tell it");
  put(level, {{Fact::kUsers, users}});
  return level;
}

// What a client sees of any server whose answers have 32 tokens.
inline void client_side(LevelEvidence& level, double users, double prompt_tokens) {
  put(level, {{Fact::kInFlight, users},
              {Fact::kRateNoise, 0.01},
              {Fact::kPromptTokens, prompt_tokens},
              {Fact::kOutputTokens, 32},
              {Fact::kCachedShare, 0.01},
              {Fact::kRepeatedShare, 0.0},
              {Fact::kDegenerateShare, 0.01},
              {Fact::kFailedShare, 0.0},
              {Fact::kRateDrift, 0.002},
              {Fact::kClientLag, 0.02},
              {Fact::kClientCpu, 0.2}});
}

// nibble's engine on two cores, the embedded model: kernels of docs/measured.md at 1, 4 and 16
// sequences (0.40, 0.76, 2.30 ms), 2.1 to 2.9 x their floor; no GPU.
inline Evidence cpu_engine() {
  Evidence evidence;
  evidence.setting.engine = "nibble";
  evidence.setting.is_cpu = true;
  evidence.setting.max_running = 64;
  evidence.setting.prompts_unique = false;
  evidence.setting.tactic = evidence.setting.best_tactic = "avx2";
  const double kernels[] = {0.40, 0.76, 2.30}, floors[] = {0.19, 0.34, 0.80};
  const double users[] = {1, 4, 16}, kv[] = {0.02, 0.08, 0.30}, ttft[] = {3, 5, 9};
  for (int index = 0; index < 3; ++index) {
    LevelEvidence level = level_of(users[index]);
    client_side(level, users[index], 8);
    flow(level, 0.97 * users[index], 0, 1.12 * kernels[index]);
    put(level, {{Fact::kTtft, ttft[index]},
                {Fact::kKvUsage, kv[index]},
                {Fact::kPreemptions, 0},
                {Fact::kOccupancy, index == 0 ? 0.94 : 0.97},
                {Fact::kServerStep, 1.08 * kernels[index]},
                {Fact::kStepRate, 1000 / (1.12 * kernels[index])},
                {Fact::kPromptRate, *level.get(Fact::kRequestRate) * 8},
                {Fact::kBusiestExpert, 1.6},
                {Fact::kHostCpu, 0.95},
                {Fact::kFloor, floors[index]},
                {Fact::kKernels, kernels[index]},
                {Fact::kPrefillPerToken, 0.03}});
    evidence.levels.push_back(std::move(level));
  }
  return evidence;
}

// vLLM on RTX PRO 6000 cards (600 W, 2,430 MHz, PCIe 5 x16): steps 1.4 x their floor of 5, 8 and
// 16 ms at 8, 64 and 256 users. No kernels, no occupancy.
inline Evidence gpu_server(int gpus) {
  Evidence evidence;
  Setting& setting = evidence.setting;
  setting.engine = "vllm";
  setting.gpus = setting.tp = gpus;
  setting.max_running = 1024;
  setting.power_limit_w = 600;
  setting.clock_mhz = 2430;
  setting.link_generation = 5;
  setting.link_width = 16;
  setting.throttle_temperature_c = 92;
  const double floors[] = {5, 8, 16}, users[] = {8, 64, 256}, kv[] = {0.03, 0.2, 0.7};
  for (int index = 0; index < 3; ++index) {
    LevelEvidence level = level_of(users[index]);
    client_side(level, users[index], 64);
    flow(level, 0.98 * users[index], 0, 1.4 * floors[index]);
    put(level, {{Fact::kTtft, 60.0 + 10 * index},
                {Fact::kKvUsage, kv[index]},
                {Fact::kPreemptions, 0},
                {Fact::kPromptRate, *level.get(Fact::kRequestRate) * 64},
                {Fact::kPower, 380},
                {Fact::kPowerShare, 380.0 / 600},
                {Fact::kUtilization, 1.0},
                {Fact::kSmActive, 0.96},
                {Fact::kTensor, 0.1},
                {Fact::kDram, 0.66},
                {Fact::kSmClock, 2400},
                {Fact::kThrottledPower, 0.0},
                {Fact::kThrottledHeat, 0.0},
                {Fact::kTemperature, 64},
                {Fact::kLinkGeneration, 5},
                {Fact::kLinkWidth, 16},
                {Fact::kFloor, floors[index]}});
    if (gpus > 1) put(level, {{Fact::kGpuSpread, 0.03}});
    level.prefill_floor = 0.04 * floors[index];
    evidence.levels.push_back(std::move(level));
  }
  return evidence;
}

// llama.cpp: the client, and what its page tells of requests; growth is all that it can be held to.
inline Evidence llamacpp() {
  Evidence evidence;
  evidence.setting.engine = "llamacpp";
  evidence.setting.is_cpu = true;
  const double users[] = {1, 4, 16}, steps[] = {40, 60, 110};
  for (int index = 0; index < 3; ++index) {
    LevelEvidence level = level_of(users[index]);
    client_side(level, users[index], 8);
    flow(level, 0.98 * users[index], 0, steps[index]);
    put(level, {{Fact::kTtft, 300.0 + 50 * index}});
    evidence.levels.push_back(std::move(level));
  }
  return evidence;
}

// A case: rates, gaps, power and clock that somebody wrote down; eight cards.
inline Evidence recorded_case(std::vector<std::pair<double, double>> rates) {
  Evidence evidence;
  evidence.setting.gpus = evidence.setting.tp = 8;
  evidence.setting.clock_mhz = 2430;
  for (const auto& [users, rate] : rates) {
    LevelEvidence level = level_of(users);
    put(level, {{Fact::kOutputRate, rate}});
    evidence.levels.push_back(std::move(level));
  }
  return evidence;
}

}  // namespace nibble::diagnose::testing
