// moe() must not allocate: a step of a server has no place for locks of the allocator, nor for
// failures. Counted by this program's own operator new.
#include <gtest/gtest.h>

#include "kernels/moe/test_layer.h"

#if !defined(__SANITIZE_ADDRESS__)

#include "base/test_allocations.h"

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
