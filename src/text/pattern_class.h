// The character classes of patterns, as what stands between the brackets of a PCRE2 class.
//
//   class_members("Nd", false);    // "\\p{Nd}\\x{10D40}-\\x{10D49}..."
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nibble::text {

// `name`: "s", "d", "w", a general category or script as in \p{...}, or "word": what an added token
// of a single word may not stand next to. Negated, a class has
// members only where Unicode has gained none since PCRE2's version; nullopt otherwise, and for
// names that are not known here.
std::optional<std::string> class_members(std::string_view name, bool negated);

bool is_class_name(std::string_view name);

}  // namespace nibble::text
