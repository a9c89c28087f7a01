// The engine's own decode step on this CPU, operation by operation, beside the ledger's floor: the
// kernel column for a whole model.
//
//   NIBBLE_ASSIGN_OR_RETURN(const StepReport report, measure_step({.folder = folder}, progress));
//   report.levels[0].time_us.median, report.levels[0].share.median   // share: floor over time
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engine/models/load.h"
#include "ledger/step.h"
#include "machine/cpu_roofs.h"
#include "machine/probe.h"
#include "machine/roof_cache.h"
#include "measure/sampler.h"

namespace nibble {

struct StepRequest {
  std::filesystem::path folder;  // of the checkpoint
  engine::ModelOptions options;
  std::vector<std::int64_t> sequences = {1, 4, 16};
  std::int64_t context = 128;  // tokens of each sequence in the cache before the step
  int threads = 1;
  double seconds = 3;  // budget of a level
  std::uint64_t seed = 1;
  // Between two steps memory is read that throws the weights out of the caches. False: a step
  // follows another one, as in a server, whose weights stay in a cache that holds them.
  bool cold = true;
};

// An operation of all layers together. The engine may do two of the ledger's in one, and has some
// that the ledger counts with another: such cells are empty.
struct StepOp {
  std::string name;
  double count = 0;                // executions a step, by the ledger
  std::optional<double> time_us;   // median over the steps
  std::optional<double> floor_us;  // of the roofs that the level's median pair had
  double bytes = 0;
  double flop = 0;
};

struct StepLevel {
  std::int64_t sequences = 0;
  std::int64_t context = 0;
  Sample time_us;
  Sample share;         // floor / time of each pair of roof and step
  double floor_us = 0;  // median time x median share
  double bytes = 0;     // that a step reads and writes at least
  double flop = 0;
  std::vector<StepOp> ops;
  std::string error;               // the whole interval lies above the roof
  std::vector<std::string> flags;  // what weakens it
};

struct StepReport {
  std::string model;
  CpuStatus cpu;
  KeptRoofs roofs;
  int threads = 1;
  bool cold = true;
  std::vector<StepLevel> levels;
  std::vector<std::string> notes;
  Json state;  // load, steal and clock over the whole run
  bool failed() const;
};

using StepProgress = std::function<void(std::string_view what, double levels)>;

// Steps run in turn with the read roof (ABBA), on random tokens. The floor is the ledger's, with
// uniform routing, no gaps between operations, and for each operation the larger of bytes over the
// bandwidth of the pair and FLOP over the multiply rate of this run. Input errors are the model's.
Result<StepReport> measure_step(const StepRequest& request, const StepProgress& progress);

// The floor that steps are held against, of this machine's measured roofs: uniform routing, one
// rank, no gaps between operations.
Result<Ledger> step_ledger(const StepRequest& request, const CpuStatus& cpu, const CpuRoofs& roofs);

// nibble.bench/1 with `steps[]` instead of rows.
Json to_json(const StepReport& report);

}  // namespace nibble
