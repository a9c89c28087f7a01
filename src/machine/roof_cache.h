// The roofs of this CPU, kept in a file under the XDG cache, so that `--machine this` need not
// measure them again: `nibble bench roof` writes it, and it counts for a week on the machine that
// it was measured on.
//
//   const FoundRoofs found = find_roofs(roof_cache_path(), probe_cpu(), unix_now());
//   if (found.roofs) use(found.roofs->roofs);
//   say(found.note);   // "measured 3 h ago at load 0.1; nibble bench roof measures again"
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "machine/cpu_roofs.h"
#include "machine/probe.h"

namespace nibble {

// Above this share of processor time for others a measurement is not to be trusted.
inline constexpr double kBusyShare = 0.1;

// What else went on when the roofs were measured.
struct RoofConditions {
  std::optional<double> load_average;  // of the last minute, before the measurement
  std::optional<double> clock_mhz;     // as the kernel reports it, after the measurement
  std::optional<double> busy_share;    // of the processor time, to other processes and machines
};

struct KeptRoofs {
  CpuRoofs roofs;
  double taken_unix_s = 0;
  RoofConditions conditions;
};

struct FoundRoofs {
  std::optional<KeptRoofs> roofs;
  std::string note;  // how old and under what conditions, or why there are none
};

// Enough memory that no cache helps, all processors that this process may use.
CpuRoofRequest roof_request(const CpuStatus& cpu);
// Measures them all, about a second.
Result<KeptRoofs> measure_this_cpu(const CpuStatus& cpu);

std::filesystem::path roof_cache_path();
double unix_now();

// Never fails: a file that is missing, corrupt, too old or of another machine is a note.
FoundRoofs find_roofs(const std::filesystem::path& path, const CpuStatus& cpu, double now_unix_s);
// Why these roofs are not to replace those in the file: they were measured on a busy machine, and
// the kept ones, no older than a week, under less load. Empty: keep them.
std::string worse_than_kept(const std::filesystem::path& path, const CpuStatus& cpu,
                            const KeptRoofs& fresh);
// Replaces the file as a whole, and makes its folder.
Result<> keep_roofs(const std::filesystem::path& path, const CpuStatus& cpu, const KeptRoofs& kept);

// " at load 0.1, 3200 MHz", and that the machine was busy.
std::string describe(const RoofConditions& conditions, int cores);

Json to_json(const CpuRoofs& roofs);
Json to_json(const RoofConditions& conditions);

}  // namespace nibble
