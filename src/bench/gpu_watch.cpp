#include "bench/gpu_watch.h"

#include <algorithm>
#include <chrono>

#include "base/stats.h"

namespace nibble {
namespace {

constexpr std::chrono::milliseconds kGlanceEvery{10};

std::optional<double> scaled(const Result<double>& value, double factor) {
  if (!value.ok()) return std::nullopt;
  return *value * factor;
}

}  // namespace

GpuGlance glance_at(const NvmlDevice& device) {
  constexpr double kMilli = 1e-3;
  GpuGlance glance;
  glance.clock_mhz = scaled(device.clock_mhz(nvml_abi::kClockSm), 1);
  // The instant value where the board has it: the plain one is a mean over a second.
  glance.power_w = scaled(device.field({nvml_abi::kFieldPowerInstant}), kMilli);
  if (!glance.power_w) glance.power_w = scaled(device.power_mw(), kMilli);
  glance.temperature_c = scaled(device.temperature_c(), 1);
  if (const Result<double> mask = device.clock_event_reasons(); mask.ok()) {
    glance.reasons = static_cast<unsigned long long>(*mask);
  }
  return glance;
}

GpuConditions conditions_of(const std::vector<GpuGlance>& glances) {
  GpuConditions conditions{.samples = static_cast<int>(glances.size())};
  std::vector<double> clocks, powers, temperatures;
  unsigned long long reasons = 0;
  for (const GpuGlance& glance : glances) {
    if (glance.clock_mhz) clocks.push_back(*glance.clock_mhz);
    if (glance.power_w) powers.push_back(*glance.power_w);
    if (glance.temperature_c) temperatures.push_back(*glance.temperature_c);
    reasons |= glance.reasons;
  }
  if (!clocks.empty()) conditions.clock_mhz = median(clocks);
  if (!powers.empty()) conditions.power_w = mean(powers);
  if (!temperatures.empty()) {
    conditions.temperature_c = *std::max_element(temperatures.begin(), temperatures.end());
  }
  conditions.throttled = throttle_names(reasons);
  return conditions;
}

GpuWatch::GpuWatch(const std::string& pci, const char* library) {
  Result<NvmlDevice> device =
      NvmlDevice::open_at(std::make_shared<const Nvml>(Nvml::open(library)), pci);
  if (device.ok()) {
    device_ = std::move(device).value();
  } else {
    reason_ = device.error().message;
  }
}

GpuWatch::~GpuWatch() {
  running_ = false;
  if (thread_.joinable()) thread_.join();
}

void GpuWatch::run() {
  do {
    glances_.push_back(glance_at(*device_));
    std::this_thread::sleep_for(kGlanceEvery);
  } while (running_);
}

void GpuWatch::start() {
  if (!device_ || thread_.joinable()) return;
  glances_.clear();
  running_ = true;
  thread_ = std::thread([this] { run(); });
}

GpuConditions GpuWatch::stop() {
  if (!device_) return {.reason = reason_};
  running_ = false;
  if (thread_.joinable()) thread_.join();
  return conditions_of(glances_);
}

}  // namespace nibble
