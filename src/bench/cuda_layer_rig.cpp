// A mixture-of-experts layer with 16-bit activations as a rig: CudaMoeLayer with random weights.
#include <cmath>
#include <map>

#include "bench/cuda_layer_frame.h"
#include "bench/cuda_w4a16_rig.h"
#include "kernels/moe/device/moe_cuda.h"

namespace nibble {
namespace {

// What of CudaLayerFrame is W4A16's own.
struct W4A16Family {
  using Layer = CudaMoeLayer;
  using Programs = CudaMoePrograms;
  using Workspace = CudaMoeWorkspace;
  using Params = CudaMoeParams;
  using Tactics = CudaMoeTactics;

  static constexpr std::string_view kArithmetic = "double precision";
  static double error_limit() { return kLayerErrorLimit; }

  static W4A16Tactic default_of(const W4A16Problem& problem, std::int64_t largest,
                                const cuda::DeviceInfo& info, std::int64_t active) {
    return default_tactic(problem, largest, info, active);
  }

  static void choose_path(Tactics& tactics, const CudaMoeProblem& problem, std::int64_t tokens,
                          const CudaSetup& setup) {
    if (setup.path == LayerPath::kOneLaunch) {
      tactics.one_launch = one_launch_for(problem, tokens, setup.gpu.info());
    } else if (setup.path == LayerPath::kChosen) {
      tactics.one_launch = default_one_launch(problem, tokens, setup.gpu.info());
    }
  }
  static bool in_one_launch(const Tactics& tactics) { return tactics.one_launch.has_value(); }
  static void launch_steps(Params& params) { params.steps = true; }
  static std::string text(const Tactics& tactics) { return tactics_text(tactics); }
  static std::string layer_text(const Tactics& tactics) {
    return tactics.one_launch ? to_string(*tactics.one_launch) : text(tactics);
  }
  static std::string key(const Tactics& tactics) {
    return text(tactics) + (tactics.one_launch ? ", " + layer_text(tactics) : "");
  }

  static Params params(const Layer& layer, const Programs& programs, Workspace& workspace,
                       const CudaMoeCall& call) {
    return {.layer = layer,
            .programs = programs,
            .workspace = workspace,
            .x = call.x,
            .logits = call.logits,
            .expert_ids = call.expert_ids,
            .expert_weights = call.expert_weights,
            .y = call.y,
            .tokens = call.tokens};
  }

  static Result<> enqueue_before(LayerPart part, const Params& params, cuda::Stream& stream) {
    NIBBLE_RETURN_IF_ERROR(cuda_moe_route(params, stream));
    NIBBLE_RETURN_IF_ERROR(cuda_moe_gather(params, stream));
    return part == LayerPart::kDown ? cuda_moe_gate_up(params, stream) : Result<>();
  }

  static Result<> enqueue(LayerPart part, const Params& params, cuda::Stream& stream) {
    if (part == LayerPart::kLayer) return cuda_moe(params, stream);
    if (part != LayerPart::kDown) NIBBLE_RETURN_IF_ERROR(cuda_moe_gate_up(params, stream));
    return part == LayerPart::kGateUp ? Result<>() : cuda_moe_down(params, stream);
  }

  static Result<std::vector<int>> counts(const Workspace& workspace) { return workspace.counts(); }

  static Result<std::vector<double>> reference(const Layer& layer, const LayerSample& sample) {
    const cuda::Device& gpu = sample.setup.gpu;
    NIBBLE_ASSIGN_OR_RETURN(const ExpertMatrix gate_up,
                            expert_matrix(gpu, layer.gate_up(), sample.expert));
    NIBBLE_ASSIGN_OR_RETURN(const ExpertMatrix down,
                            expert_matrix(gpu, layer.down(), sample.expert));
    const bool half = sample.shape.activations == Format::kFp16;
    const MoeConfig config{.hidden = sample.shape.k,
                           .intermediate = sample.shape.n,
                           .router = {.experts = 1, .top_k = 1},
                           .activation = sample.config.activation,
                           .activations = half ? Format::kFp32 : Format::kBf16};
    const MoeWeights weights{.gate_up = std::span(&gate_up.view, 1),
                             .down = std::span(&down.view, 1)};
    const std::vector<std::int32_t> ids = {0};
    const std::vector<float> one = {1};
    return moe_reference({.config = config,
                          .weights = weights,
                          .x = sample.x,
                          .expert_ids = ids,
                          .expert_weights = one});
  }
};

}  // namespace

class CudaLayerRig : public CudaLayerFrame<W4A16Family>, public LayerTrials {
 public:
  using CudaLayerFrame::CudaLayerFrame;

  std::string kernel() const {
    return fmt::format("w4a16 {} x {}", to_string(shape_.format), to_string(shape_.activations));
  }
  static std::string why_not_timed() { return {}; }
  std::optional<double> predict_us(LayerPart part, const CudaRates& rates) const {
    if (part == LayerPart::kLayer && tactics_.one_launch) {
      return predict_one_launch_us(
          shape_, counts(),
          {.slabs = tactics_.one_launch->slabs, .down_slabs = tactics_.one_launch->down_slabs},
          rates);
    }
    return predict_layer_us(predicted(part), rates);
  }

  // ---- LayerTrials ----

  const CudaMoeProblem& problem() const override { return layers_.front().problem(); }
  const CudaMoeTactics& tactics() const override { return tactics_; }
  int copies() const override { return copy_count(); }

  Result<> begin(std::int64_t tokens) override {
    tokens_ = 0;
    trials_.clear();
    random_ = Random(setup_.seed + static_cast<std::uint64_t>(tokens));
    return set_tokens(tokens);
  }

  Result<> use(const CudaMoeTactics& tactics) override {
    const std::string text = W4A16Family::key(tactics);
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
    tactics_key_ = text;
    checked_tokens_ = -1;
    return {};
  }

  Result<> spoil() override {
    NIBBLE_RETURN_IF_ERROR(workspace_->poison());
    return y_.fill(0xff);
  }

  Result<LayerError> measure_error(cuda::Stream& stream) override {
    NIBBLE_RETURN_IF_ERROR(spoil());
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

  Result<> enqueue(LayerPart part, int copy, cuda::Stream& stream) override {
    return run(part, copy, stream);
  }

  Result<std::vector<std::uint16_t>> output() const override {
    std::vector<std::uint16_t> values(static_cast<std::size_t>(tokens_ * shape_.k));
    NIBBLE_RETURN_IF_ERROR(y_.download(std::as_writable_bytes(std::span(values)), 0));
    return values;
  }

 private:
  struct Trial {
    std::shared_ptr<CudaMoePrograms> programs;
    std::shared_ptr<CudaMoeWorkspace> workspace;
  };

  CudaLayer predicted(LayerPart part) const {
    CudaLayer layer = layer_to_predict(shape_, tokens_, counts(), layout_of(programs_->gate_up()),
                                       layout_of(programs_->down()));
    if (part == LayerPart::kLayer) return layer;
    if (part == LayerPart::kGateUp) layer.products.pop_back();
    if (part == LayerPart::kDown) layer.products.erase(layer.products.begin());
    return {.products = std::move(layer.products)};
  }

  std::map<std::string, Trial> trials_;  // of these tokens, by their tactics' text
};

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
  return std::make_unique<CudaPartRig<CudaLayerRig>>(std::move(layer), part);
}

}  // namespace nibble
