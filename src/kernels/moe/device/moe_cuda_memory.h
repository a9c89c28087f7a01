// What a call of any layer of experts on a GPU takes, and the part of its workspace that does not
// depend on its products: what routing writes.
//
//   const MoeMemorySizes sizes{.shape = shape, .most_tokens = 64, .flags_a = 132, .flags_b = 132};
//   MemoryPlan plan = moe_memory_plan(sizes);                  // a layer adds its own arrays
//   const std::size_t rows = plan.add(slots * hidden, 2);
//   NIBBLE_ASSIGN_OR_RETURN(CudaMoeMemory memory, CudaMoeMemory::make(sizes, plan));
//   around.combine(stream, memory.combine(call, memory.place(rows)));
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "cuda/memory.h"
#include "cuda/stream.h"
#include "kernels/moe/device/moe_cuda_layer.h"

namespace nibble {

// Puts arrays one after the other, each at a multiple of 256 bytes.
class MemoryPlan {
 public:
  std::size_t add(std::int64_t count, std::int64_t bytes_each);
  std::size_t size() const { return size_; }

 private:
  std::size_t size_ = 0;
};

struct MoeMemorySizes {
  MoeShape shape;
  std::int64_t most_tokens = 0;
  int flags_a = 0;  // words of the first product's flags, and of the second's
  int flags_b = 0;

  std::int64_t choices() const { return most_tokens * shape.top_k; }
  std::int64_t slots() const { return most_slots(most_tokens, shape.top_k, shape.experts); }
};

// An input error for a number of tokens that no workspace holds.
Result<> check_most_tokens(const MoeShape& shape, std::int64_t most_tokens);

// The arrays of routing, which come first.
MemoryPlan moe_memory_plan(const MoeMemorySizes& sizes);

// Device addresses.
struct CudaMoeCall {
  cuda::DevicePointer x = 0;  // [tokens, hidden] in `activations`
  // Logits, or both others. Ids that come from the host are checked there (check_expert_ids()); of
  // those that are no experts the choices are left out (dropped_choices()).
  cuda::DevicePointer logits = 0;          // float [tokens, experts]
  cuda::DevicePointer expert_ids = 0;      // int [tokens, top_k]
  cuda::DevicePointer expert_weights = 0;  // float [tokens, top_k]
  cuda::DevicePointer shared = 0;  // [tokens, hidden] in `output`, added last; or 0; may be y
  cuda::DevicePointer y = 0;       // [tokens, hidden] in `output`
  std::int64_t tokens = 0;
};

// An input error for what is missing or not aligned: y, shared, and a `wide_x`, to 16 bytes; the
// others to 4.
Result<> check_addresses(const CudaMoeCall& call, bool wide_x);

template <class T>
T* device_array(cuda::DevicePointer address) {
  return reinterpret_cast<T*>(address);
}

class CudaMoeMemory {
 public:
  CudaMoeMemory() = default;  // of no tokens
  // `plan`: moe_memory_plan(sizes), and what a layer added.
  static Result<CudaMoeMemory> make(const MoeMemorySizes& sizes, const MemoryPlan& plan);

  const MoeMemorySizes& sizes() const { return sizes_; }
  std::size_t bytes() const { return memory_.size(); }
  // The array that a plan has at byte `begin`.
  cuda::DevicePointer place(std::size_t begin) const { return memory_.address() + begin; }
  Result<> download(std::span<std::byte> to, std::size_t begin) const {
    return memory_.download(to, begin);
  }

  // What the kernels write.
  const int* offsets() const { return device_array<int>(place(places_.offsets)); }
  const int* tiles_a() const { return device_array<int>(place(places_.tiles_a)); }
  const int* tiles_b() const { return device_array<int>(place(places_.tiles_b)); }
  const int* slot_token() const { return device_array<int>(place(places_.slot_token)); }
  const float* slot_weight() const { return device_array<float>(place(places_.slot_weight)); }
  std::uint32_t* flags_a() const { return device_array<std::uint32_t>(flags_.address()); }
  std::uint32_t* flags_b() const { return flags_a() + sizes_.flags_a; }

  // What they are launched with.
  RouteTopK top_k(const CudaMoeCall& call, const RouterConfig& router,
                  const CudaMoeBiases& biases) const;
  RouteTables tables(const CudaMoeCall& call, int tile_a, int tile_b) const;
  GatherRows gather(const CudaMoeCall& call, cuda::DevicePointer slots) const;
  CombineRows combine(const CudaMoeCall& call, cuda::DevicePointer rows) const;

  // An input error for another number of tokens than it was made for.
  Result<> check_tokens(const CudaMoeCall& call) const;
  Result<> clear_flags(cuda::Stream& stream) { return flags_.fill(0, stream); }

  // Each waits for all work of the GPU. Choices since the memory was made whose ids were no
  // experts; of the last call [experts] and [experts + 1]; and every byte to 0xff.
  Result<std::int64_t> dropped_choices() const;
  Result<std::vector<int>> read_counts() const;
  Result<std::vector<int>> read_offsets() const;
  Result<> poison();

 private:
  friend MemoryPlan moe_memory_plan(const MoeMemorySizes& sizes);

  // Bytes from the beginning of memory_.
  struct Places {
    std::size_t ids = 0;          // [most_tokens, top_k]
    std::size_t weights = 0;      // [most_tokens, top_k]
    std::size_t counts = 0;       // [experts]
    std::size_t offsets = 0;      // [experts + 1]
    std::size_t tiles_a = 0;      // [experts + 1]
    std::size_t tiles_b = 0;      // [experts + 1]
    std::size_t slot_token = 0;   // [slots]
    std::size_t slot_weight = 0;  // [slots]
    std::size_t choice_slot = 0;  // [most_tokens, top_k]
  };
  static Places add_to(MemoryPlan& plan, const MoeMemorySizes& sizes);
  Result<std::vector<int>> read(std::size_t begin, int count) const;

  MoeMemorySizes sizes_;
  Places places_;
  cuda::DeviceBuffer memory_;
  cuda::DeviceBuffer flags_;    // uint32 [flags_a + flags_b]
  cuda::DeviceBuffer dropped_;  // int [1]
};

}  // namespace nibble
