#include "machine/isa.h"

namespace nibble {

std::string_view to_string(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "";
}

std::optional<Isa> isa_from_string(std::string_view name) {
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    if (name == to_string(isa)) return isa;
  }
  return std::nullopt;
}

bool is_usable(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::kPortable:
      return true;
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vnni");
  }
#endif
  return isa == Isa::kPortable;
}

std::vector<Isa> usable_isas() {
  std::vector<Isa> usable;
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    if (is_usable(isa)) usable.push_back(isa);
  }
  return usable;
}

Isa best_isa() {
  return usable_isas().back();
}

bool has_avx512_bf16() {
#if defined(__x86_64__)
  return is_usable(Isa::kAvx512) && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

}  // namespace nibble
