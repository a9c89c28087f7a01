#include "mock/gpu_telemetry.h"

#include <array>
#include <fmt/core.h>

namespace nibble::mock {
namespace {

using telemetry::Signal;
using telemetry::SignalKind;

// Readers of the stream keep what they need; nobody asks this store for windows.
constexpr Nanoseconds kKept = 60'000'000'000;

struct Sensor {
  const char* name;
  const char* unit;
  SignalKind kind;
  double (*value)(const GpuScript& script, const GpuReading& reading);
};

// Names and units of telemetry/nvml_source.cpp.
constexpr std::array kSensors = {
    Sensor{"power", "W", SignalKind::kGauge,
           [](const GpuScript&, const GpuReading& reading) { return reading.power_w; }},
    Sensor{"power_limit", "W", SignalKind::kGauge,
           [](const GpuScript& script, const GpuReading&) { return power_limit_w(script); }},
    Sensor{"energy", "J", SignalKind::kCounter,
           [](const GpuScript&, const GpuReading& reading) { return reading.energy_j; }},
    Sensor{"utilization", "%", SignalKind::kGauge,
           [](const GpuScript&, const GpuReading& reading) { return 100 * reading.utilization; }},
    Sensor{"sm_active", "%", SignalKind::kGauge,
           [](const GpuScript&, const GpuReading& reading) { return 100 * reading.sm_active; }},
    Sensor{"dram_active", "%", SignalKind::kGauge,
           [](const GpuScript&, const GpuReading& reading) { return 100 * reading.dram_active; }},
    Sensor{"tensor_active", "%", SignalKind::kGauge,
           [](const GpuScript&, const GpuReading& reading) { return 100 * reading.tensor_active; }},
    Sensor{"clock_sm", "MHz", SignalKind::kGauge,
           [](const GpuScript&, const GpuReading& reading) { return reading.clock_mhz; }},
    Sensor{"temperature", "C", SignalKind::kGauge,
           [](const GpuScript&, const GpuReading& reading) { return reading.temperature_c; }},
    Sensor{"throttle_power", "s", SignalKind::kCounter,
           [](const GpuScript&, const GpuReading& reading) { return reading.power_throttle_s; }},
    Sensor{"throttle_thermal", "s", SignalKind::kCounter,
           [](const GpuScript&, const GpuReading& reading) { return reading.heat_throttle_s; }},
    Sensor{"pcie_generation", "", SignalKind::kGauge,
           [](const GpuScript& script, const GpuReading&) {
             return static_cast<double>(script.link_generation);
           }},
    Sensor{"pcie_width", "", SignalKind::kGauge,
           [](const GpuScript& script, const GpuReading&) {
             return static_cast<double>(script.link_width);
           }},
    // What the hardware could, as NVML tells it, too.
    Sensor{"pcie_generation_max", "", SignalKind::kGauge,
           [](const GpuScript& script, const GpuReading&) {
             return static_cast<double>(script.link_generation_max);
           }},
    Sensor{"pcie_width_max", "", SignalKind::kGauge,
           [](const GpuScript& script, const GpuReading&) {
             return static_cast<double>(script.link_width_max);
           }},
    Sensor{"clock_sm_max", "MHz", SignalKind::kGauge,
           [](const GpuScript& script, const GpuReading&) { return script.clock_mhz; }},
    Sensor{"temperature_slowdown", "C", SignalKind::kGauge,
           [](const GpuScript& script, const GpuReading&) { return script.heat.limit_c; }},
};

}  // namespace

GpuTelemetry::GpuTelemetry(const GpuScript& script, std::size_t gpus)
    : script_(script), store_(std::make_shared<telemetry::SampleStore>(kKept)) {
  for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
    first_.push_back(static_cast<telemetry::SignalId>(store_->size()));
    for (const Sensor& sensor : kSensors) {
      store_->declare({.name = fmt::format("gpu{}.{}", gpu, sensor.name),
                       .unit = sensor.unit,
                       .source = fmt::format("{}, simulated", script.name),
                       .kind = sensor.kind});
    }
  }
}

void GpuTelemetry::sample(std::vector<SimulatedGpu>& gpus, Nanoseconds now) {
  for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    const GpuReading reading = gpus[gpu].read(now);
    telemetry::SignalId id = first_[gpu];
    for (const Sensor& sensor : kSensors) store_->add(id++, now, sensor.value(script_, reading));
  }
}

}  // namespace nibble::mock
