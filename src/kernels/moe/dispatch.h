// Tokens sorted by expert: what a grouped product needs to know, and the way back.
//
//   NIBBLE_RETURN_IF_ERROR(dispatch({.ids = ids, .top_k = 8, .experts = 256, .offsets = offsets,
//       .row_of = row_of, .expert_of = expert_of, .slot_of = slot_of}));
//   // expert e has slots offsets[e] .. offsets[e + 1] - 1; slot s holds token row_of[s]
//   // choice k of token t lies in slot slot_of[t * top_k + k]
//
// Stable: within an expert, slots keep the order of (token, choice).
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"

namespace nibble {

struct DispatchParams {
  std::span<const std::int32_t> ids;  // [tokens, top_k]
  std::int64_t top_k = 0;
  std::int64_t experts = 0;
  std::span<std::int32_t> offsets;    // [experts + 1]
  std::span<std::int32_t> row_of;     // [tokens * top_k]
  std::span<std::int32_t> expert_of;  // [tokens * top_k], by slot
  std::span<std::int32_t> slot_of;    // [tokens, top_k]
};

// An input error, and nothing written, when an id is not below `experts`. Allocates only then.
// Runs in the calling thread: 65,536 choices take a fraction of a millisecond, their product takes
// seconds.
Result<> dispatch(const DispatchParams& params);

// The same check alone: for ids that come from outside.
Result<> check_expert_ids(std::span<const std::int32_t> ids, std::int64_t top_k,
                          std::int64_t experts);

}  // namespace nibble
