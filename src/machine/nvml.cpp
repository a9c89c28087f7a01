#include "machine/nvml.h"

#include <array>
#include <fmt/core.h>
#include <utility>

#include "machine/nvml_abi.h"

namespace nibble {
namespace {

using namespace nvml_abi;

// Calls a function of the library; a driver too old to have it is an answer like an error code.
template <class... Parameters, class... Values>
std::optional<int> call(const DynamicLibrary& library, const char* name, Values... values) {
  auto* function = library.symbol<int(Parameters...)>(name);
  if (function == nullptr) return std::nullopt;
  return function(values...);
}

}  // namespace

Nvml Nvml::open(const char* library) {
  Nvml nvml;
  nvml.library_ = DynamicLibrary::open({library});
  if (!nvml.library_) {
    nvml.reason_ = nvml.library_.reason();
    return nvml;
  }
  const std::optional<int> code = call(nvml.library_, "nvmlInit_v2");
  nvml.ready_ = code == kSuccess;
  if (!code) {
    nvml.reason_ = "the library has no nvmlInit_v2";
  } else if (!nvml.ready_) {
    nvml.reason_ = fmt::format("nvmlInit failed: {}", nvml.error_text(*code));
  }
  return nvml;
}

Nvml::Nvml(Nvml&& other) noexcept
    : library_(std::move(other.library_)),
      reason_(std::move(other.reason_)),
      ready_(std::exchange(other.ready_, false)) {}

Nvml::~Nvml() {
  if (ready_) call(library_, "nvmlShutdown");
}

std::string Nvml::error_text(int code) const {
  auto* function = library_.symbol<const char*(int)>("nvmlErrorString");
  return function == nullptr ? fmt::format("error {}", code) : function(code);
}

std::string Nvml::driver_version() const {
  std::array<char, 80> text{};  // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE
  const std::optional<int> code = call<char*, unsigned>(library_, "nvmlSystemGetDriverVersion",
                                                        text.data(), unsigned{text.size() - 1});
  return code == kSuccess ? text.data() : "";
}

int Nvml::device_count() const {
  unsigned count = 0;
  const std::optional<int> code = call<unsigned*>(library_, "nvmlDeviceGetCount_v2", &count);
  return code == kSuccess ? static_cast<int>(count) : 0;
}

GpuReading Nvml::read(int index) const {
  GpuReading reading;
  const auto got = [&](std::optional<int> code, const char* what) {
    if (code == kSuccess) return true;
    reading.missing.push_back(
        fmt::format("{}: {}", what, code ? error_text(*code) : "this driver has no such call"));
    return false;
  };
  Device device = nullptr;
  if (!got(call<unsigned, Device*>(library_, "nvmlDeviceGetHandleByIndex_v2",
                                   static_cast<unsigned>(index), &device),
           "device handle")) {
    return reading;
  }
  // Most readings are one unsigned number.
  const auto number = [&](const char* function, const char* what) -> std::optional<unsigned> {
    unsigned value = 0;
    if (!got(call<Device, unsigned*>(library_, function, device, &value), what)) return {};
    return value;
  };
  std::array<char, kNameBytes> name{};
  if (got(call<Device, char*, unsigned>(library_, "nvmlDeviceGetName", device, name.data(),
                                        kNameBytes - 1),
          "name")) {
    reading.title = name.data();
  }
  Memory memory{};
  if (got(call<Device, Memory*>(library_, "nvmlDeviceGetMemoryInfo", device, &memory), "memory")) {
    reading.memory_bytes = static_cast<double>(memory.total);
  }
  if (const auto milliwatts = number("nvmlDeviceGetEnforcedPowerLimit", "power limit")) {
    reading.power_limit_w = *milliwatts / 1000.0;
  }
  unsigned mhz = 0;
  if (got(call<Device, int, unsigned*>(library_, "nvmlDeviceGetMaxClockInfo", device, kClockSm,
                                       &mhz),
          "SM clock")) {
    reading.max_sm_mhz = mhz;
  }
  reading.pcie_generation = number("nvmlDeviceGetCurrPcieLinkGeneration", "PCIe generation");
  reading.pcie_width = number("nvmlDeviceGetCurrPcieLinkWidth", "PCIe width");
  int major = 0;
  int minor = 0;
  if (got(call<Device, int*, int*>(library_, "nvmlDeviceGetCudaComputeCapability", device, &major,
                                   &minor),
          "compute capability")) {
    reading.capability_major = major;
    reading.capability_minor = minor;
  }
  GpmSupport support{kGpmSupportVersion, 0};
  if (got(call<Device, GpmSupport*>(library_, "nvmlGpmQueryDeviceSupport", device, &support),
          "GPM counters")) {
    reading.gpm = support.is_supported != 0;
  }
  return reading;
}

}  // namespace nibble
