// Text made safe for the place where it will stand.
//
//   html += fmt::format("<td>{}</td>", html_escape(cell.text));
//   html += fmt::format("<script type=\"application/json\">{}</script>", script_json(charts));
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace nibble {

// For element content and for attribute values in double or single quotes.
std::string html_escape(std::string_view text);

// Compact JSON that cannot end or open anything in HTML: '<', '>' and '&', which JSON holds inside
// strings only, become \u escapes, so that "</script>" and "<!--" never appear.
std::string script_json(const Json& json);

// One line of Markdown that shows `text` as it is: markup characters get a backslash, line breaks
// become spaces.
std::string markdown_escape(std::string_view text);

// A Markdown code span around one line of any text, backquotes included.
std::string markdown_code(std::string_view text);

}  // namespace nibble
