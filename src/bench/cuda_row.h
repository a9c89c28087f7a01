// A row of nibble.bench/1 that was measured on a GPU, or imported from another program.
//
//   CudaRow row{.row = {.shape = shape, .tokens = 64}, .on = "cuda:0", .part = "layer"};
//   set_times(row, times_us, floors, 0.95);
//   rows.push(to_json(row));
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench/cuda_floor.h"
#include "bench/row.h"
#include "machine/gpu_roofs.h"

namespace nibble {

struct CudaRow {
  BenchRow row;
  std::string on;        // "cuda:0"; empty: imported
  std::string part;      // "layer", "products", "gate_up", "down", "dense"
  std::string routing;   // "balanced", "random", "zipf:1"; empty: one matrix
  std::string tactic;    // as the kernel names what it chose
  std::string formats;   // of a baseline whose formats are not those of `row.shape`: "fp8 x fp8"
  std::string imported;  // the file that it is from
  int launches = 0;
  std::optional<double> launch_floor_us;  // of as many empty kernels in a graph
  std::optional<double> predicted_us;
  GpuConditions conditions;
  std::optional<double> bytes, flop;  // imported: as the file's rates imply
};

// What one replay had to do and how long it took.
struct CudaRun {
  double us = 0;
  CudaWork work;
  CudaFloor floor;
};

// Times, floor, share and roofs of a row from its runs; the share is floor / time of each run.
void set_runs(CudaRow& row, const std::vector<CudaRun>& runs, const Sample& times,
              const CudaRoofsNow& roofs);

// Time of a graph of so many empty kernels: the launch, and the gaps between them.
std::optional<double> launch_floor_us(const GpuRoofs& roofs, int launches);

Json to_json(const CudaRow& row);

}  // namespace nibble
