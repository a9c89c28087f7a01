// A mixture-of-experts layer as a rig: CudaMoeLayer with random weights.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/stats.h"
#include "base/units.h"
#include "bench/cuda_layer_parts.h"
#include "bench/cuda_tactics.h"
#include "bench/cuda_w4a16_rig.h"
#include "bench/tune_shapes.h"
#include "kernels/moe/device/moe_cuda.h"
#include "kernels/moe/reference.h"

namespace nibble {

class CudaLayerRig : public LayerTrials {
 public:
  CudaLayerRig(const BenchShape& shape, const CudaSetup& setup)
      : shape_(shape), setup_(setup), random_(setup.seed) {}

  Result<> make() {
    config_ = layer_config(shape_);
    NIBBLE_ASSIGN_OR_RETURN(const int copies, layer_copies(shape_, setup_));
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
    trials_.clear();
    workspace_.reset();
    routings_.clear();
    const auto values = static_cast<std::size_t>(tokens * shape_.k);
    NIBBLE_RETURN_IF_ERROR(draw_routings(tokens));
    NIBBLE_RETURN_IF_ERROR(choose_programs(tokens));
    NIBBLE_ASSIGN_OR_RETURN(x_, cuda::DeviceBuffer::make(padded(values * 2)));
    NIBBLE_ASSIGN_OR_RETURN(y_, cuda::DeviceBuffer::make(padded(values * 2)));
    NIBBLE_ASSIGN_OR_RETURN(CudaMoeWorkspace workspace, CudaMoeWorkspace::make(*programs_, tokens));
    workspace_ = std::make_shared<CudaMoeWorkspace>(std::move(workspace));
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

  int copies() const override { return static_cast<int>(layers_.size()); }
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

  Result<> enqueue(LayerPart part, int copy, cuda::Stream& stream) override {
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

  // ---- LayerTrials ----

  const CudaMoeProblem& problem() const override { return layers_.front().problem(); }
  const CudaMoeTactics& tactics() const override { return tactics_; }

  Result<> begin(std::int64_t tokens) override {
    tokens_ = 0;
    random_ = Random(setup_.seed + static_cast<std::uint64_t>(tokens));
    return set_tokens(tokens);
  }

  Result<> use(const CudaMoeTactics& tactics) override {
    const std::string text = tactics_text(tactics);
    if (!trials_.contains(text)) {
      NIBBLE_ASSIGN_OR_RETURN(
          CudaMoePrograms programs,
          CudaMoePrograms::make(setup_.gpu, layers_.front().problem(), tactics));
      NIBBLE_ASSIGN_OR_RETURN(CudaMoeWorkspace workspace,
                              CudaMoeWorkspace::make(programs, tokens_));
      trials_[text] = {std::make_shared<CudaMoePrograms>(std::move(programs)),
                       std::make_shared<CudaMoeWorkspace>(std::move(workspace))};
    }
    programs_ = trials_[text].programs;
    workspace_ = trials_[text].workspace;
    tactics_ = tactics;
    tactics_text_ = text;
    checked_tokens_ = -1;
    return {};
  }

  Result<LayerError> measure_error(cuda::Stream& stream) override {
    NIBBLE_RETURN_IF_ERROR(check_routing(stream));
    LayerError largest;
    for (const std::int64_t part : {0, 1, 2, 3}) {
      const std::int64_t token = part * (tokens_ - 1) / 3;
      const std::int64_t choice = part % shape_.top_k;
      NIBBLE_ASSIGN_OR_RETURN(const LayerError error, token_error(token, choice, stream));
      if (!(error.relative <= largest.relative)) largest = error;
    }
    return largest;
  }

  Result<> draw_turn(LayerPart part, std::size_t turn, cuda::Stream& stream) override {
    current_ = (turn + routings_.size() - 1) % routings_.size();
    return draw(part, stream);
  }

  Result<std::vector<std::uint16_t>> output() const override {
    std::vector<std::uint16_t> values(static_cast<std::size_t>(tokens_ * shape_.k));
    NIBBLE_RETURN_IF_ERROR(y_.download(std::as_writable_bytes(std::span(values)), 0));
    return values;
  }

  std::string tactic(LayerPart part) const {
    if (part == LayerPart::kGateUp) return to_string(tactics_.gate_up);
    return part == LayerPart::kDown ? to_string(tactics_.down) : tactics_text_;
  }

 private:
  struct Trial {
    std::shared_ptr<CudaMoePrograms> programs;
    std::shared_ptr<CudaMoeWorkspace> workspace;
  };

  static std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

  // Programs whose tactics are those of fewer tokens stay.
  Result<> choose_programs(std::int64_t tokens) {
    const CudaMoeProblem& problem = layers_.front().problem();
    const std::int64_t largest = usual_largest(routings_);
    const std::int64_t active = tokens * shape_.top_k;
    const auto choose = [&](const W4A16Problem& of, const tune::TuningShape& shape) {
      return tuned_or_default(setup_.tuning, shape, tokens, of, setup_.gpu.info(),
                              default_tactic(of, largest, setup_.gpu.info(), active));
    };
    const CudaMoeTactics tactics{.gate_up = choose(problem.gate_up, gate_up_of_layer(shape_)),
                                 .down = choose(problem.down, down_of_layer(shape_))};
    const std::string text = tactics_text(tactics);
    if (programs_ && text == tactics_text_) return {};
    programs_.reset();
    NIBBLE_ASSIGN_OR_RETURN(CudaMoePrograms programs,
                            CudaMoePrograms::make(setup_.gpu, problem, tactics));
    programs_ = std::make_shared<CudaMoePrograms>(std::move(programs));
    tactics_ = tactics;
    tactics_text_ = text;
    return {};
  }

  Result<> draw_routings(std::int64_t tokens) {
    const RouteRequest request{.experts = shape_.experts, .top_k = shape_.top_k, .tokens = tokens};
    routings_ = draw_turns(request, setup_.routing, random_);
    NIBBLE_ASSIGN_OR_RETURN(turn_logits_, logits_of_turns(routings_, request));
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
    return check_counts(counted, counts().tokens);
  }

  Result<> check_token(std::int64_t token, std::int64_t choice, cuda::Stream& stream) {
    NIBBLE_ASSIGN_OR_RETURN(const LayerError error, token_error(token, choice, stream));
    if (error.relative <= kLayerErrorLimit) return {};
    return run_error(
        "the layer is wrong: {}: relative error {} against double precision, at most {} is right",
        error.where, format_number(error.relative), format_number(kLayerErrorLimit));
  }

  // Every choice but one has the weight 0, so that the token's output is one expert's.
  Result<LayerError> token_error(std::int64_t token, std::int64_t choice, cuda::Stream& stream) {
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
    return LayerError{moe_error(y, wanted), fmt::format("token {}, expert {}", token, ids[at])};
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
  std::shared_ptr<CudaMoePrograms> programs_;
  CudaMoeTactics tactics_;
  std::string tactics_text_;
  std::shared_ptr<CudaMoeWorkspace> workspace_;
  std::map<std::string, Trial> trials_;  // of these tokens, by tactics_text()
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
    return work_of_part(layer_->shape(), part_, layer_->tokens(), layer_->counts());
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

Result<std::shared_ptr<CudaLayerRig>> make_layer_rig(const BenchShape& shape,
                                                     const CudaSetup& setup) {
  auto layer = std::make_shared<CudaLayerRig>(shape, setup);
  NIBBLE_RETURN_IF_ERROR(layer->make());
  return layer;
}

Result<std::shared_ptr<LayerTrials>> make_layer_trials(const BenchShape& shape,
                                                       const CudaSetup& setup) {
  NIBBLE_ASSIGN_OR_RETURN(std::shared_ptr<CudaLayerRig> layer, make_layer_rig(shape, setup));
  return std::shared_ptr<LayerTrials>(std::move(layer));
}

std::unique_ptr<CudaRig> part_of(std::shared_ptr<CudaLayerRig> layer, LayerPart part) {
  return std::make_unique<CudaPartRig>(std::move(layer), part);
}

}  // namespace nibble
