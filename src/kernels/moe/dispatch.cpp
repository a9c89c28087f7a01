#include "kernels/moe/dispatch.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace nibble {

Result<> check_expert_ids(std::span<const std::int32_t> ids, std::int64_t top_k,
                          std::int64_t experts) {
  if (top_k < 1 || ids.size() % static_cast<std::size_t>(top_k) != 0) {
    return input_error("{} expert ids are not {} for each token", ids.size(), top_k);
  }
  if (ids.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    return input_error("{} expert ids are more than one step takes; split the batch", ids.size());
  }
  for (std::size_t index = 0; index < ids.size(); ++index) {
    if (ids[index] < 0 || ids[index] >= experts) {
      return input_error("choice {} of token {} is expert {}; there are {}",
                         index % static_cast<std::size_t>(top_k),
                         index / static_cast<std::size_t>(top_k), ids[index], experts);
    }
  }
  return {};
}

Result<> dispatch(const DispatchParams& params) {
  const std::size_t slots = params.ids.size();
  NIBBLE_CHECK(params.offsets.size() == static_cast<std::size_t>(params.experts) + 1);
  NIBBLE_CHECK(params.row_of.size() == slots && params.expert_of.size() == slots);
  NIBBLE_CHECK(params.slot_of.size() == slots);
  NIBBLE_RETURN_IF_ERROR(check_expert_ids(params.ids, params.top_k, params.experts));

  // Where each expert begins.
  const std::span<std::int32_t> offsets = params.offsets;
  std::fill(offsets.begin(), offsets.end(), 0);
  for (const std::int32_t id : params.ids) ++offsets[static_cast<std::size_t>(id) + 1];
  for (std::size_t expert = 1; expert < offsets.size(); ++expert) {
    offsets[expert] += offsets[expert - 1];
  }
  // While slots are given out, an expert's offset is its next free slot ...
  const auto top_k = static_cast<std::size_t>(params.top_k);
  for (std::size_t index = 0; index < slots; ++index) {
    const auto expert = static_cast<std::size_t>(params.ids[index]);
    const std::int32_t slot = offsets[expert]++;
    params.slot_of[index] = slot;
    params.row_of[static_cast<std::size_t>(slot)] = static_cast<std::int32_t>(index / top_k);
    params.expert_of[static_cast<std::size_t>(slot)] = params.ids[index];
  }
  // ... and so in the end the beginning of the next expert.
  std::copy_backward(offsets.begin(), offsets.end() - 1, offsets.end());
  offsets[0] = 0;
  return {};
}

}  // namespace nibble
