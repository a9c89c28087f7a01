// Reading config.json's fields under their several names, within sane bounds.
//
//   const auto experts = either(reader, {"n_routed_experts", "num_experts"}, bounds::kExperts);
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "base/json.h"

namespace nibble {

// Larger values are refused: they come from broken files, and would make us allocate for ever.
namespace bounds {
inline constexpr NumberRange kLayers{.min = 1, .max = 1000};
inline constexpr NumberRange kHidden{.min = 1, .max = 1e6};
inline constexpr NumberRange kExperts{.min = 0, .max = 65536};
inline constexpr NumberRange kHeads{.min = 1, .max = 65536};
inline constexpr NumberRange kHeadDim{.min = 1, .max = 65536};
inline constexpr NumberRange kWidth{.min = 0, .max = 1e7};  // intermediate sizes, ranks
inline constexpr NumberRange kVocabulary{.min = 1, .max = 1e8};
inline constexpr NumberRange kTokens{.min = 1, .max = 1e12};
inline constexpr NumberRange kCount{.min = 0, .max = 1000};
}  // namespace bounds

// The whole number that any of the names holds; a list counts when all its items are equal. Names
// that hold different values are a fault.
std::optional<std::int64_t> either(ObjectReader& reader,
                                   std::initializer_list<std::string_view> names,
                                   const NumberRange& range);

}  // namespace nibble
