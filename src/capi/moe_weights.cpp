#include "capi/moe_weights.h"

#include <cmath>
#include <cstring>

#include "capi/arguments.h"
#include "formats/quantize.h"
#include "formats/scale_layout.h"

namespace nibble::capi {
namespace {

// More than any layer has; sizes below it do not overflow.
constexpr double kMostTensorBytes = 1e13;

// Copies to the host, from wherever.
Result<> fetch(std::string_view name, const void* from, std::span<std::byte> to, Source source) {
  NIBBLE_RETURN_IF_ERROR(check_given(from, name));
  if (source == nullptr) {
    std::memcpy(to.data(), from, to.size());
    return {};
  }
  const auto address = reinterpret_cast<cuda::DevicePointer>(from);
  const Result<> copied =
      cuda::check(source->MemcpyDtoH(to.data(), address, to.size()), "cuMemcpyDtoH");
  if (!copied.ok()) return copied.error().within(name);
  return {};
}

Result<> check_matrices(const GivenMatrices& given) {
  if (given.rows < 1 || given.rows > kMostSide || given.columns < 2 || given.columns > kMostSide ||
      given.columns % 2 != 0) {
    return input_error("{} is of {} x {}; give 1 to {} rows and an even number of columns to {}",
                       given.names.codes, given.rows, given.columns, kMostSide, kMostSide);
  }
  const double bytes = static_cast<double>(given.experts) * static_cast<double>(given.rows) *
                       static_cast<double>(given.columns);
  if (bytes > kMostTensorBytes) {
    return input_error("{} is of {} x {} x {}, which is more than a layer has", given.names.codes,
                       given.experts, given.rows, given.columns);
  }
  if (given.scale_layout != NIBBLE_SCALES_ROW_MAJOR && given.scale_layout != NIBBLE_SCALES_128X4) {
    return input_error(
        "scale_layout is {}; give NIBBLE_SCALES_ROW_MAJOR ({}) or NIBBLE_SCALES_128X4 ({})",
        given.scale_layout, static_cast<int>(NIBBLE_SCALES_ROW_MAJOR),
        static_cast<int>(NIBBLE_SCALES_128X4));
  }
  return check_range("row_order", given.row_order, NIBBLE_GATE_UP, NIBBLE_INTERLEAVED);
}

Result<std::vector<float>> fetch_factors(const GivenMatrices& given, Source source) {
  const std::int64_t each = given.gated ? 2 : 1;
  std::vector<float> factors(static_cast<std::size_t>(given.experts * each), 1.0F);
  if (given.factors == nullptr) return factors;
  const std::string_view name = given.names.factors;
  NIBBLE_RETURN_IF_ERROR(check_alignment(name, given.factors, alignof(float)));
  NIBBLE_RETURN_IF_ERROR(
      fetch(name, given.factors, std::as_writable_bytes(std::span(factors)), source));
  for (std::size_t at = 0; at < factors.size(); ++at) {
    if (std::isfinite(factors[at])) continue;
    const auto expert = static_cast<std::int64_t>(at) / each;
    const std::string_view rows = !given.gated ? "" : at % 2 == 0 ? ", gate rows," : ", up rows,";
    return input_error("{} of expert {}{} is {}; give a finite number", name, expert, rows,
                       factors[at]);
  }
  return factors;
}

// [rows, bytes each] of an expert into the order of gate rows, then up rows.
void order_rows(std::span<std::uint8_t> matrix, std::int64_t rows, std::int32_t row_order) {
  if (row_order == NIBBLE_GATE_UP) return;
  const std::vector<std::uint8_t> before(matrix.begin(), matrix.end());
  const std::size_t each = matrix.size() / static_cast<std::size_t>(rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto from = static_cast<std::size_t>(source_row(row_order, row, rows));
    std::memcpy(matrix.data() + static_cast<std::size_t>(row) * each, before.data() + from * each,
                each);
  }
}

}  // namespace

std::int64_t source_row(std::int32_t row_order, std::int64_t row, std::int64_t rows) {
  const std::int64_t half = rows / 2;
  const bool up = row >= half;
  if (row_order == NIBBLE_UP_GATE) return up ? row - half : row + half;
  if (row_order == NIBBLE_INTERLEAVED) return up ? 2 * (row - half) + 1 : 2 * row;
  return row;
}

Result<HostMatrices> HostMatrices::read(const GivenMatrices& given, Source source) {
  NIBBLE_RETURN_IF_ERROR(check_matrices(given));
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<float> factors, fetch_factors(given, source));
  const std::int64_t block = given.format == Format::kMxfp4 ? kMxfp4Block : kNvfp4Block;
  const std::int64_t blocks = (given.columns + block - 1) / block;
  const auto experts = static_cast<std::size_t>(given.experts);
  const auto code_bytes = static_cast<std::size_t>(given.rows * (given.columns / 2));
  const auto scale_bytes = static_cast<std::size_t>(given.rows * blocks);
  const bool swizzled = given.scale_layout == NIBBLE_SCALES_128X4;
  const std::size_t given_bytes =
      swizzled ? static_cast<std::size_t>(swizzled_bytes(given.rows, blocks)) : scale_bytes;

  HostMatrices host;
  host.codes_.resize(experts * code_bytes);
  NIBBLE_RETURN_IF_ERROR(fetch(given.names.codes, given.codes,
                               std::as_writable_bytes(std::span(host.codes_)), source));
  std::vector<std::uint8_t> scales(experts * given_bytes);
  NIBBLE_RETURN_IF_ERROR(
      fetch(given.names.scales, given.scales, std::as_writable_bytes(std::span(scales)), source));
  if (swizzled) {
    host.scales_.resize(experts * scale_bytes);
    for (std::size_t expert = 0; expert < experts; ++expert) {
      unswizzle_scales(std::span(scales).subspan(expert * given_bytes, given_bytes), given.rows,
                       blocks, std::span(host.scales_).subspan(expert * scale_bytes, scale_bytes));
    }
  } else {
    host.scales_ = std::move(scales);
  }
  for (std::size_t expert = 0; expert < experts; ++expert) {
    const auto codes = std::span(host.codes_).subspan(expert * code_bytes, code_bytes);
    const auto of_expert = std::span(host.scales_).subspan(expert * scale_bytes, scale_bytes);
    QuantizedMatrix view{.format = given.format,
                         .rows = given.rows,
                         .columns = given.columns,
                         .codes = codes,
                         .scales = of_expert};
    if (given.gated) {
      order_rows(codes, given.rows, given.row_order);
      order_rows(of_expert, given.rows, given.row_order);
      view.segments = {{.row_begin = 0, .factor = factors[2 * expert]},
                       {.row_begin = given.rows / 2, .factor = factors[2 * expert + 1]}};
    } else {
      view.segments = {{.row_begin = 0, .factor = factors[expert]}};
    }
    host.views_.push_back(std::move(view));
  }
  return host;
}

Result<> HostMatrices::set_input_scales(std::string_view name, const float* from, Source source) {
  NIBBLE_RETURN_IF_ERROR(check_alignment(name, from, alignof(float)));
  std::vector<float> scales(views_.size());
  NIBBLE_RETURN_IF_ERROR(fetch(name, from, std::as_writable_bytes(std::span(scales)), source));
  for (std::size_t expert = 0; expert < scales.size(); ++expert) {
    if (const std::string_view fault = factor_fault(scales[expert]); !fault.empty()) {
      return input_error("{} of expert {} is {}, which {}", name, expert, scales[expert], fault);
    }
    views_[expert].input_scale = scales[expert];
  }
  return {};
}

Result<std::vector<float>> read_bias(std::string_view name, const float* from, std::int64_t experts,
                                     std::int64_t rows, std::int32_t row_order, Source source) {
  if (from == nullptr) return std::vector<float>();
  NIBBLE_RETURN_IF_ERROR(check_alignment(name, from, alignof(float)));
  std::vector<float> given(static_cast<std::size_t>(experts * rows));
  NIBBLE_RETURN_IF_ERROR(fetch(name, from, std::as_writable_bytes(std::span(given)), source));
  for (std::size_t at = 0; at < given.size(); ++at) {
    if (std::isfinite(given[at])) continue;
    const auto row = static_cast<std::int64_t>(at);
    return input_error("{} of expert {}, row {} is {}; give a finite number", name, row / rows,
                       row % rows, given[at]);
  }
  std::vector<float> bias(given.size());
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    for (std::int64_t row = 0; row < rows; ++row) {
      bias[static_cast<std::size_t>(expert * rows + row)] =
          given[static_cast<std::size_t>(expert * rows + source_row(row_order, row, rows))];
    }
  }
  return bias;
}

}  // namespace nibble::capi
