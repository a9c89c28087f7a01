// The patterns of tokenizer.json are written for Oniguruma, the expression engine of Hugging Face's
// tokenizers. This says them in PCRE2's words, or refuses what the two take differently.
//
//   translate_pattern("\\s+(?!\\S)");   // "[\\p{White_Space}]+(?![^\\p{White_Space}])"
//
// Differences that are bridged: Oniguruma's \s, \w and \d; its Unicode, which is newer; \v, which
// is one character there; `{n,m}+`, which repeats there and is possessive here; `(...)`, which
// captures nothing that anybody reads. Refused: anchors, back references, recursion, options but
// (?i:...), classes within classes, and classes that have no short form here.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace nibble::text {

Result<std::string> translate_pattern(std::string_view pattern);

}  // namespace nibble::text
