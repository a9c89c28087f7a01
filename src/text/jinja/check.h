// What can be said of a template before it is rendered: that every filter, test, function and
// method in it is known. Also notes which macros name caller, varargs and kwargs.
//
//   NIBBLE_RETURN_IF_ERROR(check_program(program));
#pragma once

#include "base/result.h"
#include "text/jinja/ast.h"

namespace nibble::text::jinja {

Result<> check_program(Program& program);

}  // namespace nibble::text::jinja
