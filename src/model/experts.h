// Whether a config.json speaks of experts although it does not say how many there are.
//
//   if (const auto sign = sign_of_experts(reader, names, layers)) ...   // "\"moe_topk\" is 8"
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/family.h"

namespace nibble {

// What says so, as a clause for a message; nullopt for a dense model. Zeros and nulls, which dense
// checkpoints of shared config classes carry, say nothing. `names`: architecture and model_type.
std::optional<std::string> sign_of_experts(ObjectReader& reader, const Family& family,
                                           const std::vector<std::string>& names,
                                           std::int64_t layers);

// The field in which a family states the count.
std::string_view expert_count_field(const Family& family);

}  // namespace nibble
