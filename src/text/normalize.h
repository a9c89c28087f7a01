// Unicode's Normalization Form C, with the tables of utf8proc and an order of combining marks that
// takes n log n steps however long a run of them is.
//
//   nfc("e\u0301");   // "\u00E9"
#pragma once

#include <string>
#include <string_view>

namespace nibble::text {

// `text` must be valid UTF-8.
std::string nfc(std::string_view text);

}  // namespace nibble::text
