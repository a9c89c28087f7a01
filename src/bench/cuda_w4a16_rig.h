// Our own kernels with 4-bit weights as rigs: a mixture-of-experts layer, its two grouped products
// alone, one grouped product, or one matrix. Weights are random tiles made on the GPU; a copy of
// the layer for each turn of a cold ring.
//
//   NIBBLE_ASSIGN_OR_RETURN(auto layer, make_layer_rig(shape, setup));
//   const std::unique_ptr<CudaRig> rig = part_of(layer, LayerPart::kProducts);
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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

// A layer's output against double precision is off by one rounding to 16 bits, 2^-9 at most, and by
// sums of another order; the reference's own output is exact.
inline constexpr double kLayerErrorLimit = 4e-3;

struct LayerError {
  double relative = 0;  // |y - reference| / |reference| of the sample that is furthest off
  std::string where;    // "token 3, expert 17"
};

// A layer whose products run with one tactic after another, on the same weights and routings: what
// a tuner needs of it.
class LayerTrials {
 public:
  virtual ~LayerTrials() = default;
  virtual const CudaMoeProblem& problem() const = 0;
  // Draws the routings of so many tokens, the same ones every time; default tactics from here on.
  virtual Result<> begin(std::int64_t tokens) = 0;
  virtual const CudaMoeTactics& tactics() const = 0;  // in use
  // Compiles and loads them, unless they were in use since begin().
  virtual Result<> use(const CudaMoeTactics& tactics) = 0;
  // Makes y and all that a call writes on its way no numbers: what a later run leaves out shows,
  // though an earlier one had written it right.
  virtual Result<> spoil() = 0;
  // The routing's tables, and four tokens of the whole layer.
  virtual Result<LayerError> measure_error(cuda::Stream& stream) = 0;
  virtual int copies() const = 0;
  // One routing of kTurns, and what comes before a part of the layer.
  virtual Result<> draw_turn(LayerPart part, std::size_t turn, cuda::Stream& stream) = 0;
  virtual Result<> enqueue(LayerPart part, int copy, cuda::Stream& stream) = 0;
  // y [tokens, hidden] of the last run of the whole layer, as bits.
  virtual Result<std::vector<std::uint16_t>> output() const = 0;
};
Result<std::shared_ptr<LayerTrials>> make_layer_trials(const BenchShape& shape,
                                                       const CudaSetup& setup);
std::string tactics_text(const CudaMoeTactics& tactics);  // "wgmma ..., mma ..."

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
