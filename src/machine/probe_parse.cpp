#include "machine/probe_parse.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <sstream>

#include "base/text.h"
#include "base/units.h"

namespace nibble {
namespace {

// The value of the first line "key <separator> value".
std::optional<std::string> line_value(std::string_view text, std::string_view key, char separator) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t at = line.find(separator);
    if (at != std::string_view::npos && trim(line.substr(0, at)) == key) {
      return std::string(trim(line.substr(at + 1)));
    }
  }
  return std::nullopt;
}

std::optional<double> leading_number(std::string_view text, std::string_view& rest) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  rest = trim(text.substr(static_cast<std::size_t>(end - text.data())));
  return static_cast<double>(number);
}

}  // namespace

CpuInfo parse_cpuinfo(std::string_view text) {
  // As Linux spells them; "asimd" to "bf16" are Arm's.
  constexpr std::array<std::string_view, 17> kChosenBy = {
      "avx2",        "fma",         "f16c",        "avx_vnni", "avx512f",  "avx512bw",
      "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16",
      "asimd",       "asimddp",     "i8mm",        "sve",      "bf16"};
  CpuInfo info;
  info.title = line_value(text, "model name", ':').value_or("");
  std::optional<std::string> flags = line_value(text, "flags", ':');
  if (!flags) flags = line_value(text, "Features", ':');
  if (!flags) return info;
  const std::vector<std::string> words = split(*flags, ' ');
  const std::set<std::string_view> present(words.begin(), words.end());
  for (const std::string_view name : kChosenBy) {
    if (present.contains(name)) info.isa.emplace_back(name);
  }
  return info;
}

std::optional<double> meminfo_bytes(std::string_view text, std::string_view field) {
  const std::optional<std::string> value = line_value(text, field, ':');
  if (!value) return std::nullopt;
  std::string_view unit;
  const std::optional<double> number = leading_number(*value, unit);
  if (!number || unit != "kB") return std::nullopt;
  return *number * 1024;  // the kernel says kB and means KiB
}

std::optional<double> cpuinfo_mhz(std::string_view text) {
  std::optional<double> fastest;
  for (const std::string& line : split(text, '\n')) {
    const std::optional<std::string> value = line_value(line, "cpu MHz", ':');
    double mhz = 0;
    if (!value) continue;
    const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), mhz);
    if (error == std::errc{} && mhz > 0) fastest = std::max(mhz, fastest.value_or(0));
  }
  return fastest;
}

std::optional<double> cache_bytes(std::string_view text) {
  std::string_view unit;
  const std::optional<double> number = leading_number(trim(text), unit);
  if (!number) return std::nullopt;
  if (unit == "K") return *number * 1024;
  if (unit == "M") return *number * 1024 * 1024;
  return unit.empty() ? number : std::nullopt;
}

std::optional<int> admin_only_counters(std::string_view text) {
  const std::optional<std::string> value = line_value(text, "RmProfilingAdminOnly", ':');
  if (!value) return std::nullopt;
  std::string_view rest;
  const std::optional<double> number = leading_number(*value, rest);
  return number ? std::optional<int>(static_cast<int>(*number)) : std::nullopt;
}

std::string arch_of_capability(int major, int minor) {
  return fmt::format("sm_{}{}", major, minor);
}

// CUDA counts 1000 x major + 10 x minor.
std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// Since 2.9 NCCL counts 10000 x major + 100 x minor + patch.
std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

// cuBLASLt counts 10000 x major + 100 x minor + patch.
std::string cublaslt_version_text(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

GpuStatus gpu_status(int index, const GpuReading& reading) {
  GpuStatus status;
  status.index = index;
  status.title = reading.title;
  if (const std::optional<MachineSpec> machine = find_in_catalog(reading.title)) {
    status.catalog_name = machine->name;
  }
  if (reading.capability_major && reading.capability_minor) {
    status.arch = arch_of_capability(*reading.capability_major, *reading.capability_minor);
  }
  status.memory_gb = reading.memory_bytes.value_or(0) / kGiga;
  status.power_limit_w = reading.power_limit_w;
  status.max_sm_mhz = reading.max_sm_mhz;
  if (reading.pcie_generation && reading.pcie_width) {
    status.pcie = fmt::format("gen {} x{}", *reading.pcie_generation, *reading.pcie_width);
  }
  status.gpm = reading.gpm;
  status.missing = reading.missing;
  return status;
}

Result<MachineSpec> machine_of_gpu(const GpuReading& reading) {
  std::optional<MachineSpec> machine = find_in_catalog(reading.title);
  if (!machine) {
    const std::vector<std::string> near = nearest_machines(reading.title);
    return input_error(
        "this machine's GPU \"{}\" is not in the catalog; give --machine a JSON file with its "
        "numbers{}",
        reading.title, near.empty() ? "" : ", or one of the nearest: " + join(near, ", "));
  }
  const auto measured = [](double value) { return Sourced{value, Provenance::kMeasured, "NVML"}; };
  if (reading.memory_bytes) machine->memory_gb = measured(*reading.memory_bytes / kGiga);
  if (reading.power_limit_w) machine->power.limit_w = measured(*reading.power_limit_w);
  if (reading.max_sm_mhz) machine->clock_mhz = measured(*reading.max_sm_mhz);
  return *std::move(machine);
}

}  // namespace nibble
