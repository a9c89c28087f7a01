// The number of a token in a model's vocabulary, as it goes over the wire and into the model.
//
//   const TokenId end_of_text = 151643;
#pragma once

#include <cstdint>

namespace nibble::text {

using TokenId = std::int32_t;

}  // namespace nibble::text
