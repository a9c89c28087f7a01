#include "kernels/attention/kv_cache.h"

#include <gtest/gtest.h>
#include <limits>
#include <vector>

namespace nibble {
namespace {

constexpr KvShape kShape{
    .layers = 2, .blocks = 3, .block_tokens = 16, .kv_heads = 2, .head_dim = 4};

TEST(KvCache, CountsItsBytes) {
  // 2 layers x 2 heads x (4 keys + 4 values rounded up to 16) x 4 bytes.
  EXPECT_EQ(kv_bytes_per_token(kShape), 2 * 2 * (4 + 16) * 4);
  KvShape wide = kShape;
  wide.head_dim = 128;
  wide.format = Format::kBf16;
  EXPECT_EQ(kv_bytes_per_token(wide), 2 * 2 * 256 * 2);
  const Result<KvCache> cache = KvCache::make(wide);
  ASSERT_TRUE(cache.ok());
  EXPECT_GE(cache->bytes(), 3U * 16 * 2 * 2 * 256 * 2);
}

TEST(KvCache, PutsAValueWhereItsPositionIs) {
  Result<KvCache> cache = KvCache::make(kShape);
  ASSERT_TRUE(cache.ok());
  ThreadPool pool(1);
  // Position 18 is the third of the second block, which is block 0. Keys 1 .. 8, values 11 .. 18.
  const std::vector<std::int32_t> blocks = {2, 0};
  const std::vector<float> row = {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16, 17, 18};
  const CachedRows rows{.rows = 1, .context = 18, .blocks = blocks};
  cache->write(
      {.rows = row, .stride = 16, .key_column = 0, .value_column = 8, .sequences = {&rows, 1}}, 1,
      pool);
  const auto* const head = reinterpret_cast<const float*>(cache->tile(1, 0, 1, 0));
  EXPECT_EQ(head[0 * 16 + 2], 5);
  EXPECT_EQ(head[3 * 16 + 2], 8);
  EXPECT_EQ(head[4 * 16 + 2 * 16 + 0], 15);
  EXPECT_EQ(head[4 * 16 + 2 * 16 + 3], 18);
  EXPECT_EQ(head[4 * 16 + 2 * 16 + 4], 0);
}

TEST(KvCache, RefusesSizesOutOfRange) {
  const auto refuses = [](auto change) {
    KvShape shape = kShape;
    change(shape);
    return !KvCache::make(shape).ok();
  };
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{-1}, kHuge}) {
    EXPECT_TRUE(refuses([bad](KvShape& shape) { shape.layers = bad; }));
    EXPECT_TRUE(refuses([bad](KvShape& shape) { shape.blocks = bad; }));
    EXPECT_TRUE(refuses([bad](KvShape& shape) { shape.block_tokens = bad; }));
    EXPECT_TRUE(refuses([bad](KvShape& shape) { shape.kv_heads = bad; }));
    EXPECT_TRUE(refuses([bad](KvShape& shape) { shape.head_dim = bad; }));
  }
  EXPECT_TRUE(refuses([](KvShape& shape) { shape.format = Format::kFp8; }));
  // 2^28 blocks of this shape are a quarter of a petabyte.
  EXPECT_TRUE(refuses([](KvShape& shape) {
    shape.blocks = 1 << 28;
    shape.layers = 4096;
  }));
  EXPECT_FALSE(refuses([](KvShape&) {}));
}

TEST(KvCache, KnowsWhetherSequencesFit) {
  const std::vector<std::int32_t> blocks = {2, 0};
  const auto fits = [](std::vector<CachedRows> sequences, std::int64_t rows) {
    return sequences_fit(sequences, rows, kShape);
  };
  EXPECT_TRUE(fits({}, 0));
  EXPECT_TRUE(fits({{.rows = 32, .blocks = blocks}}, 32));
  EXPECT_FALSE(fits({{.rows = 33, .blocks = blocks}}, 33));
  EXPECT_FALSE(fits({{.rows = 1, .context = 32, .blocks = blocks}}, 1));
  EXPECT_FALSE(fits({{.rows = 2, .blocks = blocks}}, 3));
  EXPECT_FALSE(fits({{.first_row = 1, .rows = 2, .blocks = blocks}}, 3));
  EXPECT_FALSE(fits({{.rows = 0, .blocks = blocks}}, 0));
  EXPECT_FALSE(fits({{.rows = 1, .context = -1, .blocks = blocks}}, 1));
  for (const std::int32_t bad : {-1, 3}) {
    const std::vector<std::int32_t> outside = {bad};
    EXPECT_FALSE(fits({{.rows = 1, .blocks = outside}}, 1));
  }
}

}  // namespace
}  // namespace nibble
