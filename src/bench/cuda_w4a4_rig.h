// Our kernels with 4-bit weights and 4-bit activations as rigs: a mixture-of-experts layer, its
// parts, and one matrix. Weights and tokens are random; a copy of the weights for each turn of a
// cold ring.
//
//   NIBBLE_ASSIGN_OR_RETURN(auto layer, make_w4a4_layer_rig(shape, setup));
//   const std::unique_ptr<CudaRig> rig = part_of(layer, LayerPart::kProducts);
//
// Scales of activations are dynamic: each row has its own factor. A matrix alone takes tokens that
// are codes already, a layer takes 16 bits. Where the GPU has no FP4 instruction its software body
// multiplies: right, and never timed.
#pragma once

#include <memory>
#include <string>

#include "bench/cuda_rig.h"
#include "bench/cuda_w4a16_rig.h"
#include "kernels/gemm/device/w4a4.h"
#include "kernels/moe/device/w4a4_moe.h"

namespace nibble {

class CudaW4A4LayerRig;

// Whether the W4A4 kernels are meant: activations of 4 bits.
bool is_w4a4(const BenchShape& shape);
// An input or usage error, with the numbers, for what they do not take.
Result<> check_w4a4_shape(const BenchShape& shape);
// Why W4A4 is not timed on this GPU, and what to do instead; empty where it has the instruction.
std::string why_w4a4_is_not_timed(const cuda::DeviceInfo& info);

// As both the rigs and whoever compiles for them beforehand have it.
W4A4Problem w4a4_dense_problem(const BenchShape& shape);
QuantizeShape w4a4_dense_tokens(const BenchShape& shape);
Result<CudaW4A4MoeProblem> w4a4_layer_problem(const BenchShape& shape);

Result<std::shared_ptr<CudaW4A4LayerRig>> make_w4a4_layer_rig(const BenchShape& shape,
                                                              const CudaSetup& setup);
std::unique_ptr<CudaRig> part_of(std::shared_ptr<CudaW4A4LayerRig> layer, LayerPart part);

// "moe.gate_up" [2 I, H], "moe.down" [H, I] or any matrix.
Result<std::unique_ptr<CudaRig>> make_w4a4_product_rig(const BenchShape& shape,
                                                       const CudaSetup& setup);

}  // namespace nibble
