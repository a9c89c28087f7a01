// Number formats on the host.
#include <cmath>
#include <cstring>
#include <nibble/nibble.h>
#include <optional>

#include "capi/arguments.h"
#include "capi/error.h"
#include "formats/quantize.h"
#include "formats/scale_layout.h"

namespace nibble::capi {
namespace {

Result<> check_matrix_sizes(std::int64_t rows, std::int64_t columns) {
  NIBBLE_RETURN_IF_ERROR(check_range("rows", rows, 1, kMostSide));
  return check_range("columns", columns, 1, kMostSide);
}

Result<> check_quantize(const float* x, std::int64_t rows, std::int64_t columns,
                        const std::uint8_t* codes, const std::uint8_t* scales) {
  NIBBLE_RETURN_IF_ERROR(check_matrix_sizes(rows, columns));
  if (columns % 2 != 0) return input_error("columns is {}; give an even number", columns);
  NIBBLE_RETURN_IF_ERROR(check_pointer("x", x, alignof(float)));
  NIBBLE_RETURN_IF_ERROR(check_given(codes, "codes"));
  return check_given(scales, "scales");
}

std::size_t count_of(std::int64_t rows, std::int64_t columns) {
  return static_cast<std::size_t>(rows * columns);
}

}  // namespace

extern "C" {

nibble_status nibble_quantize_nvfp4(const float* x, int64_t rows, int64_t columns,
                                    const float* given, uint8_t* codes, uint8_t* scales,
                                    float* factor) {
  return guarded([&]() -> Result<> {
    NIBBLE_RETURN_IF_ERROR(check_quantize(x, rows, columns, codes, scales));
    NIBBLE_RETURN_IF_ERROR(check_alignment("given", given, alignof(float)));
    NIBBLE_RETURN_IF_ERROR(check_alignment("factor", factor, alignof(float)));
    const std::span<const float> values(x, count_of(rows, columns));
    const float taken = given != nullptr ? *given : nvfp4_factor(values);
    if (!std::isfinite(taken) || taken <= 0) {
      return input_error("the factor is {}; give a finite number above 0", taken);
    }
    const std::int64_t blocks = (columns + kNvfp4Block - 1) / kNvfp4Block;
    for (std::int64_t row = 0; row < rows; ++row) {
      quantize_nvfp4_row(values.subspan(count_of(row, columns), count_of(1, columns)), taken,
                         codes + row * (columns / 2), scales + row * blocks);
    }
    if (factor != nullptr) *factor = taken;
    return {};
  });
}

nibble_status nibble_quantize_mxfp4(const float* x, int64_t rows, int64_t columns, uint8_t* codes,
                                    uint8_t* scales) {
  return guarded([&]() -> Result<> {
    NIBBLE_RETURN_IF_ERROR(check_quantize(x, rows, columns, codes, scales));
    const std::span<const float> values(x, count_of(rows, columns));
    const std::int64_t blocks = (columns + kMxfp4Block - 1) / kMxfp4Block;
    for (std::int64_t row = 0; row < rows; ++row) {
      quantize_mxfp4_row(values.subspan(count_of(row, columns), count_of(1, columns)),
                         codes + row * (columns / 2), scales + row * blocks);
    }
    return {};
  });
}

int64_t nibble_swizzled_bytes(int64_t rows, int64_t columns) {
  const bool known = rows >= 1 && columns >= 1 && rows <= kMostSide && columns <= kMostSide;
  return known ? swizzled_bytes(rows, columns) : 0;
}

nibble_status nibble_swizzle_scales(const uint8_t* scales, int64_t rows, int64_t columns,
                                    uint8_t* swizzled) {
  return guarded([&]() -> Result<> {
    NIBBLE_RETURN_IF_ERROR(check_matrix_sizes(rows, columns));
    NIBBLE_RETURN_IF_ERROR(check_given(scales, "scales"));
    NIBBLE_RETURN_IF_ERROR(check_given(swizzled, "swizzled"));
    swizzle_scales({scales, count_of(rows, columns)}, rows, columns,
                   {swizzled, static_cast<std::size_t>(swizzled_bytes(rows, columns))});
    return {};
  });
}

nibble_status nibble_unswizzle_scales(const uint8_t* swizzled, int64_t rows, int64_t columns,
                                      uint8_t* scales) {
  return guarded([&]() -> Result<> {
    NIBBLE_RETURN_IF_ERROR(check_matrix_sizes(rows, columns));
    NIBBLE_RETURN_IF_ERROR(check_given(swizzled, "swizzled"));
    NIBBLE_RETURN_IF_ERROR(check_given(scales, "scales"));
    unswizzle_scales({swizzled, static_cast<std::size_t>(swizzled_bytes(rows, columns))}, rows,
                     columns, {scales, count_of(rows, columns)});
    return {};
  });
}

}  // extern "C"

}  // namespace nibble::capi
