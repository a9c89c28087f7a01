#include "kernels/attention/attention.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <string>

#include "formats/codec.h"
#include "kernels/attention/reference.h"
#include "kernels/moe/reference.h"
#include "kernels/moe/test_inputs.h"

namespace nibble {
namespace {

struct Case {
  std::string name;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 2;
  std::int64_t head_dim = 32;
  std::int64_t context = 0;
  std::int64_t rows = 1;
  std::int64_t block_tokens = 16;
  double size = 1;  // of queries: large ones make a softmax of one position
};

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {.name = "the first token"},
      {.name = "the second token", .context = 1},
      {.name = "the last token of a block", .context = 15},
      {.name = "the first token of a block", .context = 16},
      {.name = "the first token of a part", .context = 256},
      {.name = "some parts", .context = 700},
      {.name = "a prompt", .rows = 37},
      {.name = "a chunk", .context = 250, .rows = 20},
      {.name = "one head of 16", .heads = 1, .kv_heads = 1, .head_dim = 16, .context = 40},
      {.name = "a head of 256", .heads = 2, .kv_heads = 1, .head_dim = 256, .context = 300},
      {.name = "a head of 2", .heads = 2, .kv_heads = 2, .head_dim = 2, .context = 20},
      {.name = "a head of 80", .heads = 6, .kv_heads = 2, .head_dim = 80, .context = 33},
      {.name = "a head of 24", .heads = 3, .kv_heads = 1, .head_dim = 24, .context = 33, .rows = 7},
      {.name = "seven heads a key", .heads = 7, .kv_heads = 1, .context = 90, .rows = 3},
      {.name = "forty heads a key", .heads = 40, .kv_heads = 1, .context = 270, .rows = 2},
      {.name = "blocks of 1", .context = 45, .rows = 3, .block_tokens = 1},
      {.name = "blocks of 7", .context = 45, .rows = 20, .block_tokens = 7},
      {.name = "blocks of 24", .context = 45, .rows = 20, .block_tokens = 24},
      {.name = "blocks of 256", .context = 255, .rows = 20, .block_tokens = 256},
      {.name = "sharp", .context = 300, .rows = 3, .size = 40},
      {.name = "flat", .context = 300, .rows = 3, .size = 1e-6},
  };
  return kCases;
}

// One sequence in a cache whose other blocks are full of values that are not finite.
class Scene {
 public:
  Case shape;
  Format format;
  std::vector<float> qkv;  // [context + rows, stride]
  KvCache cache;
  std::vector<std::int32_t> blocks;

  Scene(const Case& a_case, Format a_format, std::uint64_t seed = 1)
      : shape(a_case), format(a_format) {
    Random random(seed);
    qkv = gaussian(random, positions() * stride());
    for (std::int64_t row = 0; row < positions(); ++row) {
      for (std::int64_t at = 0; at < width(); ++at) {
        qkv[static_cast<std::size_t>(row * stride() + at)] *= static_cast<float>(shape.size);
      }
    }
    const std::int64_t needed = (positions() + shape.block_tokens - 1) / shape.block_tokens;
    Result<KvCache> made = KvCache::make({.layers = 2,
                                          .blocks = 2 * needed + 1,
                                          .block_tokens = shape.block_tokens,
                                          .kv_heads = shape.kv_heads,
                                          .head_dim = shape.head_dim,
                                          .format = format});
    EXPECT_TRUE(made.ok());
    cache = std::move(*made);
    poison(2 * needed + 1);
    // Every second block, from the last to the first.
    for (std::int64_t block = needed; block-- > 0;) {
      blocks.push_back(static_cast<std::int32_t>(2 * block + 1));
    }
    write(0, positions());
  }

  std::int64_t positions() const { return shape.context + shape.rows; }
  std::int64_t width() const { return shape.heads * shape.head_dim; }
  std::int64_t kv_width() const { return shape.kv_heads * shape.head_dim; }
  std::int64_t stride() const { return width() + 2 * kv_width() + 3; }

  std::span<const float> rows_of(std::int64_t begin, std::int64_t count) const {
    return std::span(qkv).subspan(static_cast<std::size_t>(begin * stride()),
                                  static_cast<std::size_t>(count * stride()));
  }

  void write(std::int64_t begin, std::int64_t count) {
    ThreadPool pool(1);
    const CachedRows rows{.rows = count, .context = begin, .blocks = blocks};
    cache.write({.rows = rows_of(begin, count),
                 .stride = stride(),
                 .key_column = width(),
                 .value_column = width() + kv_width(),
                 .sequences = {&rows, 1}},
                1, pool);
  }

  // The last `rows` positions, `step` at a time.
  std::vector<float> run(Isa isa, int threads, std::int64_t step) const {
    ThreadPool pool(threads);
    Result<AttentionWorkspace> workspace =
        AttentionWorkspace::make(shape.heads, shape.kv_heads, shape.head_dim);
    EXPECT_TRUE(workspace.ok());
    std::vector<float> output(static_cast<std::size_t>(shape.rows * width()), -1e30F);
    for (std::int64_t row = 0; row < shape.rows; row += step) {
      const std::int64_t count = std::min(step, shape.rows - row);
      const CachedRows rows{.rows = count, .context = shape.context + row, .blocks = blocks};
      attention({.queries = rows_of(shape.context + row, count),
                 .stride = stride(),
                 .heads = shape.heads,
                 .cache = cache,
                 .layer = 1,
                 .sequences = {&rows, 1},
                 .workspace = *workspace,
                 .output = std::span(output).subspan(static_cast<std::size_t>(row * width()),
                                                     static_cast<std::size_t>(count * width()))},
                isa, pool);
    }
    return output;
  }

  std::vector<double> reference() const {
    const std::vector<float> queries = columns(shape.context, 0, width());
    const std::vector<float> keys = stored(columns(0, width(), kv_width()));
    const std::vector<float> values = stored(columns(0, width() + kv_width(), kv_width()));
    return attention_reference({.queries = queries,
                                .keys = keys,
                                .values = values,
                                .heads = shape.heads,
                                .kv_heads = shape.kv_heads,
                                .head_dim = shape.head_dim,
                                .context = shape.context});
  }

 private:
  std::vector<float> columns(std::int64_t first_row, std::int64_t begin, std::int64_t count) const {
    std::vector<float> out;
    for (std::int64_t row = first_row; row < positions(); ++row) {
      const auto at = qkv.begin() + row * stride() + begin;
      out.insert(out.end(), at, at + count);
    }
    return out;
  }
  std::vector<float> stored(std::vector<float> values) const {
    if (format == Format::kBf16) {
      for (float& value : values) value = bf16_to_float(float_to_bf16(value));
    }
    return values;
  }
  void poison(std::int64_t count) {
    ThreadPool pool(1);
    const std::vector<float> bad(
        static_cast<std::size_t>(count * shape.block_tokens * 2 * kv_width()),
        std::numeric_limits<float>::quiet_NaN());
    std::vector<std::int32_t> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    const CachedRows rows{.rows = count * shape.block_tokens, .blocks = all};
    for (std::int64_t layer = 0; layer < 2; ++layer) {
      cache.write({.rows = bad,
                   .stride = 2 * kv_width(),
                   .value_column = kv_width(),
                   .sequences = {&rows, 1}},
                  layer, pool);
    }
  }
};

// Scores are sums of at most 256 products of size 1 in fp32, scaled to size 1: 256 roundings of
// 2^-25 at most move a weight by 1e-5; queries of size 40 make that 40 times as much.
double bound(const Case& shape) {
  return 1e-5 * std::max(1.0, shape.size);
}

TEST(Attention, EqualsTheReferenceOnEveryCaseAndInstructionSet) {
  for (const Case& shape : cases()) {
    for (const Format format : {Format::kFp32, Format::kBf16}) {
      const Scene scene(shape, format);
      const std::vector<double> expected = scene.reference();
      for (const Isa isa : usable_isas()) {
        EXPECT_LE(moe_error(scene.run(isa, 2, shape.rows), expected), bound(shape))
            << shape.name << ", " << to_string(format) << ", " << to_string(isa);
      }
    }
  }
}

TEST(Attention, HasTheSameBitsInChunksOnAnyThreadsAndOnEveryInstructionSet) {
  for (const Case& shape : cases()) {
    for (const Format format : {Format::kFp32, Format::kBf16}) {
      const Scene scene(shape, format, 2);
      const std::vector<float> expected = scene.run(Isa::kPortable, 1, shape.rows);
      for (const Isa isa : usable_isas()) {
        // Three threads on one row of few heads work on its parts apart.
        for (const int threads : {1, 3}) {
          for (const std::int64_t step : {std::int64_t{1}, std::int64_t{5}, shape.rows}) {
            EXPECT_TRUE(same_bits(scene.run(isa, threads, step), expected))
                << shape.name << ", " << to_string(format) << ", " << to_string(isa) << ", "
                << threads << " threads, " << step << " at a time";
          }
        }
      }
    }
  }
}

// Three sequences in one call: a chunk, a single token far on, and a first token.
TEST(Attention, ARowDoesNotDependOnItsBatch) {
  const Case shape{.name = "batch", .context = 600, .rows = 40};
  const Scene scene(shape, Format::kBf16, 3);
  const std::vector<float> alone = scene.run(best_isa(), 1, shape.rows);
  const std::vector<CachedRows> sequences = {
      {.first_row = 0, .rows = 39, .context = 600, .blocks = scene.blocks},
      {.first_row = 39, .rows = 1, .context = 639, .blocks = scene.blocks}};
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    Result<AttentionWorkspace> workspace = AttentionWorkspace::make(4, 2, 32);
    ASSERT_TRUE(workspace.ok());
    std::vector<float> together(alone.size());
    attention({.queries = scene.rows_of(600, 40),
               .stride = scene.stride(),
               .heads = 4,
               .cache = scene.cache,
               .layer = 1,
               .sequences = sequences,
               .workspace = *workspace,
               .output = together},
              best_isa(), pool);
    EXPECT_TRUE(same_bits(together, alone)) << threads;
  }
}

TEST(Attention, OneValueTakesAllByHand) {
  // Keys 0 and 1000 against a query of 1: all weight on the second; with equal keys half on each.
  for (const float key : {1000.0F, 0.0F}) {
    const Case shape{.heads = 1, .kv_heads = 1, .head_dim = 2, .context = 1};
    Scene scene(shape, Format::kFp32);
    const std::vector<float> rows = {9, 9, 0, 0, 3, 5, 0, 0, 0, 1, 0, key, 0, 7, 11, 0, 0, 0};
    ASSERT_EQ(scene.stride(), 9);
    std::copy(rows.begin(), rows.end(), scene.qkv.begin());
    scene.write(0, 2);
    const std::vector<float> y = scene.run(best_isa(), 1, 1);
    EXPECT_EQ(y, key > 0 ? (std::vector<float>{7, 11}) : (std::vector<float>{5, 8}));
  }
}

TEST(Attention, ScoresThatAreNotFiniteShow) {
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    Scene scene({.name = "bad", .context = 20}, Format::kFp32);
    scene.qkv[static_cast<std::size_t>(20 * scene.stride())] = bad;  // the first head's query
    const std::vector<float> y = scene.run(best_isa(), 1, 1);
    EXPECT_FALSE(std::isfinite(y[0]));
    EXPECT_TRUE(std::isfinite(y[32]));  // the second head
  }
}

TEST(AttentionWorkspace, RefusesSizesOutOfRange) {
  EXPECT_TRUE(AttentionWorkspace::make(8, 2, 64).ok());
  EXPECT_FALSE(AttentionWorkspace::make(8, 3, 64).ok());
  EXPECT_FALSE(AttentionWorkspace::make(8, 0, 64).ok());
  EXPECT_FALSE(AttentionWorkspace::make(0, 1, 64).ok());
  EXPECT_FALSE(AttentionWorkspace::make(2048, 1, 64).ok());
  EXPECT_FALSE(AttentionWorkspace::make(8, 2, 512).ok());
}

}  // namespace
}  // namespace nibble
