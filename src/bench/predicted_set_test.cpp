#include "bench/predicted_set.h"

#include <gtest/gtest.h>
#include <set>
#include <span>

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

struct Sums {
  std::int64_t experts = 0, top_k = 0, n = 0, k = 0, tokens = 0;
  bool operator==(const Sums&) const = default;
};

Sums sums_of_first(std::size_t count) {
  Sums sums;
  const std::vector<BenchShape> shapes = predicted_set();
  for (const BenchShape& shape : std::span(shapes).first(count)) {
    sums.experts += shape.experts;
    sums.top_k += shape.top_k;
    sums.n += shape.n;
    sums.k += shape.k;
    sums.tokens += shape.tokens.front();
  }
  return sums;
}

// The sums over the list as it was when it was settled, its first half before the second: whoever
// changes the draw changes the list, and its old measurements are of other shapes.
TEST(PredictedSet, WasSettledBefore) {
  EXPECT_EQ(sums_of_first(24), (Sums{3508, 109, 54720, 104384, 2843}));
  EXPECT_EQ(sums_of_first(48), (Sums{6156, 214, 116864, 227776, 5934}));
}

}  // namespace
}  // namespace nibble
