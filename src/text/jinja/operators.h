// The operators of Python on template values. What Python refuses is a fault of the machine.
//
//   binary(machine, "+", a, b);
//   compare(machine, "not in", key, mapping);
//   attribute(machine, message, "content");    // a method, or the member "content"
//   slice(machine, messages, {}, {}, Value(-1));
#pragma once

#include <string_view>

#include "text/jinja/machine.h"

namespace nibble::text::jinja {

Value binary(Machine& machine, std::string_view name, const Value& a, const Value& b);
Value unary(Machine& machine, std::string_view name, const Value& value);
bool compare(Machine& machine, std::string_view name, const Value& a, const Value& b);
// a < b, as sorted() asks for it.
bool less(Machine& machine, const Value& a, const Value& b);
bool contains(Machine& machine, const Value& container, const Value& value);

// object.name, object[key]: undefined where there is none; a fault where `object` is undefined.
Value attribute(Machine& machine, const Value& object, std::string_view name);
Value item(Machine& machine, const Value& object, const Value& key);
// object[start:stop:step]; undefined values (or none) stand for what is not given.
Value slice(Machine& machine, const Value& object, const Value& start, const Value& stop,
            const Value& step);

// len(value)
std::int64_t length_of(Machine& machine, const Value& value);

// & < > ' " as HTML has them.
std::string escape_markup(std::string_view text);

}  // namespace nibble::text::jinja
