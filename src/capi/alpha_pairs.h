// The kernel that writes an engine's factors as the grouped products read them.
//
//   NIBBLE_ASSIGN_OR_RETURN(const auto kernel, alpha_pairs_kernel(gpu));   // compiled once
//   enqueue_alpha_pairs(*kernel, stream, alpha, pairs, experts);
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "capi/handles.h"
#include "cuda/cubin.h"
#include "cuda/module.h"
#include "cuda/stream.h"

namespace nibble::capi {

// For any architecture.
Result<cuda::Cubin> compile_alpha_pairs(const std::string& arch);
// The plans of a GPU share it.
Result<std::shared_ptr<const cuda::Kernel>> alpha_pairs_kernel(Gpu& gpu);
// alpha: float [experts] of the GPU, or null: 1; pairs: [experts, 2].
Result<> enqueue_alpha_pairs(const cuda::Kernel& kernel, cuda::Stream& stream, const float* alpha,
                             float* pairs, int experts);

}  // namespace nibble::capi
