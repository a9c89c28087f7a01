// One thing wrong in the deployments of test_deployments.h: what each mechanism does to the facts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "diagnose/test_deployments.h"

namespace nibble::diagnose::testing {

struct FaultCase {
  std::string name;
  Evidence evidence;
  Class is = Class::kHealthy;
  Certainty least = Certainty::kLikely;
};

// The same at each level: `change(level, users)`.
template <class Change>
Evidence changed(Evidence evidence, const Change& change) {
  for (LevelEvidence& level : evidence.levels) change(level, *level.get(Fact::kUsers));
  return evidence;
}

// Only the highest level, where the load is more than what fits.
template <class Change>
Evidence changed_at_top(Evidence evidence, const Change& change) {
  change(evidence.levels.back());
  return evidence;
}

inline double was(const LevelEvidence& level, Fact fact) {
  return level.get(fact).value_or(0);
}

inline std::vector<FaultCase> cpu_faults() {
  std::vector<FaultCase> cases;
  // Four run at the pace of four; the other twelve wait: 12 / (3.9 / 0.85 ms / 32) = 84 ms.
  Evidence capped = changed_at_top(cpu_engine(), [](LevelEvidence& level) {
    flow(level, 3.9, 12.0, 0.85);
    put(level, {{Fact::kTtft, 90},
                {Fact::kKvUsage, 0.08},
                {Fact::kKernels, 0.76},
                {Fact::kServerStep, 0.82},
                {Fact::kFloor, 0.34}});
  });
  capped.setting.max_running = 4;
  cases.push_back({"cpu: cap", capped, Class::kSchedulerCap, Certainty::kCertain});
  // Blocks for five: a sixth would need 1.12 of the pool; each third request loses its own once.
  cases.push_back({"cpu: KV pool",
                   changed_at_top(cpu_engine(),
                                  [](LevelEvidence& level) {
                                    flow(level, 4.6, 11.2, 0.95);
                                    put(level, {{Fact::kTtft, 80},
                                                {Fact::kKvUsage, 0.92},
                                                {Fact::kPreemptions, 0.3},
                                                {Fact::kKernels, 0.85},
                                                {Fact::kServerStep, 0.92},
                                                {Fact::kFloor, 0.37}});
                                  }),
                   Class::kKvCapacity, Certainty::kCertain});
  Evidence scalar = changed(cpu_engine(), [](LevelEvidence& level, double users) {
    const double kernels = was(level, Fact::kKernels);
    flow(level, 0.97 * users, 0, 3.04 * kernels);
    put(level, {{Fact::kServerStep, 3 * kernels}, {Fact::kOccupancy, users < 2 ? 0.96 : 0.99}});
  });
  scalar.setting.tactic = "reference";
  cases.push_back({"cpu: slow tactic", scalar, Class::kWrongTactic, Certainty::kCertain});
  // The host sleeps for 1 ms after each step.
  cases.push_back(
      {"cpu: host stalls",
       changed(cpu_engine(),
               [](LevelEvidence& level, double users) {
                 const double step = was(level, Fact::kServerStep), wall = step + 1.05;
                 flow(level, 0.97 * users, 0, wall);
                 put(level, {{Fact::kOccupancy, step / wall}, {Fact::kStepRate, 1000 / wall}});
               }),
       Class::kLaunchHost, Certainty::kCertain});
  // Tokenizing takes a lock: five of sixteen requests reach the engine.
  cases.push_back({"cpu: front end",
                   changed_at_top(cpu_engine(),
                                  [](LevelEvidence& level) {
                                    flow(level, 4.8, 0.1, 0.95);
                                    put(level, {{Fact::kTtft, 70},
                                                {Fact::kKernels, 0.85},
                                                {Fact::kOccupancy, 0.93},
                                                {Fact::kServerStep, 0.9},
                                                {Fact::kFloor, 0.37}});
                                  }),
                   Class::kFrontEnd, Certainty::kCertain});
  // The client sleeps 20 ms between events: answers end in the engine and are read late.
  cases.push_back({"cpu: client sleeps",
                   changed_at_top(cpu_engine(),
                                  [](LevelEvidence& level) {
                                    flow(level, 5.5, 0.0, 1.1);
                                    put(level, {{Fact::kClientLag, 20},
                                                {Fact::kItlP50, 0.01},
                                                {Fact::kTpot, 3.0},
                                                {Fact::kOccupancy, 0.8},
                                                {Fact::kKernels, 0.95},
                                                {Fact::kServerStep, 1.0},
                                                {Fact::kFloor, 0.4}});
                                  }),
                   Class::kClientLimited, Certainty::kCertain});
  // Prompts of 128 for answers of 32: 15.5 / 4.2 ms x 4 = 14,760 prompt tokens/s x 0.03 ms = 0.44.
  cases.push_back({"cpu: prompts",
                   changed(cpu_engine(),
                           [](LevelEvidence& level, double users) {
                             const double kernels = was(level, Fact::kKernels),
                                          step = 1.85 * kernels;
                             flow(level, 0.97 * users, 0, step);
                             put(level, {{Fact::kServerStep, 1.8 * kernels},
                                         {Fact::kPromptTokens, 128},
                                         {Fact::kPromptRate, 4 * was(level, Fact::kOutputRate)},
                                         {Fact::kItlP50, 1.1 * kernels},
                                         {Fact::kItlP99, 8 * kernels}});
                           }),
                   Class::kPrefillInterference, Certainty::kCertain});
  cases.push_back(
      {"cpu: hot expert",
       changed(cpu_engine(),
               [](LevelEvidence& level, double users) {
                 const double kernels = was(level, Fact::kKernels);
                 flow(level, 0.97 * users, 0, 1.45 * kernels);
                 put(level, {{Fact::kServerStep, 1.4 * kernels}, {Fact::kBusiestExpert, 7}});
               }),
       Class::kExpertImbalance, Certainty::kCertain});
  cases.push_back({"cpu: loops",
                   changed(cpu_engine(),
                           [](LevelEvidence& level, double) {
                             put(level, {{Fact::kDegenerateShare, 0.4}});
                           }),
                   Class::kDegenerateOutput, Certainty::kCertain});
  cases.push_back({"cpu: same prompts",
                   changed(cpu_engine(),
                           [](LevelEvidence& level, double) {
                             put(level, {{Fact::kCachedShare, 0.8},
                                         {Fact::kRepeatedShare, 0.9},
                                         {Fact::kPromptRate, 0.2 * was(level, Fact::kPromptRate)}});
                           }),
                   Class::kPrefixCacheInflation, Certainty::kCertain});
  cases.push_back({"cpu: kernels",
                   changed(cpu_engine(),
                           [](LevelEvidence& level, double) {
                             put(level, {{Fact::kFloor, was(level, Fact::kKernels) / 10}});
                           }),
                   Class::kKernelInefficiency, Certainty::kCertain});
  cases.push_back({"cpu: roof",
                   changed(cpu_engine(),
                           [](LevelEvidence& level, double) {
                             put(level, {{Fact::kFloor, was(level, Fact::kKernels) / 1.12}});
                           }),
                   Class::kAtTheRoof, Certainty::kCertain});
  cases.push_back(
      {"cpu: nobody knows",
       changed(cpu_engine(),
               [](LevelEvidence& level, double users) {
                 const double kernels = was(level, Fact::kKernels);
                 flow(level, 0.97 * users, 0, 3 * kernels);
                 put(level, {{Fact::kServerStep, 2.95 * kernels}, {Fact::kOccupancy, 0.98}});
               }),
       Class::kUnexplained, Certainty::kPossible});
  return cases;
}

inline std::vector<FaultCase> gpu_flow_faults() {
  std::vector<FaultCase> cases;
  Evidence capped = changed_at_top(gpu_server(8), [](LevelEvidence& level) {
    flow(level, 63, 192, 11.2);
    put(level, {{Fact::kTtft, 1200}, {Fact::kKvUsage, 0.2}, {Fact::kFloor, 8}});
  });
  capped.setting.max_running = 64;
  cases.push_back({"gpu: cap", capped, Class::kSchedulerCap, Certainty::kCertain});
  cases.push_back({"gpu: KV cache",
                   changed_at_top(gpu_server(8),
                                  [](LevelEvidence& level) {
                                    flow(level, 110, 144, 14);
                                    put(level, {{Fact::kTtft, 900},
                                                {Fact::kKvUsage, 0.98},
                                                {Fact::kPreemptions, 0.4},
                                                {Fact::kFloor, 10}});
                                  }),
                   Class::kKvCapacity, Certainty::kCertain});
  cases.push_back(
      {"gpu: front end",
       changed_at_top(
           gpu_server(8),
           [](LevelEvidence& level) {
             flow(level, 70, 1, 12);
             put(level, {{Fact::kTtft, 700}, {Fact::kSmActive, 0.85}, {Fact::kFloor, 8.3}});
           }),
       Class::kFrontEnd, Certainty::kCertain});
  cases.push_back({"gpu: client is full",
                   changed_at_top(gpu_server(8),
                                  [](LevelEvidence& level) {
                                    flow(level, 80, 0, 12.5);
                                    put(level, {{Fact::kClientCpu, 0.99},
                                                {Fact::kClientLag, 9},
                                                {Fact::kSmActive, 0.8},
                                                {Fact::kFloor, 9}});
                                  }),
                   Class::kClientLimited, Certainty::kCertain});
  // A third of a step of 33 ms is prompts.
  cases.push_back({"gpu: prompts",
                   changed_at_top(gpu_server(1),
                                  [](LevelEvidence& level) {
                                    flow(level, 250, 0, 33);
                                    put(level, {{Fact::kItlP50, 24}, {Fact::kItlP99, 190}});
                                    level.prefill_floor = 11;
                                  }),
                   Class::kPrefillInterference, Certainty::kLikely});
  cases.push_back({"gpu: loops",
                   changed(gpu_server(8),
                           [](LevelEvidence& level, double) {
                             put(level, {{Fact::kDegenerateShare, 0.15}});
                           }),
                   Class::kDegenerateOutput, Certainty::kCertain});
  Evidence cached = changed(gpu_server(8), [](LevelEvidence& level, double) {
    put(level, {{Fact::kCachedShare, 0.6},
                {Fact::kRepeatedShare, 0.7},
                {Fact::kPromptRate, 0.4 * was(level, Fact::kPromptRate)}});
  });
  cases.push_back({"gpu: same prompts", cached, Class::kPrefixCacheInflation, Certainty::kCertain});
  return cases;
}

inline std::vector<FaultCase> gpu_machine_faults() {
  std::vector<FaultCase> cases;
  // Ranks spin: 140 W, and messages grow with the rows.
  cases.push_back({"gpu: collectives",
                   changed(gpu_server(8),
                           [](LevelEvidence& level, double users) {
                             flow(level, 0.98 * users, 0, 3.5 * was(level, Fact::kFloor));
                             put(level, {{Fact::kPower, 140},
                                         {Fact::kPowerShare, 140.0 / 600},
                                         {Fact::kSmActive, 0.99},
                                         {Fact::kDram, 0.28},
                                         {Fact::kTensor, 0.04},
                                         {Fact::kSmClock, 2430}});
                           }),
                   Class::kCollectives, Certainty::kCertain});
  // The same with four lanes of sixteen.
  cases.push_back({"gpu: link",
                   changed(gpu_server(8),
                           [](LevelEvidence& level, double users) {
                             flow(level, 0.98 * users, 0, 4 * was(level, Fact::kFloor));
                             put(level, {{Fact::kPower, 140},
                                         {Fact::kPowerShare, 140.0 / 600},
                                         {Fact::kSmActive, 0.99},
                                         {Fact::kDram, 0.25},
                                         {Fact::kTensor, 0.04},
                                         {Fact::kLinkWidth, 4}});
                           }),
                   Class::kLinkDegraded, Certainty::kCertain});
  cases.push_back({"gpu: kernels",
                   changed(gpu_server(1),
                           [](LevelEvidence& level, double users) {
                             flow(level, 0.98 * users, 0, 3.6 * was(level, Fact::kFloor));
                             put(level, {{Fact::kPower, 330},
                                         {Fact::kPowerShare, 330.0 / 600},
                                         {Fact::kSmActive, 0.98},
                                         {Fact::kDram, 0.27},
                                         {Fact::kTensor, 0.05}});
                           }),
                   Class::kKernelInefficiency, Certainty::kLikely});
  // 9 ms of Python after each step of 1.3 x the floor.
  cases.push_back({"gpu: host",
                   changed(gpu_server(1),
                           [](LevelEvidence& level, double users) {
                             const double step = 1.3 * was(level, Fact::kFloor), wall = step + 9;
                             flow(level, 0.98 * users, 0, wall);
                             put(level, {{Fact::kPower, 210},
                                         {Fact::kPowerShare, 0.35},
                                         {Fact::kSmActive, step / wall},
                                         {Fact::kUtilization, 0.8},
                                         {Fact::kDram, 0.3}});
                           }),
                   Class::kLaunchHost, Certainty::kLikely});
  // 350 W cards: the clock gives way, steps get longer by the clock where they compute.
  cases.push_back({"gpu: power cap",
                   changed(gpu_server(8),
                           [](LevelEvidence& level, double users) {
                             flow(level, 0.98 * users, 0, 1.75 * was(level, Fact::kFloor));
                             put(level, {{Fact::kPower, 345},
                                         {Fact::kPowerShare, 0.985},
                                         {Fact::kSmClock, 1850},
                                         {Fact::kThrottledPower, 0.7},
                                         {Fact::kDram, 0.52}});
                           }),
                   Class::kPowerCap, Certainty::kCertain});
  cases.push_back({"gpu: heat",
                   changed(gpu_server(8),
                           [](LevelEvidence& level, double users) {
                             flow(level, 0.98 * users, 0, 1.7 * was(level, Fact::kFloor));
                             put(level, {{Fact::kPower, 310},
                                         {Fact::kPowerShare, 0.52},
                                         {Fact::kSmClock, 1900},
                                         {Fact::kThrottledHeat, 0.5},
                                         {Fact::kTemperature, 91},
                                         {Fact::kRateDrift, -0.06},
                                         {Fact::kDram, 0.54}});
                           }),
                   Class::kThermal, Certainty::kCertain});
  Evidence uneven = changed(gpu_server(8), [](LevelEvidence& level, double users) {
    flow(level, 0.98 * users, 0, 2.4 * was(level, Fact::kFloor));
    put(level, {{Fact::kPower, 290},
                {Fact::kPowerShare, 0.48},
                {Fact::kSmActive, 0.98},
                {Fact::kDram, 0.4},
                {Fact::kGpuSpread, 0.45},
                {Fact::kBusiestExpert, 5}});
  });
  uneven.setting.ep = 8;
  cases.push_back({"gpu: uneven experts", uneven, Class::kExpertImbalance, Certainty::kCertain});
  cases.push_back({"gpu: roof",
                   changed(gpu_server(1),
                           [](LevelEvidence& level, double users) {
                             flow(level, 0.98 * users, 0, 1.15 * was(level, Fact::kFloor));
                             put(level, {{Fact::kDram, 0.84}});
                           }),
                   Class::kAtTheRoof, Certainty::kLikely});
  return cases;
}

inline std::vector<FaultCase> sparse_faults() {
  std::vector<FaultCase> cases;
  // Four slots of llama.cpp: no page tells how full the cache is.
  cases.push_back({"llama.cpp: slots",
                   changed_at_top(llamacpp(),
                                  [](LevelEvidence& level) {
                                    flow(level, 4, 12, 61);
                                    put(level, {{Fact::kTtft, 6000}});
                                  }),
                   Class::kSchedulerCap, Certainty::kLikely});
  // The reported case: 39.6 tok/s at one stream are 25 ms a step where the floor is about 6.
  Evidence spinning = recorded_case({{1, 39.6}});
  put(spinning.levels[0], {{Fact::kPower, 140},
                           {Fact::kPowerShare, 140.0 / 600},
                           {Fact::kUtilization, 1.0},
                           {Fact::kFloor, 6}});
  cases.push_back({"recorded: 140 W at 100 %", spinning, Class::kCollectives, Certainty::kLikely});
  Evidence capped = recorded_case({{16, 900}, {64, 2100}});
  for (LevelEvidence& level : capped.levels) {
    put(level, {{Fact::kPowerShare, 0.99},
                {Fact::kSmClock, 1700},
                {Fact::kThrottledPower, 0.8},
                {Fact::kUtilization, 1.0}});
  }
  cases.push_back({"recorded: power", capped, Class::kPowerCap, Certainty::kCertain});
  return cases;
}

inline std::vector<FaultCase> fault_cases() {
  std::vector<FaultCase> all;
  for (auto&& list : {cpu_faults(), gpu_flow_faults(), gpu_machine_faults(), sparse_faults()}) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

inline std::vector<FaultCase> healthy_cases() {
  return {{"cpu", cpu_engine(), Class::kHealthy, Certainty::kCertain},
          {"one GPU", gpu_server(1), Class::kHealthy, Certainty::kLikely},
          {"eight GPUs", gpu_server(8), Class::kHealthy, Certainty::kLikely},
          {"llama.cpp", llamacpp(), Class::kHealthy, Certainty::kLikely},
          {"recorded", recorded_case({{1, 60}, {4, 200}, {16, 600}}), Class::kHealthy,
           Certainty::kPossible}};
}

}  // namespace nibble::diagnose::testing
