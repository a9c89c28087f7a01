// The workspace of a layer on a GPU, and a call: addresses, and kernels in their order.
#include <algorithm>

#include "kernels/gemm/device/w4a16_params.h"
#include "kernels/moe/device/moe_cuda.h"

namespace nibble {

// ---- the workspace ------------------------------------------------------------------------------

Result<CudaMoeWorkspace> CudaMoeWorkspace::make(const CudaMoePrograms& programs,
                                                std::int64_t most_tokens) {
  const CudaMoeProblem& problem = programs.problem();
  const MoeShape& shape = problem.shape;
  NIBBLE_RETURN_IF_ERROR(check_most_tokens(shape, most_tokens));
  for (const W4A16Kernel* kernel : {&programs.gate_up(), &programs.down()}) {
    NIBBLE_RETURN_IF_ERROR(
        check_choices(kernel->problem(), kernel->tactic(), most_tokens * shape.top_k));
  }
  const MoeMemorySizes sizes{.shape = shape,
                             .most_tokens = most_tokens,
                             .flags_a = programs.gate_up().grid(),
                             .flags_b = programs.down().grid()};
  CudaMoeWorkspace workspace;
  workspace.intermediate_ = problem.down.k;
  MemoryPlan plan = moe_memory_plan(sizes);
  Places& places = workspace.places_;
  const std::size_t partials =
      std::max(programs.gate_up().partial_bytes(), programs.down().partial_bytes());
  places.partials = plan.add(static_cast<std::int64_t>(partials), 1);
  const std::int64_t groups = sizes.slots() / kSlotGroup;
  places.input = plan.add(groups * chunks_of(shape.hidden), kSlotTileBytes);
  places.activated = plan.add(groups * chunks_of(workspace.intermediate_), kSlotTileBytes);
  places.rows = plan.add(sizes.slots() * shape.hidden, bytes_of(shape.output));
  NIBBLE_ASSIGN_OR_RETURN(workspace.memory_, CudaMoeMemory::make(sizes, plan));
  NIBBLE_ASSIGN_OR_RETURN(workspace.progress_,
                          cuda::DeviceBuffer::of(std::vector<OneLaunchProgress>(1)));
  return workspace;
}

// ---- a call -------------------------------------------------------------------------------------

// The addresses of a call, from the workspace's places.
struct CudaMoeAccess {
  const CudaMoeParams& params;
  CudaMoeWorkspace& workspace;
  CudaMoeMemory& memory;
  CudaMoeCall call;

  explicit CudaMoeAccess(const CudaMoeParams& of)
      : params(of),
        workspace(of.workspace),
        memory(workspace.memory_),
        call{.x = of.x,
             .logits = of.logits,
             .expert_ids = of.expert_ids,
             .expert_weights = of.expert_weights,
             .shared = of.shared,
             .y = of.y,
             .tokens = of.tokens} {}

  Result<> check() const {
    NIBBLE_RETURN_IF_ERROR(memory.check_tokens(call));
    const CudaMoeProblem& problem = params.programs.problem();
    if (!(params.layer.problem().shape == problem.shape) ||
        params.layer.problem().gate_up != problem.gate_up ||
        params.layer.problem().down != problem.down) {
      return input_error("the kernels were made for another layer's shape");
    }
    const MoeMemorySizes& sizes = memory.sizes();
    if (!(sizes.shape == problem.shape) || workspace.intermediate_ != problem.down.k ||
        sizes.flags_a != params.programs.gate_up().grid() ||
        sizes.flags_b != params.programs.down().grid()) {
      return input_error("the workspace was made for other kernels");
    }
    return check_addresses(call, false);
  }

  RouteTopK top_k() const {
    return memory.top_k(call, params.layer.config().router, params.layer.biases());
  }
  RouteTables tables() const {
    return memory.tables(call, params.programs.gate_up().tile_tokens(),
                         params.programs.down().tile_tokens());
  }
  GatherRows gather() const { return memory.gather(call, memory.place(workspace.places_.input)); }

  W4A16Params gate_up() const {
    const auto& places = workspace.places_;
    const CudaMoeLayer& layer = params.layer;
    return {.weights = device_array<std::uint8_t>(layer.gate_up().tiles()),
            .alpha = device_array<float>(layer.gate_up().alpha()),
            .bias = device_array<float>(layer.biases().gate_up.address()),
            .tokens = device_array<std::uint8_t>(memory.place(places.input)),
            .offsets = memory.offsets(),
            .tiles = memory.tiles_a(),
            .output = device_array<void>(memory.place(places.activated)),
            .partials = device_array<float>(memory.place(places.partials)),
            .flags = memory.flags_a(),
            .swiglu_alpha = layer.config().activation.alpha,
            .swiglu_limit = layer.config().activation.limit};
  }

  W4A16Params down() const {
    const auto& places = workspace.places_;
    const CudaMoeLayer& layer = params.layer;
    return {.weights = device_array<std::uint8_t>(layer.down().tiles()),
            .alpha = device_array<float>(layer.down().alpha()),
            .bias = device_array<float>(layer.biases().down.address()),
            .tokens = device_array<std::uint8_t>(memory.place(places.activated)),
            .offsets = memory.offsets(),
            .tiles = memory.tiles_b(),
            .slot_weight = memory.slot_weight(),
            .output = device_array<void>(memory.place(places.rows)),
            .partials = device_array<float>(memory.place(places.partials)),
            .flags = memory.flags_b()};
  }

  CombineRows combine() const { return memory.combine(call, memory.place(workspace.places_.rows)); }

  Result<> clear_flags(cuda::Stream& stream) const { return memory.clear_flags(stream); }

  bool is_one_launch() const {
    const auto& kernel = params.programs.one_launch();
    return kernel && !params.steps && kernel->takes(params.tokens, params.x);
  }

  OneLaunchParams one_launch() const {
    const CudaMoeLayer& layer = params.layer;
    const RouteTables tables = this->tables();
    return {.top_k = top_k(),
            .ids = tables.ids,
            .weights = tables.weights,
            .x = device_array<void>(call.x),
            .gate_up = device_array<std::uint8_t>(layer.gate_up().tiles()),
            .gate_up_alpha = device_array<float>(layer.gate_up().alpha()),
            .gate_up_bias = device_array<float>(layer.biases().gate_up.address()),
            .down = device_array<std::uint8_t>(layer.down().tiles()),
            .down_alpha = device_array<float>(layer.down().alpha()),
            .down_bias = device_array<float>(layer.biases().down.address()),
            .shared = device_array<void>(call.shared),
            .y = device_array<void>(call.y),
            .activated = device_array<void>(memory.place(workspace.places_.activated)),
            .counts = tables.counts,
            .dropped = tables.dropped,
            .progress = device_array<OneLaunchProgress>(workspace.progress_.address()),
            .tokens = static_cast<int>(call.tokens),
            .swiglu_alpha = layer.config().activation.alpha,
            .swiglu_limit = layer.config().activation.limit};
  }
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
  if (const CudaMoeAccess call(params); call.is_one_launch()) {
    return params.programs.one_launch()->enqueue(stream, call.one_launch());
  }
  NIBBLE_RETURN_IF_ERROR(cuda_moe_route(params, stream));
  NIBBLE_RETURN_IF_ERROR(cuda_moe_gather(params, stream));
  NIBBLE_RETURN_IF_ERROR(cuda_moe_gate_up(params, stream));
  NIBBLE_RETURN_IF_ERROR(cuda_moe_down(params, stream));
  return cuda_moe_combine(params, stream);
}

}  // namespace nibble
