// The workspace of a layer on a GPU, and a call: addresses, and kernels in their order.
#include <algorithm>
#include <span>

#include "kernels/gemm/device/w4a16_params.h"
#include "kernels/moe/device/moe_cuda.h"

namespace nibble {
namespace {

// Slots are counted in 32 bits, with room to spare.
constexpr std::int64_t kMostChoices = std::int64_t{1} << 29;

template <class T>
T* at(cuda::DevicePointer address) {
  return reinterpret_cast<T*>(address);
}

// Puts arrays one after the other, each at a multiple of 256 bytes.
class MemoryPlan {
 public:
  std::size_t add(std::int64_t count, std::int64_t bytes_each) {
    const std::size_t begin = size_;
    size_ += static_cast<std::size_t>(ceil_div(count * bytes_each, 256) * 256);
    return begin;
  }
  std::size_t size() const { return size_; }

 private:
  std::size_t size_ = 0;
};

}  // namespace

// ---- the workspace ------------------------------------------------------------------------------

Result<CudaMoeWorkspace> CudaMoeWorkspace::make(const CudaMoePrograms& programs,
                                                std::int64_t most_tokens) {
  const CudaMoeProblem& problem = programs.problem();
  const MoeShape& shape = problem.shape;
  if (most_tokens < 1 || most_tokens > kMostChoices / shape.top_k) {
    return input_error("a workspace for {} tokens with {} experts each; give 1 to {} tokens",
                       most_tokens, shape.top_k, kMostChoices / shape.top_k);
  }
  for (const W4A16Kernel* kernel : {&programs.gate_up(), &programs.down()}) {
    NIBBLE_RETURN_IF_ERROR(
        check_choices(kernel->problem(), kernel->tactic(), most_tokens * shape.top_k));
  }
  CudaMoeWorkspace workspace;
  workspace.shape_ = shape;
  workspace.intermediate_ = problem.down.k;
  workspace.most_tokens_ = most_tokens;
  workspace.flags_a_count_ = programs.gate_up().grid();
  workspace.flags_b_count_ = programs.down().grid();
  const std::int64_t slots = most_slots(most_tokens, shape.top_k, shape.experts);
  const std::int64_t choices = most_tokens * shape.top_k;
  const std::size_t partials =
      std::max(programs.gate_up().partial_bytes(), programs.down().partial_bytes());
  MemoryPlan plan;
  Places& places = workspace.places_;
  places.ids = plan.add(choices, sizeof(int));
  places.weights = plan.add(choices, sizeof(float));
  places.counts = plan.add(shape.experts, sizeof(int));
  places.offsets = plan.add(shape.experts + 1, sizeof(int));
  places.tiles_a = plan.add(shape.experts + 1, sizeof(int));
  places.tiles_b = plan.add(shape.experts + 1, sizeof(int));
  places.slot_token = plan.add(slots, sizeof(int));
  places.slot_weight = plan.add(slots, sizeof(float));
  places.choice_slot = plan.add(choices, sizeof(int));
  places.partials = plan.add(static_cast<std::int64_t>(partials), 1);
  const std::int64_t groups = slots / kSlotGroup;
  places.input = plan.add(groups * chunks_of(shape.hidden), kSlotTileBytes);
  places.activated = plan.add(groups * chunks_of(workspace.intermediate_), kSlotTileBytes);
  places.rows = plan.add(slots * shape.hidden, bytes_of(shape.output));
  NIBBLE_ASSIGN_OR_RETURN(workspace.memory_, cuda::DeviceBuffer::make(plan.size()));
  const auto flags = static_cast<std::size_t>(workspace.flags_a_count_ + workspace.flags_b_count_);
  NIBBLE_ASSIGN_OR_RETURN(workspace.flags_,
                          cuda::DeviceBuffer::of(std::vector<std::uint32_t>(flags, 0)));
  NIBBLE_ASSIGN_OR_RETURN(workspace.dropped_, cuda::DeviceBuffer::of(std::vector<int>(1, 0)));
  return workspace;
}

Result<std::int64_t> CudaMoeWorkspace::dropped_choices() const {
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<int> dropped, dropped_.read<int>());
  return dropped.front();
}

Result<std::vector<int>> CudaMoeWorkspace::counts() const {
  std::vector<int> counts(static_cast<std::size_t>(shape_.experts));
  NIBBLE_RETURN_IF_ERROR(
      memory_.download(std::as_writable_bytes(std::span(counts)), places_.counts));
  return counts;
}

Result<std::vector<int>> CudaMoeWorkspace::offsets() const {
  std::vector<int> offsets(static_cast<std::size_t>(shape_.experts + 1));
  NIBBLE_RETURN_IF_ERROR(
      memory_.download(std::as_writable_bytes(std::span(offsets)), places_.offsets));
  return offsets;
}

Result<> CudaMoeWorkspace::poison() {
  NIBBLE_RETURN_IF_ERROR(flags_.fill(0xff));
  return memory_.fill(0xff);
}

// ---- a call -------------------------------------------------------------------------------------

// The addresses of a call, from the workspace's places.
struct CudaMoeAccess {
  const CudaMoeParams& params;
  CudaMoeWorkspace& workspace;

  explicit CudaMoeAccess(const CudaMoeParams& call) : params(call), workspace(call.workspace) {}

  cuda::DevicePointer place(std::size_t begin) const { return workspace.memory_.address() + begin; }
  int tokens() const { return static_cast<int>(params.tokens); }
  cuda::DevicePointer flags(bool down) const {
    const auto begin = static_cast<std::uint64_t>(down ? workspace.flags_a_count_ : 0);
    return workspace.flags_.address() + begin * sizeof(std::uint32_t);
  }

  Result<> check() const {
    if (params.tokens < 0 || params.tokens > workspace.most_tokens_) {
      return input_error("{} tokens; the workspace holds 0 to {}", params.tokens,
                         workspace.most_tokens_);
    }
    const CudaMoeProblem& problem = params.programs.problem();
    if (!(params.layer.problem().shape == problem.shape) ||
        params.layer.problem().gate_up != problem.gate_up ||
        params.layer.problem().down != problem.down) {
      return input_error("the kernels were made for another layer's shape");
    }
    if (!(workspace.shape_ == problem.shape) || workspace.intermediate_ != problem.down.k ||
        workspace.flags_a_count_ != params.programs.gate_up().grid() ||
        workspace.flags_b_count_ != params.programs.down().grid()) {
      return input_error("the workspace was made for other kernels");
    }
    return check_addresses();
  }

  Result<> check_addresses() const {
    const bool by_logits = params.logits != 0;
    const bool by_ids = params.expert_ids != 0 && params.expert_weights != 0;
    if (params.tokens > 0 && by_logits == by_ids) {
      return input_error("give the layer either logits or expert ids with their weights");
    }
    if (params.tokens > 0 && (params.x == 0 || params.y == 0)) {
      return input_error("the layer has no address of {}", params.x == 0 ? "x" : "y");
    }
    const cuda::DevicePointer four =
        params.x | params.logits | params.expert_ids | params.expert_weights;
    if (four % 4 != 0 || (params.y | params.shared) % 16 != 0) {
      return input_error(
          "an address of the layer is not aligned; y and shared want 16 bytes, the others 4");
    }
    return {};
  }

  RouteTopK top_k() const {
    const auto& places = workspace.places_;
    const CudaMoeLayer& layer = params.layer;
    return {.logits = at<float>(params.logits),
            .linear_bias = at<float>(layer.router_bias()),
            .correction_bias = at<float>(layer.correction_bias()),
            .ids = at<int>(place(places.ids)),
            .weights = at<float>(place(places.weights)),
            .scaling_factor = layer.config().router.scaling_factor,
            .tokens = tokens()};
  }

  RouteTables tables() const {
    const auto& places = workspace.places_;
    const bool given = params.expert_ids != 0;
    return {.ids = at<int>(given ? params.expert_ids : place(places.ids)),
            .weights = at<float>(given ? params.expert_weights : place(places.weights)),
            .tokens = tokens(),
            .tile_a = params.programs.gate_up().tile_tokens(),
            .tile_b = params.programs.down().tile_tokens(),
            .counts = at<int>(place(places.counts)),
            .offsets = at<int>(place(places.offsets)),
            .tiles_a = at<int>(place(places.tiles_a)),
            .tiles_b = at<int>(place(places.tiles_b)),
            .slot_token = at<int>(place(places.slot_token)),
            .slot_weight = at<float>(place(places.slot_weight)),
            .choice_slot = at<int>(place(places.choice_slot)),
            .dropped = at<int>(workspace.dropped_.address()),
            .flags_a = at<std::uint32_t>(flags(false)),
            .flags_b = at<std::uint32_t>(flags(true)),
            .flags_a_count = workspace.flags_a_count_,
            .flags_b_count = workspace.flags_b_count_};
  }

  GatherRows gather() const {
    return {.x = at<void>(params.x),
            .choice_slot = at<int>(place(workspace.places_.choice_slot)),
            .slots = at<void>(place(workspace.places_.input)),
            .tokens = tokens()};
  }

  W4A16Params gate_up() const {
    const auto& places = workspace.places_;
    const CudaMoeLayer& layer = params.layer;
    return {.weights = at<std::uint8_t>(layer.gate_up().tiles()),
            .alpha = at<float>(layer.gate_up().alpha()),
            .bias = at<float>(layer.gate_up_bias()),
            .tokens = at<std::uint8_t>(place(places.input)),
            .offsets = at<int>(place(places.offsets)),
            .tiles = at<int>(place(places.tiles_a)),
            .output = at<void>(place(places.activated)),
            .partials = at<float>(place(places.partials)),
            .flags = at<std::uint32_t>(flags(false)),
            .swiglu_alpha = layer.config().activation.alpha,
            .swiglu_limit = layer.config().activation.limit};
  }

  W4A16Params down() const {
    const auto& places = workspace.places_;
    const CudaMoeLayer& layer = params.layer;
    return {.weights = at<std::uint8_t>(layer.down().tiles()),
            .alpha = at<float>(layer.down().alpha()),
            .bias = at<float>(layer.down_bias()),
            .tokens = at<std::uint8_t>(place(places.activated)),
            .offsets = at<int>(place(places.offsets)),
            .tiles = at<int>(place(places.tiles_b)),
            .slot_weight = at<float>(place(places.slot_weight)),
            .output = at<void>(place(places.rows)),
            .partials = at<float>(place(places.partials)),
            .flags = at<std::uint32_t>(flags(true))};
  }

  CombineRows combine() const {
    return {.rows = at<void>(place(workspace.places_.rows)),
            .choice_slot = at<int>(place(workspace.places_.choice_slot)),
            .shared = at<void>(params.shared),
            .y = at<void>(params.y),
            .tokens = tokens()};
  }

  Result<> clear_flags(cuda::Stream& stream) const { return workspace.flags_.fill(0, stream); }
};

Result<> cuda_moe_route(const CudaMoeParams& params, cuda::Stream& stream) {
  const CudaMoeAccess call(params);
  NIBBLE_RETURN_IF_ERROR(call.check());
  const MoeKernels& around = params.programs.around();
  if (params.logits == 0) return around.tables(stream, call.tables());
  return around.route(stream, call.top_k(), call.tables());
}

Result<> cuda_moe_gather(const CudaMoeParams& params, cuda::Stream& stream) {
  const CudaMoeAccess call(params);
  NIBBLE_RETURN_IF_ERROR(call.check());
  return params.programs.around().gather(stream, call.gather());
}

Result<> cuda_moe_gate_up(const CudaMoeParams& params, cuda::Stream& stream) {
  const CudaMoeAccess call(params);
  NIBBLE_RETURN_IF_ERROR(call.check());
  return params.programs.gate_up().enqueue(stream, call.gate_up());
}

Result<> cuda_moe_down(const CudaMoeParams& params, cuda::Stream& stream) {
  const CudaMoeAccess call(params);
  NIBBLE_RETURN_IF_ERROR(call.check());
  return params.programs.down().enqueue(stream, call.down());
}

Result<> cuda_moe_combine(const CudaMoeParams& params, cuda::Stream& stream) {
  const CudaMoeAccess call(params);
  NIBBLE_RETURN_IF_ERROR(call.check());
  return params.programs.around().combine(stream, call.combine());
}

Result<> cuda_moe_clear_flags(const CudaMoeParams& params, cuda::Stream& stream) {
  return CudaMoeAccess(params).clear_flags(stream);
}

Result<> cuda_moe(const CudaMoeParams& params, cuda::Stream& stream) {
  NIBBLE_RETURN_IF_ERROR(CudaMoeAccess(params).check());
  if (params.tokens == 0) return {};
  NIBBLE_RETURN_IF_ERROR(cuda_moe_route(params, stream));
  NIBBLE_RETURN_IF_ERROR(cuda_moe_gather(params, stream));
  NIBBLE_RETURN_IF_ERROR(cuda_moe_gate_up(params, stream));
  NIBBLE_RETURN_IF_ERROR(cuda_moe_down(params, stream));
  return cuda_moe_combine(params, stream);
}

}  // namespace nibble
