// A W4A4 layer as a rig: CudaW4A4MoeLayer with random weights.
#include "bench/cuda_w4a4_rig.h"

#include "bench/cuda_layer_frame.h"
#include "bench/cuda_w4a4_check.h"

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

namespace {

// What of CudaLayerFrame is W4A4's own.
struct W4A4Family {
  using Layer = CudaW4A4MoeLayer;
  using Programs = CudaW4A4MoePrograms;
  using Workspace = CudaW4A4MoeWorkspace;
  using Params = CudaW4A4MoeParams;
  using Tactics = CudaW4A4MoeTactics;

  static constexpr std::string_view kArithmetic = "Blackwell's arithmetic in double precision";
  static double error_limit() { return moe_error_limit(Format::kNvfp4); }

  static W4A4Tactic default_of(const W4A4Problem& problem, std::int64_t largest,
                               const cuda::DeviceInfo& info, std::int64_t /*active*/) {
    return default_tactic(problem, largest, limits_of(info));
  }

  static void choose_path(Tactics& /*tactics*/, const CudaW4A4MoeProblem& /*problem*/,
                          std::int64_t /*tokens*/, const CudaSetup& /*setup*/) {}
  static bool in_one_launch(const Tactics& /*tactics*/) { return false; }
  static void launch_steps(Params& /*params*/) {}
  static std::string text(const Tactics& tactics) {
    return to_string(tactics.gate_up) + ", " + to_string(tactics.down);
  }
  static std::string layer_text(const Tactics& tactics) { return text(tactics); }
  static std::string key(const Tactics& tactics) { return text(tactics); }

  static Params params(const Layer& layer, const Programs& programs, Workspace& workspace,
                       const CudaMoeCall& call) {
    return {.layer = layer, .programs = programs, .workspace = workspace, .call = call};
  }

  // Routing clears the flags of both products.
  static Result<> enqueue_before(LayerPart part, const Params& params, cuda::Stream& stream) {
    if (part != LayerPart::kDown) {
      return run_parts({W4A4MoePart::kRoute, W4A4MoePart::kTokens}, params, stream);
    }
    return run_parts(
        {W4A4MoePart::kRoute, W4A4MoePart::kTokens, W4A4MoePart::kGateUp, W4A4MoePart::kSlots},
        params, stream);
  }

  static Result<> enqueue(LayerPart part, const Params& params, cuda::Stream& stream) {
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

  static Result<std::vector<int>> counts(const Workspace& workspace) {
    return workspace.memory().read_counts();
  }

  static Result<std::vector<double>> reference(const Layer& layer, const LayerSample& sample) {
    NIBBLE_ASSIGN_OR_RETURN(const W4A4Matrix gate_up, w4a4_matrix(layer.gate_up(), sample.expert));
    NIBBLE_ASSIGN_OR_RETURN(const W4A4Matrix down, w4a4_matrix(layer.down(), sample.expert));
    return w4a4_expert_reference({.format = sample.shape.format,
                                  .between = sample.config.activations,
                                  .hidden = sample.shape.k,
                                  .intermediate = sample.shape.n,
                                  .activation = sample.config.activation,
                                  .gate_up = gate_up.view,
                                  .down = down.view,
                                  .x = sample.x});
  }

 private:
  static Result<> run_parts(std::initializer_list<W4A4MoePart> parts, const Params& params,
                            cuda::Stream& stream) {
    for (const W4A4MoePart part : parts) {
      NIBBLE_RETURN_IF_ERROR(cuda_w4a4_moe_part(part, params, stream));
    }
    return {};
  }
};

}  // namespace

class CudaW4A4LayerRig : public CudaLayerFrame<W4A4Family> {
 public:
  using CudaLayerFrame::CudaLayerFrame;

  std::string kernel() const { return w4a4_kernel_name(shape_, programs_->software_mma()); }
  std::string why_not_timed() const {
    return programs_->software_mma() ? why_w4a4_is_not_timed(setup_.gpu.info()) : "";
  }
  static std::optional<double> predict_us(LayerPart, const CudaRates&) { return std::nullopt; }
};

Result<std::shared_ptr<CudaW4A4LayerRig>> make_w4a4_layer_rig(const BenchShape& shape,
                                                              const CudaSetup& setup) {
  auto layer = std::make_shared<CudaW4A4LayerRig>(shape, setup);
  NIBBLE_RETURN_IF_ERROR(layer->make());
  return layer;
}

std::unique_ptr<CudaRig> part_of(std::shared_ptr<CudaW4A4LayerRig> layer, LayerPart part) {
  return std::make_unique<CudaPartRig<CudaW4A4LayerRig>>(std::move(layer), part);
}

}  // namespace nibble
