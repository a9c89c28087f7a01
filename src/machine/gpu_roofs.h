// The roofs of a GPU, measured, each with what the board did meanwhile, and the file that keeps
// them: `nibble bench roof --on cuda:0` writes it beside the CPU's (machine/roof_cache.h), and it
// counts for a week on a machine with such a GPU.
//
//   GpuRoofs roofs{.title = "NVIDIA H200", .arch = "sm_90a"};
//   roofs.roofs["read_gb_s"] = {.value = 4700, .path = "bulk copies, 12 x 16 KB"};
//   NIBBLE_RETURN_IF_ERROR(keep_gpu_roofs(gpu_roof_cache_path(), roofs));
//   apply_gpu_roofs(find_gpu_roofs(gpu_roof_cache_path(), title, unix_now()), machine);
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "machine/spec.h"

namespace nibble {

// What a board did while something ran on it; NVML says so, or `reason` says why not.
struct GpuConditions {
  std::optional<double> clock_mhz;      // SM clock, median
  std::optional<double> power_w;        // mean
  std::optional<double> temperature_c;  // highest
  std::vector<std::string> throttled;   // reasons that held at some time: "power cap"
  int samples = 0;
  std::string reason;
};

// One number with how it was measured, or why it was not.
struct GpuRoof {
  double value = 0;
  std::vector<double> passes;
  std::string path;    // "bulk copies, 12 stages of 16 KB, 1 block an SM"
  std::string reason;  // why there is none; empty: `value` counts
  GpuConditions conditions;
};

struct GpuRoofDef {
  const char* key;
  const char* title;  // of the table
  const char* unit;   // of `value`
};
// In the order in which they are shown.
inline constexpr std::array kGpuRoofs = {
    GpuRoofDef{"read_gb_s", "memory, read", "GB/s"},
    GpuRoofDef{"copy_gb_s", "memory, copy (read and written)", "GB/s"},
    GpuRoofDef{"l2_gb_s", "L2 cache, read", "GB/s"},
    GpuRoofDef{"bf16_tflops", "matrix, bf16, sustained", "TFLOPS"},
    GpuRoofDef{"fp8_tflops", "matrix, fp8, sustained", "TFLOPS"},
    GpuRoofDef{"mma_bf16_tflops", "matrix, bf16, mma.sync", "TFLOPS"},
    GpuRoofDef{"read_start_us", "start of a cold read", "us"},
    GpuRoofDef{"launch_us", "launch of an empty kernel", "us"},
    GpuRoofDef{"graph_launch_us", "graph of one empty kernel", "us"},
    GpuRoofDef{"graph_gap_us", "gap between nodes of a graph", "us"},
    GpuRoofDef{"graph_gap_programmatic_us", "the same, launched programmatically", "us"},
};

struct GpuRoofs {
  std::string title;  // "NVIDIA H200"
  std::string arch;   // "sm_90a"
  std::string uuid;
  std::string driver;
  int sms = 0;
  double memory_bytes = 0;
  double l2_bytes = 0;
  double taken_unix_s = 0;
  std::map<std::string, GpuRoof, std::less<>> roofs;  // by the keys of kGpuRoofs

  // nullopt: not measured.
  std::optional<double> value(std::string_view key) const;
};

Result<GpuConditions> parse_gpu_conditions(const Json& json, const std::string& where);
// What to_json() wrote: `gpu_roofs` of nibble.bench/1, or one of the kept ones.
Result<GpuRoofs> parse_gpu_roofs(const Json& json, const std::string& where);

std::filesystem::path gpu_roof_cache_path();
// Replaces what was kept of the same GPU; others stay.
Result<> keep_gpu_roofs(const std::filesystem::path& path, const GpuRoofs& roofs);

struct FoundGpuRoofs {
  std::optional<GpuRoofs> roofs;
  std::string note;  // how old and at what clock, or why there are none
};
// Never fails: a file that is missing, corrupt, or too old is a note.
FoundGpuRoofs find_gpu_roofs(const std::filesystem::path& path, std::string_view title,
                             double now_unix_s);
// Read bandwidth, matrix rates and the gap between kernels, as measured; a note says so. Nothing
// when there are none.
void apply_gpu_roofs(const FoundGpuRoofs& found, MachineSpec& machine);

// The names of a mask of NVML's clock event reasons; idle and applied settings are no throttling.
std::vector<std::string> throttle_names(unsigned long long mask);

Json to_json(const GpuConditions& conditions);
Json to_json(const GpuRoofs& roofs);

}  // namespace nibble
