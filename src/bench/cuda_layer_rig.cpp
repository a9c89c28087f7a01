// A mixture-of-experts layer as a rig: CudaMoeLayer with random weights.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/stats.h"
#include "base/units.h"
#include "bench/cuda_tactics.h"
#include "bench/cuda_w4a16_rig.h"
#include "formats/codec.h"
#include "kernels/moe/device/moe_cuda.h"
#include "kernels/moe/reference.h"

namespace nibble {
namespace {

// The reference's own output is exact; what is left is one rounding to 16 bits, 2^-9 at most, and
// sums of another order.
constexpr double kErrorLimit = 4e-3;

std::vector<float> wide(std::span<const std::uint16_t> values, Element element) {
  std::vector<float> floats;
  floats.reserve(values.size());
  for (const std::uint16_t value : values) {
    floats.push_back(element == Element::kBf16 ? bf16_to_float(value) : fp16_to_float(value));
  }
  return floats;
}

// Logits whose top-k are the wanted experts, with different weights.
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

// An expert's matrix as it is stored canonically.
struct ExpertMatrix {
  TiledWeights::Canonical bytes;
  QuantizedMatrix view;
};

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

}  // namespace

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

class CudaLayerRig {
 public:
  CudaLayerRig(const BenchShape& shape, const CudaSetup& setup)
      : shape_(shape), setup_(setup), random_(setup.seed) {}

  Result<> make() {
    config_ = layer_config(shape_);
    const double bytes = layer_bytes();
    NIBBLE_ASSIGN_OR_RETURN(const double free_bytes, setup_.gpu.free_memory_bytes());
    if (bytes > 0.9 * free_bytes) {
      return run_error("the weights take {}, and {} of memory are free", format_bytes(bytes),
                       format_bytes(free_bytes));
    }
    // Of the fewest tokens: each run then meets the fewest weights.
    const double fewest = static_cast<double>(
        std::min(shape_.experts,
                 shape_.top_k * *std::min_element(shape_.tokens.begin(), shape_.tokens.end())));
    const double run_bytes = bytes * fewest / static_cast<double>(shape_.experts);
    const int copies = copies_for(run_bytes, bytes, setup_.gpu.info().l2_bytes,
                                  free_bytes - kReserveBytes, setup_.cold);
    for (int copy = 0; copy < copies; ++copy) {
      NIBBLE_ASSIGN_OR_RETURN(CudaMoeLayer layer,
                              CudaMoeLayer::random(setup_.gpu, config_, shape_.format,
                                                   setup_.seed + static_cast<std::uint64_t>(copy)));
      layers_.push_back(std::move(layer));
    }
    return {};
  }

  Result<> set_tokens(std::int64_t tokens) {
    if (tokens == tokens_) return {};
    tokens_ = 0;
    // What the last number of tokens needed goes first: there may not be room for both.
    workspace_.reset();
    routings_.clear();
    const auto values = static_cast<std::size_t>(tokens * shape_.k);
    NIBBLE_RETURN_IF_ERROR(draw_routings(tokens));
    NIBBLE_RETURN_IF_ERROR(choose_programs(tokens));
    NIBBLE_ASSIGN_OR_RETURN(x_, cuda::DeviceBuffer::make(padded(values * 2)));
    NIBBLE_ASSIGN_OR_RETURN(y_, cuda::DeviceBuffer::make(padded(values * 2)));
    NIBBLE_ASSIGN_OR_RETURN(CudaMoeWorkspace workspace, CudaMoeWorkspace::make(*programs_, tokens));
    workspace_.emplace(std::move(workspace));
    NIBBLE_ASSIGN_OR_RETURN(
        logits_, cuda::DeviceBuffer::make(static_cast<std::size_t>(tokens * shape_.experts * 4)));
    NIBBLE_ASSIGN_OR_RETURN(cuda::Stream stream, cuda::Stream::make());
    const bool half = config_.activations == Element::kFp16;
    NIBBLE_RETURN_IF_ERROR(setup_.probes.fill(x_,
                                              {.seed = static_cast<int64_t>(setup_.seed) + 77,
                                               .filling = half ? Filling::kFp16 : Filling::kBf16},
                                              stream));
    NIBBLE_RETURN_IF_ERROR(stream.synchronize());
    tokens_ = tokens;
    return {};
  }

  int copies() const { return static_cast<int>(layers_.size()); }
  double ring_bytes() const {
    return static_cast<double>(layers_.front().gate_up().bytes() + layers_.front().down().bytes()) *
           static_cast<double>(layers_.size());
  }
  const BenchShape& shape() const { return shape_; }
  std::int64_t tokens() const { return tokens_; }
  const ExpertCounts& counts() const { return routings_[current_].counts; }
  const CudaMoePrograms& programs() const { return *programs_; }

  // The next routing, and for parts of a layer what comes before them.
  Result<> draw(LayerPart part, cuda::Stream& stream) {
    if (setup_.cold) current_ = (current_ + 1) % routings_.size();  // hot: the same experts
    NIBBLE_RETURN_IF_ERROR(logits_.copy(turn_logits_[current_], stream));
    if (part == LayerPart::kLayer) return {};
    const CudaMoeParams params = params_of(layers_.front());
    NIBBLE_RETURN_IF_ERROR(cuda_moe_route(params, stream));
    NIBBLE_RETURN_IF_ERROR(cuda_moe_gather(params, stream));
    return part == LayerPart::kDown ? cuda_moe_gate_up(params, stream) : Result<>();
  }

  Result<> enqueue(LayerPart part, int copy, cuda::Stream& stream) {
    const CudaMoeParams params = params_of(layers_[static_cast<std::size_t>(copy)]);
    if (part == LayerPart::kLayer) return cuda_moe(params, stream);
    if (part != LayerPart::kDown) NIBBLE_RETURN_IF_ERROR(cuda_moe_gate_up(params, stream));
    return part == LayerPart::kGateUp ? Result<>() : cuda_moe_down(params, stream);
  }

  // The whole layer once: the routing that was asked for, and one expert's part of the first and of
  // the last token against the double-precision reference.
  Result<> check(cuda::Stream& stream) {
    if (checked_tokens_ == tokens_) return {};
    NIBBLE_RETURN_IF_ERROR(check_routing(stream));
    NIBBLE_RETURN_IF_ERROR(check_token(0, 0, stream));
    NIBBLE_RETURN_IF_ERROR(check_token(tokens_ - 1, shape_.top_k - 1, stream));
    checked_tokens_ = tokens_;
    return {};
  }

  CudaLayer predicted(LayerPart part) const {
    constexpr double kValueBytes = 2;
    constexpr double kOtherLaunches = 4;  // top-k, tables, gather, combine
    const auto product = [&](ProductPart which) {
      const bool gate_up = which == ProductPart::kGateUp;
      return CudaProduct{
          .n = gate_up ? 2 * shape_.n : shape_.k,
          .k = gate_up ? shape_.k : shape_.n,
          .tokens = counts().tokens,
          .bytes = part_work(shape_, which, tokens_, counts()).bytes(),
          .tactic = gate_up ? layout_of(programs_->gate_up()) : layout_of(programs_->down())};
    };
    CudaLayer layer;
    if (part != LayerPart::kDown) layer.products.push_back(product(ProductPart::kGateUp));
    if (part != LayerPart::kGateUp) layer.products.push_back(product(ProductPart::kDown));
    if (part != LayerPart::kLayer) return layer;
    const double slots = static_cast<double>(counts().slots);
    const double hidden = static_cast<double>(shape_.k);
    layer.other_launches = kOtherLaunches;
    // Gather reads x and writes slots; combine reads rows and writes y.
    layer.other_bytes = kValueBytes * hidden * 2 * (slots + static_cast<double>(tokens_));
    return layer;
  }

  std::string tactic(LayerPart part) const {
    if (part == LayerPart::kGateUp) return to_string(tactics_.gate_up);
    return part == LayerPart::kDown ? to_string(tactics_.down) : tactics_text_;
  }

 private:
  static constexpr double kReserveBytes = 4e9;  // for activations, beside the copies of weights

  static std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

  double layer_bytes() const {
    return static_cast<double>(shape_.experts) * storage_bytes(shape_.format,
                                                               static_cast<double>(3 * shape_.n),
                                                               static_cast<double>(shape_.k))
                                                     .total();
  }

  // Programs whose tactics are those of fewer tokens stay.
  Result<> choose_programs(std::int64_t tokens) {
    const CudaMoeProblem& problem = layers_.front().problem();
    const std::int64_t largest = usual_largest(routings_);
    const std::int64_t active = tokens * shape_.top_k;
    const CudaMoeTactics tactics{
        .gate_up = default_tactic(problem.gate_up, largest, setup_.gpu.info(), active),
        .down = default_tactic(problem.down, largest, setup_.gpu.info(), active)};
    const std::string text = to_string(tactics.gate_up) + ", " + to_string(tactics.down);
    if (programs_ && text == tactics_text_) return {};
    programs_.reset();
    NIBBLE_ASSIGN_OR_RETURN(CudaMoePrograms programs,
                            CudaMoePrograms::make(setup_.gpu, problem, tactics));
    programs_.emplace(std::move(programs));
    tactics_ = tactics;
    tactics_text_ = text;
    return {};
  }

  Result<> draw_routings(std::int64_t tokens) {
    const RouteRequest request{.experts = shape_.experts, .top_k = shape_.top_k, .tokens = tokens};
    routings_ = draw_turns(request, setup_.routing, random_);
    turn_logits_.clear();
    for (const DrawnRouting& routing : routings_) {
      NIBBLE_ASSIGN_OR_RETURN(cuda::DeviceBuffer logits,
                              cuda::DeviceBuffer::of(logits_of(routing.ids, request)));
      turn_logits_.push_back(std::move(logits));
    }
    current_ = 0;
    return {};
  }

  CudaMoeParams params_of(const CudaMoeLayer& layer) {
    return {.layer = layer,
            .programs = *programs_,
            .workspace = *workspace_,
            .x = x_.address(),
            .logits = logits_.address(),
            .y = y_.address(),
            .tokens = tokens_};
  }

  Result<> check_routing(cuda::Stream& stream) {
    NIBBLE_RETURN_IF_ERROR(draw(LayerPart::kLayer, stream));
    NIBBLE_RETURN_IF_ERROR(enqueue(LayerPart::kLayer, 0, stream));
    NIBBLE_RETURN_IF_ERROR(stream.synchronize());
    NIBBLE_ASSIGN_OR_RETURN(const std::vector<int> counted, workspace_->counts());
    const std::vector<std::int64_t>& wanted = counts().tokens;
    for (std::size_t expert = 0; expert < wanted.size(); ++expert) {
      if (expert < counted.size() && counted[expert] == wanted[expert]) continue;
      return run_error("routing is wrong: expert {} has {} tokens and should have {}", expert,
                       expert < counted.size() ? counted[expert] : -1, wanted[expert]);
    }
    return {};
  }

  // Every choice but one has the weight 0, so that the token's output is one expert's.
  Result<> check_token(std::int64_t token, std::int64_t choice, cuda::Stream& stream) {
    const std::vector<std::int32_t>& ids = routings_[current_].ids;
    std::vector<float> weights(ids.size(), 0);
    const auto at = static_cast<std::size_t>(token * shape_.top_k + choice);
    weights[at] = 1;
    NIBBLE_ASSIGN_OR_RETURN(const cuda::DeviceBuffer device_ids, cuda::DeviceBuffer::of(ids));
    NIBBLE_ASSIGN_OR_RETURN(const cuda::DeviceBuffer device_weights,
                            cuda::DeviceBuffer::of(weights));
    CudaMoeParams params = params_of(layers_.front());
    params.logits = 0;
    params.expert_ids = device_ids.address();
    params.expert_weights = device_weights.address();
    NIBBLE_RETURN_IF_ERROR(cuda_moe(params, stream));
    NIBBLE_RETURN_IF_ERROR(stream.synchronize());
    NIBBLE_ASSIGN_OR_RETURN(const std::vector<float> y, row_of(y_, token));
    NIBBLE_ASSIGN_OR_RETURN(const std::vector<double> wanted, reference(token, ids[at]));
    const double error = moe_error(y, wanted);
    if (error <= kErrorLimit) return {};
    return run_error(
        "the layer is wrong: token {}, expert {}: relative error {} against double precision, at "
        "most {} is right",
        token, ids[at], format_number(error), format_number(kErrorLimit));
  }

  Result<std::vector<float>> row_of(const cuda::DeviceBuffer& buffer, std::int64_t token) const {
    std::vector<std::uint16_t> row(static_cast<std::size_t>(shape_.k));
    NIBBLE_RETURN_IF_ERROR(buffer.download(std::as_writable_bytes(std::span(row)),
                                           static_cast<std::size_t>(token) * row.size() * 2));
    return wide(row, config_.activations);
  }

  Result<std::vector<double>> reference(std::int64_t token, std::int64_t expert) const {
    NIBBLE_ASSIGN_OR_RETURN(const std::vector<float> x, row_of(x_, token));
    NIBBLE_ASSIGN_OR_RETURN(const ExpertMatrix gate_up,
                            expert_matrix(setup_.gpu, layers_.front().gate_up(), expert));
    NIBBLE_ASSIGN_OR_RETURN(const ExpertMatrix down,
                            expert_matrix(setup_.gpu, layers_.front().down(), expert));
    const MoeConfig config{
        .hidden = shape_.k,
        .intermediate = shape_.n,
        .router = {.experts = 1, .top_k = 1},
        .activation = config_.activation,
        .activations = shape_.activations == Format::kFp16 ? Format::kFp32 : Format::kBf16};
    const MoeWeights weights{.gate_up = std::span(&gate_up.view, 1),
                             .down = std::span(&down.view, 1)};
    const std::vector<std::int32_t> ids = {0};
    const std::vector<float> one = {1};
    return moe_reference(
        {.config = config, .weights = weights, .x = x, .expert_ids = ids, .expert_weights = one});
  }

  BenchShape shape_;
  CudaSetup setup_;
  Random random_;
  CudaMoeConfig config_;
  std::vector<CudaMoeLayer> layers_;
  std::optional<CudaMoePrograms> programs_;
  CudaMoeTactics tactics_;
  std::string tactics_text_;
  std::optional<CudaMoeWorkspace> workspace_;
  std::vector<DrawnRouting> routings_;
  std::vector<cuda::DeviceBuffer> turn_logits_;  // float [tokens, experts]: top-k gives the ids
  cuda::DeviceBuffer x_, y_, logits_;
  std::size_t current_ = 0;
  std::int64_t tokens_ = 0;
  std::int64_t checked_tokens_ = -1;
};

namespace {

class CudaPartRig : public CudaRig {
 public:
  CudaPartRig(std::shared_ptr<CudaLayerRig> layer, LayerPart part)
      : layer_(std::move(layer)), part_(part) {}

  Result<> set_tokens(std::int64_t tokens) override { return layer_->set_tokens(tokens); }
  Result<> check(cuda::Stream& stream) override { return layer_->check(stream); }
  int copies() const override { return layer_->copies(); }

  Result<CudaWork> draw(cuda::Stream& stream) override {
    NIBBLE_RETURN_IF_ERROR(layer_->draw(part_, stream));
    const ExpertCounts& counts = layer_->counts();
    if (part_ == LayerPart::kGateUp || part_ == LayerPart::kDown) {
      const ProductPart part =
          part_ == LayerPart::kGateUp ? ProductPart::kGateUp : ProductPart::kDown;
      return part_work(layer_->shape(), part, layer_->tokens(), counts);
    }
    return moe_work(layer_->shape(), layer_->tokens(), counts);
  }

  Result<> enqueue(int copy, cuda::Stream& stream) override {
    return layer_->enqueue(part_, copy, stream);
  }
  double ring_bytes() const override { return layer_->ring_bytes(); }
  std::string kernel() const override {
    return fmt::format("w4a16 {} x {}", to_string(layer_->shape().format),
                       to_string(layer_->shape().activations));
  }
  std::string tactic() const override { return layer_->tactic(part_); }
  std::optional<double> predict_us(const CudaRates& rates) const override {
    return predict_layer_us(layer_->predicted(part_), rates);
  }

 private:
  std::shared_ptr<CudaLayerRig> layer_;
  LayerPart part_;
};

}  // namespace

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

Result<std::shared_ptr<CudaLayerRig>> make_layer_rig(const BenchShape& shape,
                                                     const CudaSetup& setup) {
  auto layer = std::make_shared<CudaLayerRig>(shape, setup);
  NIBBLE_RETURN_IF_ERROR(layer->make());
  return layer;
}

std::unique_ptr<CudaRig> part_of(std::shared_ptr<CudaLayerRig> layer, LayerPart part) {
  return std::make_unique<CudaPartRig>(std::move(layer), part);
}

}  // namespace nibble
