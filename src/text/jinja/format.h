// Python's two ways to put values into a text, as far as templates use them.
//
//   percent_format(machine, "%s: %.2f", tuple);      // the operator %, and the filter format
//   brace_format(machine, "{} of {n}", arguments);   // the method format
#pragma once

#include <string_view>

#include "text/jinja/arguments.h"

namespace nibble::text::jinja {

// `values` is a tuple, a mapping for "%(name)s", or one value.
Value percent_format(Machine& machine, std::string_view format, const Value& values);
Value brace_format(Machine& machine, std::string_view format, const Arguments& arguments);

}  // namespace nibble::text::jinja
