// The two roofs of this CPU, measured: DRAM read bandwidth and fp32 multiply-add rate.
//
//   const CpuRoofs roofs = measure_cpu_roofs({.threads = 8, .buffer_bytes = 512e6});
//   roofs.read_gb_s   // median of the passes
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace nibble {

struct CpuRoofRequest {
  int threads = 1;
  double buffer_bytes = 256e6;  // of all threads together; should exceed the caches by far
  int passes = 15;  // their median: on a shared machine single passes are lost to neighbours
};

struct CpuRoofs {
  double read_gb_s = 0;             // median over the passes
  std::vector<double> read_passes;  // GB/s of each
  double fp32_tflops = 0;           // median over the passes; a multiply-add counts as two
  std::vector<double> fp32_passes;
  std::string fp32_path;  // "avx512", "avx2+fma", "portable"
};

CpuRoofs measure_cpu_roofs(const CpuRoofRequest& request);

// Bytes to read for a bandwidth that no cache helps: twice the last-level cache and at least
// 256 MB, but no more than half of the memory that is available.
double read_buffer_bytes(double last_level_cache_bytes, double available_bytes);

}  // namespace nibble
