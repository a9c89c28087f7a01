// The host beside the GPU: use of each core, clocks, context switches, this process's own CPU time,
// and the processor's energy where RAPL can be read.
//
//   std::vector<std::unique_ptr<Source>> sources = cpu_sources({}, store);
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "telemetry/source.h"

namespace nibble::telemetry {

inline constexpr Nanoseconds kCpuPeriod = 500'000'000;
inline constexpr Nanoseconds kFrequencyPeriod = 1'000'000'000;

struct CpuOptions {
  std::filesystem::path root = "/";  // where proc/ and sys/ lie; another folder in tests
};

std::vector<std::unique_ptr<Source>> cpu_sources(const CpuOptions& options, SampleStore& store);

// /proc/stat: ticks since the start, by core; -1 is all of them together.
struct CoreTicks {
  std::uint64_t busy = 0;    // neither idle nor waiting for a disk
  std::uint64_t total = 0;   // of user, nice, system, idle, iowait, irq, softirq, steal
  std::uint64_t stolen = 0;  // by the hypervisor; part of busy
};
struct ProcStat {
  std::map<int, CoreTicks> cores;
  std::optional<std::uint64_t> context_switches;
};
Result<ProcStat> parse_proc_stat(std::string_view text);

// Seconds of CPU time in /proc/PID/stat, user and system; the name may hold blanks and brackets.
Result<double> parse_process_seconds(std::string_view text, double ticks_per_s);

// The mean "cpu MHz" of /proc/cpuinfo; nullopt where it has none (ARM).
std::optional<double> mean_cpuinfo_mhz(std::string_view text);

// What an energy counter of `range` + 1 steps grew by when it went from `before` to `now`, at most
// once around.
double wrapped_difference(double before, double now, double range);

}  // namespace nibble::telemetry
