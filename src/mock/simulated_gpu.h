// A GPU that is not there: what a step costs it, how fast it may run, and what its sensors say. All
// of it follows from what it does (docs/mock.md); pure, with times given.
//
//   SimulatedGpu gpu(script, start);
//   const GpuClock clock = gpu.clock_for(work, 0);      // power cap and heat
//   gpu.run(start, {.memory = 8 * kMs, .compute = 2 * kMs, .clock = clock});
//   const GpuReading reading = gpu.read(start + 100 * kMs);   // dram_active 0.08, ...
#pragma once

#include <cstdint>
#include <deque>

#include "base/clock.h"
#include "mock/steps.h"

namespace nibble::mock {

// What a rank has to do in a step, ms at the clock that was set.
struct RankWork {
  double memory_ms = 0;
  double compute_ms = 0;
  double collective_ms = 0;
  double gap_ms = 0;  // it idles after the step
};

// How fast it may run for a step, and why not faster.
struct GpuClock {
  double share = 1;  // of the clock that was set
  bool held_by_power = false;
  bool held_by_heat = false;
};

// What a rank does in a step. The parts are mixed evenly over it, as the layers of a model are.
struct RankTimes {
  Nanoseconds memory = 0;
  Nanoseconds compute = 0;
  Nanoseconds collective = 0;
  Nanoseconds waiting = 0;  // in a collective, for a slower rank
  GpuClock clock = {};
  Nanoseconds length() const { return memory + compute + collective + waiting; }
};

// Since the reading before; counters since the start.
struct GpuReading {
  double dram_active = 0;    // share of the time
  double tensor_active = 0;  // likewise
  double sm_active = 0;      // likewise, any part of a step
  double utilization = 0;    // share of slices of 20 ms in which a kernel was resident
  double power_w = 0;        // mean
  double clock_mhz = 0;      // mean
  double temperature_c = 0;  // at the end
  double energy_j = 0;
  double power_throttle_s = 0;
  double heat_throttle_s = 0;
};

class SimulatedGpu {
 public:
  // Cool and idle at `origin`. `clock_factor` as in StepsScript.
  SimulatedGpu(const GpuScript& script, double clock_factor, Nanoseconds origin);

  // For a step with this work of which other ranks need `others_ms` at least.
  GpuClock clock_for(const RankWork& work, double others_ms) const;
  // It does so from `start` on; steps come in the order of time and do not overlap.
  void run(Nanoseconds start, const RankTimes& times);
  // Lets time pass. What began earlier than this was called for is cut.
  void advance(Nanoseconds until);
  // advance(), and what the sensors say of the time since the reading before.
  GpuReading read(Nanoseconds until);

  double temperature_c() const { return temperature_c_; }

 private:
  struct Busy {
    Nanoseconds start = 0;
    Nanoseconds end = 0;
    double memory = 0;  // shares of the time
    double compute = 0;
    double power_w = 0;
    GpuClock clock = {};
  };
  // Sums since the start, in seconds where nothing else is said.
  struct Sums {
    double memory = 0;
    double compute = 0;
    double busy = 0;
    double energy_j = 0;
    double clock = 0;  // share x time
    double power_throttle = 0;
    double heat_throttle = 0;
    std::int64_t slices = 0;  // with a kernel resident
  };

  double mean_power(const RankWork& work, double others_ms, double clock) const;
  double dynamic_power(double watts, double clock) const;
  void pass(Nanoseconds span, double power_w);
  void pass_busy(const Busy& busy, Nanoseconds until);

  GpuScript script_;
  double clock_factor_;
  Nanoseconds origin_;
  Nanoseconds at_;
  double temperature_c_;
  double last_clock_ = 1;
  std::int64_t last_slice_ = -1;
  std::deque<Busy> steps_;
  Sums sums_;
  Sums read_sums_;
  Nanoseconds read_at_;
};

}  // namespace nibble::mock
