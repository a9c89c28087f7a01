#include "kernels/gemm/packed_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <mutex>

#include "formats/codec.h"
#include "formats/quantize.h"
#include "kernels/gemm/layout.h"

namespace nibble {
namespace {

// A block scale as m * 2^e with m < 16.
struct Scale {
  int mantissa = 0;
  int exponent = 0;
};

Scale split_e4m3(std::uint8_t byte) {
  const int exponent = (byte >> 3) & 15;
  const int mantissa = byte & 7;
  // Bias 7, and 3 bits behind the point; subnormals have exponent 1 without the leading bit.
  return exponent == 0 ? Scale{mantissa, 1 - 10} : Scale{8 + mantissa, exponent - 10};
}

Scale split_e8m0(std::uint8_t byte) {
  return {8, static_cast<int>(byte) - 127 - 3};
}

std::int64_t block_of(Format format) {
  return format == Format::kMxfp4 ? kMxfp4Block : kNvfp4Block;
}

Result<> check_scales(const QuantizedMatrix& matrix, std::int64_t expert) {
  const std::int64_t block = block_of(matrix.format);
  const std::int64_t blocks = (matrix.columns + block - 1) / block;
  const bool e8m0 = matrix.format == Format::kMxfp4;
  const auto used = matrix.scales.first(static_cast<std::size_t>(matrix.rows * blocks));
  const auto bad = std::find_if(used.begin(), used.end(), [e8m0](std::uint8_t byte) {
    return e8m0 ? byte == 0xff : (byte & 0x80) != 0 || byte == 0x7f;
  });
  if (bad == used.end()) return {};
  const std::int64_t at = bad - used.begin();
  return input_error(
      "expert {}: the scale of row {}, block {} is 0x{:02x}, {}; mend the checkpoint", expert,
      at / blocks, at % blocks, *bad, e8m0 || (*bad & 0x7f) == 0x7f ? "not a number" : "negative");
}

Result<> check(const QuantizedMatrix& matrix, const QuantizedMatrix& first, std::int64_t expert) {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  const bool packed = matrix.format == Format::kNvfp4 || matrix.format == Format::kMxfp4;
  if (!packed && matrix.format != Format::kBf16) {
    return input_error("expert {} is {}; these kernels take nvfp4, mxfp4 and bf16 weights", expert,
                       to_string(matrix.format));
  }
  if (matrix.format != first.format || matrix.rows != first.rows ||
      matrix.columns != first.columns) {
    return input_error("expert {} is {} {} x {}, but expert 0 is {} {} x {}; all must be alike",
                       expert, to_string(matrix.format), matrix.rows, matrix.columns,
                       to_string(first.format), first.rows, first.columns);
  }
  if (matrix.rows < 1 || matrix.columns < 1 || matrix.rows > kMost || matrix.columns > kMost) {
    return input_error("expert {} has {} x {} weights; each side must be 1 to {}", expert,
                       matrix.rows, matrix.columns, kMost);
  }
  if (const Result<> fits = check_matrix(matrix); !fits.ok()) {
    return fits.error().within(fmt::format("expert {}", expert));
  }
  return packed ? check_scales(matrix, expert) : Result<>();
}

float factor_of(const QuantizedMatrix& matrix, std::int64_t row) {
  float factor = 1;
  for (const MatrixSegment& segment : matrix.segments) {
    if (segment.row_begin <= row) factor = segment.factor;
  }
  return factor;
}

// Reads one canonical matrix by row and column.
class CodeReader {
 public:
  explicit CodeReader(const QuantizedMatrix& matrix)
      : matrix_(matrix),
        block_(block_of(matrix.format)),
        blocks_((matrix.columns + block_ - 1) / block_) {}

  std::uint8_t code(std::int64_t row, std::int64_t column) const {
    const std::uint8_t byte =
        matrix_.codes[static_cast<std::size_t>(row * (matrix_.columns / 2) + column / 2)];
    return column % 2 == 0 ? byte & 15 : byte >> 4;
  }
  Scale scale(std::int64_t row, std::int64_t column) const {
    const std::uint8_t byte =
        matrix_.scales[static_cast<std::size_t>(row * blocks_ + column / block_)];
    return matrix_.format == Format::kMxfp4 ? split_e8m0(byte) : split_e4m3(byte);
  }

 private:
  const QuantizedMatrix& matrix_;
  std::int64_t block_;
  std::int64_t blocks_;
};

// The power of two in which the row's scales are whole numbers below 16 << kScaleExponents.
int row_exponent(const CodeReader& reader, std::int64_t row, std::int64_t columns) {
  int largest = 0;
  bool any = false;
  for (std::int64_t column = 0; column < columns; column += kBlockColumns) {
    const Scale scale = reader.scale(row, column);
    if (scale.mantissa == 0) continue;
    largest = any ? std::max(largest, scale.exponent) : scale.exponent;
    any = true;
  }
  return largest - kScaleExponents;
}

// The scale in units of 2^unit: what the byte holds, and what is left.
struct HeldScale {
  std::uint8_t byte = 0;
  float rest = 0;
};
HeldScale hold(const Scale& scale, int unit) {
  if (scale.mantissa == 0) return {};
  const int exponent = scale.exponent - unit;
  if (exponent >= 0) return {static_cast<std::uint8_t>(scale.mantissa | exponent << 4), 0};
  const int kept = exponent < -4 ? 0 : scale.mantissa >> -exponent;
  const float whole = std::ldexp(static_cast<float>(scale.mantissa), exponent);
  return {static_cast<std::uint8_t>(kept), whole - static_cast<float>(kept)};
}

// Where the columns of a group stand, for each row of a tile.
using LanePlaces = std::array<CodePlace, kGroupColumns>;
constexpr std::array<LanePlaces, kTileRows> places_of(Isa isa) {
  std::array<LanePlaces, kTileRows> places = {};
  for (int row = 0; row < kTileRows; ++row) {
    for (int step = 0; step < kSteps; ++step) {
      for (int i = 0; i < 4; ++i) {
        places[static_cast<std::size_t>(row)][static_cast<std::size_t>(column_of(isa, step, i))] =
            code_place(isa, row, step, i);
      }
    }
  }
  return places;
}
constexpr auto kPairPlaces = places_of(Isa::kAvx2);
constexpr auto kQuadPlaces = places_of(Isa::kAvx512);

}  // namespace

// Fills what one expert occupies.
class WeightPacker {
 public:
  WeightPacker(PackedWeights& packed, std::mutex& mutex) : packed_(packed), mutex_(mutex) {}

  void pack_tile(const QuantizedMatrix& matrix, std::int64_t expert, std::int64_t tile) {
    auto* const bytes = reinterpret_cast<std::uint8_t*>(packed_.tiles_.data()) +
                        static_cast<std::size_t>(expert) * packed_.expert_bytes_ +
                        static_cast<std::size_t>(tile) * GemmAccess::tile_bytes(packed_);
    float* const factors =
        packed_.row_factors_.data() + (expert * tiles_of(matrix.rows) + tile) * kTileRows;
    for (int row = 0; row < kTileRows && tile * kTileRows + row < matrix.rows; ++row) {
      if (matrix.format == Format::kBf16) {
        factors[row] = factor_of(matrix, tile * kTileRows + row);
        pack_bf16_row(matrix, tile * kTileRows + row, row, bytes);
      } else {
        factors[row] = pack_row(matrix, expert, tile * kTileRows + row, row, bytes);
      }
    }
  }

  // Residuals by expert, then row, then block, whichever thread found them.
  void finish() {
    auto& found = packed_.residuals_;
    std::vector<std::size_t> order(found.size());
    for (std::size_t at = 0; at < order.size(); ++at) order[at] = at;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::tuple(experts_[a], found[a].row, found[a].block) <
             std::tuple(experts_[b], found[b].row, found[b].block);
    });
    std::vector<PackedWeights::Residual> sorted;
    sorted.reserve(order.size());
    packed_.residual_offsets_.assign(static_cast<std::size_t>(packed_.experts_) + 1, 0);
    for (const std::size_t at : order) {
      sorted.push_back(found[at]);
      ++packed_.residual_offsets_[static_cast<std::size_t>(experts_[at]) + 1];
    }
    for (std::size_t e = 1; e < packed_.residual_offsets_.size(); ++e) {
      packed_.residual_offsets_[e] += packed_.residual_offsets_[e - 1];
    }
    found = std::move(sorted);
  }

 private:
  static void pack_bf16_row(const QuantizedMatrix& matrix, std::int64_t row, int lane,
                            std::uint8_t* tile) {
    const std::uint8_t* const source = matrix.codes.data() + row * matrix.columns * 2;
    for (std::int64_t column = 0; column < matrix.columns; ++column) {
      std::memcpy(tile + (column * kTileRows + lane) * 2, source + column * 2, 2);
    }
  }

  // Returns the row's factor: of a half of an e2m1 in units of the row's power of two.
  float pack_row(const QuantizedMatrix& matrix, std::int64_t expert, std::int64_t row, int lane,
                 std::uint8_t* tile) {
    const CodeReader reader(matrix);
    const int unit = row_exponent(reader, row, matrix.columns);
    const LanePlaces& places =
        (packed_.isa_ == Isa::kAvx512 ? kQuadPlaces : kPairPlaces)[static_cast<std::size_t>(lane)];
    for (std::int64_t group = 0; group * kGroupColumns < matrix.columns; ++group) {
      std::uint8_t* const bytes = tile + group * kGroupBytes;
      const std::int64_t width =
          std::min<std::int64_t>(kGroupColumns, matrix.columns - group * kGroupColumns);
      const std::int64_t begin = (row * matrix.columns + group * kGroupColumns) / 2;
      pack_codes(matrix.codes.subspan(static_cast<std::size_t>(begin),
                                      static_cast<std::size_t>(width / 2)),
                 places, bytes);
      for (int block = 0; block < 2; ++block) {
        const std::int64_t column = group * kGroupColumns + block * kBlockColumns;
        if (column >= matrix.columns) continue;
        const HeldScale held = hold(reader.scale(row, column), unit);
        bytes[kCodeBytes + 2 * lane + block] = held.byte;
        if (held.rest != 0) add_residual(reader, expert, row, column, matrix.columns, held.rest);
      }
    }
    return static_cast<float>(std::ldexp(static_cast<double>(factor_of(matrix, row)), unit - 1));
  }

  // The codes of a row in one group, two a byte; what lies beyond the last column stays the code of
  // 0, as the memory was made.
  static void pack_codes(std::span<const std::uint8_t> codes, const LanePlaces& places,
                         std::uint8_t* bytes) {
    for (std::size_t at = 0; at < codes.size(); ++at) {
      const CodePlace even = places[2 * at];
      const CodePlace odd = places[2 * at + 1];
      bytes[even.byte] |= static_cast<std::uint8_t>((codes[at] & 15) << (even.high ? 4 : 0));
      bytes[odd.byte] |= static_cast<std::uint8_t>((codes[at] >> 4) << (odd.high ? 4 : 0));
    }
  }

  void add_residual(const CodeReader& reader, std::int64_t expert, std::int64_t row,
                    std::int64_t column, std::int64_t columns, float rest) {
    PackedWeights::Residual residual{.row = static_cast<std::int32_t>(row),
                                     .block = static_cast<std::int32_t>(column / kBlockColumns),
                                     .scale = rest};
    bool any = false;
    for (int at = 0; at < kBlockColumns && column + at < columns; ++at) {
      const float halves = 2 * e2m1_to_float(reader.code(row, column + at));
      residual.codes[at] = static_cast<std::int8_t>(halves);
      any = any || halves != 0;
    }
    if (!any) return;
    const std::lock_guard lock(mutex_);
    packed_.residuals_.push_back(residual);
    experts_.push_back(static_cast<std::int32_t>(expert));
  }

  PackedWeights& packed_;
  std::mutex& mutex_;
  std::vector<std::int32_t> experts_;  // of each residual
};

Result<PackedWeights> PackedWeights::pack(std::span<const QuantizedMatrix> experts, Isa isa,
                                          ThreadPool& pool) {
  if (experts.empty()) return input_error("there are no weights to pack: give at least one expert");
  NIBBLE_CHECK(is_usable(isa));
  for (std::size_t expert = 0; expert < experts.size(); ++expert) {
    NIBBLE_RETURN_IF_ERROR(
        check(experts[expert], experts.front(), static_cast<std::int64_t>(expert)));
  }
  const QuantizedMatrix& first = experts.front();
  PackedWeights packed;
  packed.format_ = first.format;
  packed.isa_ = isa;
  packed.experts_ = static_cast<std::int64_t>(experts.size());
  packed.rows_ = first.rows;
  packed.columns_ = first.columns;
  const std::int64_t tiles = tiles_of(first.rows);
  const std::int64_t tile_bytes = first.format == Format::kBf16
                                      ? first.columns * kTileRows * 2
                                      : groups_of(first.columns) * kGroupBytes;
  packed.expert_bytes_ = static_cast<std::size_t>(tiles * tile_bytes);
  NIBBLE_ASSIGN_OR_RETURN(packed.tiles_,
                          HugeBuffer::allocate(packed.expert_bytes_ * experts.size()));
  packed.row_factors_.assign(static_cast<std::size_t>(packed.experts_ * tiles * kTileRows), 0.0F);
  std::mutex mutex;
  WeightPacker packer(packed, mutex);
  WorkQueue queue(packed.experts_ * tiles);
  pool.run([&](int) {
    while (const auto unit = queue.next()) {
      const std::int64_t expert = *unit / tiles;
      packer.pack_tile(experts[static_cast<std::size_t>(expert)], expert, *unit % tiles);
    }
  });
  packer.finish();
  return packed;
}

}  // namespace nibble
