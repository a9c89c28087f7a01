// The whole measurement behind `nibble bench`: roofs, then every shape at every number of tokens.
//
//   NIBBLE_ASSIGN_OR_RETURN(const BenchReport report, run_bench(request, progress));
//   report.rows, report.failed()
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "bench/row.h"
#include "machine/roof_cache.h"
#include "measure/machine_state.h"

namespace nibble {

struct BenchRequest {
  std::vector<BenchShape> shapes;  // may be empty: roofs alone
  int threads = 1;
  std::optional<Isa> isa;  // nullopt: the best, or of a layer the tuning file's
  // nibble.tuning/1, whose choices layers take before the defaults; empty: none. What was found and
  // what not is in the notes; a damaged one, or one of another device, is an input error.
  std::filesystem::path tuning_file;
  bool cold = true;
  bool scaling = false;    // roofs of every number of threads
  double row_seconds = 1;  // budget of a row
  std::uint64_t seed = 1;
};

struct BenchReport {
  CpuStatus cpu;
  KeptRoofs roofs;                // of `threads` threads
  std::vector<CpuRoofs> scaling;  // when asked for
  Json kernel_rates;              // what predictions are made of
  std::vector<BenchRow> rows;
  std::vector<std::string> notes;
  Json state;           // load, steal and clock over the whole run
  bool failed() const;  // a check did not hold, or a row lies above its roof
};

// Called before each step with what is being done and how many rows are done.
using BenchProgress = std::function<void(std::string_view what, double rows)>;

// Sizes of all shapes are checked before anything is measured; a shape that fails later is a row
// with an error, and the others are measured all the same.
Result<BenchReport> run_bench(const BenchRequest& request, const BenchProgress& progress);

Json machine_json(const CpuStatus& cpu);  // `machine` of nibble.bench/1
// nibble.bench/1; the caller adds its own version and command.
Json to_json(const BenchReport& report);
std::string to_csv(const std::vector<BenchRow>& rows);
// A line for each roof at each number of threads.
std::string roofs_csv(const BenchReport& report);

}  // namespace nibble
