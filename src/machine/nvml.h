// The few calls of NVML that nibble needs, with our own declarations: NVML comes with the driver,
// its header often does not.
//
//   const Nvml nvml = Nvml::open();
//   if (nvml.ready()) for (int index = 0; index < nvml.device_count(); ++index) nvml.read(index);
//   else print(nvml.reason());
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/dynamic_library.h"

namespace nibble {

// What NVML says about one GPU; `missing` says what it would not, and why.
struct GpuReading {
  std::string title;
  std::optional<double> memory_bytes;
  std::optional<double> power_limit_w;
  std::optional<double> max_sm_mhz;
  std::optional<int> pcie_generation;  // of the link as it is now
  std::optional<int> pcie_width;
  std::optional<int> capability_major;
  std::optional<int> capability_minor;
  bool gpm = false;  // performance counters without privileges
  std::vector<std::string> missing;
};

class Nvml {
 public:
  // Opens and initialises NVML; when that fails ready() is false and reason() says why.
  static Nvml open(const char* library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(Nvml&&) noexcept;
  Nvml& operator=(Nvml&&) = delete;

  bool ready() const { return ready_; }
  const std::string& reason() const { return reason_; }
  const std::string& path() const { return library_.path(); }
  const DynamicLibrary& library() const { return library_; }
  std::string error_text(int code) const;

  std::string driver_version() const;  // empty when NVML does not say
  int device_count() const;
  GpuReading read(int index) const;

 private:
  Nvml() = default;

  DynamicLibrary library_;
  std::string reason_;
  bool ready_ = false;
};

}  // namespace nibble
