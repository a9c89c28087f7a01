#include "capi/arguments.h"

namespace nibble::capi {

Result<> check_given(const void* pointer, std::string_view name) {
  if (pointer == nullptr) return input_error("{} is null", name);
  return {};
}

Result<> check_alignment(std::string_view name, const void* pointer, std::size_t alignment) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (address % alignment == 0) return {};
  return input_error("{} is at 0x{:x}, which is no multiple of {} bytes", name, address, alignment);
}

Result<> check_pointer(std::string_view name, const void* pointer, std::size_t alignment) {
  NIBBLE_RETURN_IF_ERROR(check_given(pointer, name));
  return check_alignment(name, pointer, alignment);
}

Result<> check_range(std::string_view name, std::int64_t value, std::int64_t least,
                     std::int64_t most) {
  if (value >= least && value <= most) return {};
  return input_error("{} is {}; give {} to {}", name, value, least, most);
}

Result<> check_reserved(std::string_view name, std::int32_t value) {
  if (value == 0) return {};
  return input_error("{}->reserved is {}; set it to 0", name, value);
}

Result<Format> format_of(std::int32_t format) {
  if (format == NIBBLE_NVFP4) return Format::kNvfp4;
  if (format == NIBBLE_MXFP4) return Format::kMxfp4;
  return input_error("format is {}; give NIBBLE_NVFP4 ({}) or NIBBLE_MXFP4 ({})", format,
                     static_cast<int>(NIBBLE_NVFP4), static_cast<int>(NIBBLE_MXFP4));
}

Result<> check_offsets(std::span<const std::int32_t> offsets, std::int64_t rows) {
  if (offsets.front() != 0) {
    return input_error("expert_offsets[0] is {}; the first expert's rows begin at 0",
                       offsets.front());
  }
  for (std::size_t expert = 1; expert < offsets.size(); ++expert) {
    if (offsets[expert] < offsets[expert - 1]) {
      return input_error("expert_offsets[{}] is {} and the one before it {}; they ascend", expert,
                         offsets[expert], offsets[expert - 1]);
    }
  }
  if (offsets.back() != rows) {
    return input_error("expert_offsets ends with {}, and there are {} rows", offsets.back(), rows);
  }
  return {};
}

Result<> check_struct_size(std::string_view name, std::uint32_t size,
                           std::span<const StructField> fields) {
  constexpr std::uint32_t kLeast = 8;
  constexpr std::uint32_t kMost = 4096;
  if (size < kLeast || size > kMost) {
    return input_error(
        "{}->size is {}; set it to the size of the struct, and all else to zero first", name, size);
  }
  const StructField* const cut = field_cut_by(fields, size);
  if (cut == nullptr) return {};
  return input_error(
      "{}->size is {}, which ends inside of {} (bytes {} to {}); set it to the "
      "size of the struct",
      name, size, cut->name, cut->begin, cut->end - 1);
}

Result<> check_unknown_fields(std::string_view name, std::span<const std::byte> rest) {
  for (const std::byte byte : rest) {
    if (byte != std::byte{0}) {
      return input_error(
          "{} sets a field that this library ({}, interface {}) does not know; take a newer one, "
          "or leave the field zero",
          name, nibble_version(), nibble_abi_version());
    }
  }
  return {};
}

}  // namespace nibble::capi
