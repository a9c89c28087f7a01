// What a prediction must know of a variant of the grouped product: the one place of bench that
// looks into W4A16Tactic.
//
//   const CudaTactic layout = layout_of(kernel);
#pragma once

#include "bench/cuda_predict.h"
#include "kernels/gemm/device/w4a16.h"
#include "tactics/tune/table.h"

namespace nibble {

CudaTactic layout_of(const W4A16Kernel& kernel);

// What a tuning file chose for a product; where it has nothing, or nothing that runs there, the
// default, and the table knows it. `table` may be null.
W4A16Tactic tuned_or_default(tune::TuningTable* table, const tune::TuningShape& shape,
                             std::int64_t tokens, const W4A16Problem& problem,
                             const cuda::DeviceInfo& info, const W4A16Tactic& fallback);

}  // namespace nibble
