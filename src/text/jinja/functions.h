// The functions that a template finds without defining them.
//
//   is_function("raise_exception");   // true
//   call_function(machine, "range", arguments);
#pragma once

#include <string_view>

#include "text/jinja/arguments.h"

namespace nibble::text::jinja {

// The name as it lives for ever; empty when there is no such function.
std::string_view find_function(std::string_view name);
Value call_function(Machine& machine, std::string_view name, const Arguments& arguments);

}  // namespace nibble::text::jinja
