#include "capi/elements.h"

#include <cstring>
#include <nibble/nibble.h>

#include "formats/codec.h"
#include "formats/quantize.h"
#include "formats/scale_layout.h"

namespace nibble::capi {

Result<> check_float_dtype(std::string_view name, std::int32_t dtype) {
  if (dtype == NIBBLE_BF16 || dtype == NIBBLE_FP16 || dtype == NIBBLE_FP32) return {};
  return input_error("{} is {}; give NIBBLE_BF16 ({}), NIBBLE_FP16 ({}) or NIBBLE_FP32 ({})", name,
                     dtype, static_cast<int>(NIBBLE_BF16), static_cast<int>(NIBBLE_FP16),
                     static_cast<int>(NIBBLE_FP32));
}

std::size_t bytes_of_dtype(std::int32_t dtype) {
  return dtype == NIBBLE_FP32 ? 4 : 2;
}

std::vector<float> widened(const void* from, std::int32_t dtype, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  if (values.empty()) return values;
  if (dtype == NIBBLE_FP32) {
    std::memcpy(values.data(), from, values.size() * sizeof(float));
    return values;
  }
  const auto* at = static_cast<const std::byte*>(from);
  for (float& value : values) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, at, sizeof(bits));
    at += sizeof(bits);
    value = dtype == NIBBLE_BF16 ? bf16_to_float(bits) : fp16_to_float(bits);
  }
  return values;
}

void narrow(std::span<const float> from, std::int32_t dtype, void* to) {
  if (from.empty()) return;
  if (dtype == NIBBLE_FP32) {
    std::memcpy(to, from.data(), from.size_bytes());
    return;
  }
  auto* at = static_cast<std::byte*>(to);
  for (const float value : from) {
    const std::uint16_t bits = dtype == NIBBLE_BF16 ? float_to_bf16(value) : float_to_fp16(value);
    std::memcpy(at, &bits, sizeof(bits));
    at += sizeof(bits);
  }
}

void decode_row(const CodedRows& rows, std::int64_t row, std::int64_t scale_row,
                std::span<float> to) {
  const bool mxfp4 = rows.format == Format::kMxfp4;
  const std::int64_t block = mxfp4 ? kMxfp4Block : kNvfp4Block;
  const std::int64_t blocks = (rows.columns + block - 1) / block;
  const std::uint8_t* const codes = rows.codes + row * (rows.columns / 2);
  for (std::int64_t column = 0; column < rows.columns; ++column) {
    const std::uint8_t scale = rows.scales[swizzled_offset(scale_row, column / block, blocks)];
    to[static_cast<std::size_t>(column)] = e2m1_to_float(e2m1_at(codes, column)) *
                                           (mxfp4 ? e8m0_to_float(scale) : e4m3_to_float(scale));
  }
}

}  // namespace nibble::capi
