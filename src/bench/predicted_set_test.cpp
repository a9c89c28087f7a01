#include "bench/predicted_set.h"

#include <gtest/gtest.h>
#include <set>

namespace nibble {
namespace {

TEST(PredictedSet, IsTheSameEveryTimeAndHasNoTwins) {
  const std::vector<BenchShape> shapes = predicted_set();
  const std::vector<BenchShape> again = predicted_set();
  ASSERT_EQ(shapes.size(), static_cast<std::size_t>(kPredictedShapes));
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>> met;
  for (std::size_t at = 0; at < shapes.size(); ++at) {
    const BenchShape& shape = shapes[at];
    EXPECT_EQ(shape.k, again[at].k);
    EXPECT_EQ(shape.tokens, again[at].tokens);
    EXPECT_LE(shape.top_k, shape.experts);
    EXPECT_EQ(shape.k % 64, 0);
    EXPECT_EQ(shape.n % 64, 0);
    ASSERT_EQ(shape.tokens.size(), 1U);
    EXPECT_TRUE(shape.format == Format::kNvfp4 || shape.format == Format::kMxfp4);
    met.insert({shape.experts, shape.n, shape.k, shape.tokens.front()});
  }
  EXPECT_EQ(met.size(), shapes.size());
}

// The sums over the list as it was when it was settled: whoever changes the draw changes the list,
// and its old measurements are of other shapes.
TEST(PredictedSet, WasSettledBefore) {
  std::int64_t experts = 0, top_k = 0, n = 0, k = 0, tokens = 0;
  for (const BenchShape& shape : predicted_set()) {
    experts += shape.experts;
    top_k += shape.top_k;
    n += shape.n;
    k += shape.k;
    tokens += shape.tokens.front();
  }
  EXPECT_EQ(experts, 3508);
  EXPECT_EQ(top_k, 109);
  EXPECT_EQ(n, 54720);
  EXPECT_EQ(k, 104384);
  EXPECT_EQ(tokens, 2843);
}

}  // namespace
}  // namespace nibble
