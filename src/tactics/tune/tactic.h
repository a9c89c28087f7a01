// A tactic of any backend as one value: what a tuner tries, writes down and reads back.
//
//   const AnyTactic tactic = CpuTactic{.isa = Isa::kAvx2, .threads = 2};
//   to_string(tactic);                              // "cpu avx2 2 threads"
//   to_json(tactic, "moe.down");                    // {"op": "moe.down", "family": "cpu", ...}
//   parse_tactic(json, "moe.down", "tuning.json");  // an input error for another operation's
//
// A number alone would not do: two operations number their tactics each in its own way, and a
// tuner that mixed them up gave one product the other's (facts/sm120.md, 3A case 15).
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/json.h"
#include "base/result.h"
#include "kernels/gemm/device/w4a16_tactic.h"
#include "kernels/gemm/device/w4a4_tactic.h"
#include "machine/isa.h"

namespace nibble::tune {

// What the CPU's products can be varied in: the same bits with all of them, but for bf16 weights.
struct CpuTactic {
  Isa isa = Isa::kPortable;
  int threads = 1;
  friend bool operator==(const CpuTactic&, const CpuTactic&) = default;
};

using AnyTactic = std::variant<CpuTactic, W4A16Tactic, W4A4Tactic>;

std::string_view family_of(const AnyTactic& tactic);  // "cpu", "w4a16", "w4a4"
// One line, the same for the tuner, its file and a log. Different tactics have different lines.
std::string to_string(const AnyTactic& tactic);

Json to_json(const AnyTactic& tactic, std::string_view op);
// An input error for fields that are missing or out of range, and for a tactic of another
// operation than `op`. Whether it fits a device is the kernel's to say.
Result<AnyTactic> parse_tactic(const Json& json, std::string_view op, const std::string& where);

}  // namespace nibble::tune
