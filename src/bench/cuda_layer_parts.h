// The host's side of a layer rig: its routing as logits, and an expert as its reference has it.
//
//   const std::vector<float> logits = logits_of(ids, {.experts = 256, .top_k = 8, .tokens = 4});
//   NIBBLE_ASSIGN_OR_RETURN(const ExpertMatrix down, expert_matrix(gpu, layer.down(), 17));
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "bench/cuda_w4a16_rig.h"
#include "bench/routes.h"
#include "cuda/device.h"
#include "cuda/memory.h"
#include "formats/quantized_matrix.h"
#include "kernels/device/element.h"
#include "kernels/gemm/device/prepack.h"

namespace nibble {

std::vector<float> wide(std::span<const std::uint16_t> values, Element element);

// [tokens, experts]: logits whose top-k are the wanted experts, with different weights.
std::vector<float> logits_of(const std::vector<std::int32_t>& ids, const RouteRequest& request);

// The logits of each, in memory of the GPU.
Result<std::vector<cuda::DeviceBuffer>> logits_of_turns(const std::vector<DrawnRouting>& turns,
                                                        const RouteRequest& request);

// Copies of a layer's weights for a cold ring; a run error where not even one has room.
Result<int> layer_copies(const BenchShape& shape, const CudaSetup& setup);

// A run error for the first expert that routing gave another number of tokens.
Result<> check_counts(const std::vector<int>& counted, const std::vector<std::int64_t>& wanted);

CudaWork work_of_part(const BenchShape& shape, LayerPart part, std::int64_t tokens,
                      const ExpertCounts& counts);

// An expert's matrix as it is stored canonically.
struct ExpertMatrix {
  TiledWeights::Canonical bytes;
  QuantizedMatrix view;
};
Result<ExpertMatrix> expert_matrix(const cuda::Device& gpu, const TiledWeights& weights,
                                   std::int64_t expert);

}  // namespace nibble
