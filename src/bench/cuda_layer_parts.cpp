#include "bench/cuda_layer_parts.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "bench/cuda_w4a16_rig.h"
#include "formats/codec.h"

namespace nibble {

CudaMoeConfig layer_config(const BenchShape& shape) {
  CudaMoeConfig config{.hidden = shape.k, .intermediate = shape.n};
  config.router = {.experts = shape.experts, .top_k = shape.top_k, .renormalise = true};
  const bool half = shape.activations == Format::kFp16;
  config.activations = config.output = half ? Element::kFp16 : Element::kBf16;
  return config;
}

BenchShape layer_of_product(const BenchShape& shape) {
  const bool gate_up = shape.name == "moe.gate_up";
  BenchShape layer = shape;
  layer.op = BenchOp::kMoe;
  layer.n = gate_up ? shape.n / 2 : shape.k;
  layer.k = gate_up ? shape.k : shape.n;
  return layer;
}

std::string_view to_string(LayerPart part) {
  switch (part) {
    case LayerPart::kLayer:
      return "layer";
    case LayerPart::kProducts:
      return "products";
    case LayerPart::kGateUp:
      return "gate_up";
    case LayerPart::kDown:
      break;
  }
  return "down";
}

std::string tactics_text(const CudaMoeTactics& tactics) {
  return to_string(tactics.gate_up) + ", " + to_string(tactics.down);
}

std::vector<float> wide(std::span<const std::uint16_t> values, Element element) {
  std::vector<float> floats;
  floats.reserve(values.size());
  for (const std::uint16_t value : values) {
    floats.push_back(element == Element::kBf16 ? bf16_to_float(value) : fp16_to_float(value));
  }
  return floats;
}

std::vector<float> logits_of(const std::vector<std::int32_t>& ids, const RouteRequest& request) {
  constexpr float kOthers = -8;
  constexpr float kStep = 0.125F;
  std::vector<float> logits(static_cast<std::size_t>(request.tokens * request.experts), kOthers);
  for (std::size_t at = 0; at < ids.size(); ++at) {
    const std::size_t token = at / static_cast<std::size_t>(request.top_k);
    const std::size_t choice = at % static_cast<std::size_t>(request.top_k);
    logits[token * static_cast<std::size_t>(request.experts) + static_cast<std::size_t>(ids[at])] =
        1 - kStep * static_cast<float>(choice);
  }
  return logits;
}

Result<std::vector<cuda::DeviceBuffer>> logits_of_turns(const std::vector<DrawnRouting>& turns,
                                                        const RouteRequest& request) {
  std::vector<cuda::DeviceBuffer> all;
  for (const DrawnRouting& routing : turns) {
    NIBBLE_ASSIGN_OR_RETURN(cuda::DeviceBuffer logits,
                            cuda::DeviceBuffer::of(logits_of(routing.ids, request)));
    all.push_back(std::move(logits));
  }
  return all;
}

Result<int> layer_copies(const BenchShape& shape, const CudaSetup& setup) {
  constexpr double kReserveBytes = 4e9;  // for activations, beside the copies of weights
  const double bytes =
      static_cast<double>(shape.experts) *
      storage_bytes(shape.format, static_cast<double>(3 * shape.n), static_cast<double>(shape.k))
          .total();
  NIBBLE_ASSIGN_OR_RETURN(const double free_bytes, setup.gpu.free_memory_bytes());
  if (bytes > 0.9 * free_bytes) {
    return run_error("the weights take {}, and {} of memory are free", format_bytes(bytes),
                     format_bytes(free_bytes));
  }
  // Of the fewest tokens: each run then meets the fewest weights.
  const double fewest = static_cast<double>(std::min(
      shape.experts, shape.top_k * *std::min_element(shape.tokens.begin(), shape.tokens.end())));
  const double run_bytes = bytes * fewest / static_cast<double>(shape.experts);
  return copies_for(run_bytes, bytes, setup.gpu.info().l2_bytes, free_bytes - kReserveBytes,
                    setup.cold);
}

Result<> check_counts(const std::vector<int>& counted, const std::vector<std::int64_t>& wanted) {
  for (std::size_t expert = 0; expert < wanted.size(); ++expert) {
    if (expert < counted.size() && counted[expert] == wanted[expert]) continue;
    return run_error("routing is wrong: expert {} has {} tokens and should have {}", expert,
                     expert < counted.size() ? counted[expert] : -1, wanted[expert]);
  }
  return {};
}

CudaWork work_of_part(const BenchShape& shape, LayerPart part, std::int64_t tokens,
                      const ExpertCounts& counts) {
  if (part == LayerPart::kGateUp) return part_work(shape, ProductPart::kGateUp, tokens, counts);
  if (part == LayerPart::kDown) return part_work(shape, ProductPart::kDown, tokens, counts);
  return moe_work(shape, tokens, counts);
}

Result<ExpertMatrix> expert_matrix(const cuda::Device& gpu, const TiledWeights& weights,
                                   std::int64_t expert) {
  NIBBLE_ASSIGN_OR_RETURN(TiledWeights::Canonical bytes, weights.unpack(gpu, expert));
  ExpertMatrix matrix{.bytes = std::move(bytes)};
  const TiledShape& shape = weights.shape();
  const TiledFactors& factors = weights.factors();
  const auto at = static_cast<std::size_t>(expert);
  const float lift = shape.format == Format::kMxfp4 ? kMxfp4Lift : kNvfp4Lift;
  const auto factor = [&](std::size_t half) {
    return std::ldexp(factors.alpha[2 * at + half] / lift, factors.shifts[at]);
  };
  matrix.view = {.format = shape.format, .rows = shape.rows, .columns = shape.columns};
  matrix.view.segments = {{.row_begin = 0, .factor = factor(0)}};
  if (shape.order == RowOrder::kGateUp) {
    matrix.view.segments.push_back({.row_begin = shape.rows / 2, .factor = factor(1)});
  }
  matrix.view.codes = matrix.bytes.codes;
  matrix.view.scales = matrix.bytes.scales;
  return matrix;
}

}  // namespace nibble
