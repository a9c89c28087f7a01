// What a prediction must know of a variant of the grouped product: the one place of bench that
// looks into W4A16Tactic.
//
//   const CudaTactic layout = layout_of(kernel);
#pragma once

#include "bench/cuda_predict.h"
#include "kernels/gemm/device/w4a16.h"

namespace nibble {

CudaTactic layout_of(const W4A16Kernel& kernel);

}  // namespace nibble
