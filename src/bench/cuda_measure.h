// Times a rig on a GPU: replays of graphs that hold one run each, until the median is sure enough.
//
//   const CudaRow row = measure_cuda_row(*rig, identity, 64, context);
//   row.row.error   // empty, or why it was not timed
#pragma once

#include "bench/cuda_rig.h"
#include "bench/cuda_row.h"
#include "bench/cuda_timer.h"
#include "bench/gpu_watch.h"
#include "measure/sampler.h"

namespace nibble {

struct CudaContext {
  CudaTimer& timer;
  GpuWatch& watch;
  const GpuRoofs& roofs;
  StopRule rule;
  double l2_bytes = 0;
};

// The rates that a row of these formats is held against, from the roofs.
CudaRoofsNow roofs_for(const GpuRoofs& roofs, Precision precision);

// Fills names and tactic, and what is wrong; nothing is timed.
CudaRow check_cuda_row(CudaRig& rig, CudaRow row, std::int64_t tokens, cuda::Stream& stream);

// Fills times, floor and prediction into `row`, whose shape and names are given. Never fails: a row
// that could not be measured says why.
CudaRow measure_cuda_row(CudaRig& rig, CudaRow row, std::int64_t tokens, Precision precision,
                         const CudaContext& context);

}  // namespace nibble
