// What the probes read, as pure functions of text and numbers: testable without the hardware.
//
//   const CpuInfo info = parse_cpuinfo(text_of("/proc/cpuinfo"));
//   arch_of_capability(9, 0)   // "sm_90"
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "machine/cpu_roofs.h"
#include "machine/nvml.h"
#include "machine/probe.h"

namespace nibble {

struct CpuInfo {
  std::string title;             // "model name"; empty when the kernel does not say
  std::vector<std::string> isa;  // of those that our kernels choose by
};

CpuInfo parse_cpuinfo(std::string_view text);  // /proc/cpuinfo
std::optional<double> meminfo_bytes(std::string_view text, std::string_view field);  // "MemTotal"
std::optional<double> cpuinfo_mhz(std::string_view text);  // the fastest "cpu MHz" listed
std::optional<double> cache_bytes(std::string_view text);  // "32768K" of /sys/.../cache/.../size
std::optional<int> admin_only_counters(std::string_view text);  // /proc/driver/nvidia/params

std::string arch_of_capability(int major, int minor);    // 9, 0 -> "sm_90"
std::string cuda_version_text(int version);              // 13000 -> "13.0"
std::string nccl_version_text(int version);              // 22707 -> "2.27.7"
std::string cublaslt_version_text(std::size_t version);  // 130002 -> "13.0.2"

// The status line and the machine for a GPU as NVML reads it.
GpuStatus gpu_status(int index, const GpuReading& reading);
Result<MachineSpec> machine_of_gpu(const GpuReading& reading);

// The parts of probe_this_machine().
std::vector<PermissionStatus> probe_permissions();
std::string probe_compiler();
MachineSpec machine_of_cpu(const CpuStatus& cpu, const CpuRoofs& roofs, std::string_view note);

}  // namespace nibble
