// GPUs as NVML shows them: power and what else changes quickly, the state of clocks, heat and
// links, the energy counter, and the performance counters of GPM.
//
//   auto nvml = std::make_shared<const Nvml>(Nvml::open());
//   std::vector<std::unique_ptr<Source>> sources = nvml_sources(nvml, store);
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "machine/nvml_device.h"
#include "telemetry/source.h"

namespace nibble::telemetry {

inline constexpr Nanoseconds kPowerPeriod = 50'000'000;
inline constexpr Nanoseconds kEnergyPeriod = 500'000'000;  // a call costs 2 to 4 ms
inline constexpr Nanoseconds kStatePeriod = 500'000'000;
inline constexpr Nanoseconds kGpmPeriod = 250'000'000;

// Of every GPU. Without NVML one signal, "gpu.power", says why there is nothing.
std::vector<std::unique_ptr<Source>> nvml_sources(const std::shared_ptr<const Nvml>& nvml,
                                                  SampleStore& store);

// The reasons of a mask of nvmlDeviceGetCurrentClocksEventReasons that slow a GPU down: "power cap,
// thermal"; "" for none. Idle, application clocks, sync boost and display are states, not causes.
std::string throttle_text(unsigned long long mask);

}  // namespace nibble::telemetry
