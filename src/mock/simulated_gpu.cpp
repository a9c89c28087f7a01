#include "mock/simulated_gpu.h"

#include <algorithm>
#include <cmath>

namespace nibble::mock {
namespace {

// The lowest clock of an H200 is 345 of 1980 MHz; a cap that even less would need is not met.
constexpr double kLeastClock = 0.1;
constexpr double kClockPerDegree = 0.02;
// What NVML's utilization looks at is coarser than a kernel.
constexpr Nanoseconds kSlice = 20'000'000;

double least_temperature(const GpuScript& gpu) {
  return gpu.heat.ambient_c + gpu.heat.c_per_w * gpu.idle_w;
}

double share_of(Nanoseconds part, Nanoseconds whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

}  // namespace

double power_limit_w(const GpuScript& gpu) {
  return std::min(gpu.limit_w, gpu.power_cap_w.value_or(gpu.limit_w));
}

double link_share(const GpuScript& gpu) {
  const double generations = static_cast<double>(gpu.link_generation - gpu.link_generation_max);
  return std::exp2(generations) * static_cast<double>(gpu.link_width) /
         static_cast<double>(gpu.link_width_max);
}

SimulatedGpu::SimulatedGpu(const GpuScript& script, double clock_factor, Nanoseconds origin)
    : script_(script),
      clock_factor_(clock_factor),
      origin_(origin),
      at_(origin),
      temperature_c_(least_temperature(script)),
      read_at_(origin) {}

// What a part draws beyond idling falls with the square of the clock: between the cube of a chip
// whose voltage follows and the line of one at its least voltage.
double SimulatedGpu::dynamic_power(double watts, double clock) const {
  const double whole = clock * clock_factor_;
  return (watts - script_.idle_w) * whole * whole;
}

double SimulatedGpu::mean_power(const RankWork& work, double others_ms, double clock) const {
  const double compute = work.compute_ms / clock;
  const double waiting = std::max(0.0, others_ms - work.memory_ms - compute) + work.collective_ms;
  const double whole = work.memory_ms + compute + waiting + work.gap_ms;
  if (whole <= 0) return script_.idle_w;
  const double energy = work.memory_ms * dynamic_power(script_.copy_w, clock) +
                        compute * dynamic_power(script_.matrix_w, clock) +
                        waiting * dynamic_power(script_.waiting_w, clock);
  return script_.idle_w + energy / whole;
}

GpuClock SimulatedGpu::clock_for(const RankWork& work, double others_ms) const {
  const double excess = std::max(0.0, temperature_c_ - script_.heat.limit_c);
  GpuClock clock{.share = std::max(kLeastClock, 1 - kClockPerDegree * excess)};
  clock.held_by_heat = clock.share < 1;
  const double limit = power_limit_w(script_);
  if (mean_power(work, others_ms, clock.share) <= limit) return clock;
  double low = kLeastClock;
  double high = clock.share;
  constexpr int kHalvings = 40;  // to 1e-12 of the clock
  for (int halving = 0; halving < kHalvings; ++halving) {
    const double middle = (low + high) / 2;
    (mean_power(work, others_ms, middle) <= limit ? low : high) = middle;
  }
  return {.share = low, .held_by_power = true};
}

void SimulatedGpu::run(Nanoseconds start, const RankTimes& times) {
  const Nanoseconds length = times.length();
  if (length <= 0) return;
  Busy busy{.start = std::max(start, at_),
            .end = start + length,
            .memory = share_of(times.memory, length),
            .compute = share_of(times.compute, length),
            .clock = times.clock};
  const double waiting = share_of(times.collective + times.waiting, length);
  busy.power_w = script_.idle_w + busy.memory * dynamic_power(script_.copy_w, times.clock.share) +
                 busy.compute * dynamic_power(script_.matrix_w, times.clock.share) +
                 waiting * dynamic_power(script_.waiting_w, times.clock.share);
  if (busy.end > busy.start) steps_.push_back(busy);
}

// The exact solution of a first-order lag for a power that stays the same.
void SimulatedGpu::pass(Nanoseconds span, double power_w) {
  const double time = seconds(span);
  const Heat& heat = script_.heat;
  const double target = heat.ambient_c + heat.c_per_w * power_w;
  temperature_c_ = target + (temperature_c_ - target) * std::exp(-time / heat.seconds);
  sums_.energy_j += power_w * time;
  sums_.clock += last_clock_ * time;
  at_ += span;
}

void SimulatedGpu::pass_busy(const Busy& busy, Nanoseconds until) {
  const double time = seconds(until - at_);
  sums_.memory += busy.memory * time;
  sums_.compute += busy.compute * time;
  sums_.busy += time;
  if (busy.clock.held_by_power) sums_.power_throttle += time;
  if (busy.clock.held_by_heat) sums_.heat_throttle += time;
  const std::int64_t first = std::max(last_slice_ + 1, (at_ - origin_) / kSlice);
  const std::int64_t last = (until - origin_ - 1) / kSlice;
  sums_.slices += std::max<std::int64_t>(0, last - first + 1);
  last_slice_ = std::max(last_slice_, last);
  last_clock_ = busy.clock.share;
  pass(until - at_, busy.power_w);
}

void SimulatedGpu::advance(Nanoseconds until) {
  while (at_ < until) {
    const Nanoseconds next = steps_.empty() ? until : std::min(until, steps_.front().start);
    if (next > at_) {
      pass(next - at_, script_.idle_w);
      continue;
    }
    pass_busy(steps_.front(), std::min(until, steps_.front().end));
    if (steps_.front().end <= at_) steps_.pop_front();
  }
}

GpuReading SimulatedGpu::read(Nanoseconds until) {
  advance(until);
  const double time = seconds(at_ - read_at_);
  GpuReading reading{.temperature_c = temperature_c_,
                     .energy_j = sums_.energy_j,
                     .power_throttle_s = sums_.power_throttle,
                     .heat_throttle_s = sums_.heat_throttle};
  if (time > 0) {
    const auto share = [&](double now, double before) {
      return std::clamp((now - before) / time, 0.0, 1.0);
    };
    reading.dram_active = share(sums_.memory, read_sums_.memory);
    reading.tensor_active = share(sums_.compute, read_sums_.compute);
    reading.sm_active = share(sums_.busy, read_sums_.busy);
    const auto slices = static_cast<double>(sums_.slices - read_sums_.slices);
    reading.utilization = std::min(1.0, slices * seconds(kSlice) / time);
    reading.power_w = (sums_.energy_j - read_sums_.energy_j) / time;
    reading.clock_mhz = script_.clock_mhz * clock_factor_ * (sums_.clock - read_sums_.clock) / time;
  }
  read_sums_ = sums_;
  read_at_ = at_;
  return reading;
}

}  // namespace nibble::mock
