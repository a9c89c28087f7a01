#include "checkpoint/load.h"

#include <algorithm>

#include "checkpoint/elements.h"
#include "formats/quantize.h"

namespace nibble {
namespace {

std::span<const std::uint8_t> bytes_of(const Checkpoint& checkpoint, const StoredTensor& tensor) {
  const std::span<const std::byte> data = checkpoint.data(tensor);
  return {reinterpret_cast<const std::uint8_t*>(data.data()), data.size()};
}

// e4m3 block scales are 0 .. 448: a set sign bit or NaN is a fault. e8m0 has NaN alone.
Result<> check_scales(Format format, std::span<const std::uint8_t> scales, std::string_view name) {
  const bool e8m0 = format == Format::kMxfp4;
  std::uint64_t bad = 0;
  for (const std::uint8_t scale : scales) {
    bad += e8m0 ? (scale == 0xff ? 1U : 0U) : (scale >= 0x7f ? 1U : 0U);
  }
  if (bad == 0) return {};
  return input_error("{}: {} of {} block scales are NaN or negative; quantize the matrix again",
                     name, bad, scales.size());
}

Result<> check_number(std::optional<float> value, std::string_view what, std::string_view name) {
  const std::string_view fault = value ? factor_fault(*value) : std::string_view();
  if (fault.empty()) return {};
  return input_error("{}: its {}, {}, {}", name, what, *value, fault);
}

Result<> check_loadable(const Checkpoint& checkpoint, const BoundMatrix& bound) {
  const StoredMatrix& stored = bound.stored;
  if (!stored.sound) {
    return input_error(
        "{}: a part is missing or has the wrong type or shape; nibble inspect says "
        "which",
        stored.name);
  }
  if (!stored.loadable) {
    return input_error("{}: {}{} is a form that nibble knows but does not load", stored.name,
                       stored.copies > 0 ? "a stack of experts in " : "", to_string(stored.format));
  }
  for (const StoredTensor* tensor : {stored.codes, stored.scales}) {
    if (tensor != nullptr) NIBBLE_RETURN_IF_ERROR(checkpoint.check_length(*tensor));
  }
  NIBBLE_RETURN_IF_ERROR(check_number(bound.factor, "factor", stored.name));
  return check_number(bound.input_scale, "input scale", stored.name);
}

Result<> check_form(const QuantizedMatrix& matrix, std::string_view name) {
  const Result<> checked = check_matrix(matrix);
  return checked.ok() ? checked : checked.error().within(name);
}

QuantizedMatrix frame_of(const BoundMatrix& bound) {
  QuantizedMatrix matrix;
  matrix.format = bound.stored.format;
  matrix.rows = bound.stored.rows;
  matrix.columns = bound.stored.columns;
  if (bound.factor) matrix.segments = {{0, *bound.factor}};
  matrix.input_scale = bound.input_scale;
  return matrix;
}

// Every second row of [2 * rows, row_bytes], from `first` on.
std::vector<std::uint8_t> every_second_row(std::span<const std::uint8_t> bytes, std::size_t rows,
                                           std::size_t first) {
  std::vector<std::uint8_t> out;
  out.reserve(bytes.size() / 2);
  const std::size_t row_bytes = rows == 0 ? 0 : bytes.size() / (2 * rows);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>((2 * row + first) * row_bytes);
    out.insert(out.end(), begin, begin + static_cast<std::ptrdiff_t>(row_bytes));
  }
  return out;
}

// Copy `copy` of a stack.
std::span<const std::uint8_t> slice(std::span<const std::uint8_t> bytes, const StoredMatrix& stored,
                                    std::int64_t copy) {
  const std::size_t size = bytes.size() / static_cast<std::size_t>(stored.copies);
  return bytes.subspan(static_cast<std::size_t>(copy) * size, size);
}

Result<LoadedMatrix> load_copy(const Checkpoint& checkpoint, const BoundMatrix& bound,
                               std::int64_t copy) {
  NIBBLE_RETURN_IF_ERROR(check_loadable(checkpoint, bound));
  LoadedMatrix loaded;
  loaded.matrix = frame_of(bound);
  loaded.matrix.codes = slice(bytes_of(checkpoint, *bound.stored.codes), bound.stored, copy);
  loaded.matrix.scales = slice(bytes_of(checkpoint, *bound.stored.scales), bound.stored, copy);
  NIBBLE_RETURN_IF_ERROR(
      check_scales(bound.stored.format, loaded.matrix.scales, bound.stored.name));
  NIBBLE_RETURN_IF_ERROR(check_form(loaded.matrix, bound.stored.name));
  return loaded;
}

// The even (gate) or odd (up) rows of an interleaved matrix.
LoadedMatrix half_of(const LoadedMatrix& both, std::size_t first) {
  LoadedMatrix half;
  half.matrix = both.matrix;
  half.matrix.rows = both.matrix.rows / 2;
  const auto rows = static_cast<std::size_t>(half.matrix.rows);
  half.codes = every_second_row(both.matrix.codes, rows, first);
  half.scales = every_second_row(both.matrix.scales, rows, first);
  half.matrix.codes = half.codes;
  half.matrix.scales = half.scales;
  return half;
}

Result<std::vector<float>> elements_of(const Checkpoint& checkpoint, const StoredTensor& tensor,
                                       std::size_t begin, std::size_t count) {
  const std::size_t size = static_cast<std::size_t>(dtype_bits(tensor.info->dtype)) / 8;
  std::vector<std::byte> bytes(count * size);
  NIBBLE_RETURN_IF_ERROR(checkpoint.read(tensor, begin * size, bytes));
  std::vector<float> values(count);
  for (std::size_t index = 0; index < count; ++index) {
    values[index] = element_at(tensor.info->dtype, bytes, index);
  }
  return values;
}

// The bias of one expert: a row of [experts, rows], or a vector of its own.
Result<std::vector<float>> load_bias(const Checkpoint& checkpoint, const BoundMatrix& bound,
                                     std::int64_t copy) {
  const StoredTensor* bias = bound.stored.bias;
  if (bias == nullptr) return std::vector<float>{};
  const auto rows = static_cast<std::size_t>(bound.stored.rows);
  const auto copies = static_cast<std::size_t>(std::max<std::int64_t>(bound.stored.copies, 1));
  if (!is_element_type(bias->info->dtype) || bias->info->elements() != copies * rows) {
    return input_error("{}: is {} {}; a bias of {} x {} floating-point numbers is needed",
                       bias->name(), to_string(bias->info->dtype), shape_text(bias->info->shape),
                       copies, rows);
  }
  return elements_of(checkpoint, *bias, static_cast<std::size_t>(copy) * rows, rows);
}

Result<LoadedExpert> load_from_stack(const Checkpoint& checkpoint, const ExpertBinding& expert) {
  const StoredMatrix& stored = expert.gate->stored;
  if (!stored.interleaved || expert.copy >= stored.copies ||
      expert.copy >= expert.down->stored.copies || stored.rows % 2 != 0) {
    return input_error("{}: experts stacked in this form are known but not loaded", stored.name);
  }
  NIBBLE_ASSIGN_OR_RETURN(const LoadedMatrix both,
                          load_copy(checkpoint, *expert.gate, expert.copy));
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<float> bias,
                          load_bias(checkpoint, *expert.gate, expert.copy));
  LoadedExpert loaded;
  loaded.gate = half_of(both, 0);
  loaded.up = half_of(both, 1);
  for (std::size_t row = 0; row < bias.size(); ++row) {
    (row % 2 == 0 ? loaded.gate_bias : loaded.up_bias).push_back(bias[row]);
  }
  NIBBLE_ASSIGN_OR_RETURN(loaded.down, load_copy(checkpoint, *expert.down, expert.copy));
  NIBBLE_ASSIGN_OR_RETURN(loaded.down_bias, load_bias(checkpoint, *expert.down, expert.copy));
  return loaded;
}

void append(std::vector<std::uint8_t>& out, std::span<const std::uint8_t> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void append_segments(std::vector<MatrixSegment>& out, const QuantizedMatrix& matrix,
                     std::int64_t row_begin) {
  if (matrix.segments.empty()) out.push_back({row_begin, 1});
  for (const MatrixSegment& segment : matrix.segments) {
    out.push_back({row_begin + segment.row_begin, segment.factor});
  }
}

// Which scale of an FP8 matrix covers an element.
std::size_t fp8_scale_index(const StoredMatrix& stored, std::size_t row, std::size_t column) {
  constexpr std::size_t kBlock = 128;
  const std::size_t grid_columns = (static_cast<std::size_t>(stored.columns) + kBlock - 1) / kBlock;
  if (stored.fp8_scale == Fp8Scale::kRow) return row;
  if (stored.fp8_scale == Fp8Scale::kBlock128) return row / kBlock * grid_columns + column / kBlock;
  return 0;
}

}  // namespace

Result<LoadedMatrix> load_matrix(const Checkpoint& checkpoint, const BoundMatrix& bound) {
  NIBBLE_RETURN_IF_ERROR(check_loadable(checkpoint, bound));
  const StoredMatrix& stored = bound.stored;
  if (stored.copies > 0) {
    return input_error("{}: is a stack of {} experts; they are loaded one by one", stored.name,
                       stored.copies);
  }
  LoadedMatrix loaded;
  loaded.matrix = frame_of(bound);
  loaded.matrix.codes = bytes_of(checkpoint, *stored.codes);
  if (stored.format == Format::kBf16) return loaded;
  if (stored.format != Format::kNvfp4 && stored.format != Format::kMxfp4) {
    return input_error("{}: is {}; the canonical form holds nvfp4, mxfp4 and bf16", stored.name,
                       to_string(stored.format));
  }
  loaded.matrix.scales = bytes_of(checkpoint, *stored.scales);
  NIBBLE_RETURN_IF_ERROR(check_scales(stored.format, loaded.matrix.scales, stored.name));
  NIBBLE_RETURN_IF_ERROR(check_form(loaded.matrix, stored.name));
  return loaded;
}

Result<LoadedExpert> load_expert(const Binding& binding, std::size_t layer, std::int64_t expert) {
  const std::optional<ExpertBinding> bound = binding.expert(layer, expert);
  if (!bound) {
    return input_error("{}: expert {} of layer {} is not in the checkpoint",
                       binding.checkpoint().path(), expert, layer);
  }
  const Checkpoint& checkpoint = binding.checkpoint();
  if (bound->gate == bound->up) return load_from_stack(checkpoint, *bound);
  LoadedExpert loaded;
  NIBBLE_ASSIGN_OR_RETURN(loaded.gate, load_matrix(checkpoint, *bound->gate));
  NIBBLE_ASSIGN_OR_RETURN(loaded.up, load_matrix(checkpoint, *bound->up));
  NIBBLE_ASSIGN_OR_RETURN(loaded.down, load_matrix(checkpoint, *bound->down));
  NIBBLE_ASSIGN_OR_RETURN(loaded.gate_bias, load_bias(checkpoint, *bound->gate, 0));
  NIBBLE_ASSIGN_OR_RETURN(loaded.up_bias, load_bias(checkpoint, *bound->up, 0));
  NIBBLE_ASSIGN_OR_RETURN(loaded.down_bias, load_bias(checkpoint, *bound->down, 0));
  return loaded;
}

Result<LoadedMatrix> stack_rows(const LoadedMatrix& above, const LoadedMatrix& below) {
  const QuantizedMatrix& a = above.matrix;
  const QuantizedMatrix& b = below.matrix;
  if (a.format != b.format || a.columns != b.columns) {
    return input_error("a {} matrix of {} columns cannot stand above a {} matrix of {}",
                       to_string(a.format), a.columns, to_string(b.format), b.columns);
  }
  LoadedMatrix both;
  both.codes.reserve(a.codes.size() + b.codes.size());
  append(both.codes, a.codes);
  append(both.codes, b.codes);
  append(both.scales, a.scales);
  append(both.scales, b.scales);
  both.matrix.format = a.format;
  both.matrix.rows = a.rows + b.rows;
  both.matrix.columns = a.columns;
  both.matrix.codes = both.codes;
  both.matrix.scales = both.scales;
  append_segments(both.matrix.segments, a, 0);
  append_segments(both.matrix.segments, b, a.rows);
  if (a.input_scale && b.input_scale) {
    both.matrix.input_scale = std::max(*a.input_scale, *b.input_scale);
  }
  return both;
}

Result<std::vector<float>> load_elements(const Checkpoint& checkpoint, const BoundMatrix& bound) {
  NIBBLE_RETURN_IF_ERROR(check_loadable(checkpoint, bound));
  const StoredMatrix& stored = bound.stored;
  const Dtype dtype = stored.codes->info->dtype;
  if (!is_element_type(dtype) || stored.copies > 0) {
    return input_error("{}: is {}, whose elements do not stand one by one", stored.name,
                       to_string(stored.format));
  }
  const auto rows = static_cast<std::size_t>(stored.rows);
  const auto columns = static_cast<std::size_t>(stored.columns);
  NIBBLE_ASSIGN_OR_RETURN(std::vector<float> values,
                          elements_of(checkpoint, *stored.codes, 0, rows * columns));
  if (stored.fp8_scale == Fp8Scale::kNone) return values;
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<float> scales,
                          elements_of(checkpoint, *stored.scales, 0,
                                      static_cast<std::size_t>(stored.scales->info->elements())));
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      values[row * columns + column] *= scales[fp8_scale_index(stored, row, column)];
    }
  }
  return values;
}

Result<std::vector<float>> load_vector(const Checkpoint& checkpoint, std::string_view tensor) {
  const StoredTensor* found = checkpoint.find(tensor);
  if (found == nullptr) {
    return input_error("{}: holds no tensor \"{}\"", checkpoint.path(), tensor);
  }
  const Dtype dtype = found->info->dtype;
  if (!is_element_type(dtype) || dtype == Dtype::kF8E4M3) {
    return input_error("{}: is {}; a vector of weights is BF16, F16 or F32", found->name(),
                       to_string(dtype));
  }
  return elements_of(checkpoint, *found, 0, static_cast<std::size_t>(found->info->elements()));
}

}  // namespace nibble
