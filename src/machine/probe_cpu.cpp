#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/text.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "machine/cpu_roofs.h"
#include "machine/probe_parse.h"
#include "machine/roof_cache.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

// Files of /proc and /sys state no size, so they are read to their end.
std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The outermost cache of the usable processors, all its instances together.
std::optional<double> last_level_cache_bytes(const std::vector<int>& cpus) {
  int outermost = 0;
  double total = 0;
  std::set<std::string> counted;  // an instance is named by the processors that share it
  for (const int cpu : cpus) {
    std::error_code error;
    const fs::path caches = fmt::format("/sys/devices/system/cpu/cpu{}/cache", cpu);
    for (const fs::directory_entry& entry : fs::directory_iterator(caches, error)) {
      const std::string level_text = text_of(entry.path() / "level");
      const std::optional<double> level = cache_bytes(level_text);
      const std::optional<double> bytes = cache_bytes(text_of(entry.path() / "size"));
      if (!level || !bytes || *level < outermost) continue;
      if (*level > outermost) {
        outermost = static_cast<int>(*level);
        total = 0;
        counted.clear();
      }
      if (counted.insert(text_of(entry.path() / "shared_cpu_list")).second) total += *bytes;
    }
  }
  return total > 0 ? std::optional<double>(total) : std::nullopt;
}

// What this process may use: the machine's memory, or less where a control group says so.
double usable_memory_bytes(std::string_view field) {
  double bytes = meminfo_bytes(text_of("/proc/meminfo"), field).value_or(0);
  if (const auto limit = cache_bytes(text_of("/sys/fs/cgroup/memory.max"))) {
    bytes = bytes > 0 ? std::min(bytes, *limit) : *limit;
  }
  return bytes;
}

std::string kernel_arch() {
  utsname names{};
  if (uname(&names) != 0) return "";
  const std::string machine = names.machine;
  return machine == "x86_64" ? "x86-64" : machine;
}

PermissionStatus gpu_counters() {
  PermissionStatus status{"GPU performance counters", false, ""};
  const std::string text = text_of("/proc/driver/nvidia/params");
  if (text.empty()) {
    status.detail =
        "no NVIDIA driver is loaded; they would give tensor and DRAM activity by kernel";
    return status;
  }
  const std::optional<int> admin_only = admin_only_counters(text);
  status.allowed = admin_only == 0 || geteuid() == 0;
  if (admin_only == 0) {
    status.detail = "open to every user";
  } else if (status.allowed) {
    status.detail = "for administrators only, and this is one";
  } else {
    status.detail =
        "for administrators only; the module option NVreg_RestrictProfilingToAdminUsers=0 opens "
        "them; they would give tensor and DRAM activity by kernel";
  }
  return status;
}

PermissionStatus rapl() {
  const fs::path path = "/sys/class/powercap/intel-rapl:0/energy_uj";
  PermissionStatus status{"RAPL energy", false, ""};
  std::error_code error;
  if (!fs::exists(path, error)) {
    status.detail =
        "this machine shows no RAPL counters (usual in a virtual machine); they would give the "
        "processor's energy";
    return status;
  }
  status.allowed = access(path.c_str(), R_OK) == 0;
  status.detail = fmt::format(
      "{} is {}", path.string(),
      status.allowed
          ? "readable"
          : "readable by root only; chmod a+r opens it and gives the processor's energy");
  return status;
}

PermissionStatus perf_events() {
  PermissionStatus status{"perf events", false, ""};
  const std::string text(trim(text_of("/proc/sys/kernel/perf_event_paranoid")));
  if (text.empty()) {
    status.detail = "the kernel has no perf events; they would give cycles and cache misses";
    return status;
  }
  // Up to 2 a process may count its own user-space events (perf_event_open(2)).
  const bool negative = text.front() == '-';
  const std::optional<double> level = negative ? -1.0 : cache_bytes(text);
  status.allowed = (level && *level <= 2) || geteuid() == 0;
  status.detail = fmt::format(
      "kernel.perf_event_paranoid is {}{}", text,
      status.allowed ? ""
                     : "; sysctl kernel.perf_event_paranoid=2 gives a process its own cycles and "
                       "cache misses");
  return status;
}

}  // namespace

CpuStatus probe_cpu() {
  CpuStatus status;
  const CpuInfo info = parse_cpuinfo(text_of("/proc/cpuinfo"));
  const std::vector<int> cpus = usable_processors();
  status.title = info.title.empty() ? kernel_arch() + " processor" : info.title;
  status.isa = info.isa;
  status.cores = static_cast<int>(cpus.size());
  status.memory_gb = usable_memory_bytes("MemTotal") / kGiga;
  if (const std::optional<double> bytes = last_level_cache_bytes(cpus)) {
    status.last_level_cache_mb = *bytes / kMega;
  }
  return status;
}

std::vector<PermissionStatus> probe_permissions() {
  return {gpu_counters(), rapl(), perf_events()};
}

double available_memory_bytes() {
  constexpr double kLeast = 64e6;
  return std::max(kLeast, usable_memory_bytes("MemAvailable"));
}

CpuRoofRequest roof_request(const CpuStatus& cpu) {
  const double cache = cpu.last_level_cache_mb.value_or(0) * kMega;
  return {.threads = cpu.cores, .buffer_bytes = read_buffer_bytes(cache, available_memory_bytes())};
}

namespace {

RoofConditions roof_conditions() {
  RoofConditions conditions;
  std::istringstream load(text_of("/proc/loadavg"));
  if (double average = 0; load >> average) conditions.load_average = average;
  conditions.clock_mhz = cpuinfo_mhz(text_of("/proc/cpuinfo"));
  return conditions;
}

}  // namespace

Result<KeptRoofs> measure_this_cpu(const CpuStatus& cpu) {
  KeptRoofs kept{.taken_unix_s = unix_now()};
  const RoofConditions before = roof_conditions();
  NIBBLE_ASSIGN_OR_RETURN(kept.roofs, measure_cpu_roofs(roof_request(cpu)));
  kept.conditions = roof_conditions();
  kept.conditions.load_average = before.load_average;
  return kept;
}

MachineSpec machine_of_cpu(const CpuStatus& cpu, const CpuRoofs& roofs, std::string_view note) {
  const auto measured = [](double value, std::string source) {
    return Sourced{value, Provenance::kMeasured, std::move(source)};
  };
  MachineSpec machine;
  machine.name = "this-cpu";
  machine.title = cpu.title;
  machine.arch = kernel_arch();
  machine.is_cpu = true;
  machine.bandwidth_gb_s = measured(
      roofs.read.value,
      fmt::format("measured here: {} threads read a buffer of {} ({}), median of {} passes",
                  roofs.threads, format_bytes(roofs.buffer_bytes), roofs.read.path,
                  roofs.read.passes.size()));
  for (const auto& [precision, roof] : roofs.rates) {
    machine.peaks[precision].dense_tflops =
        measured(roof.value, fmt::format("measured here: {} threads of {}, median of {} passes",
                                         roofs.threads, roof.path, roof.passes.size()));
  }
  machine.memory_gb = measured(cpu.memory_gb, "/proc/meminfo and the control group's limit");
  if (cpu.last_level_cache_mb) {
    machine.l2_mb = measured(*cpu.last_level_cache_mb, "last-level cache by /sys");
  }
  machine.sms = measured(cpu.cores, "processors that this process may run on");
  machine.notes = {fmt::format("Roofs of this CPU: {}.", note),
                   "They vary from run to run on a shared machine."};
  if (roofs.buffer_bytes < 2 * cpu.last_level_cache_mb.value_or(0) * kMega) {
    machine.notes.push_back(
        "Memory was too short for a buffer of twice the last-level cache: the bandwidth may be "
        "partly the cache's.");
  }
  return machine;
}

Result<MachineSpec> this_cpu() {
  const CpuStatus cpu = probe_cpu();
  const FoundRoofs found = find_roofs(roof_cache_path(), cpu, unix_now());
  if (found.roofs) return machine_of_cpu(cpu, found.roofs->roofs, found.note);
  NIBBLE_ASSIGN_OR_RETURN(const KeptRoofs now, measure_this_cpu(cpu));
  return machine_of_cpu(
      cpu, now.roofs,
      fmt::format("measured just now{}: {}", describe(now.conditions, cpu.cores), found.note));
}

}  // namespace nibble
