// moe() must not allocate: a step of a server has no place for locks of the allocator, nor for
// failures. Counted by this program's own operator new.
#include <atomic>
#include <cstdlib>
#include <gtest/gtest.h>
#include <new>

#include "kernels/moe/test_layer.h"

namespace {

std::atomic<std::int64_t> allocations = 0;

}  // namespace

#if !defined(__SANITIZE_ADDRESS__)  // which has an operator new of its own

void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace nibble {
namespace {

TEST(Moe, TheCounterOfAllocationsCounts) {
  const std::int64_t before = allocations;
  const std::vector<float> some(100);
  EXPECT_EQ(allocations, before + 1) << some.size();
}

TEST(Moe, DoesNotAllocate) {
  for (const TestRouting routing : {TestRouting::kGroups, TestRouting::kAfterTopK}) {
    for (const Format activations : {Format::kFp32, Format::kBf16, Format::kInt8, Format::kNvfp4}) {
      const TestLayer layer({.tokens = 5, .experts = 8, .routing = routing});
      ThreadPool pool(2);
      const Result<MoeLayer> packed =
          MoeLayer::make(layer.config(activations), layer.weights, pool);
      ASSERT_TRUE(packed.ok());
      Result<MoeWorkspace> workspace = MoeWorkspace::make(*packed, 5);
      ASSERT_TRUE(workspace.ok());
      std::vector<float> y(layer.x.size());
      const std::int64_t before = allocations;
      moe({.layer = *packed, .workspace = *workspace, .x = layer.x, .y = y}, pool);
      EXPECT_EQ(allocations, before) << to_string(activations);
    }
  }
}

}  // namespace
}  // namespace nibble

#endif
