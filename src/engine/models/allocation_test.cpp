// A step must not allocate: it has no place for locks of the allocator, nor for failures. Counted
// by this program's own operator new.
#include <gtest/gtest.h>

#include "engine/models/test_runner.h"

#if !defined(__SANITIZE_ADDRESS__)

#include "base/test_allocations.h"

namespace nibble::engine {
namespace {

TEST(ModelStep, DoesNotAllocate) {
  for (const char* name : {"untied", "tied", "shared"}) {
    for (const int threads : {1, 2}) {
      Runner runner(golden_folder(name), {.kv_format = Format::kBf16}, threads);
      const auto half = runner.blocks().size() / 2;
      // A chunk of a prompt and a single token, in a step of its own and together.
      const std::vector<SequenceRows> sequences = {
          {.first_row = 0, .rows = 40, .blocks = runner.blocks().first(half), .logit_rows = 1},
          {.first_row = 40, .rows = 1, .blocks = runner.blocks().subspan(half), .logit_rows = 1}};
      const std::vector<text::TokenId> tokens(41, 7);
      std::vector<float> logits(static_cast<std::size_t>(2 * runner.model().info().vocabulary));
      const std::int64_t before = allocations;
      runner.model().forward({.tokens = tokens, .sequences = sequences}, logits, runner.pool());
      runner.model().forward(
          {.tokens = std::span(tokens).first(40), .sequences = std::span(sequences).first(1)},
          std::span(logits).first(logits.size() / 2), runner.pool());
      EXPECT_EQ(allocations, before) << name;
      const std::vector<float> counted(100);
      EXPECT_EQ(allocations, before + 1) << counted.size();
    }
  }
}

}  // namespace
}  // namespace nibble::engine

#endif
