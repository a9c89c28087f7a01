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
#include "measure/machine_state.h"
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
  bool disturbed = false;  // others took much of the processors: not to be trusted
  bool as_called = true;   // cold weights are cold, hot ones hot
  double ring_bytes = 0;   // memory that the weights came from
  Sample time_us;
  Sample share;      // floor / time of each pair of roof and run
  Sample predicted;  // predicted / measured time of each run
  // Roofs beside the runs. After make_consistent() what is shown recomputes by hand.
  double memory_us = 0;     // bytes / roof_gb_s; 0 when hot
  double compute_us = 0;    // flop / roof_tops
  double floor_us = 0;      // the larger of both
  double predicted_us = 0;  // kernel_rates.h
  double roof_gb_s = 0;     // 0 when hot
  double roof_tops = 0;
  bool memory_bound() const { return memory_us >= compute_us; }
  bool timed() const { return !time_us.values.empty(); }
  double reached_gb_s() const { return bytes / time_us.median * 1e-3; }
  double reached_tops() const { return flop / time_us.median * 1e-6; }
};

struct RowContext {
  ThreadPool& pool;
  const CpuRoofs& roofs;   // of this many threads, measured at the start
  ReadProbe read;          // the best on these weights
  MultiplyProbe multiply;  // the best for these activations
  KernelRates& rates;
  double cache_bytes = 0;
  StopRule rule;
};

// The rate class that a product of these formats is held against on a CPU.
Precision roof_precision(Format weights, Format activations);

// Checks first; a kernel that is wrong gives a row with an error and no time. The errors of the
// result are those of memory.
Result<BenchRow> measure_row(Rig& rig, const BenchShape& shape, std::int64_t tokens, bool cold,
                             const RowContext& context);

// A median of ratios is not the ratio of the medians. What is shown follows from two numbers, the
// median time and the median share: floor = time x share, and the roofs are those that give it.
void make_consistent(BenchRow& row);

// "x y, above 100 % of the roof ...": empty unless the whole interval lies above.
std::string accounting_error(const Sample& share);

// Flags what lies above the roof; an error when the whole interval does, unless the machine was
// busy meanwhile, which is then what explains it.
void judge_row(BenchRow& row, const StateChange& meanwhile);

Json to_json(const BenchRow& row);  // a member of rows[] of nibble.bench/1

}  // namespace nibble
