// Where the fields of each struct of nibble.h lie: a struct of an older header ends behind one of
// them, and a size that cuts one in two is a mistake.
//
//   constexpr auto& fields = kFields<nibble_moe_desc>;   // in their order
//   const StructField* cut = field_cut_by(fields, 12);   // null: none is
#pragma once

#include <cstddef>
#include <nibble/nibble.h>
#include <span>
#include <string_view>

namespace nibble::capi {

struct StructField {
  std::string_view name;
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t alignment = 1;
};

constexpr const StructField* field_cut_by(std::span<const StructField> fields, std::size_t size) {
  for (const StructField& field : fields) {
    if (field.begin < size && size < field.end) return &field;
  }
  return nullptr;
}

// That no field is left out: each begins where its alignment lets it behind the one before.
template <class T>
constexpr bool are_all_fields(std::span<const StructField> fields) {
  std::size_t end = 0;
  for (const StructField& field : fields) {
    const std::size_t begin = (end + field.alignment - 1) / field.alignment * field.alignment;
    if (field.begin != begin) return false;
    end = field.end;
  }
  return (end + alignof(T) - 1) / alignof(T) * alignof(T) == sizeof(T);
}

template <class T>
inline constexpr StructField kFields[] = {{}};

#define NIBBLE_FIELD(name)                                                          \
  {                                                                                 \
#name, offsetof(Struct, name), offsetof(Struct, name) + sizeof(Struct::name), \
        alignof(decltype(Struct::name))                                             \
  }
