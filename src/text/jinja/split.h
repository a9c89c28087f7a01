// Cutting and replacing text as Python's str does.
//
//   split_text("a, b, c", ", ", 1, false);   // "a", "b, c"
//   split_space(" a  b ", -1, false);        // "a", "b"
//   split_lines("a\r\nb", false);            // "a", "b"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/machine.h"

namespace nibble::text::jinja {

// At most `most` cuts (a negative number: all); `from_end` counts them from the end.
std::vector<std::string_view> split_text(std::string_view text, std::string_view separator,
                                         std::int64_t most, bool from_end);
std::vector<std::string_view> split_space(std::string_view text, std::int64_t most, bool from_end);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

// The first `most` places, all of them when negative.
std::string replace(Machine& machine, std::string_view text, std::string_view from,
                    std::string_view to, std::int64_t most);

}  // namespace nibble::text::jinja
