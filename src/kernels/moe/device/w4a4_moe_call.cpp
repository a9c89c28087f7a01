// The workspace of a W4A4 layer on a GPU, and a call: addresses, and kernels in their order.
#include <algorithm>
#include <span>

#include "kernels/gemm/device/w4a4_params.h"
#include "kernels/moe/device/w4a4_moe.h"

namespace nibble {

// ---- the workspace ------------------------------------------------------------------------------

W4A4MoePlan w4a4_moe_plan(const CudaW4A4MoeProblem& problem, const W4A4MoeLaunches& launches,
                          std::int64_t most_tokens) {
  W4A4MoePlan plan{.sizes = {.shape = problem.shape,
                             .most_tokens = most_tokens,
                             .flags_a = launches.grid_a,
                             .flags_b = launches.grid_b}};
  plan.memory = moe_memory_plan(plan.sizes);
  const std::int64_t slots = plan.sizes.slots();
  const std::int64_t hidden = problem.gate_up.k;
  const std::int64_t intermediate = problem.down.k;
  const std::int64_t block = problem.tokens.block();
  const bool own_factors = problem.tokens.mode == QuantizeMode::kNvfp4Rows;
  MemoryPlan& memory = plan.memory;
  W4A4MoePlaces& places = plan.places;
  places.partials = memory.add(static_cast<std::int64_t>(launches.partial_bytes), 1);
  places.token_codes = memory.add(most_tokens * hidden / 2, 1);
  places.token_scales = memory.add(swizzled_bytes(most_tokens, hidden / block), 1);
  places.token_factors = memory.add(own_factors ? most_tokens : 0, sizeof(float));
  places.activated = memory.add(problem.slots ? slots * intermediate : 0, 2);
  places.slot_codes = memory.add(slots * intermediate / 2, 1);
  places.slot_scales = memory.add(swizzled_bytes(slots, intermediate / block), 1);
  places.slot_factors = memory.add(own_factors ? slots : 0, sizeof(float));
  places.rows = memory.add(slots * hidden, bytes_of(problem.shape.output));
  return plan;
}

Result<CudaW4A4MoeWorkspace> CudaW4A4MoeWorkspace::make(const CudaW4A4MoePrograms& programs,
                                                        std::int64_t most_tokens) {
  const CudaW4A4MoeProblem& problem = programs.problem();
  NIBBLE_RETURN_IF_ERROR(check_most_tokens(problem.shape, most_tokens));
  for (const W4A4Kernel* kernel : {&programs.gate_up(), &programs.down()}) {
    NIBBLE_RETURN_IF_ERROR(
        check_choices(kernel->problem(), kernel->tactic(), most_tokens * problem.shape.top_k));
  }
  const W4A4MoeLaunches launches{.grid_a = programs.gate_up().grid(),
                                 .grid_b = programs.down().grid(),
                                 .partial_bytes = std::max(programs.gate_up().partial_bytes(),
                                                           programs.down().partial_bytes())};
  const W4A4MoePlan plan = w4a4_moe_plan(problem, launches, most_tokens);
  CudaW4A4MoeWorkspace workspace(problem);
  workspace.places_ = plan.places;
  NIBBLE_ASSIGN_OR_RETURN(workspace.memory_, CudaMoeMemory::make(plan.sizes, plan.memory));
  return workspace;
}

namespace {

template <class T>
Result<std::vector<T>> read_array(const CudaMoeMemory& memory, std::size_t begin,
                                  std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  NIBBLE_RETURN_IF_ERROR(memory.download(std::as_writable_bytes(std::span(values)), begin));
  return values;
}

// Where the codes of some rows are, and how many there are.
struct CodedRows {
  std::size_t codes;
  std::size_t scales;
  std::size_t factors;
  std::int64_t rows;
  const QuantizeShape& shape;

  Result<CudaW4A4MoeWorkspace::Rows> read(const CudaMoeMemory& memory) const {
    const bool own_factors = shape.mode == QuantizeMode::kNvfp4Rows;
    CudaW4A4MoeWorkspace::Rows result;
    NIBBLE_ASSIGN_OR_RETURN(result.codes,
                            read_array<std::uint8_t>(memory, codes, rows * (shape.columns / 2)));
    NIBBLE_ASSIGN_OR_RETURN(
        result.scales,
        read_array<std::uint8_t>(memory, scales, swizzled_bytes(rows, shape.scales())));
    NIBBLE_ASSIGN_OR_RETURN(result.factors,
                            read_array<float>(memory, factors, own_factors ? rows : 0));
    return result;
  }
};

}  // namespace

Result<CudaW4A4MoeWorkspace::Rows> CudaW4A4MoeWorkspace::read_tokens() const {
  const CodedRows rows{places_.token_codes, places_.token_scales, places_.token_factors,
                       memory_.sizes().most_tokens, problem_.tokens};
  return rows.read(memory_);
}

Result<CudaW4A4MoeWorkspace::Rows> CudaW4A4MoeWorkspace::read_slots() const {
  QuantizeShape shape = problem_.tokens;
  shape.columns = static_cast<int>(problem_.down.k);
  const CodedRows rows{places_.slot_codes, places_.slot_scales, places_.slot_factors,
                       memory_.sizes().slots(), shape};
  return rows.read(memory_);
}

Result<std::vector<std::uint16_t>> CudaW4A4MoeWorkspace::read_activated() const {
  const std::int64_t values = problem_.slots ? memory_.sizes().slots() * problem_.down.k : 0;
  return read_array<std::uint16_t>(memory_, places_.activated, values);
}

// ---- a call -------------------------------------------------------------------------------------

// The addresses of a call, from the workspace's places.
struct W4A4MoeAccess {
  const CudaW4A4MoeLayer& layer;
  const CudaW4A4MoePrograms& programs;
  const CudaW4A4MoeProblem& problem;
  const CudaMoeMemory& memory;
  const W4A4MoePlaces& places;
  const CudaMoeCall& call;

  explicit W4A4MoeAccess(const CudaW4A4MoeParams& params)
      : layer(params.layer),
        programs(params.programs),
        problem(params.programs.problem()),
        memory(params.workspace.memory_),
        places(params.workspace.places_),
        call(params.call) {}

  static Result<> check(const CudaW4A4MoeParams& params) {
    const CudaW4A4MoeWorkspace& workspace = params.workspace;
    const MoeMemorySizes& sizes = workspace.memory_.sizes();
    NIBBLE_RETURN_IF_ERROR(workspace.memory_.check_tokens(params.call));
    if (params.layer.problem() != params.programs.problem()) {
      return input_error("the kernels were made for another layer's shape");
    }
    if (workspace.problem_ != params.programs.problem() ||
        sizes.flags_a != params.programs.gate_up().grid() ||
        sizes.flags_b != params.programs.down().grid()) {
      return input_error("the workspace was made for other kernels");
    }
    return check_addresses(params.call, true);
  }

  template <class T>
  T* array(std::size_t begin) const {
    return device_array<T>(memory.place(begin));
  }
  // Factors of rows, or none.
  float* factors(std::size_t begin) const {
    return problem.tokens.mode == QuantizeMode::kNvfp4Rows ? array<float>(begin) : nullptr;
  }

  QuantizeRows tokens() const {
    return {.x = device_array<void>(call.x),
            .codes = array<std::uint8_t>(places.token_codes),
            .scales = array<std::uint8_t>(places.token_scales),
            .factors = factors(places.token_factors),
            .factor = layer.gate_up_input_scale(),
            .rows = static_cast<std::int32_t>(call.tokens)};
  }

  // Of all slots that this many tokens can have; how many there are stands behind the last offset.
  QuantizeRows slots() const {
    const MoeShape& shape = problem.shape;
    return {.x = array<void>(places.activated),
            .codes = array<std::uint8_t>(places.slot_codes),
            .scales = array<std::uint8_t>(places.slot_scales),
            .factors = factors(places.slot_factors),
            .count = memory.offsets() + shape.experts,
            .token_of = memory.slot_token(),
            .rows = static_cast<std::int32_t>(most_slots(call.tokens, shape.top_k, shape.experts))};
  }

  W4A4Params gate_up() const {
    const bool coded = !problem.slots;
    return {.weights = device_array<std::uint8_t>(layer.gate_up().codes()),
            .weight_scales = device_array<std::uint8_t>(layer.gate_up().scales()),
            .alpha = device_array<float>(layer.gate_up().alpha()),
            .bias = device_array<float>(layer.biases().gate_up.address()),
            .tokens = array<std::uint8_t>(places.token_codes),
            .token_scales = array<std::uint8_t>(places.token_scales),
            .token_factor = factors(places.token_factors),
            .offsets = memory.offsets(),
            .tiles = memory.tiles_a(),
            .row_of = memory.slot_token(),
            .output = array<void>(coded ? places.slot_codes : places.activated),
            .output_scales = coded ? array<std::uint8_t>(places.slot_scales) : nullptr,
            .output_factor = layer.down_input_scale(),
            .partials = array<float>(places.partials),
            .flags = memory.flags_a(),
            .swiglu_alpha = layer.config().activation.alpha,
            .swiglu_limit = layer.config().activation.limit};
  }

  W4A4Params down() const {
    return {.weights = device_array<std::uint8_t>(layer.down().codes()),
            .weight_scales = device_array<std::uint8_t>(layer.down().scales()),
            .alpha = device_array<float>(layer.down().alpha()),
            .bias = device_array<float>(layer.biases().down.address()),
            .tokens = array<std::uint8_t>(places.slot_codes),
            .token_scales = array<std::uint8_t>(places.slot_scales),
            .token_factor = factors(places.slot_factors),
            .offsets = memory.offsets(),
            .tiles = memory.tiles_b(),
            .slot_weight = memory.slot_weight(),
            .output = array<void>(places.rows),
            .partials = array<float>(places.partials),
            .flags = memory.flags_b()};
  }

  Result<> route(cuda::Stream& stream) const {
    const RouteTables tables =
        memory.tables(call, programs.gate_up().tile_tokens(), programs.down().tile_tokens());
    if (call.logits == 0) return programs.around().tables(stream, tables);
    return programs.around().route(
        stream, memory.top_k(call, layer.config().router, layer.biases()), tables);
  }

  Result<> enqueue(W4A4MoePart part, cuda::Stream& stream) const {
    switch (part) {
      case W4A4MoePart::kRoute:
        return route(stream);
      case W4A4MoePart::kTokens:
        return programs.tokens().enqueue(stream, tokens());
      case W4A4MoePart::kGateUp:
        return programs.gate_up().enqueue(stream, gate_up());
      case W4A4MoePart::kSlots:
        return programs.slots() ? programs.slots()->enqueue(stream, slots()) : Result<>();
      case W4A4MoePart::kDown:
        return programs.down().enqueue(stream, down());
      case W4A4MoePart::kCombine:
        return programs.around().combine(stream, memory.combine(call, memory.place(places.rows)));
    }
    return {};
  }
};

Result<> cuda_w4a4_moe_part(W4A4MoePart part, const CudaW4A4MoeParams& params,
                            cuda::Stream& stream) {
  NIBBLE_RETURN_IF_ERROR(W4A4MoeAccess::check(params));
  if (params.call.tokens == 0) return {};
  return W4A4MoeAccess(params).enqueue(part, stream);
}

Result<> cuda_w4a4_moe(const CudaW4A4MoeParams& params, cuda::Stream& stream) {
  using enum W4A4MoePart;
  for (const W4A4MoePart part : {kRoute, kTokens, kGateUp, kSlots, kDown, kCombine}) {
    NIBBLE_RETURN_IF_ERROR(cuda_w4a4_moe_part(part, params, stream));
  }
  return {};
}

}  // namespace nibble
