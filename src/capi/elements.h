// Rows of the host in the types of the C API, to and from fp32.
//
//   const std::vector<float> x = widened(args.a, NIBBLE_BF16, rows * k);
//   narrow(y, NIBBLE_FP16, args.out);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/format.h"

namespace nibble::capi {

// An input error for what is none of NIBBLE_BF16, NIBBLE_FP16 and NIBBLE_FP32.
Result<> check_float_dtype(std::string_view name, std::int32_t dtype);
std::size_t bytes_of_dtype(std::int32_t dtype);  // of one of the three

std::vector<float> widened(const void* from, std::int32_t dtype, std::int64_t count);
void narrow(std::span<const float> from, std::int32_t dtype, void* to);

// Rows of codes and where their scales lie: `scales` is in 128x4, whose row `scale_row` is the
// first row's.
struct CodedRows {
  Format format = Format::kNvfp4;
  std::int64_t columns = 0;
  const std::uint8_t* codes = nullptr;  // [rows, columns / 2]
  const std::uint8_t* scales = nullptr;
};
// code x scale of `row`, whose scales are those of `scale_row`: exact.
void decode_row(const CodedRows& rows, std::int64_t row, std::int64_t scale_row,
                std::span<float> to);

}  // namespace nibble::capi
