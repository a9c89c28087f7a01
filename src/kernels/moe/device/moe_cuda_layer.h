// What layers of experts on a GPU have in common, whatever their activations: the configuration,
// its checks, and the vectors beside the matrices.
//
//   NIBBLE_ASSIGN_OR_RETURN(const MoeShape shape, cuda_moe_shape(config));
//   NIBBLE_RETURN_IF_ERROR(check_cuda_moe_weights(config, weights));
//   NIBBLE_ASSIGN_OR_RETURN(const CudaMoeBiases biases, CudaMoeBiases::upload(config.router,
//                                                                             weights));
#pragma once

#include <cstdint>

#include "base/result.h"
#include "cuda/memory.h"
#include "kernels/moe/activation.h"
#include "kernels/moe/device/moe_kernels.h"
#include "kernels/moe/moe.h"

namespace nibble {

struct CudaMoeConfig {
  std::int64_t hidden = 0;        // even, as intermediate
  std::int64_t intermediate = 0;  // of one routed expert
  RouterConfig router;
  Activation activation;
  Element activations = Element::kBf16;  // kBf16 or kFp16: of x, and between the products
  Element output = Element::kBf16;       // of y and shared
  // NVFP4 activations only (w4a4_moe.h): the checkpoint's input scales, the largest of all experts
  // for either product. Otherwise every row takes its own.
  bool static_input_scales = false;
};

// An input error for sizes, a router or an activation that no layer takes.
Result<MoeShape> cuda_moe_shape(const CudaMoeConfig& config);

// An input error that names what does not fit; scales and factors are not looked at.
Result<> check_cuda_moe_weights(const CudaMoeConfig& config, const MoeWeights& weights);

// A factor with which a product of random weights has outputs as large as its inputs.
float random_weight_factor(std::int64_t columns);

// In memory of the GPU; empty where there is none.
struct CudaMoeBiases {
  cuda::DeviceBuffer gate_up;     // float [experts, 2 * intermediate]
  cuda::DeviceBuffer down;        // float [experts, hidden]
  cuda::DeviceBuffer router;      // float [experts]
  cuda::DeviceBuffer correction;  // float [experts]

  static Result<CudaMoeBiases> upload(const RouterConfig& router, const MoeWeights& weights);
};

}  // namespace nibble
