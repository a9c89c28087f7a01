// A W4A4 layer as a rig: CudaW4A4MoeLayer with random weights.
#include "bench/cuda_w4a4_rig.h"

#include <algorithm>

#include "base/stats.h"
#include "base/units.h"
#include "bench/cuda_layer_parts.h"
#include "bench/cuda_w4a4_check.h"
#include "kernels/moe/reference.h"

namespace nibble {

bool is_w4a4(const BenchShape& shape) {
  return is_four_bit(shape.activations);
}

std::string why_w4a4_is_not_timed(const cuda::DeviceInfo& info) {
  const Result<cuda::Arch> arch = cuda::arch_to_run(info, "");
  if (arch.ok() && has_fp4_mma(*arch)) return {};
  return fmt::format(
      "this GPU ({}, {}) has no FP4 matrix instruction of sm_120: the W4A4 kernels would run its "
      "software body, whose time says nothing; --activations bf16 times W4A16 here, and "
      "--check-only checks W4A4 without timing it",
      info.name, info.arch());
}

Result<CudaW4A4MoeProblem> w4a4_layer_problem(const BenchShape& shape) {
  return cuda_w4a4_moe_problem(layer_config(shape), shape.format, false, false);
}

Result<> check_w4a4_shape(const BenchShape& shape) {
  const std::string where = shape.where.empty() ? "" : shape.where + ": ";
  if (shape.activations != shape.format) {
    return usage_error(
        "{}{} activations want {} weights on a GPU, and these are {}; --activations bf16 takes "
        "them",
        where, to_string(shape.activations), to_string(shape.activations), to_string(shape.format));
  }
  Result<> taken;
  if (shape.op == BenchOp::kMoe || shape.experts > 1) {
    const bool is_layer = shape.op == BenchOp::kMoe;
    const Result<CudaW4A4MoeProblem> problem =
        w4a4_layer_problem(is_layer ? shape : layer_of_product(shape));
    if (!problem.ok()) taken = problem.error();
  } else {
    taken = check_problem(w4a4_dense_problem(shape));
  }
  if (taken.ok() || where.empty()) return taken;
  return taken.error().within(shape.where);
}

class CudaW4A4LayerRig {
 public:
  CudaW4A4LayerRig(const BenchShape& shape, const CudaSetup& setup)
      : shape_(shape), setup_(setup), random_(setup.seed), config_(layer_config(shape)) {}

  Result<> make() {
    NIBBLE_ASSIGN_OR_RETURN(const int copies, layer_copies(shape_, setup_));
    for (int copy = 0; copy < copies; ++copy) {
      NIBBLE_ASSIGN_OR_RETURN(
          CudaW4A4MoeLayer layer,
          CudaW4A4MoeLayer::random(setup_.gpu, config_, shape_.format,
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
    programs_.reset();
    const RouteRequest request{.experts = shape_.experts, .top_k = shape_.top_k, .tokens = tokens};
    routings_ = draw_turns(request, setup_.routing, random_);
    current_ = 0;
    NIBBLE_ASSIGN_OR_RETURN(turn_logits_, logits_of_turns(routings_, request));
    NIBBLE_RETURN_IF_ERROR(make_programs(tokens));
    const auto values = static_cast<std::size_t>(tokens * shape_.k);
    NIBBLE_ASSIGN_OR_RETURN(x_, cuda::DeviceBuffer::make(padded(values * 2)));
    NIBBLE_ASSIGN_OR_RETURN(y_, cuda::DeviceBuffer::make(padded(values * 2)));
    NIBBLE_ASSIGN_OR_RETURN(
        logits_, cuda::DeviceBuffer::make(static_cast<std::size_t>(tokens * shape_.experts * 4)));
    NIBBLE_ASSIGN_OR_RETURN(cuda::Stream stream, cuda::Stream::make());
    NIBBLE_RETURN_IF_ERROR(setup_.probes.fill(
        x_, {.seed = static_cast<int64_t>(setup_.seed) + 77, .filling = Filling::kBf16}, stream));
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
  const CudaW4A4MoePrograms& programs() const { return *programs_; }
  const cuda::DeviceInfo& gpu() const { return setup_.gpu.info(); }

  // The next routing, and for parts of a layer what comes before them. Routing clears the flags of
  // both products.
  Result<> draw(LayerPart part, cuda::Stream& stream) {
    if (setup_.cold) current_ = (current_ + 1) % routings_.size();  // hot: the same experts
    NIBBLE_RETURN_IF_ERROR(logits_.copy(turn_logits_[current_], stream));
    if (part == LayerPart::kLayer) return {};
    const CudaW4A4MoeParams params = params_of(layers_.front());
    if (part != LayerPart::kDown) {
      return run_parts({W4A4MoePart::kRoute, W4A4MoePart::kTokens}, params, stream);
    }
    return run_parts(
        {W4A4MoePart::kRoute, W4A4MoePart::kTokens, W4A4MoePart::kGateUp, W4A4MoePart::kSlots},
        params, stream);
  }

  Result<> enqueue(LayerPart part, int copy, cuda::Stream& stream) {
    const CudaW4A4MoeParams params = params_of(layers_[static_cast<std::size_t>(copy)]);
    switch (part) {
      case LayerPart::kLayer:
        return cuda_w4a4_moe(params, stream);
      case LayerPart::kGateUp:
        return run_parts({W4A4MoePart::kGateUp}, params, stream);
      case LayerPart::kDown:
        return run_parts({W4A4MoePart::kDown}, params, stream);
      case LayerPart::kProducts:
        break;
    }
    return run_parts({W4A4MoePart::kGateUp, W4A4MoePart::kSlots, W4A4MoePart::kDown}, params,
                     stream);
  }

  // The whole layer once: the routing that was asked for, and one expert's part of the first and of
  // the last token against Blackwell's arithmetic in double precision.
  Result<> check(cuda::Stream& stream) {
    if (checked_tokens_ == tokens_) return {};
    NIBBLE_RETURN_IF_ERROR(check_routing(stream));
    NIBBLE_RETURN_IF_ERROR(check_token(0, 0, stream));
    NIBBLE_RETURN_IF_ERROR(check_token(tokens_ - 1, shape_.top_k - 1, stream));
    checked_tokens_ = tokens_;
    return {};
  }

 private:
  static std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

  static Result<> run_parts(std::initializer_list<W4A4MoePart> parts,
                            const CudaW4A4MoeParams& params, cuda::Stream& stream) {
    for (const W4A4MoePart part : parts) {
      NIBBLE_RETURN_IF_ERROR(cuda_w4a4_moe_part(part, params, stream));
    }
    return {};
  }

  Result<> make_programs(std::int64_t tokens) {
    const CudaW4A4MoeProblem& problem = layers_.front().problem();
    const std::int64_t largest = usual_largest(routings_);
    const BlockLimits limits = limits_of(setup_.gpu.info());
    const CudaW4A4MoeTactics tactics{.gate_up = default_tactic(problem.gate_up, largest, limits),
                                     .down = default_tactic(problem.down, largest, limits)};
    NIBBLE_ASSIGN_OR_RETURN(CudaW4A4MoePrograms programs,
                            CudaW4A4MoePrograms::make(setup_.gpu, problem, tactics));
    programs_ = std::make_unique<CudaW4A4MoePrograms>(std::move(programs));
    NIBBLE_ASSIGN_OR_RETURN(CudaW4A4MoeWorkspace workspace,
                            CudaW4A4MoeWorkspace::make(*programs_, tokens));
    workspace_ = std::make_unique<CudaW4A4MoeWorkspace>(std::move(workspace));
    return {};
  }

  CudaW4A4MoeParams params_of(const CudaW4A4MoeLayer& layer) {
    return {
        .layer = layer,
        .programs = *programs_,
        .workspace = *workspace_,
        .call = {
            .x = x_.address(), .logits = logits_.address(), .y = y_.address(), .tokens = tokens_}};
  }

  Result<> check_routing(cuda::Stream& stream) {
    NIBBLE_RETURN_IF_ERROR(draw(LayerPart::kLayer, stream));
    NIBBLE_RETURN_IF_ERROR(enqueue(LayerPart::kLayer, 0, stream));
    NIBBLE_RETURN_IF_ERROR(stream.synchronize());
    NIBBLE_ASSIGN_OR_RETURN(const std::vector<int> counted, workspace_->memory().read_counts());
    return check_counts(counted, counts().tokens);
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
    CudaW4A4MoeParams params = params_of(layers_.front());
    params.call.logits = 0;
    params.call.expert_ids = device_ids.address();
    params.call.expert_weights = device_weights.address();
    NIBBLE_RETURN_IF_ERROR(cuda_w4a4_moe(params, stream));
    NIBBLE_RETURN_IF_ERROR(stream.synchronize());
    NIBBLE_ASSIGN_OR_RETURN(const std::vector<float> y, row_of(y_, token));
    NIBBLE_ASSIGN_OR_RETURN(const std::vector<double> wanted, reference(token, ids[at]));
    const double error = moe_error(y, wanted);
    const double limit = moe_error_limit(Format::kNvfp4);
    if (error <= limit) return {};
    return run_error(
        "the layer is wrong: token {}, expert {}: relative error {} against Blackwell's arithmetic "
        "in double precision, at most {} is right",
        token, ids[at], format_number(error), format_number(limit));
  }

  Result<std::vector<float>> row_of(const cuda::DeviceBuffer& buffer, std::int64_t token) const {
    std::vector<std::uint16_t> row(static_cast<std::size_t>(shape_.k));
    NIBBLE_RETURN_IF_ERROR(buffer.download(std::as_writable_bytes(std::span(row)),
                                           static_cast<std::size_t>(token) * row.size() * 2));
    return wide(row, config_.activations);
  }

  Result<std::vector<double>> reference(std::int64_t token, std::int64_t expert) const {
    NIBBLE_ASSIGN_OR_RETURN(const std::vector<float> x, row_of(x_, token));
    NIBBLE_ASSIGN_OR_RETURN(const W4A4Matrix gate_up,
                            w4a4_matrix(layers_.front().gate_up(), expert));
    NIBBLE_ASSIGN_OR_RETURN(const W4A4Matrix down, w4a4_matrix(layers_.front().down(), expert));
    return w4a4_expert_reference({.format = shape_.format,
                                  .between = config_.activations,
                                  .hidden = shape_.k,
                                  .intermediate = shape_.n,
                                  .activation = config_.activation,
                                  .gate_up = gate_up.view,
                                  .down = down.view,
                                  .x = x});
  }

  BenchShape shape_;
  CudaSetup setup_;
  Random random_;
  CudaMoeConfig config_;
  std::vector<CudaW4A4MoeLayer> layers_;
  std::unique_ptr<CudaW4A4MoePrograms> programs_;
  std::unique_ptr<CudaW4A4MoeWorkspace> workspace_;
  std::vector<DrawnRouting> routings_;
  std::vector<cuda::DeviceBuffer> turn_logits_;  // float [tokens, experts]: top-k gives the ids
  cuda::DeviceBuffer x_, y_, logits_;
  std::size_t current_ = 0;
  std::int64_t tokens_ = 0;
  std::int64_t checked_tokens_ = -1;
};

namespace {

class CudaW4A4PartRig : public CudaRig {
 public:
  CudaW4A4PartRig(std::shared_ptr<CudaW4A4LayerRig> layer, LayerPart part)
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
    return w4a4_kernel_name(layer_->shape(), layer_->programs().software_mma());
  }
  std::string tactic() const override {
    const std::string gate_up = to_string(layer_->programs().gate_up().tactic());
    const std::string down = to_string(layer_->programs().down().tactic());
    if (part_ == LayerPart::kGateUp) return gate_up;
    return part_ == LayerPart::kDown ? down : gate_up + ", " + down;
  }
  std::string why_not_timed() const override {
    return layer_->programs().software_mma() ? why_w4a4_is_not_timed(layer_->gpu()) : "";
  }

 private:
  std::shared_ptr<CudaW4A4LayerRig> layer_;
  LayerPart part_;
};

}  // namespace

Result<std::shared_ptr<CudaW4A4LayerRig>> make_w4a4_layer_rig(const BenchShape& shape,
                                                              const CudaSetup& setup) {
  auto layer = std::make_shared<CudaW4A4LayerRig>(shape, setup);
  NIBBLE_RETURN_IF_ERROR(layer->make());
  return layer;
}

std::unique_ptr<CudaRig> part_of(std::shared_ptr<CudaW4A4LayerRig> layer, LayerPart part) {
  return std::make_unique<CudaW4A4PartRig>(std::move(layer), part);
}

}  // namespace nibble
