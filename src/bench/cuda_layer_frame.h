// A mixture-of-experts layer as a rig, whatever its activations: what W4A16 and W4A4 have in
// common. Random weights with a copy for each turn of a cold ring, drawn routings, tactics from a
// tuning file or by default, and the check before anything is timed. A family says what differs:
//
//   struct W4A16Family {
//     using Layer = CudaMoeLayer;              // and Programs, Workspace, Params, Tactics
//     static Result<> enqueue(LayerPart part, const Params& params, cuda::Stream& stream); ...
//   };
//   class CudaLayerRig : public CudaLayerFrame<W4A16Family> ...
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/stats.h"
#include "base/units.h"
#include "bench/cuda_layer_parts.h"
#include "bench/cuda_tactics.h"
#include "bench/tune_shapes.h"
#include "kernels/moe/device/moe_cuda_memory.h"
#include "kernels/moe/reference.h"

namespace nibble {

// What a family needs for the reference of one expert.
struct LayerSample {
  const CudaSetup& setup;
  const BenchShape& shape;
  const CudaMoeConfig& config;
  std::int64_t expert = 0;
  const std::vector<float>& x;  // [hidden]
};

template <class Family>
class CudaLayerFrame {
 public:
  using Layer = typename Family::Layer;
  using Programs = typename Family::Programs;
  using Workspace = typename Family::Workspace;
  using Tactics = typename Family::Tactics;

  CudaLayerFrame(const BenchShape& shape, const CudaSetup& setup)
      : shape_(shape), setup_(setup), random_(setup.seed), config_(layer_config(shape)) {}

  Result<> make() {
    NIBBLE_ASSIGN_OR_RETURN(const int copies, layer_copies(shape_, setup_));
    for (int copy = 0; copy < copies; ++copy) {
      NIBBLE_ASSIGN_OR_RETURN(Layer layer,
                              Layer::random(setup_.gpu, config_, shape_.format,
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
    NIBBLE_ASSIGN_OR_RETURN(Workspace workspace, Workspace::make(*programs_, tokens));
    workspace_ = std::make_shared<Workspace>(std::move(workspace));
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

  int copy_count() const { return static_cast<int>(layers_.size()); }
  double ring_bytes() const {
    return static_cast<double>(layers_.front().gate_up().bytes() + layers_.front().down().bytes()) *
           static_cast<double>(layers_.size());
  }
  const BenchShape& shape() const { return shape_; }
  std::int64_t tokens() const { return tokens_; }
  const ExpertCounts& counts() const { return routings_[current_].counts; }

  // The next routing, and for parts of a layer what comes before them.
  Result<> draw(LayerPart part, cuda::Stream& stream) {
    if (setup_.cold) current_ = (current_ + 1) % routings_.size();  // hot: the same experts
    NIBBLE_RETURN_IF_ERROR(logits_.copy(turn_logits_[current_], stream));
    if (part == LayerPart::kLayer) return {};
    return Family::enqueue_before(part, params_of(0, call()), stream);
  }

  Result<> run(LayerPart part, int copy, cuda::Stream& stream) {
    return Family::enqueue(part, params_of(static_cast<std::size_t>(copy), call()), stream);
  }

  // The whole layer once: the routing that was asked for, and one expert's part of the first and of
  // the last token against the family's arithmetic in double precision.
  Result<> check(cuda::Stream& stream) {
    if (checked_tokens_ == tokens_) return {};
    NIBBLE_RETURN_IF_ERROR(check_some(stream));
    if (Family::in_one_launch(tactics_)) {
      // The products alone are rows too, and run by themselves.
      steps_ = true;
      const Result<> checked = check_some(stream);
      steps_ = false;
      NIBBLE_RETURN_IF_ERROR(checked);
    }
    checked_tokens_ = tokens_;
    return {};
  }

  std::string tactic(LayerPart part) const {
    if (part == LayerPart::kGateUp) return to_string(tactics_.gate_up);
    if (part == LayerPart::kDown) return to_string(tactics_.down);
    return part == LayerPart::kLayer ? Family::layer_text(tactics_) : Family::text(tactics_);
  }

 protected:
  Result<> check_routing(cuda::Stream& stream) {
    NIBBLE_RETURN_IF_ERROR(draw(LayerPart::kLayer, stream));
    NIBBLE_RETURN_IF_ERROR(run(LayerPart::kLayer, 0, stream));
    NIBBLE_RETURN_IF_ERROR(stream.synchronize());
    NIBBLE_ASSIGN_OR_RETURN(const std::vector<int> counted, Family::counts(*workspace_));
    return check_counts(counted, counts().tokens);
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
    CudaMoeCall chosen = call();
    chosen.logits = 0;
    chosen.expert_ids = device_ids.address();
    chosen.expert_weights = device_weights.address();
    NIBBLE_RETURN_IF_ERROR(Family::enqueue(LayerPart::kLayer, params_of(0, chosen), stream));
    NIBBLE_RETURN_IF_ERROR(stream.synchronize());
    NIBBLE_ASSIGN_OR_RETURN(const std::vector<float> y, row_of(y_, token));
    NIBBLE_ASSIGN_OR_RETURN(const std::vector<float> x, row_of(x_, token));
    const LayerSample sample{
        .setup = setup_, .shape = shape_, .config = config_, .expert = ids[at], .x = x};
    NIBBLE_ASSIGN_OR_RETURN(const std::vector<double> wanted,
                            Family::reference(layers_.front(), sample));
    return LayerError{moe_error(y, wanted), fmt::format("token {}, expert {}", token, ids[at])};
  }

  BenchShape shape_;
  CudaSetup setup_;
  Random random_;
  CudaMoeConfig config_;
  std::vector<Layer> layers_;
  std::shared_ptr<Programs> programs_;
  Tactics tactics_;
  std::string tactics_key_;  // all of tactics_
  std::shared_ptr<Workspace> workspace_;
  std::vector<DrawnRouting> routings_;
  std::vector<cuda::DeviceBuffer> turn_logits_;  // float [tokens, experts]: top-k gives the ids
  cuda::DeviceBuffer x_, y_, logits_;
  std::size_t current_ = 0;
  std::int64_t tokens_ = 0;
  std::int64_t checked_tokens_ = -1;
  bool steps_ = false;  // the layer in a launch a step, whatever its tactics

 private:
  static std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

  // Programs whose tactics are those of fewer tokens stay.
  Result<> choose_programs(std::int64_t tokens) {
    const auto& problem = layers_.front().problem();
    const std::int64_t largest = usual_largest(routings_);
    const std::int64_t active = tokens * shape_.top_k;
    const cuda::DeviceInfo& info = setup_.gpu.info();
    const auto choose = [&](const auto& of, const tune::TuningShape& shape) {
      return tuned_or_default(setup_.tuning, shape, tokens, of, info,
                              Family::default_of(of, largest, info, active));
    };
    Tactics tactics{.gate_up = choose(problem.gate_up, gate_up_of_layer(shape_)),
                    .down = choose(problem.down, down_of_layer(shape_))};
    Family::choose_path(tactics, problem, tokens, setup_);
    const std::string text = Family::key(tactics);
    if (programs_ && text == tactics_key_) return {};
    programs_.reset();
    NIBBLE_ASSIGN_OR_RETURN(Programs programs, Programs::make(setup_.gpu, problem, tactics));
    programs_ = std::make_shared<Programs>(std::move(programs));
    tactics_ = tactics;
    tactics_key_ = text;
    return {};
  }

  Result<> draw_routings(std::int64_t tokens) {
    const RouteRequest request{.experts = shape_.experts, .top_k = shape_.top_k, .tokens = tokens};
    routings_ = draw_turns(request, setup_.routing, random_);
    NIBBLE_ASSIGN_OR_RETURN(turn_logits_, logits_of_turns(routings_, request));
    current_ = 0;
    return {};
  }

  CudaMoeCall call() const {
    return {.x = x_.address(), .logits = logits_.address(), .y = y_.address(), .tokens = tokens_};
  }
  typename Family::Params params_of(std::size_t copy, const CudaMoeCall& call) {
    typename Family::Params params = Family::params(layers_[copy], *programs_, *workspace_, call);
    if (steps_) Family::launch_steps(params);
    return params;
  }

  Result<> check_some(cuda::Stream& stream) {
    NIBBLE_RETURN_IF_ERROR(check_routing(stream));
    NIBBLE_RETURN_IF_ERROR(check_token(0, 0, stream));
    return check_token(tokens_ - 1, shape_.top_k - 1, stream);
  }

  Result<> check_token(std::int64_t token, std::int64_t choice, cuda::Stream& stream) {
    NIBBLE_ASSIGN_OR_RETURN(const LayerError error, token_error(token, choice, stream));
    if (error.relative <= Family::error_limit()) return {};
    return run_error("the layer is wrong: {}: relative error {} against {}, at most {} is right",
                     error.where, format_number(error.relative), Family::kArithmetic,
                     format_number(Family::error_limit()));
  }

  Result<std::vector<float>> row_of(const cuda::DeviceBuffer& buffer, std::int64_t token) const {
    std::vector<std::uint16_t> row(static_cast<std::size_t>(shape_.k));
    NIBBLE_RETURN_IF_ERROR(buffer.download(std::as_writable_bytes(std::span(row)),
                                           static_cast<std::size_t>(token) * row.size() * 2));
    return wide(row, config_.activations);
  }
};

// A part of a layer as a rig of its own. LayerRig is a CudaLayerFrame that says besides:
// kernel(), why_not_timed(), predict_us(part, rates).
template <class LayerRig>
class CudaPartRig : public CudaRig {
 public:
  CudaPartRig(std::shared_ptr<LayerRig> layer, LayerPart part)
      : layer_(std::move(layer)), part_(part) {}

  Result<> set_tokens(std::int64_t tokens) override { return layer_->set_tokens(tokens); }
  Result<> check(cuda::Stream& stream) override { return layer_->check(stream); }
  int copies() const override { return layer_->copy_count(); }

  Result<CudaWork> draw(cuda::Stream& stream) override {
    NIBBLE_RETURN_IF_ERROR(layer_->draw(part_, stream));
    return work_of_part(layer_->shape(), part_, layer_->tokens(), layer_->counts());
  }

  Result<> enqueue(int copy, cuda::Stream& stream) override {
    return layer_->run(part_, copy, stream);
  }
  double ring_bytes() const override { return layer_->ring_bytes(); }
  std::string kernel() const override { return layer_->kernel(); }
  std::string tactic() const override { return layer_->tactic(part_); }
  std::string why_not_timed() const override { return layer_->why_not_timed(); }
  std::optional<double> predict_us(const CudaRates& rates) const override {
    return layer_->predict_us(part_, rates);
  }

 private:
  std::shared_ptr<LayerRig> layer_;
  LayerPart part_;
};

}  // namespace nibble
