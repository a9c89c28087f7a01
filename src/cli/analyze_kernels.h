// The kernel column: measured times (nibble.bench/1) beside the floors of a step's operations. A
// time stands only beside the very operation that was measured; everything else has a reason.
//
//   const std::vector<KernelCell> cells = kernel_cells(deployment, step, file);   // one an
//   operation
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/bench_file.h"
#include "ledger/step.h"

namespace nibble::cli {

struct KernelCell {
  std::optional<double> time_us;  // of one execution
  std::string kernel;             // whose
  bool cold = true;
  std::string reason;  // when there is no time
};

std::vector<KernelCell> kernel_cells(const Deployment& deployment, const Step& step,
                                     const BenchFile& file);

// `kernels` of nibble.ledger/1.
Json kernels_json(const Deployment& deployment, const std::vector<Step>& levels,
                  const BenchFile& file);

}  // namespace nibble::cli
