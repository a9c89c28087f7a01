#include "kernels/attention/kv_cache.h"

#include <type_traits>

#include "base/check.h"
#include "formats/codec.h"
#include "kernels/lanes/lanes.h"

namespace nibble {
namespace {

std::int64_t element_bytes(Format format) {
  return format == Format::kBf16 ? 2 : 4;
}

// Keys and values of 16 positions.
std::int64_t tile_bytes_of(const KvShape& shape) {
  return kLanes * (shape.head_dim + rounded_to_lanes(shape.head_dim)) * element_bytes(shape.format);
}

Result<> check_range(std::string_view name, std::int64_t value, std::int64_t least,
                     std::int64_t most) {
  if (value >= least && value <= most) return {};
  return input_error("a KV cache with {} {} is out of range; give {} to {}", value, name, least,
                     most);
}

Result<> check_shape(const KvShape& shape) {
  NIBBLE_RETURN_IF_ERROR(check_range("layers", shape.layers, 1, 4096));
  NIBBLE_RETURN_IF_ERROR(check_range("blocks", shape.blocks, 1, std::int64_t{1} << 28));
  NIBBLE_RETURN_IF_ERROR(check_range("tokens a block", shape.block_tokens, 1, kMostBlockTokens));
  NIBBLE_RETURN_IF_ERROR(check_range("heads", shape.kv_heads, 1, 1024));
  NIBBLE_RETURN_IF_ERROR(check_range("values a head", shape.head_dim, 1, kMostHeadDim));
  if (shape.format == Format::kFp32 || shape.format == Format::kBf16) return {};
  return input_error("a KV cache in {} is not supported; choose fp32 or bf16",
                     to_string(shape.format));
}

}  // namespace

std::int64_t kv_bytes_per_token(const KvShape& shape) {
  return shape.layers * shape.kv_heads * tile_bytes_of(shape) / kLanes;
}

bool sequences_fit(std::span<const CachedRows> sequences, std::int64_t rows, const KvShape& shape) {
  std::int64_t next = 0;
  for (const CachedRows& sequence : sequences) {
    if (sequence.first_row != next || sequence.rows < 1 || sequence.context < 0) return false;
    next += sequence.rows;
    const std::int64_t blocks =
        (sequence.context + sequence.rows + shape.block_tokens - 1) / shape.block_tokens;
    if (static_cast<std::int64_t>(sequence.blocks.size()) < blocks) return false;
    for (const std::int32_t block : sequence.blocks.first(static_cast<std::size_t>(blocks))) {
      if (block < 0 || block >= shape.blocks) return false;
    }
  }
  return next == rows;
}

Result<KvCache> KvCache::make(const KvShape& shape) {
  NIBBLE_RETURN_IF_ERROR(check_shape(shape));
  KvCache cache;
  cache.shape_ = shape;
  cache.tiles_per_block_ = (shape.block_tokens + kLanes - 1) / kLanes;
  cache.tile_bytes_ = tile_bytes_of(shape);
  constexpr double kMost = 0x1p46;  // bytes; the products below then fit 64 bits
  const double bytes = static_cast<double>(shape.layers) * static_cast<double>(shape.blocks) *
                       static_cast<double>(shape.kv_heads * cache.tiles_per_block_) *
                       static_cast<double>(cache.tile_bytes_);
  if (bytes > kMost) {
    return input_error("a KV cache of {:.3g} bytes is out of range; give fewer blocks", bytes);
  }
  NIBBLE_ASSIGN_OR_RETURN(cache.memory_, HugeBuffer::allocate(static_cast<std::size_t>(bytes)));
  return cache;
}

template <class Stored>
void KvCache::write_row(const KvWriteParams& params, std::int64_t layer, std::int64_t row,
                        std::int64_t block, std::int64_t place) {
  const auto stored = [](float value) {
    if constexpr (std::is_same_v<Stored, float>) {
      return value;
    } else {
      return float_to_bf16(value);
    }
  };
  const std::int64_t columns = shape_.head_dim;
  const std::int64_t lane = place % kLanes;
  for (std::int64_t head = 0; head < shape_.kv_heads; ++head) {
    const float* const from = params.rows.data() + row * params.stride + head * columns;
    auto* const keys =
        reinterpret_cast<Stored*>(memory_.data() + offset(layer, block, head, place / kLanes));
    Stored* const values = keys + kLanes * columns + lane * rounded_to_lanes(columns);
    for (std::int64_t column = 0; column < columns; ++column) {
      keys[column * kLanes + lane] = stored(from[params.key_column + column]);
      values[column] = stored(from[params.value_column + column]);
    }
  }
}

void KvCache::write(const KvWriteParams& params, std::int64_t layer, ThreadPool& pool) {
  const std::int64_t width = shape_.kv_heads * shape_.head_dim;
  NIBBLE_CHECK(layer >= 0 && layer < shape_.layers && params.stride > 0);
  NIBBLE_CHECK(params.key_column >= 0 && params.key_column + width <= params.stride);
  NIBBLE_CHECK(params.value_column >= 0 && params.value_column + width <= params.stride);
  const std::int64_t rows = static_cast<std::int64_t>(params.rows.size()) / params.stride;
  NIBBLE_CHECK(sequences_fit(params.sequences, rows, shape_));
  const auto write_sequence = [&](const CachedRows& sequence) {
    for (std::int64_t row = 0; row < sequence.rows; ++row) {
      const std::int64_t position = sequence.context + row;
      const std::int64_t block =
          sequence.blocks[static_cast<std::size_t>(position / shape_.block_tokens)];
      const std::int64_t place = position % shape_.block_tokens;
      if (shape_.format == Format::kBf16) {
        write_row<std::uint16_t>(params, layer, sequence.first_row + row, block, place);
      } else {
        write_row<float>(params, layer, sequence.first_row + row, block, place);
      }
    }
  };
  constexpr double kValueNs = 2;  // about what a key and a value take; keys are strewn over lines
  WorkQueue queue(static_cast<std::int64_t>(params.sequences.size()));
  pool.run_for(kValueNs * static_cast<double>(rows * width), [&](int) {
    while (const auto next = queue.next()) {
      write_sequence(params.sequences[static_cast<std::size_t>(*next)]);
    }
  });
}

}  // namespace nibble
