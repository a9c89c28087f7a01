// What every call checks of its arguments: pointers, alignment, sizes, and the sizes of structs.
//
//   NIBBLE_ASSIGN_OR_RETURN(const nibble_moe_desc desc, read_struct(given, "desc"));
//   NIBBLE_RETURN_IF_ERROR(check_range("n", desc.n, 1, 1 << 24));
//   NIBBLE_RETURN_IF_ERROR(check_pointer("a", args.a, 16));
//   NIBBLE_RETURN_IF_ERROR(write_struct(info, filled, "info"));
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nibble/nibble.h>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/result.h"
#include "capi/struct_fields.h"
#include "formats/format.h"

namespace nibble::capi {

// Sizes of one side of a matrix, as the kernels count them.
inline constexpr std::int64_t kMostSide = std::int64_t{1} << 24;
inline constexpr std::int64_t kMostExpertsGiven = std::int64_t{1} << 16;

// Each an input error that names the argument, with the numbers.
Result<> check_given(const void* pointer, std::string_view name);
Result<> check_pointer(std::string_view name, const void* pointer, std::size_t alignment);
// The same for one that may be null.
Result<> check_alignment(std::string_view name, const void* pointer, std::size_t alignment);
Result<> check_range(std::string_view name, std::int64_t value, std::int64_t least,
                     std::int64_t most);

// A field that is kept for later: zero.
Result<> check_reserved(std::string_view name, std::int32_t value);

Result<Format> format_of(std::int32_t format);
// experts + 1 offsets ascending from 0 to `rows`, on the host.
Result<> check_offsets(std::span<const std::int32_t> offsets, std::int64_t rows);

// That a struct of `fields` may be of so many bytes: those of an older or newer header end between
// two fields.
Result<> check_struct_size(std::string_view name, std::uint32_t size,
                           std::span<const StructField> fields);
// What lies behind the fields that this library knows.
Result<> check_unknown_fields(std::string_view name, std::span<const std::byte> rest);

// A copy of a caller's struct. A shorter one is of an older header: what it lacks is zero. A longer
// one is of a newer header, and fine as long as it asks for nothing that is not known here.
template <class T>
Result<T> read_struct(const T* given, std::string_view name) {
  static_assert(std::is_trivially_copyable_v<T>);
  static_assert(offsetof(T, size) == 0);
  NIBBLE_RETURN_IF_ERROR(check_pointer(name, given, alignof(T)));
  const std::size_t size = given->size;
  NIBBLE_RETURN_IF_ERROR(check_struct_size(name, given->size, FieldsOf<T>::kAll));
  const auto* const bytes = reinterpret_cast<const std::byte*>(given);
  if (size > sizeof(T)) {
    NIBBLE_RETURN_IF_ERROR(check_unknown_fields(name, std::span(bytes, size).subspan(sizeof(T))));
  }
  T copy = {};
  std::memcpy(&copy, bytes, std::min(size, sizeof(T)));
  return copy;
}

// Fills as much as the caller's struct holds, and leaves its size.
template <class T>
Result<> write_struct(T* given, const T& filled, std::string_view name) {
  NIBBLE_RETURN_IF_ERROR(check_pointer(name, given, alignof(T)));
  const std::uint32_t size = given->size;
  NIBBLE_RETURN_IF_ERROR(check_struct_size(name, size, FieldsOf<T>::kAll));
  std::memcpy(given, &filled, std::min<std::size_t>(size, sizeof(T)));
  given->size = size;
  return {};
}

// Into a fixed field; what is longer is cut.
template <std::size_t kSize>
void write_text(char (&field)[kSize], std::string_view text) {
  const std::size_t length = std::min(text.size(), kSize - 1);
  std::memcpy(field, text.data(), length);
  field[length] = '\0';
}

}  // namespace nibble::capi
