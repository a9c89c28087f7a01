// Keys and values of all layers, in blocks of positions whose numbers somebody else hands out.
//
//   NIBBLE_ASSIGN_OR_RETURN(KvCache cache, KvCache::make({.layers = 48, .blocks = 512,
//       .block_tokens = 16, .kv_heads = 4, .head_dim = 128, .format = Format::kBf16}));
//   cache.write({.rows = qkv, .stride = 5120, .key_column = 4096, .value_column = 4608,
//                .sequences = sequences}, layer, pool);
//
// Within a block, [layer][block][head][tile of 16 positions]: the keys of a tile [head_dim][16], so
// that one register holds a column of 16 keys, then its values [16][head_dim, in whole registers].
#pragma once

#include <cstdint>
#include <span>

#include "base/huge_buffer.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "formats/format.h"

namespace nibble {

inline constexpr std::int64_t kMostHeadDim = 256;
inline constexpr std::int64_t kMostBlockTokens = 256;

struct KvShape {
  std::int64_t layers = 0;
  std::int64_t blocks = 0;
  std::int64_t block_tokens = 16;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  Format format = Format::kFp32;  // or kBf16
};

// Rows `first_row` .. `first_row + rows - 1` of a batch are tokens of one sequence at its positions
// `context` .. `context + rows - 1`. Position p lies in blocks[p / block_tokens], at
// p % block_tokens.
struct CachedRows {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  std::int64_t context = 0;
  std::span<const std::int32_t> blocks;
};

struct KvWriteParams {
  std::span<const float> rows;    // [rows, stride]
  std::int64_t stride = 0;        // floats from one row to the next
  std::int64_t key_column = 0;    // where a row's keys begin: [kv_heads, head_dim]
  std::int64_t value_column = 0;  // and its values
  std::span<const CachedRows> sequences;
};

class KvCache {
 public:
  KvCache() = default;
  // An input error for sizes out of range, a run error when the machine has not that much memory.
  static Result<KvCache> make(const KvShape& shape);

  const KvShape& shape() const { return shape_; }
  std::size_t bytes() const { return memory_.size(); }

  // Rounds to the cache's format. Sizes and blocks that do not fit are our caller's mistake
  // (NIBBLE_CHECK). Does not allocate.
  void write(const KvWriteParams& params, std::int64_t layer, ThreadPool& pool);

  // A block, as many tiles as it needs, of 16 positions each (the last one may have fewer).
  std::int64_t tiles_per_block() const { return tiles_per_block_; }
  const std::byte* tile(std::int64_t layer, std::int64_t block, std::int64_t head,
                        std::int64_t tile) const {
    return memory_.data() + offset(layer, block, head, tile);
  }

 private:
  std::size_t offset(std::int64_t layer, std::int64_t block, std::int64_t head,
                     std::int64_t tile) const {
    const std::int64_t number =
        ((layer * shape_.blocks + block) * shape_.kv_heads + head) * tiles_per_block_ + tile;
    return static_cast<std::size_t>(number * tile_bytes_);
  }
  template <class Stored>
  void write_row(const KvWriteParams& params, std::int64_t layer, std::int64_t row,
                 std::int64_t block, std::int64_t place);

  KvShape shape_;
  std::int64_t tiles_per_block_ = 0;
  std::int64_t tile_bytes_ = 0;
  HugeBuffer memory_;
};

// What one token takes, of all layers, in blocks of whole tiles.
std::int64_t kv_bytes_per_token(const KvShape& shape);

// Whether sequences cover `rows` rows in order, and blocks of the cache all of their positions: for
// NIBBLE_CHECK.
bool sequences_fit(std::span<const CachedRows> sequences, std::int64_t rows, const KvShape& shape);

}  // namespace nibble
