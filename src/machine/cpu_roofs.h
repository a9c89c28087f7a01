// The roofs of this CPU, measured: DRAM read bandwidth, and multiply-add rates by the width of the
// activations. Each is the best of a table of probes (machine/cpu_probes.h).
//
//   NIBBLE_ASSIGN_OR_RETURN(const CpuRoofs roofs, measure_cpu_roofs({.threads = 8}));
//   roofs.read.value                         // GB/s, median of the passes of the best probe
//   roofs.rates.at(Precision::kInt8).value   // TFLOPS; roofs.rates.at(...).path says with what
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "machine/cpu_probes.h"

namespace nibble {

struct CpuRoofRequest {
  int threads = 1;
  double buffer_bytes = 256e6;  // of all threads together; should exceed the caches by far
  int passes = 15;  // their median: on a shared machine single passes are lost to neighbours
};

struct CpuRoof {
  double value = 0;            // median over the passes of the best probe: GB/s, or TFLOPS
  std::vector<double> passes;  // of that probe
  std::string path;            // which probe it is
};

struct CpuRoofs {
  int threads = 1;
  double buffer_bytes = 0;
  CpuRoof read;                        // GB/s
  std::map<Precision, CpuRoof> rates;  // kFp32, kBf16, kInt8; a multiply-add counts as two
};

Result<CpuRoofs> measure_cpu_roofs(const CpuRoofRequest& request);

// A roof for every number of threads from 1 to `most` (beyond 8 its powers of two, and `most`).
Result<std::vector<CpuRoofs>> measure_thread_scaling(int most, double buffer_bytes, int passes);

// One pass of a probe on all threads of the pool, in seconds. Work is handed out in small parts, as
// kernels hand out theirs: a thread that the system holds up takes fewer. `sum`: of all words read.
using MemoryParts = std::vector<std::span<const std::byte>>;
double read_seconds(const ReadProbe& probe, const MemoryParts& memory, ThreadPool& pool,
                    std::uint64_t* sum = nullptr);
// Bytes that read_seconds() reads: whole steps only.
double bytes_read(const MemoryParts& memory);
// `units` parts of about 40 us; operations_of() is what they do together.
double multiply_seconds(const MultiplyProbe& probe, std::int64_t units, ThreadPool& pool);
double operations_of(const MultiplyProbe& probe, std::int64_t units);

// The best of all read probes by the median of `passes` passes each, interleaved, on what `next`
// gives for each pass: memory that is in use as it is, such as weights.
ReadProbe fastest_read(const std::function<MemoryParts()>& next, int passes, ThreadPool& pool);
// By CpuRoof::path; nullopt when this processor has no such probe. A rate that is a part of
// another's
// ("two halves of ...") comes with as many operations fewer.
std::optional<ReadProbe> find_read_probe(std::string_view path);
std::optional<MultiplyProbe> find_multiply_probe(std::string_view path);

// Bytes to read for a bandwidth that no cache helps: 2.5 x the last-level cache and at least
// 256 MB, but no more than half of the memory that is available.
double read_buffer_bytes(double last_level_cache_bytes, double available_bytes);

}  // namespace nibble
