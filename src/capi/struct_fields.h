// Where the fields of each struct of nibble.h lie: a struct of an older header ends behind one of
// them, and a size that cuts one in two is a mistake.
//
//   const auto& fields = FieldsOf<nibble_moe_desc>::kAll;   // in their order
//   const StructField* cut = field_cut_by(fields, 6);       // `format`; null: none is cut
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
struct FieldsOf;

// A struct of nibble.h with its fields, of which none may be missing.
#define NIBBLE_FIELD(field)                                 \
  {                                                         \
    .name = #field, .begin = offsetof(Struct, field),       \
    .end = offsetof(Struct, field) + sizeof(Struct::field), \
    .alignment = alignof(decltype(Struct::field))           \
  }
#define NIBBLE_STRUCT_FIELDS(T, ...)                     \
  template <>                                            \
  struct FieldsOf<T> {                                   \
    using Struct = T;                                    \
    static constexpr StructField kAll[] = {__VA_ARGS__}; \
  };                                                     \
  static_assert(are_all_fields<T>(FieldsOf<T>::kAll), "a field is missing")

NIBBLE_STRUCT_FIELDS(nibble_device_info, NIBBLE_FIELD(size), NIBBLE_FIELD(is_gpu),
                     NIBBLE_FIELD(fp4_mma), NIBBLE_FIELD(major), NIBBLE_FIELD(minor),
                     NIBBLE_FIELD(sms), NIBBLE_FIELD(threads), NIBBLE_FIELD(name),
                     NIBBLE_FIELD(arch), NIBBLE_FIELD(memory_bytes));
NIBBLE_STRUCT_FIELDS(nibble_fp4_gemm_desc, NIBBLE_FIELD(size), NIBBLE_FIELD(format),
                     NIBBLE_FIELD(out_dtype), NIBBLE_FIELD(experts), NIBBLE_FIELD(n),
                     NIBBLE_FIELD(k), NIBBLE_FIELD(expected_rows));
NIBBLE_STRUCT_FIELDS(nibble_fp4_gemm_args, NIBBLE_FIELD(size), NIBBLE_FIELD(reserved),
                     NIBBLE_FIELD(rows), NIBBLE_FIELD(a), NIBBLE_FIELD(b),
                     NIBBLE_FIELD(block_scale_a), NIBBLE_FIELD(block_scale_b), NIBBLE_FIELD(alpha),
                     NIBBLE_FIELD(out), NIBBLE_FIELD(expert_offsets), NIBBLE_FIELD(sf_offsets),
                     NIBBLE_FIELD(workspace), NIBBLE_FIELD(workspace_bytes));
NIBBLE_STRUCT_FIELDS(nibble_fp4_gemm_info, NIBBLE_FIELD(size), NIBBLE_FIELD(software_mma),
                     NIBBLE_FIELD(grid), NIBBLE_FIELD(reserved), NIBBLE_FIELD(shared_bytes),
                     NIBBLE_FIELD(problem), NIBBLE_FIELD(tactic));
NIBBLE_STRUCT_FIELDS(nibble_cpu_gemm_weights, NIBBLE_FIELD(size), NIBBLE_FIELD(scale_layout),
                     NIBBLE_FIELD(b), NIBBLE_FIELD(block_scale_b), NIBBLE_FIELD(alpha));
NIBBLE_STRUCT_FIELDS(nibble_cpu_gemm_args, NIBBLE_FIELD(size), NIBBLE_FIELD(a_dtype),
                     NIBBLE_FIELD(rows), NIBBLE_FIELD(a), NIBBLE_FIELD(block_scale_a),
                     NIBBLE_FIELD(out), NIBBLE_FIELD(expert_offsets), NIBBLE_FIELD(sf_offsets));
NIBBLE_STRUCT_FIELDS(nibble_moe_desc, NIBBLE_FIELD(size), NIBBLE_FIELD(format), NIBBLE_FIELD(dtype),
                     NIBBLE_FIELD(activation), NIBBLE_FIELD(operand), NIBBLE_FIELD(experts),
                     NIBBLE_FIELD(top_k), NIBBLE_FIELD(reserved), NIBBLE_FIELD(hidden),
                     NIBBLE_FIELD(intermediate), NIBBLE_FIELD(swiglu_alpha),
                     NIBBLE_FIELD(swiglu_limit), NIBBLE_FIELD(expected_tokens));
NIBBLE_STRUCT_FIELDS(nibble_moe_weights, NIBBLE_FIELD(size), NIBBLE_FIELD(on_device),
                     NIBBLE_FIELD(scale_layout), NIBBLE_FIELD(row_order), NIBBLE_FIELD(w13),
                     NIBBLE_FIELD(w13_scale), NIBBLE_FIELD(w13_factor), NIBBLE_FIELD(w13_bias),
                     NIBBLE_FIELD(w2), NIBBLE_FIELD(w2_scale), NIBBLE_FIELD(w2_factor),
                     NIBBLE_FIELD(w2_bias), NIBBLE_FIELD(w13_input_scale),
                     NIBBLE_FIELD(w2_input_scale));
NIBBLE_STRUCT_FIELDS(nibble_moe_args, NIBBLE_FIELD(size), NIBBLE_FIELD(reserved),
                     NIBBLE_FIELD(tokens), NIBBLE_FIELD(hidden_states), NIBBLE_FIELD(topk_ids),
                     NIBBLE_FIELD(topk_weights), NIBBLE_FIELD(shared), NIBBLE_FIELD(out));
NIBBLE_STRUCT_FIELDS(nibble_moe_info, NIBBLE_FIELD(size), NIBBLE_FIELD(is_gpu),
                     NIBBLE_FIELD(software_mma), NIBBLE_FIELD(reserved), NIBBLE_FIELD(layer),
                     NIBBLE_FIELD(tactics), NIBBLE_FIELD(tuning));

#undef NIBBLE_STRUCT_FIELDS
#undef NIBBLE_FIELD

}  // namespace nibble::capi
