// Tactics of our products on a GPU: what a prediction must know of one, and which one a tuning file
// chose. The one place of bench that looks into W4A16Tactic.
//
//   const CudaTactic layout = layout_of(kernel);
//   const W4A4Tactic tactic = tuned_or_default(table, shape, 64, problem, info, fallback);
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bench/cuda_predict.h"
#include "bench/rig.h"
#include "kernels/gemm/device/w4a16.h"
#include "kernels/gemm/device/w4a4.h"
#include "tactics/tune/table.h"

namespace nibble {

CudaTactic layout_of(const W4A16Problem& problem, const W4A16Tactic& tactic);
CudaTactic layout_of(const W4A16Kernel& kernel);

// What a tuning file chose for a product; where it has nothing, or nothing that runs there, the
// default, and the table knows it. `table` may be null.
W4A16Tactic tuned_or_default(tune::TuningTable* table, const tune::TuningShape& shape,
                             std::int64_t tokens, const W4A16Problem& problem,
                             const cuda::DeviceInfo& info, const W4A16Tactic& fallback);
W4A4Tactic tuned_or_default(tune::TuningTable* table, const tune::TuningShape& shape,
                            std::int64_t tokens, const W4A4Problem& problem,
                            const cuda::DeviceInfo& info, const W4A4Tactic& fallback);

// A tuning file for this device whose every key of these layers has been asked for. An input error
// for one of another device; one of another driver or of other kernels gives no choices, and the
// table says why.
Result<tune::TuningTable> tuning_of_layers(tune::TuningFile file, const std::string& name,
                                           const tune::TuningSite& here,
                                           const std::vector<BenchShape>& shapes);

}  // namespace nibble
