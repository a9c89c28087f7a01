#include "kernels/moe/device/moe_cuda_memory.h"

#include <span>

namespace nibble {
namespace {

// Slots are counted in 32 bits, with room to spare.
constexpr std::int64_t kMostChoices = std::int64_t{1} << 29;

}  // namespace

std::size_t MemoryPlan::add(std::int64_t count, std::int64_t bytes_each) {
  const std::size_t begin = size_;
  size_ += static_cast<std::size_t>(ceil_div(count * bytes_each, 256) * 256);
  return begin;
}

Result<> check_most_tokens(const MoeShape& shape, std::int64_t most_tokens) {
  if (most_tokens >= 1 && most_tokens <= kMostChoices / shape.top_k) return {};
  return input_error("a workspace for {} tokens with {} experts each; give 1 to {} tokens",
                     most_tokens, shape.top_k, kMostChoices / shape.top_k);
}

MemoryPlan moe_memory_plan(const MoeMemorySizes& sizes) {
  MemoryPlan plan;
  CudaMoeMemory::add_to(plan, sizes);
  return plan;
}

Result<> check_addresses(const CudaMoeCall& call, bool wide_x) {
  const bool by_logits = call.logits != 0;
  const bool by_ids = call.expert_ids != 0 && call.expert_weights != 0;
  if (call.tokens > 0 && by_logits == by_ids) {
    return input_error("give the layer either logits or expert ids with their weights");
  }
  if (call.tokens > 0 && (call.x == 0 || call.y == 0)) {
    return input_error("the layer has no address of {}", call.x == 0 ? "x" : "y");
  }
  const cuda::DevicePointer four = call.x | call.logits | call.expert_ids | call.expert_weights;
  const cuda::DevicePointer sixteen = call.y | call.shared | (wide_x ? call.x : 0);
  if (four % 4 != 0 || sixteen % 16 != 0) {
    return input_error(
        "an address of the layer is not aligned; {}y and shared want 16 bytes, the others 4",
        wide_x ? "x, " : "");
  }
  return {};
}

CudaMoeMemory::Places CudaMoeMemory::add_to(MemoryPlan& plan, const MoeMemorySizes& sizes) {
  const std::int64_t experts = sizes.shape.experts;
  Places places;
  places.ids = plan.add(sizes.choices(), sizeof(int));
  places.weights = plan.add(sizes.choices(), sizeof(float));
  places.counts = plan.add(experts, sizeof(int));
  places.offsets = plan.add(experts + 1, sizeof(int));
  places.tiles_a = plan.add(experts + 1, sizeof(int));
  places.tiles_b = plan.add(experts + 1, sizeof(int));
  places.slot_token = plan.add(sizes.slots(), sizeof(int));
  places.slot_weight = plan.add(sizes.slots(), sizeof(float));
  places.choice_slot = plan.add(sizes.choices(), sizeof(int));
  return places;
}

Result<CudaMoeMemory> CudaMoeMemory::make(const MoeMemorySizes& sizes, const MemoryPlan& plan) {
  CudaMoeMemory memory;
  memory.sizes_ = sizes;
  MemoryPlan own;
  memory.places_ = add_to(own, sizes);
  NIBBLE_ASSIGN_OR_RETURN(memory.memory_, cuda::DeviceBuffer::make(plan.size()));
  const auto flags = static_cast<std::size_t>(sizes.flags_a + sizes.flags_b);
  NIBBLE_ASSIGN_OR_RETURN(memory.flags_,
                          cuda::DeviceBuffer::of(std::vector<std::uint32_t>(flags, 0)));
  NIBBLE_ASSIGN_OR_RETURN(memory.dropped_, cuda::DeviceBuffer::of(std::vector<int>(1, 0)));
  return memory;
}

Result<> CudaMoeMemory::check_tokens(const CudaMoeCall& call) const {
  if (call.tokens >= 0 && call.tokens <= sizes_.most_tokens) return {};
  return input_error("{} tokens; the workspace holds 0 to {}", call.tokens, sizes_.most_tokens);
}

RouteTopK CudaMoeMemory::top_k(const CudaMoeCall& call, const RouterConfig& router,
                               const CudaMoeBiases& biases) const {
  return {.logits = device_array<float>(call.logits),
          .linear_bias = device_array<float>(biases.router.address()),
          .correction_bias = device_array<float>(biases.correction.address()),
          .ids = device_array<int>(place(places_.ids)),
          .weights = device_array<float>(place(places_.weights)),
          .scaling_factor = router.scaling_factor,
          .tokens = static_cast<int>(call.tokens)};
}

RouteTables CudaMoeMemory::tables(const CudaMoeCall& call, int tile_a, int tile_b) const {
  const bool given = call.expert_ids != 0;
  return {.ids = device_array<int>(given ? call.expert_ids : place(places_.ids)),
          .weights = device_array<float>(given ? call.expert_weights : place(places_.weights)),
          .tokens = static_cast<int>(call.tokens),
          .tile_a = tile_a,
          .tile_b = tile_b,
          .counts = device_array<int>(place(places_.counts)),
          .offsets = device_array<int>(place(places_.offsets)),
          .tiles_a = device_array<int>(place(places_.tiles_a)),
          .tiles_b = device_array<int>(place(places_.tiles_b)),
          .slot_token = device_array<int>(place(places_.slot_token)),
          .slot_weight = device_array<float>(place(places_.slot_weight)),
          .choice_slot = device_array<int>(place(places_.choice_slot)),
          .dropped = device_array<int>(dropped_.address()),
          .flags_a = flags_a(),
          .flags_b = flags_b(),
          .flags_a_count = sizes_.flags_a,
          .flags_b_count = sizes_.flags_b};
}

GatherRows CudaMoeMemory::gather(const CudaMoeCall& call, cuda::DevicePointer slots) const {
  return {.x = device_array<void>(call.x),
          .choice_slot = device_array<int>(place(places_.choice_slot)),
          .slots = device_array<void>(slots),
          .tokens = static_cast<int>(call.tokens)};
}

CombineRows CudaMoeMemory::combine(const CudaMoeCall& call, cuda::DevicePointer rows) const {
  return {.rows = device_array<void>(rows),
          .choice_slot = device_array<int>(place(places_.choice_slot)),
          .shared = device_array<void>(call.shared),
          .y = device_array<void>(call.y),
          .tokens = static_cast<int>(call.tokens)};
}

Result<std::int64_t> CudaMoeMemory::dropped_choices() const {
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<int> dropped, dropped_.read<int>());
  return dropped.front();
}

Result<std::vector<int>> CudaMoeMemory::read_counts() const {
  return read(places_.counts, sizes_.shape.experts);
}

Result<std::vector<int>> CudaMoeMemory::read_offsets() const {
  return read(places_.offsets, sizes_.shape.experts + 1);
}

Result<std::vector<int>> CudaMoeMemory::read(std::size_t begin, int count) const {
  std::vector<int> values(static_cast<std::size_t>(count));
  NIBBLE_RETURN_IF_ERROR(download(std::as_writable_bytes(std::span(values)), begin));
  return values;
}

Result<> CudaMoeMemory::poison() {
  NIBBLE_RETURN_IF_ERROR(flags_.fill(0xff));
  return memory_.fill(0xff);
}

}  // namespace nibble
