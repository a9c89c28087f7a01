// What CUTLASS's kernels take of shared memory for a tile, to hold a budget of ours against: NVFP4
// on SM120 with tokens on M, EpilogueAuto, bf16 C/D, as many stages as fit (docs/arithmetic.md,
// "Shared memory of a tile": the formula is tested on what CUTLASS main compiled to).
//
//   for (const CutlassUse& use : cutlass_uses({128, 256, 128}, chip)) say(use.kernel, use.bytes);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tactics/chip.h"
#include "tactics/product.h"

namespace nibble {

struct CutlassUse {
  std::string kernel;  // "grouped", "dense"
  std::int64_t stages = 0;
  std::int64_t stage_bytes = 0;
  std::int64_t epilogue_bytes = 0;
  std::int64_t fixed_bytes = 0;  // barriers, scheduler, tensor maps, alignment
  std::int64_t bytes = 0;
  std::string verdict;  // of these bytes alone: "fits", ...: to_string(TileVerdict)
  // Of a thread, as ptxas gave them for a kernel that was compiled (kCutlassCompiled): bytes do not
  // tell them. Nothing: not compiled.
  std::optional<int> registers;
  std::optional<int> spill_bytes;  // the larger of stores and loads
};

inline constexpr const char* kCutlassCompiled =
    "CUTLASS main 7107b0553, grouped cooperative kernels, bf16 C/D, ptxas 13.0 for sm_120a";

// Empty for chips of other limits, for which it was not compiled, and for tiles that it has not.
std::vector<CutlassUse> cutlass_uses(const TacticTile& tile, const Chip& chip);

}  // namespace nibble
