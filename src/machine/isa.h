// Which instructions the CPU kernels may use: chosen at run time by what the processor has.
//
//   const Isa isa = best_isa();                  // kAvx512 on Ice Lake, Zen 4 and later
//   for (const Isa isa : usable_isas()) test(isa);
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace nibble {

enum class Isa {
  kPortable,  // C++ alone
  kAvx2,      // AVX2 and FMA: Haswell, Zen and later
  kAvx512,    // AVX-512 F, BW, VL, DQ and VNNI: Cascade Lake, Zen 4 and later
};

std::string_view to_string(Isa isa);  // "portable", "avx2", "avx512"
std::optional<Isa> isa_from_string(std::string_view name);
bool is_usable(Isa isa);         // on this processor
std::vector<Isa> usable_isas();  // ascending; kPortable first
Isa best_isa();
bool has_avx512_bf16();  // vdpbf16ps: Cooper Lake, Sapphire Rapids, Zen 4 and later

}  // namespace nibble
