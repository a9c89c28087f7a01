// The methods of Python's text, lists and mappings that a template may call.
//
//   const MethodFinding finding = find_method(message, "get");   // kKnown
//   const Value method = machine.method(finding.name, message);
//   call_method(machine, *method.callable(), arguments);
#pragma once

#include <string_view>

#include "text/jinja/arguments.h"

namespace nibble::text::jinja {

enum class MethodKind {
  kNone,         // Python has none of that name
  kKnown,        // may be called
  kUnsafe,       // the sandbox hides it: it would change the value
  kUnsupported,  // Python has it, and this does not
};

struct MethodFinding {
  MethodKind kind = MethodKind::kNone;
  std::string_view name;  // lives for ever, where known
};

MethodFinding find_method(const Value& object, std::string_view name);
// Whether a value of any type has a method of that name that may be called, or that the sandbox
// hides.
bool is_method_name(std::string_view name);

Value call_method(Machine& machine, const Callable& method, const Arguments& arguments);

// Parts of the interpreter in files of their own.
struct TextMethod {
  Signature signature;
  Value (*call)(Machine& machine, const Value& self, const Bound& arguments);
};
const TextMethod* find_text_method(std::string_view name);

}  // namespace nibble::text::jinja
