// Values as text: str() and repr() of Python, and JSON as json.dumps writes it.
//
//   print(machine, Value(1.0));              // "1.0"
//   represent(machine, list);                // "['a', 1]"
//   to_json(machine, mapping, {});           // "{\"a\": 1}"
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/machine.h"

namespace nibble::text::jinja {

// str(value). Undefined is "". What Python prints with an address is a fault.
std::string print(Machine& machine, const Value& value);
// As text without a copy where it is text already.
Value to_text(Machine& machine, const Value& value);

std::string represent(Machine& machine, const Value& value);  // repr(value)
std::string represent_float(double value);

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // what one level is indented by
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};

std::string to_json(Machine& machine, const Value& value, const JsonStyle& style);

}  // namespace nibble::text::jinja
