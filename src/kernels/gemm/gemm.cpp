#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <cstring>
#include <fmt/core.h>

#include "base/check.h"
#include "kernels/gemm/layout.h"

namespace nibble {

const IntegerKernel& integer_kernel(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return kAvx512IntegerKernel;
  if (isa == Isa::kAvx2) return kAvx2IntegerKernel;
#endif
  NIBBLE_CHECK(isa == Isa::kPortable);
  return kPortableIntegerKernel;
}

const Bf16Kernel& bf16_kernel(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return kAvx512Bf16Kernel;
  if (isa == Isa::kAvx2) return kAvx2Bf16Kernel;
#endif
  NIBBLE_CHECK(isa == Isa::kPortable);
  return kPortableBf16Kernel;
}

GemmCut gemm_cut(Format weights, Format activations, Isa isa) {
  const int streams = GemmAccess::streams_per_row(activations);
  const bool bf16 = weights == Format::kBf16;
  return {.tile_rows = kTileRows,
          .unit_rows = kTileRows * (bf16 ? 1 : kUnitTiles),
          .pass_rows = kPassStreams / streams,
          .passing_rows = bf16 ? kBlockStreams : integer_kernel(isa).packed_streams / streams};
}

namespace {

// What one thread computes at a time: a few tiles of one expert for a pass over its slots.
struct Unit {
  std::int64_t expert = 0;
  std::int64_t first_tile = 0;
  int tiles = 0;
  std::int32_t first_slot = 0;
  std::int32_t slots = 0;
  const std::byte* next = nullptr;  // the weights of the unit that probably follows
};

// Sums of a unit, [tile][stream][row of the tile], and the chunk of weights that is being used.
struct Scratch {
  Panel panels[kUnitTiles];
  alignas(64) float sums[kUnitTiles][kPassStreams][kTileRows];
};

// By way of a local: what is stored could else be what is read next.
void store_row(const GemmParams& params, std::int64_t slot, std::int64_t first_row,
               const float* values, const float* factors, float row_factor) {
  float scaled[kTileRows];
  for (int row = 0; row < kTileRows; ++row) scaled[row] = values[row] * row_factor * factors[row];
  const std::int64_t n = params.weights.rows();
  float* const out = params.output.data() + slot * n + first_row;
  if (n - first_row >= kTileRows) {
    std::memcpy(out, scaled, sizeof(scaled));
  } else {
    std::copy_n(scaled, n - first_row, out);
  }
}

// ---- 4-bit weights --------------------------------------------------------------------------

class IntegerUnit {
 public:
  IntegerUnit(const GemmParams& params, const Unit& unit, Scratch& scratch)
      : params_(params),
        unit_(unit),
        scratch_(scratch),
        kernel_(integer_kernel(params.weights.isa())),
        streams_per_row_(GemmAccess::streams_per_row(params.activations)),
        groups_(groups_of(params.weights.columns())) {}

  void run() {
    const int streams = unit_.slots * streams_per_row_;
    for (int at = 0; at < streams; ++at) {
      const auto slot = static_cast<std::size_t>(unit_.first_slot + at / streams_per_row_);
      streams_[at] =
          GemmAccess::stream(params_.activations, params_.row_of[slot], at % streams_per_row_);
    }
    for (int tile = 0; tile < unit_.tiles; ++tile) {
      std::fill_n(scratch_.sums[tile][0], streams * kTileRows, 0.0F);
    }
    const bool packed = streams <= kernel_.packed_streams;
    const int chunk_groups = packed ? kPackedGroups : kChunkGroups;
    const int block = packed ? streams : kBlockStreams;
    for (std::int64_t group = 0; group < groups_; group += chunk_groups) {
      const auto count = static_cast<int>(std::min<std::int64_t>(chunk_groups, groups_ - group));
      if (!packed) unpack(group, count);
      for (int first = 0; first < streams; first += block) {
        if (!packed) request_next(first, streams, group);
        multiply(first, std::min(block, streams - first), packed, group, count);
      }
    }
    add_residuals(streams);
    for (std::int32_t slot = 0; slot < unit_.slots; ++slot) store(slot);
  }

  const std::byte* chunk(int tile, std::int64_t group) const {
    return GemmAccess::tile(params_.weights, unit_.expert, unit_.first_tile + tile) +
           group * kGroupBytes;
  }

  void unpack(std::int64_t group, int groups) {
    for (int tile = 0; tile < unit_.tiles; ++tile) {
      kernel_.unpack(chunk(tile, group), groups, scratch_.panels[tile]);
    }
  }

  // Beyond the end of a tile the same tile of the next unit comes, wherever that is.
  std::ptrdiff_t ahead_bytes(std::int64_t group) const {
    const std::int64_t ahead = std::min<std::int64_t>(kAheadGroups, groups_);
    if (group + ahead < groups_) return ahead * kGroupBytes;
    return unit_.next - chunk(0, 0) + (ahead - groups_) * kGroupBytes;
  }

  // Streams first .. first + count - 1.
  void multiply(int first, int count, bool packed, std::int64_t group, int groups) {
    MultiplyArguments arguments{.panels = scratch_.panels,
                                .packed = chunk(0, group),
                                .tile_bytes = GemmAccess::tile_bytes(params_.weights),
                                .tiles = unit_.tiles,
                                .groups = groups,
                                .ahead_bytes = ahead_bytes(group),
                                .sums = scratch_.sums[0][first]};
    for (int at = 0; at < count; ++at) arguments.streams[at] = streams_[first + at] + group;
    loop(packed, count)(arguments);
  }

  // Activations and sums of many streams come from the outer caches: those of the next block are
  // requested while a block is worked on.
  void request_next(int first, int streams, std::int64_t group) const {
    constexpr std::size_t kChunkBytes = kChunkGroups * sizeof(ActivationGroup);
    const bool next_chunk = first + kBlockStreams >= streams;
    const int from = next_chunk ? 0 : first + kBlockStreams;
    const std::int64_t at = next_chunk ? group + kChunkGroups : group;
    if (at >= groups_) return;
    for (int stream = from; stream < std::min(streams, from + kBlockStreams); ++stream) {
      request(streams_[stream] + at, kChunkBytes);
      for (int tile = 0; tile < unit_.tiles; ++tile) {
        request(scratch_.sums[tile][stream], sizeof(scratch_.sums[tile][stream]));
      }
    }
  }

  static void request(const void* memory, std::size_t bytes) {
    constexpr std::size_t kLine = 64;
    const auto* const begin = static_cast<const std::byte*>(memory);
    for (std::size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(begin + at);
  }

  IntegerKernel::Multiply loop(bool packed, int streams) const {
    const auto at = static_cast<std::size_t>(streams - 1);
    const bool two_scales = params_.activations.format() == Format::kNvfp4;
    if (packed) return two_scales ? kernel_.packed_two_scales[at] : kernel_.packed_one_scale[at];
    return two_scales ? kernel_.two_scales[at] : kernel_.one_scale[at];
  }

  void add_residuals(int streams) {
    const auto all = GemmAccess::residuals(params_.weights, unit_.expert);
    const std::int64_t first_row = unit_.first_tile * kTileRows;
    auto residual = std::lower_bound(
        all.begin(), all.end(), first_row,
        [](const GemmAccess::Residual& r, std::int64_t row) { return r.row < row; });
    for (; residual != all.end() && residual->row < first_row + unit_.tiles * kTileRows;
         ++residual) {
      const std::int64_t row = residual->row - first_row;
      for (int at = 0; at < streams; ++at) {
        float& sum = scratch_.sums[row / kTileRows][at][row % kTileRows];
        sum += residual_product(*residual, streams_[at]);
      }
    }
  }

  float residual_product(const GemmAccess::Residual& residual,
                         const ActivationGroup* groups) const {
    const ActivationGroup& group = groups[residual.block / 2];
    const int block = residual.block % 2;
    std::int32_t sum = 0;
    for (int step = 0; step < kSteps; ++step) {
      for (int i = 0; i < 4; ++i) {
        const int column = column_of(params_.weights.isa(), step, i) - block * kBlockColumns;
        if (column < 0 || column >= kBlockColumns) continue;
        sum += residual.codes[column] * group.values[4 * step + i];
      }
    }
    return static_cast<float>(sum) * residual.scale * group.scale[block];
  }

  // The halves of a row are added, then the factors of activations and weights applied.
  void store(std::int32_t slot) {
    const std::int64_t row = params_.row_of[static_cast<std::size_t>(unit_.first_slot + slot)];
    const float row_factor = GemmAccess::row_factor(params_.activations, row);
    for (int tile = 0; tile < unit_.tiles; ++tile) {
      float* const sums = scratch_.sums[tile][slot * streams_per_row_];
      if (streams_per_row_ == 2) add_halves(sums);
      const std::int64_t index = unit_.first_tile + tile;
      store_row(params_, unit_.first_slot + slot, index * kTileRows, sums,
                GemmAccess::row_factors(params_.weights, unit_.expert, index), row_factor);
    }
  }

  static void add_halves(float* __restrict high) {
    const float* const __restrict low = high + kTileRows;
    for (int at = 0; at < kTileRows; ++at) high[at] += low[at];
  }

  const GemmParams& params_;
  const Unit& unit_;
  Scratch& scratch_;
  const IntegerKernel& kernel_;
  int streams_per_row_;
  std::int64_t groups_;
  const ActivationGroup* streams_[kPassStreams];  // of the pass; run() sets as many as it has
};

// ---- bf16 weights ---------------------------------------------------------------------------

void bf16_unit(const GemmParams& params, const Unit& unit) {
  const Bf16Kernel& kernel = bf16_kernel(params.weights.isa());
  alignas(64) float sums[kBlockStreams][kTileRows];
  for (int tile = 0; tile < unit.tiles; ++tile) {
    const std::int64_t index = unit.first_tile + tile;
    for (std::int32_t slot = 0; slot < unit.slots; slot += kBlockStreams) {
      const int count = std::min(kBlockStreams, unit.slots - slot);
      Bf16Arguments arguments{.tile = GemmAccess::tile(params.weights, unit.expert, index),
                              .columns = params.weights.columns()};
      for (int at = 0; at < count; ++at) {
        const auto place = static_cast<std::size_t>(unit.first_slot + slot + at);
        arguments.rows[at] = GemmAccess::row(params.activations, params.row_of[place]);
        arguments.sums[at] = sums[at];
      }
      kernel[static_cast<std::size_t>(count - 1)](arguments);
      for (int at = 0; at < count; ++at) {
        store_row(params, unit.first_slot + slot + at, index * kTileRows, sums[at],
                  GemmAccess::row_factors(params.weights, unit.expert, index), 1.0F);
      }
    }
  }
}

// ---- the units in order ---------------------------------------------------------------------

GemmCut cut_of(const GemmParams& params) {
  return gemm_cut(params.weights.format(), params.activations.format(), params.weights.isa());
}

// Walks over the units: expert by expert, of those that have slots, pass by pass, tile by tile.
// Numbers that ascend walk over the experts once.
class Units {
 public:
  explicit Units(const GemmParams& params)
      : params_(params),
        tiles_(tiles_of(params.weights.rows())),
        unit_tiles_(cut_of(params).unit_rows / kTileRows),
        per_pass_((tiles_ + unit_tiles_ - 1) / unit_tiles_),
        slots_per_pass_(static_cast<std::int32_t>(cut_of(params).pass_rows)) {}

  std::int64_t count() const {
    std::int64_t units = 0;
    for (std::int64_t expert = 0; expert < params_.weights.experts(); ++expert) {
      units += units_of(expert);
    }
    return units;
  }

  Unit at(std::int64_t number) {
    if (number < begin_) expert_ = begin_ = 0;
    while (number >= begin_ + units_of(expert_)) begin_ += units_of(expert_++);
    const std::int64_t first_tile = (number - begin_) % per_pass_ * unit_tiles_;
    const auto skipped = static_cast<std::int32_t>((number - begin_) / per_pass_) * slots_per_pass_;
    return {.expert = expert_,
            .first_tile = first_tile,
            .tiles = static_cast<int>(std::min<std::int64_t>(unit_tiles_, tiles_ - first_tile)),
            .first_slot = params_.offsets[static_cast<std::size_t>(expert_)] + skipped,
            .slots = std::min(slots_per_pass_, slots(expert_) - skipped)};
  }

 private:
  std::int32_t slots(std::int64_t expert) const {
    const auto at = static_cast<std::size_t>(expert);
    return params_.offsets[at + 1] - params_.offsets[at];
  }
  std::int64_t units_of(std::int64_t expert) const {
    return (slots(expert) + slots_per_pass_ - 1) / slots_per_pass_ * per_pass_;
  }

  const GemmParams& params_;
  std::int64_t tiles_;
  std::int64_t unit_tiles_;
  std::int64_t per_pass_;  // units
  std::int32_t slots_per_pass_;
  std::int64_t expert_ = 0;
  std::int64_t begin_ = 0;  // its first unit
};

void check(const GemmParams& params) {
  const PackedWeights& weights = params.weights;
  const auto experts = static_cast<std::size_t>(weights.experts());
  NIBBLE_CHECK(params.activations.columns() == weights.columns());
  NIBBLE_CHECK(params.activations.isa() == weights.isa());
  NIBBLE_CHECK((GemmAccess::meets(params.activations) == Format::kBf16) ==
               (weights.format() == Format::kBf16));
  NIBBLE_CHECK(params.offsets.size() == experts + 1 && params.offsets.front() == 0);
  NIBBLE_CHECK(std::is_sorted(params.offsets.begin(), params.offsets.end()));
  const auto slots = static_cast<std::size_t>(params.offsets.back());
  NIBBLE_CHECK(params.row_of.size() >= slots);
  NIBBLE_CHECK(params.output.size() >= slots * static_cast<std::size_t>(weights.rows()));
  for (std::size_t slot = 0; slot < slots; ++slot) {
    NIBBLE_CHECK(params.row_of[slot] >= 0 && params.row_of[slot] < params.activations.rows());
  }
}

// What one thread takes at least: weights that it reads at 20 GB/s, or 32 products in a ns.
double least_ns(const GemmParams& params, std::int64_t units) {
  const PackedWeights& weights = params.weights;
  const bool bf16 = weights.format() == Format::kBf16;
  const auto row_bytes = static_cast<double>(weights.columns()) * (bf16 ? 2 : 0.5);
  const double read = static_cast<double>(units) * kTileRows * (bf16 ? 1 : kUnitTiles) * row_bytes;
  const double products = static_cast<double>(params.offsets.back() * weights.rows()) *
                          static_cast<double>(weights.columns());
  return std::max(read / 20, products / 32);
}

}  // namespace

void gemm(const GemmParams& params, ThreadPool& pool) {
  check(params);
  const bool bf16 = params.weights.format() == Format::kBf16;
  const std::int64_t count = Units(params).count();
  const int most = params.most_threads;
  ShareQueue queue(count, most == 0 ? pool.threads() : std::min(most, pool.threads()));
  const auto work = [&](int thread) {
    Units units(params);
    Scratch scratch;
    while (const auto number = queue.next(thread)) {
      Unit unit = units.at(*number);
      if (bf16) {
        bf16_unit(params, unit);
        continue;
      }
      const Unit next = units.at(std::min(*number + 1, count - 1));
      unit.next = GemmAccess::tile(params.weights, next.expert, next.first_tile);
      IntegerUnit(params, unit, scratch).run();
    }
  };
  pool.run_for(least_ns(params, count), work, most);
}

std::string gemm_name(Format weights, Format activations, Isa isa) {
  return fmt::format("gemm {} x {} {} 16x32", to_string(weights), to_string(activations),
                     to_string(isa));
}

}  // namespace nibble
