// The tests of jinja2 (text/jinja/filters.h).
#include <array>

#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/unicode.h"

namespace nibble::text::jinja {
namespace {

bool is_defined(Machine&, const Value& value, const Value&) {
  return !value.is_undefined();
}
bool is_undefined(Machine&, const Value& value, const Value&) {
  return value.is_undefined();
}
bool is_none(Machine&, const Value& value, const Value&) {
  return value.is_none();
}
bool is_boolean(Machine&, const Value& value, const Value&) {
  return value.is_boolean();
}
bool is_true(Machine&, const Value& value, const Value&) {
  return value.is_boolean() && value.boolean();
}
bool is_false(Machine&, const Value& value, const Value&) {
  return value.is_boolean() && !value.boolean();
}
bool is_integer(Machine&, const Value& value, const Value&) {
  return value.is_integral() && !value.is_boolean();
}
bool is_float(Machine&, const Value& value, const Value&) {
  return value.is_float();
}
bool is_number(Machine&, const Value& value, const Value&) {
  return value.is_number();
}
bool is_string(Machine&, const Value& value, const Value&) {
  return value.is_text();
}
bool is_mapping(Machine&, const Value& value, const Value&) {
  return value.mapping() != nullptr;
}
bool is_escaped(Machine&, const Value& value, const Value&) {
  return value.is_markup();
}

// What has a length and items by index; jinja2 counts undefined values among them.
bool is_sequence(Machine&, const Value& value, const Value&) {
  if (value.is_text() || value.mapping() != nullptr || value.is_undefined()) return true;
  const Sequence* sequence = value.sequence();
  return sequence != nullptr &&
         (sequence->kind <= SequenceKind::kTuple || sequence->kind == SequenceKind::kRange);
}

bool is_iterable(Machine&, const Value& value, const Value&) {
  return value.is_text() || value.mapping() != nullptr || value.is_undefined() ||
         value.sequence() != nullptr || value.generator() != nullptr || value.loop() != nullptr;
}

bool is_callable(Machine&, const Value& value, const Value&) {
  return value.callable() != nullptr || value.is_undefined() || value.loop() != nullptr;
}

bool is_lower_text(Machine& machine, const Value& value, const Value&) {
  return is_lower(print(machine, value));
}
bool is_upper_text(Machine& machine, const Value& value, const Value&) {
  return is_upper(print(machine, value));
}

bool is_odd(Machine& machine, const Value& value, const Value&) {
  const Value rest = binary(machine, "%", value, Value(std::int64_t{2}));
  return equal(rest, Value(std::int64_t{1}));
}
bool is_even(Machine& machine, const Value& value, const Value&) {
  const Value rest = binary(machine, "%", value, Value(std::int64_t{2}));
  return equal(rest, Value(std::int64_t{0}));
}
bool is_divisible(Machine& machine, const Value& value, const Value& by) {
  return equal(binary(machine, "%", value, by), Value(std::int64_t{0}));
}

bool is_filter(Machine&, const Value& value, const Value&) {
  return value.is_text() && find_filter(value.bytes()) != nullptr;
}
bool is_test(Machine&, const Value& value, const Value&) {
  return value.is_text() && find_test(value.bytes()) != nullptr;
}

// Python's `is`, which says something about its few single values alone.
bool is_same(Machine& machine, const Value& value, const Value& other) {
  const auto single = [](const Value& one) { return one.is_none() || one.is_boolean(); };
  if (single(value) || single(other)) {
    return value.type_name() == other.type_name() && equal(value, other);
  }
  machine.fail("sameas is supported for none, true and false alone");
  return false;
}

bool is_in(Machine& machine, const Value& value, const Value& container) {
  return contains(machine, container, value);
}
bool is_equal(Machine& machine, const Value& a, const Value& b) {
  return compare(machine, "==", a, b);
}
bool is_unequal(Machine& machine, const Value& a, const Value& b) {
  return compare(machine, "!=", a, b);
}
bool is_less(Machine& machine, const Value& a, const Value& b) {
  return compare(machine, "<", a, b);
}
bool is_at_most(Machine& machine, const Value& a, const Value& b) {
  return compare(machine, "<=", a, b);
}
bool is_greater(Machine& machine, const Value& a, const Value& b) {
  return compare(machine, ">", a, b);
}
bool is_at_least(Machine& machine, const Value& a, const Value& b) {
  return compare(machine, ">=", a, b);
}

constexpr std::array<Test, 39> kTests = {{
    {"defined", 0, is_defined},
    {"undefined", 0, is_undefined},
    {"none", 0, is_none},
    {"boolean", 0, is_boolean},
    {"true", 0, is_true},
    {"false", 0, is_false},
    {"integer", 0, is_integer},
    {"float", 0, is_float},
    {"number", 0, is_number},
    {"string", 0, is_string},
    {"mapping", 0, is_mapping},
    {"sequence", 0, is_sequence},
    {"iterable", 0, is_iterable},
    {"callable", 0, is_callable},
    {"escaped", 0, is_escaped},
    {"lower", 0, is_lower_text},
    {"upper", 0, is_upper_text},
    {"odd", 0, is_odd},
    {"even", 0, is_even},
    {"divisibleby", 1, is_divisible},
    {"filter", 0, is_filter},
    {"test", 0, is_test},
    {"sameas", 1, is_same},
    {"in", 1, is_in},
    {"==", 1, is_equal},
    {"eq", 1, is_equal},
    {"equalto", 1, is_equal},
    {"!=", 1, is_unequal},
    {"ne", 1, is_unequal},
    {"<", 1, is_less},
    {"lt", 1, is_less},
    {"lessthan", 1, is_less},
    {"<=", 1, is_at_most},
    {"le", 1, is_at_most},
    {">", 1, is_greater},
    {"gt", 1, is_greater},
    {"greaterthan", 1, is_greater},
    {">=", 1, is_at_least},
    {"ge", 1, is_at_least},
}};

}  // namespace

const Test* find_test(std::string_view name) {
  for (const Test& test : kTests) {
    if (test.name == name) return &test;
  }
  return nullptr;
}

bool holds(Machine& machine, const Test& test, const Value& value, const Arguments& arguments) {
  if (!arguments.named.empty() || arguments.positional.size() != test.arguments) {
    machine.fail("the test {} takes {} arguments", test.name, test.arguments);
    return false;
  }
  if (!machine.step()) return false;
  return test.holds(machine, value, test.arguments == 0 ? Value() : arguments.positional[0]);
}

}  // namespace nibble::text::jinja
