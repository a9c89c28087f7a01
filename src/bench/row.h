// One measured row: an operation at one number of tokens, its time, its floor, and what a model of
// roofs alone predicted.
//
//   NIBBLE_ASSIGN_OR_RETURN(const BenchRow row, measure_row(*rig, shape, 64, context));
//   row.time_us.median, row.floor_us, row.share.median   // share: floor over time, 1 at the roof
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "bench/kernel_rates.h"
#include "bench/rig.h"
#include "machine/cpu_roofs.h"
#include "measure/sampler.h"

namespace nibble {

struct BenchRow {
  BenchShape shape;
  std::int64_t tokens = 0;
  int threads = 1;
  bool cold = true;
  std::string kernel;
  std::string error;               // why it was not timed, or why its numbers cannot be right
  std::vector<std::string> flags;  // what weakens it
  double rows_per_expert = 0;      // m: mean over the distinct experts
  double distinct = 0;             // experts met, mean over the runs
  double bytes = 0;                // means over the runs
  double weight_bytes = 0;
  double flop = 0;
  double ring_bytes = 0;  // memory that the weights came from
  Sample time_us;
  Sample share;               // floor / time of each pair of roof and run
  double memory_us = 0;       // bytes / bandwidth; 0 when hot
  double compute_us = 0;      // flop / rate
  double floor_us = 0;        // the larger of both, median over the runs
  double predicted_us = 0;    // kernel_rates.h
  Sample predicted;           // predicted / measured time of each run
  double bandwidth_gb_s = 0;  // the roofs, measured between the runs
  double tops = 0;
  bool memory_bound() const { return memory_us >= compute_us; }
};

struct RowContext {
  ThreadPool& pool;
  const CpuRoofs& roofs;   // of this many threads, measured at the start
  ReadProbe read;          // the best on these weights
  MultiplyProbe multiply;  // the best for these activations
  KernelRates& rates;
  RateRoofs against;  // what the kernel's own rates are measured with
  double cache_bytes = 0;
  StopRule rule;
};

// The rate class that a product of these formats is held against on a CPU.
Precision roof_precision(Format weights, Format activations);

// Checks first; a kernel that is wrong gives a row with an error and no time. The errors of the
// result are those of memory.
Result<BenchRow> measure_row(Rig& rig, const BenchShape& shape, std::int64_t tokens, bool cold,
                             const RowContext& context);

// "x y, above 100 % of the roof ...": empty unless the whole interval lies above.
std::string accounting_error(const Sample& share);

Json to_json(const BenchRow& row);  // a member of rows[] of nibble.bench/1

}  // namespace nibble
