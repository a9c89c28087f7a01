#include "capi/gpu_moe.h"

#include <algorithm>
#include <fmt/core.h>
#include <utility>

#include "kernels/device/block_limits.h"
#include "kernels/moe/device/moe_cuda.h"
#include "kernels/moe/device/w4a4_moe.h"

namespace nibble::capi {
namespace {

// What a call usually has: rows of the largest expert, and experts with any.
struct UsualLoad {
  std::int64_t tokens = 1;
  std::int64_t rows = 1;
  std::int64_t active = 1;  // at most, counted once for each of its tokens
};

// The mean of experts that have any, rounded up.
UsualLoad usual_load(const nibble_moe_desc& desc) {
  const std::int64_t tokens = std::max<std::int64_t>(desc.expected_tokens, 1);
  const std::int64_t choices = tokens * desc.top_k;
  const std::int64_t active = std::min<std::int64_t>(choices, desc.experts);
  return {.tokens = tokens, .rows = (choices + active - 1) / active, .active = choices};
}

struct Wide {
  using Layer = CudaMoeLayer;
  using Programs = CudaMoePrograms;
  using Tactics = CudaMoeTactics;
  using Workspace = CudaMoeWorkspace;

  static Tactics choose(const Layer& layer, const UsualLoad& load, const cuda::DeviceInfo& info) {
    const CudaMoeProblem& problem = layer.problem();
    return {.gate_up = default_tactic(problem.gate_up, load.rows, info, load.active),
            .down = default_tactic(problem.down, load.rows, info, load.active),
            .one_launch = default_one_launch(problem, load.tokens, info)};
  }
  static std::string text(const Tactics& tactics) {
    return fmt::format("{}, {}{}", to_string(tactics.gate_up), to_string(tactics.down),
                       tactics.one_launch ? ", " + to_string(*tactics.one_launch) : "");
  }
  static bool software_mma(const Programs&) { return false; }
  static std::int64_t most_tokens(const Workspace& workspace) { return workspace.most_tokens(); }
  static Result<std::int64_t> dropped_choices(const Workspace& workspace) {
    return workspace.dropped_choices();
  }
  static Result<> run(const Layer& layer, const Programs& programs, Workspace& workspace,
                      const CudaMoeCall& call, cuda::Stream& stream) {
    return cuda_moe({.layer = layer,
                     .programs = programs,
                     .workspace = workspace,
                     .x = call.x,
                     .expert_ids = call.expert_ids,
                     .expert_weights = call.expert_weights,
                     .shared = call.shared,
                     .y = call.y,
                     .tokens = call.tokens},
                    stream);
  }
};

struct Narrow {
  using Layer = CudaW4A4MoeLayer;
  using Programs = CudaW4A4MoePrograms;
  using Tactics = CudaW4A4MoeTactics;
  using Workspace = CudaW4A4MoeWorkspace;

  static Tactics choose(const Layer& layer, const UsualLoad& load, const cuda::DeviceInfo& info) {
    const CudaW4A4MoeProblem& problem = layer.problem();
    return {.gate_up = default_tactic(problem.gate_up, load.rows, limits_of(info)),
            .down = default_tactic(problem.down, load.rows, limits_of(info))};
  }
  static std::string text(const Tactics& tactics) {
    return fmt::format("{}, {}", to_string(tactics.gate_up), to_string(tactics.down));
  }
  static bool software_mma(const Programs& programs) { return programs.software_mma(); }
  static std::int64_t most_tokens(const Workspace& workspace) {
    return workspace.memory().sizes().most_tokens;
  }
  static Result<std::int64_t> dropped_choices(const Workspace& workspace) {
    return workspace.memory().dropped_choices();
  }
  static Result<> run(const Layer& layer, const Programs& programs, Workspace& workspace,
                      const CudaMoeCall& call, cuda::Stream& stream) {
    return cuda_w4a4_moe(
        {.layer = layer, .programs = programs, .workspace = workspace, .call = call}, stream);
  }
};

template <class Kind>
class WorkspaceOf : public GpuMoeWorkspace {
 public:
  explicit WorkspaceOf(typename Kind::Workspace made) : workspace(std::move(made)) {}
  std::int64_t most_tokens() const override { return Kind::most_tokens(workspace); }
  Result<std::int64_t> dropped_choices() const override { return Kind::dropped_choices(workspace); }

  typename Kind::Workspace workspace;
};

template <class Kind>
class MoeOf : public GpuMoe {
 public:
  using Programs = typename Kind::Programs;
  using Tactics = typename Kind::Tactics;

  static Result<std::unique_ptr<GpuMoe>> make(Gpu& gpu, const nibble_moe_desc& desc,
                                              const CudaMoeConfig& config,
                                              const MoeWeights& weights) {
    NIBBLE_ASSIGN_OR_RETURN(auto layer, Kind::Layer::make(gpu.device, config, weights));
    const Tactics tactics = Kind::choose(layer, usual_load(desc), gpu.device.info());
    // All that kernels are compiled for.
    const std::string key = fmt::format(
        "{} {} {} {} {} {} {} {} {} {} {} {}, {}, {}", desc.format, desc.dtype, desc.activation,
        desc.operand, desc.experts, desc.top_k, desc.hidden, desc.intermediate,
        weights.gate_up_bias.empty(), weights.down_bias.empty(), config.static_input_scales,
        to_string(layer.problem().gate_up), to_string(layer.problem().down), Kind::text(tactics));
    NIBBLE_ASSIGN_OR_RETURN(auto programs, shared_programs(gpu, key, layer, tactics));
    return std::unique_ptr<GpuMoe>(new MoeOf(std::move(layer), std::move(programs), tactics));
  }

  std::string layer() const override {
    return fmt::format("{}, {}", to_string(layer_.problem().gate_up),
                       to_string(layer_.problem().down));
  }
  std::string tactics() const override { return Kind::text(tactics_); }
  bool software_mma() const override { return Kind::software_mma(*programs_); }
  Result<std::unique_ptr<GpuMoeWorkspace>> make_workspace(std::int64_t most_tokens) const override {
    NIBBLE_ASSIGN_OR_RETURN(auto workspace, Kind::Workspace::make(*programs_, most_tokens));
    return std::unique_ptr<GpuMoeWorkspace>(
        std::make_unique<WorkspaceOf<Kind>>(std::move(workspace)));
  }
  Result<> run(GpuMoeWorkspace& workspace, const CudaMoeCall& call,
               cuda::Stream& stream) const override {
    auto& own = static_cast<WorkspaceOf<Kind>&>(workspace);
    return Kind::run(layer_, *programs_, own.workspace, call, stream);
  }

 private:
  MoeOf(typename Kind::Layer layer, std::shared_ptr<const Programs> programs,
        const Tactics& tactics)
      : layer_(std::move(layer)), programs_(std::move(programs)), tactics_(tactics) {}

  static Result<std::shared_ptr<const Programs>> shared_programs(Gpu& gpu, const std::string& key,
                                                                 const typename Kind::Layer& layer,
                                                                 const Tactics& tactics) {
    const std::lock_guard lock(gpu.mutex);
    std::erase_if(gpu.programs, [](const auto& each) { return each.second.expired(); });
    if (const auto found = gpu.programs.find(key); found != gpu.programs.end()) {
      // Null where the last layer with it has just ended in another thread.
      if (const auto known = found->second.lock()) {
        return std::shared_ptr<const Programs>(known, static_cast<const Programs*>(known.get()));
      }
    }
    NIBBLE_ASSIGN_OR_RETURN(auto programs, Programs::make(gpu.device, layer.problem(), tactics));
    auto made = std::make_shared<const Programs>(std::move(programs));
    gpu.programs[key] = made;
    return made;
  }

  typename Kind::Layer layer_;
  std::shared_ptr<const Programs> programs_;
  Tactics tactics_;
};

}  // namespace

Result<std::unique_ptr<GpuMoe>> make_gpu_moe(Gpu& gpu, const nibble_moe_desc& desc,
                                             const CudaMoeConfig& config,
                                             const MoeWeights& weights) {
  if (desc.operand == NIBBLE_OPERAND_FP4) return MoeOf<Narrow>::make(gpu, desc, config, weights);
  return MoeOf<Wide>::make(gpu, desc, config, weights);
}

}  // namespace nibble::capi
