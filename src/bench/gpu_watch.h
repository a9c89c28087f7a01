// What a GPU's board does while something runs on it: clock, power, temperature, throttling, read
// by NVML from a thread of its own.
//
//   GpuWatch watch("0000:3B:00.0");
//   watch.start();
//   ...
//   const GpuConditions conditions = watch.stop();
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "machine/gpu_roofs.h"
#include "machine/nvml_device.h"

namespace nibble {

// One look at the board; what it does not tell is absent.
struct GpuGlance {
  std::optional<double> clock_mhz;
  std::optional<double> power_w;
  std::optional<double> temperature_c;
  unsigned long long reasons = 0;
};

GpuGlance glance_at(const NvmlDevice& device);
// Median clock, mean power, highest temperature, every reason that held at some time.
GpuConditions conditions_of(const std::vector<GpuGlance>& glances);

class GpuWatch {
 public:
  // Never fails: without NVML every stop() gives the reason.
  explicit GpuWatch(const std::string& pci, const char* library = "libnvidia-ml.so.1");
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  void start();  // until stop(); looks at once, and then every few milliseconds
  GpuConditions stop();

 private:
  void run();

  std::optional<NvmlDevice> device_;
  std::string reason_;
  std::atomic<bool> running_ = false;
  std::vector<GpuGlance> glances_;  // of the thread while it runs
  std::thread thread_;
};

}  // namespace nibble
