#include "machine/probe.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "machine/gpu_roofs.h"
#include "machine/nvml.h"
#include "machine/probe_parse.h"
#include "machine/roof_cache.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

// CUDA_VERSION of the toolkit around bin/nvcc, from its header: asking nvcc would start a process.
std::string toolkit_version(const fs::path& nvcc) {
  std::error_code error;
  const fs::path real = fs::canonical(nvcc, error);
  if (error) return "";
  std::ifstream header(real.parent_path().parent_path() / "include" / "cuda.h");
  constexpr std::string_view kDefine = "#define CUDA_VERSION ";
  std::string line;
  while (std::getline(header, line)) {
    if (line.starts_with(kDefine)) {
      return cuda_version_text(std::atoi(line.c_str() + kDefine.size()));
    }
  }
  return "";
}

}  // namespace

std::string probe_compiler() {
  std::vector<std::string> folders;
  if (const char* path = std::getenv("PATH")) folders = split(path, ':');
  folders.emplace_back("/usr/local/cuda/bin");
  for (const std::string& folder : folders) {
    const fs::path nvcc = fs::path(folder) / "nvcc";
    std::error_code error;
    if (folder.empty() || !fs::exists(nvcc, error)) continue;
    const std::string version = toolkit_version(nvcc);
    return fmt::format("nvcc{}{} ({})", version.empty() ? "" : " ", version, nvcc.string());
  }
  return "";
}

Probe probe_this_machine() {
  Probe probe;
  probe.cpu = probe_cpu();
  probe.libraries = probe_libraries();
  probe.compiler = probe_compiler();
  probe.permissions = probe_permissions();
  const Nvml nvml = Nvml::open();
  if (!nvml.ready()) {
    probe.no_gpu_reason = nvml.reason();
    return probe;
  }
  probe.driver_version = nvml.driver_version();
  for (int index = 0; index < nvml.device_count(); ++index) {
    probe.gpus.push_back(gpu_status(index, nvml.read(index)));
  }
  if (probe.gpus.empty()) probe.no_gpu_reason = "the NVIDIA driver is loaded but lists no GPU";
  return probe;
}

Result<MachineSpec> this_machine() {
  const Nvml nvml = Nvml::open();
  if (!nvml.ready() || nvml.device_count() <= 0) return this_cpu();
  const GpuReading reading = nvml.read(0);
  NIBBLE_ASSIGN_OR_RETURN(MachineSpec machine, machine_of_gpu(reading));
  apply_gpu_roofs(find_gpu_roofs(gpu_roof_cache_path(), reading.title, unix_now()), machine);
  return machine;
}

}  // namespace nibble
