#include "checkpoint/scan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <optional>

#include "base/check.h"
#include "base/thread_pool.h"
#include "checkpoint/binding_parts.h"
#include "checkpoint/elements.h"
#include "checkpoint/window.h"
#include "formats/quantize.h"

namespace nibble {
namespace {

constexpr std::size_t kUnitBytes = std::size_t{4} << 20;  // large enough to hand out cheaply
constexpr std::size_t kNvfp4BlockBytes = 8;               // of codes: 16 columns
constexpr std::size_t kMxfp4BlockBytes = 16;              // 32 columns
constexpr std::size_t kFp8Block = 128;

// Both codes of a byte at once: twice their values are whole numbers, 0 1 2 3 4 6 8 12.
struct PairTables {
  std::array<std::uint32_t, 256> squares_and_zeros = {};  // sum of (2 v)^2, zeros << 16
  std::array<std::uint8_t, 256> largest = {};             // of |2 v|
};

constexpr PairTables make_pair_tables() {
  PairTables tables;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t squares = 0;
    std::uint32_t zeros = 0;
    std::uint32_t largest = 0;
    for (const std::uint32_t code : {byte & 15U, byte >> 4}) {
      const auto twice =
          static_cast<std::uint32_t>(2 * e2m1_to_float(static_cast<std::uint8_t>(code & 7U)));
      squares += twice * twice;
      zeros += twice == 0 ? 1U : 0U;
      largest = twice > largest ? twice : largest;
    }
    tables.squares_and_zeros[byte] = squares | zeros << 16;
    tables.largest[byte] = static_cast<std::uint8_t>(largest);
  }
  return tables;
}
constexpr PairTables kPairs = make_pair_tables();

enum class Kind { kNotScanned, kPacked, kElements };

Kind kind_of(const StoredMatrix& stored) {
  if (!stored.sound || stored.rows == 0 || stored.columns == 0) return Kind::kNotScanned;
  const bool packed = stored.format == Format::kNvfp4 || stored.format == Format::kMxfp4;
  if (packed) return stored.loadable ? Kind::kPacked : Kind::kNotScanned;
  if (stored.format == Format::kMxfp8) return Kind::kNotScanned;
  return is_element_type(stored.codes->info->dtype) ? Kind::kElements : Kind::kNotScanned;
}

// Some rows of one matrix (of all copies of a stack: [copies * rows, columns]).
struct Unit {
  std::size_t matrix = 0;
  std::size_t row_begin = 0;
  std::size_t row_end = 0;
  double bytes = 0;
};

std::size_t all_rows(const StoredMatrix& stored) {
  return static_cast<std::size_t>(stored.rows) *
         static_cast<std::size_t>(std::max<std::int64_t>(stored.copies, 1));
}

std::vector<Unit> units_of(const Binding& binding) {
  std::vector<Unit> units;
  for (std::size_t number = 0; number < binding.matrices().size(); ++number) {
    const StoredMatrix& stored = binding.matrices()[number].stored;
    if (kind_of(stored) == Kind::kNotScanned) continue;
    const std::size_t rows = all_rows(stored);
    const double row_bytes = static_cast<double>(stored.bytes()) / static_cast<double>(rows);
    const auto step = static_cast<std::size_t>(
        std::max(1.0, std::floor(static_cast<double>(kUnitBytes) / row_bytes)));
    for (std::size_t begin = 0; begin < rows; begin += step) {
      const std::size_t end = std::min(rows, begin + step);
      units.push_back({number, begin, end, row_bytes * static_cast<double>(end - begin)});
    }
  }
  return units;
}

class UnitScan {
 public:
  UnitScan(const Checkpoint& checkpoint, const BoundMatrix& bound)
      : checkpoint_(checkpoint), bound_(bound), stored_(bound.stored) {}

  Result<ValueStats> scan(const Unit& unit);

 private:
  Result<> packed(const Unit& unit);
  void packed_blocks(std::span<const std::byte> codes, std::span<const std::byte> scales);
  void count_scale(std::uint8_t code, float value);
  Result<> element_row(std::size_t row, Window& codes, Window& scales);
  Result<> elements(std::uint64_t begin, std::uint64_t end, float scale, Window& codes);
  Result<float> fp8_scale(std::size_t row, std::size_t block, Window& scales) const;

  const Checkpoint& checkpoint_;
  const BoundMatrix& bound_;
  const StoredMatrix& stored_;
  ValueStats out_;
};

void UnitScan::count_scale(std::uint8_t code, float value) {
  ++out_.scales;
  if (!(value == value)) {
    ++out_.nan_scales;
  } else if (stored_.format == Format::kNvfp4 && code >= 0x80) {
    ++out_.negative_scales;
  } else if (value == 0) {
    ++out_.zero_scales;
  } else {
    out_.max_scale = std::max<double>(out_.max_scale, value);
    out_.min_scale = out_.min_scale == 0 ? value : std::min<double>(out_.min_scale, value);
  }
}

void UnitScan::packed_blocks(std::span<const std::byte> codes, std::span<const std::byte> scales) {
  const bool nvfp4 = stored_.format == Format::kNvfp4;
  const std::size_t block_bytes = nvfp4 ? kNvfp4BlockBytes : kMxfp4BlockBytes;
  for (std::size_t block = 0; block < scales.size(); ++block) {
    const std::size_t begin = block * block_bytes;
    const std::size_t end = std::min(codes.size(), begin + block_bytes);
    std::uint32_t sums = 0;
    std::uint8_t largest = 0;
    for (std::size_t at = begin; at < end; ++at) {
      const auto code = std::to_integer<std::uint8_t>(codes[at]);
      sums += kPairs.squares_and_zeros[code];
      largest = std::max(largest, kPairs.largest[code]);
    }
    const auto stored_scale = std::to_integer<std::uint8_t>(scales[block]);
    const float scale = nvfp4 ? e4m3_to_float(stored_scale) : e8m0_to_float(stored_scale);
    count_scale(stored_scale, scale);
    const auto count = static_cast<double>(2 * (end - begin));
    out_.values += count;
    if (!(scale == scale)) {
      out_.not_finite += count;
      continue;
    }
    const double wide = scale;
    out_.zeros += scale == 0 ? count : static_cast<double>(sums >> 16);
    out_.sum_squares += 0.25 * static_cast<double>(sums & 0xffffU) * wide * wide;
    out_.max_abs = std::max(out_.max_abs, 0.5 * largest * std::abs(wide));
  }
}

// A row ends in a partial block where K is no multiple of it, and may be longer than a window.
Result<> UnitScan::packed(const Unit& unit) {
  const std::size_t rows = all_rows(stored_);
  const std::size_t row_codes = stored_.codes->info->bytes() / rows;
  const std::size_t row_scales = stored_.scales->info->bytes() / rows;
  const std::size_t block_bytes =
      stored_.format == Format::kNvfp4 ? kNvfp4BlockBytes : kMxfp4BlockBytes;
  const std::size_t step = Window::kBytes / block_bytes;  // blocks
  Window codes(checkpoint_, *stored_.codes, unit.row_end * row_codes);
  Window scales(checkpoint_, *stored_.scales, unit.row_end * row_scales);
  for (std::size_t row = unit.row_begin; row < unit.row_end; ++row) {
    for (std::size_t block = 0; block < row_scales; block += step) {
      const std::size_t begin = block * block_bytes;
      const std::size_t end = std::min(row_codes, begin + step * block_bytes);
      NIBBLE_ASSIGN_OR_RETURN(const std::span<const std::byte> some_codes,
                              codes.bytes(row * row_codes + begin, end - begin));
      NIBBLE_ASSIGN_OR_RETURN(
          const std::span<const std::byte> some_scales,
          scales.bytes(row * row_scales + block, std::min(step, row_scales - block)));
      packed_blocks(some_codes, some_scales);
    }
  }
  return {};
}

// Elements `begin` to `end`, counted from the start of the matrix, that share a scale.
Result<> UnitScan::elements(std::uint64_t begin, std::uint64_t end, float scale, Window& codes) {
  const Dtype dtype = stored_.codes->info->dtype;
  const std::size_t size = static_cast<std::size_t>(dtype_bits(dtype)) / 8;
  const std::uint64_t step = Window::kBytes / size;
  for (std::uint64_t from = begin; from < end; from += step) {
    const auto count = static_cast<std::size_t>(std::min(step, end - from));
    NIBBLE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes,
                            codes.bytes(from * size, count * size));
    for (std::size_t index = 0; index < count; ++index) {
      const float value = element_at(dtype, bytes, index) * scale;
      if (!std::isfinite(value)) {
        ++out_.not_finite;
        continue;
      }
      out_.zeros += value == 0 ? 1 : 0;
      const double wide = std::abs(value);
      out_.max_abs = std::max(out_.max_abs, wide);
      out_.sum_squares += wide * wide;
    }
  }
  out_.values += static_cast<double>(end - begin);
  return {};
}

Result<float> UnitScan::fp8_scale(std::size_t row, std::size_t block, Window& scales) const {
  if (stored_.fp8_scale == Fp8Scale::kNone) return 1.0F;
  const std::size_t grid_columns =
      (static_cast<std::size_t>(stored_.columns) + kFp8Block - 1) / kFp8Block;
  std::size_t index = 0;
  if (stored_.fp8_scale == Fp8Scale::kRow) index = row;
  if (stored_.fp8_scale == Fp8Scale::kBlock128) index = row / kFp8Block * grid_columns + block;
  const Dtype dtype = stored_.scales->info->dtype;
  const std::size_t size = static_cast<std::size_t>(dtype_bits(dtype)) / 8;
  NIBBLE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, scales.bytes(index * size, size));
  return element_at(dtype, bytes, 0);
}

Result<> UnitScan::element_row(std::size_t row, Window& codes, Window& scales) {
  const auto columns = static_cast<std::size_t>(stored_.columns);
  const std::size_t step = stored_.fp8_scale == Fp8Scale::kBlock128 ? kFp8Block : columns;
  for (std::size_t column = 0; column < columns; column += step) {
    const std::size_t end = std::min(columns, column + step);
    NIBBLE_ASSIGN_OR_RETURN(const float scale, fp8_scale(row, column / kFp8Block, scales));
    NIBBLE_RETURN_IF_ERROR(elements(row * columns + column, row * columns + end, scale, codes));
  }
  return {};
}

Result<ValueStats> UnitScan::scan(const Unit& unit) {
  if (kind_of(stored_) == Kind::kElements) {
    const StoredTensor& scale = stored_.scales != nullptr ? *stored_.scales : *stored_.codes;
    Window codes(checkpoint_, *stored_.codes,
                 stored_.codes->info->bytes() / all_rows(stored_) * unit.row_end);
    Window scales(checkpoint_, scale, scale.info->bytes());
    for (std::size_t row = unit.row_begin; row < unit.row_end; ++row) {
      NIBBLE_RETURN_IF_ERROR(element_row(row, codes, scales));
    }
    return out_;
  }
  NIBBLE_RETURN_IF_ERROR(packed(unit));
  // A factor that nobody can multiply by is a fault of its own; the codes can still be looked at.
  const bool usable = bound_.factor && factor_fault(*bound_.factor).empty();
  const double factor = usable ? *bound_.factor : 1;
  out_.max_abs *= factor;
  out_.sum_squares *= factor * factor;
  return out_;
}

void check_matrix(const BoundMatrix& bound, const ValueStats& values, FaultLog& log) {
  const std::string& name = bound.stored.name;
  if (values.nan_scales > 0) {
    log.add(Severity::kError, "nan-scale", name,
            "has block scales that are NaN; all products with their blocks would be NaN");
  }
  if (values.negative_scales > 0) {
    log.add(Severity::kError, "negative-scale", name,
            "has block scales with the sign bit set; kernels that read them unsigned would take "
            "other values");
  }
  if (values.not_finite > 0 && values.nan_scales == 0) {
    log.add(Severity::kError, "value-not-finite", name, "has values that are NaN or infinite");
  }
  if (values.values > 0 && values.zeros == values.values) {
    log.add(Severity::kWarning, "all-zero", name, "holds zeros only");
  } else if (bound.stored.format == Format::kNvfp4 && values.max_scale > 0 &&
             values.max_scale < 1) {
    log.add(Severity::kWarning, "block-scales-small", name,
            "has no block scale of 1 or more, although the largest of a matrix should be near 448; "
            "the factor may belong to something larger, or have been changed after quantization");
  }
}

// Factors may agree and the matrices not: a factor that was changed after quantization shows only
// in the sizes of the values.
void check_gate_and_up(const Binding& binding, const std::vector<ValueStats>& values,
                       std::size_t layer, FaultLog& log) {
  std::vector<ExpertRatio> ratios;
  const auto rms_of = [&](const BoundMatrix* matrix) {
    if (matrix->factor && !factor_fault(*matrix->factor).empty()) return 0.0;  // told already
    return values[static_cast<std::size_t>(matrix - binding.matrices().data())].rms();
  };
  const std::int64_t experts = binding.checkpoint().model()->moe->experts;
  for (std::int64_t number = 0; number < experts; ++number) {
    const std::optional<ExpertBinding> expert = binding.expert(layer, number);
    if (!expert || expert->gate == expert->up) continue;
    ratios.push_back({&expert->gate->stored.name, rms_of(expert->gate), rms_of(expert->up)});
  }
  const std::vector<const std::string*> by_factor = outliers(factor_ratios(binding, layer));
  for (const std::string* name : outliers(ratios)) {
    const bool told = std::find(by_factor.begin(), by_factor.end(), name) != by_factor.end();
    if (told) continue;  // the factor is the cause
    log.add(Severity::kWarning, "gate-up-values-inconsistent", *name,
            "the size of gate's values to up's is more than 8 times off that of the layer's other "
            "experts, although their factors are not; scales or a factor may have been changed "
            "after quantization");
  }
}

}  // namespace

double ValueStats::rms() const {
  const double finite = values - not_finite;
  return finite > 0 ? std::sqrt(sum_squares / finite) : 0;
}

void ValueStats::merge(const ValueStats& other) {
  values += other.values;
  zeros += other.zeros;
  not_finite += other.not_finite;
  max_abs = std::max(max_abs, other.max_abs);
  sum_squares += other.sum_squares;
  scales += other.scales;
  nan_scales += other.nan_scales;
  negative_scales += other.negative_scales;
  zero_scales += other.zero_scales;
  max_scale = std::max(max_scale, other.max_scale);
  if (min_scale == 0 || (other.min_scale > 0 && other.min_scale < min_scale)) {
    min_scale = other.min_scale;
  }
}

double scan_bytes(const Binding& binding) {
  double sum = 0;
  for (const Unit& unit : units_of(binding)) sum += unit.bytes;
  return sum;
}

std::vector<ValueStats> scan_values(const Binding& binding, Progress* progress, FaultLog& log) {
  const std::vector<Unit> units = units_of(binding);
  std::vector<std::optional<Result<ValueStats>>> parts(units.size());
  std::mutex advancing;
  ThreadPool pool(static_cast<int>(usable_processors().size()));
  WorkQueue queue(static_cast<std::int64_t>(units.size()));
  pool.run([&](int) {
    while (const auto next = queue.next()) {
      const auto number = static_cast<std::size_t>(*next);
      const Unit& unit = units[number];
      parts[number] = UnitScan(binding.checkpoint(), binding.matrices()[unit.matrix]).scan(unit);
      if (progress == nullptr) continue;
      const std::lock_guard<std::mutex> lock(advancing);
      progress->advance(unit.bytes);
    }
  });
  std::vector<ValueStats> all(binding.matrices().size());
  std::vector<bool> unread(all.size(), false);
  for (std::size_t number = 0; number < units.size(); ++number) {
    const std::size_t matrix = units[number].matrix;
    const Result<ValueStats>& part = *parts[number];
    if (part.ok()) {
      all[matrix].merge(*part);  // in the order of the units: always the same
    } else {
      const StoredTensor& codes = *binding.matrices()[matrix].stored.codes;
      binding.checkpoint().note_unread(codes, part.error(), log);
      unread[matrix] = true;
    }
  }
  for (std::size_t matrix = 0; matrix < all.size(); ++matrix) {
    if (unread[matrix]) all[matrix] = {};  // half of it would say something wrong of the whole
  }
  return all;
}

void check_scanned(const Binding& binding, const std::vector<ValueStats>& values, FaultLog& log) {
  NIBBLE_CHECK(values.size() == binding.matrices().size());
  for (std::size_t number = 0; number < values.size(); ++number) {
    check_matrix(binding.matrices()[number], values[number], log);
  }
  const std::optional<ModelSpec>& model = binding.checkpoint().model();
  if (!model || !model->moe) return;
  for (std::size_t layer = 0; layer < model->layers.size(); ++layer) {
    check_gate_and_up(binding, values, layer, log);
  }
}

}  // namespace nibble
