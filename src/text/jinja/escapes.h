// The escapes within quotes of a template, as jinja2 takes them: those of Python.
//
//   unescape("a\\n\\u00e9").value();   // "a", a line end, "é"
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace nibble::text::jinja {

Result<std::string> unescape(std::string_view quoted);

}  // namespace nibble::text::jinja
