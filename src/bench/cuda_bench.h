// The whole measurement behind `nibble bench roof|gemm|moe --on cuda:N`: roofs, then every shape at
// every number of tokens, beside cuBLASLt's products of the same shapes.
//
//   NIBBLE_ASSIGN_OR_RETURN(const CudaBenchReport report, run_cuda_bench(request, progress));
//   report.rows, report.failed()
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "bench/bench.h"
#include "bench/cuda_rig.h"
#include "bench/cuda_row.h"
#include "bench/rig.h"
#include "bench/route_draw.h"
#include "machine/gpu_roofs.h"

namespace nibble {

struct CudaBenchRequest {
  int ordinal = 0;
  std::vector<BenchShape> shapes;  // may be empty: roofs alone
  RouteDraw routing;
  bool cold = true;
  double row_seconds = 0.3;   // budget of a row
  double roof_seconds = 0.1;  // of each roof
  bool baselines = true;      // cuBLASLt's dense products
  bool check_only = false;    // our kernels against double precision, without times and roofs
  LayerPath path = LayerPath::kChosen;
  std::uint64_t seed = 1;
  // nibble.tuning/1, whose choices layers take before the defaults; empty: none. What it has and
  // lacks is among the report's notes; a damaged one, or one of another device, is an input error.
  std::filesystem::path tuning_file;
};

struct CudaBenchReport {
  int ordinal = 0;
  GpuRoofs roofs;
  std::vector<CudaRow> rows;
  std::vector<CudaRow> baselines;
  std::vector<std::string> notes;
  std::string compiler;  // "NVRTC 13.0"
  Json state;            // of the host meanwhile
  // A check did not hold, a row lies above its roof, or one could not be measured. Baselines that
  // cannot run have a reason and are no failure.
  bool failed() const;
};

// "cuda:0" -> 0; nullopt: "cpu". A usage error for any other word.
Result<std::optional<int>> parse_on(std::string_view word);

// A shape that fails is a row with an error, and the others are measured all the same. Without a
// GPU one sentence; also where W4A4 is to be timed on a GPU that has no FP4 instruction.
Result<CudaBenchReport> run_cuda_bench(const CudaBenchRequest& request,
                                       const BenchProgress& progress);

// nibble.bench/1; the caller adds its own version and command.
Json to_json(const CudaBenchReport& report);

// Shapes that a GPU's kernels take, or a usage error that says what they take.
Result<> check_cuda_shape(const BenchShape& shape);

}  // namespace nibble
