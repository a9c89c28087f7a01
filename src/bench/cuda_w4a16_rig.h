// Our own kernels with 4-bit weights as rigs: a mixture-of-experts layer, its two grouped products
// alone, one grouped product, or one matrix. Weights are random tiles made on the GPU; a copy of
// the layer for each turn of a cold ring.
//
//   NIBBLE_ASSIGN_OR_RETURN(auto layer, make_layer_rig(shape, setup));
//   const std::unique_ptr<CudaRig> rig = part_of(layer, LayerPart::kProducts);
#pragma once

#include <memory>
#include <string_view>

#include "bench/cuda_rig.h"
#include "kernels/gemm/device/w4a16.h"
#include "kernels/moe/device/moe_cuda.h"

namespace nibble {

enum class LayerPart {
  kLayer,     // routing, gather, both products, combine
  kProducts,  // the two grouped products, the routing's tables being there
  kGateUp,    // the first alone, with its activation
  kDown,      // the second alone
};
std::string_view to_string(LayerPart part);  // "layer", "products", "gate_up", "down"

class CudaLayerRig;

// As both the rigs and whoever compiles for them beforehand have it.
CudaMoeConfig layer_config(const BenchShape& shape);
// The layer that a grouped product is measured as a part of.
BenchShape layer_of_product(const BenchShape& shape);
W4A16Problem dense_problem(const BenchShape& shape);

Result<std::shared_ptr<CudaLayerRig>> make_layer_rig(const BenchShape& shape,
                                                     const CudaSetup& setup);
std::unique_ptr<CudaRig> part_of(std::shared_ptr<CudaLayerRig> layer, LayerPart part);

// "moe.gate_up" [2 I, H], "moe.down" [H, I] or any matrix.
Result<std::unique_ptr<CudaRig>> make_product_rig(const BenchShape& shape, const CudaSetup& setup);

}  // namespace nibble
