// The tokens of a call of a layer on the CPU, and what the layer makes of them: both within what
// the kernels hold (cpu_range.h).
//
//   NIBBLE_ASSIGN_OR_RETURN(const CpuTokens tokens, CpuTokens::read(desc, args));
//   moe({.layer = layer, .workspace = workspace, .x = tokens.x, ...}, pool);
//   NIBBLE_RETURN_IF_ERROR(check_layer_made(desc, workspace, y));
#pragma once

#include <cstdint>
#include <nibble/nibble.h>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/moe/moe.h"

namespace nibble::capi {

struct CpuTokens {
  // args.tokens is above 0 and no pointer null but `shared`.
  static Result<CpuTokens> read(const nibble_moe_desc& desc, const nibble_moe_args& args);

  std::vector<float> x;               // [tokens, hidden]
  std::vector<float> shared;          // the same, or empty
  std::span<const std::int32_t> ids;  // [tokens, top_k]
  std::span<const float> weights;     // the same
};

// A run error. w2 takes values that no caller sees, of the same range as those that w13 takes.
Result<> check_layer_made(const nibble_moe_desc& desc, const MoeWorkspace& workspace,
                          std::span<const float> y);

}  // namespace nibble::capi
