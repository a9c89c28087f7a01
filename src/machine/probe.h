// What this machine has: GPUs, driver, libraries, processor; and what each missing one would give.
//
//   const Probe probe = probe_this_machine();
//   for (const LibraryStatus& library : probe.libraries) ...
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "machine/spec.h"

namespace nibble {

struct LibraryStatus {
  std::string name;     // "NVML"
  std::string version;  // empty when unknown or absent
  std::string path;     // empty when absent
  std::string reason;   // why it is absent
  std::string gives;    // what it would give
  bool found() const { return !path.empty(); }
};

struct GpuStatus {
  int index = 0;
  std::string title;
  std::string catalog_name;  // empty when the catalog has no such GPU
  std::string arch;          // "sm_90"
  double memory_gb = 0;
  std::optional<double> power_limit_w;
  std::optional<double> max_sm_mhz;
  std::string pcie;                  // "gen 5 x16", current link
  bool gpm = false;                  // performance counters without privileges
  std::vector<std::string> missing;  // what could not be read, and why
};

struct CpuStatus {
  std::string title;
  int cores = 0;  // that this process may use
  double memory_gb = 0;
  std::optional<double> last_level_cache_mb;
  std::vector<std::string> isa;  // "avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16"
};

struct PermissionStatus {
  std::string name;  // "GPU performance counters", "RAPL energy", "perf events"
  bool allowed = false;
  std::string detail;  // what was seen, and how to allow it
};

struct Probe {
  CpuStatus cpu;
  std::vector<GpuStatus> gpus;
  std::string driver_version;  // empty: no driver
  std::string no_gpu_reason;   // when gpus is empty
  std::vector<LibraryStatus> libraries;
  std::string compiler;  // nvcc or "" ; NVRTC is in libraries
  std::vector<PermissionStatus> permissions;
};

Probe probe_this_machine();
std::vector<LibraryStatus> probe_libraries();  // the libraries alone (nibble --version)

CpuStatus probe_cpu();
// Memory that this process could still have: the machine's, or less where a control group says so.
double available_memory_bytes();

// MachineSpec of this machine: the catalog's entry of its first GPU with what NVML reports about
// it, or the CPU with the roofs that `nibble bench roof` kept (machine/roof_cache.h), or with roofs
// measured here in about a second.
Result<MachineSpec> this_machine();
Result<MachineSpec> this_cpu();  // the same for the CPU, whatever GPUs there are

}  // namespace nibble
