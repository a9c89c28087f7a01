// What the kernels of a layer of experts with 16-bit activations are compiled for.
//
//   NIBBLE_ASSIGN_OR_RETURN(const CudaMoeProblem problem,
//                           cuda_moe_problem(config, Format::kNvfp4, false, false));
//   problem.gate_up.n;  // 2 x intermediate
#pragma once

#include "kernels/gemm/device/w4a16.h"
#include "kernels/moe/device/moe_shape.h"

namespace nibble {

struct CudaMoeProblem {
  MoeShape shape;
  W4A16Problem gate_up;
  W4A16Problem down;
};

}  // namespace nibble
