#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/format.h"
#include "text/jinja/unicode.h"

namespace nibble::text::jinja {
namespace {

Value no_operator(Machine& machine, std::string_view name, const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (value->is_undefined()) return machine.fail("{}", value->undefined_reason());
  }
  return machine.fail("\"{}\" does not take values of types {} and {}", name, a.type_name(),
                      b.type_name());
}

Value too_large(Machine& machine) {
  return machine.fail("a whole number does not fit in 64 bits");
}

Value integer_power(Machine& machine, std::int64_t base, std::int64_t exponent) {
  if (exponent < 0 && base == 0) return machine.fail("0 has no negative power");
  if (exponent < 0)
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  std::int64_t result = 1;
  if (base == 0 || base == 1 || base == -1) {
    return Value(exponent == 0 ? 1 : base == -1 && exponent % 2 == 0 ? std::int64_t{1} : base);
  }
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(result, base, &result)) return too_large(machine);
  }
  return Value(result);
}

Value integer_division(Machine& machine, std::string_view name, std::int64_t a, std::int64_t b) {
  if (b == 0) return machine.fail("a division by zero");
  if (name == "/") return Value(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) {
    if (name == "%") return Value(std::int64_t{0});
    std::int64_t result = 0;
    if (__builtin_sub_overflow(std::int64_t{0}, a, &result)) return too_large(machine);
    return Value(result);
  }
  // Python rounds down, C++ towards zero.
  const std::int64_t quotient = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  return Value(name == "//" ? quotient : a - quotient * b);
}

Value integer_operator(Machine& machine, std::string_view name, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflow = false;
  if (name == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
  } else if (name == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else if (name == "*") {
    overflow = __builtin_mul_overflow(a, b, &result);
  } else if (name == "**") {
    return integer_power(machine, a, b);
  } else {
    return integer_division(machine, name, a, b);
  }
  return overflow ? too_large(machine) : Value(result);
}

// As CPython's float_divmod.
double float_modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  if ((b < 0) != (rest < 0)) rest += b;
  return rest;
}

double float_floor_division(double a, double b) {
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

Value float_operator(Machine& machine, std::string_view name, double a, double b) {
  if (name == "+") return Value(a + b);
  if (name == "-") return Value(a - b);
  if (name == "*") return Value(a * b);
  if (name == "**") {
    const double result = std::pow(a, b);
    if ((a == 0 && b < 0) || (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) ||
        (std::isinf(result) && std::isfinite(a) && std::isfinite(b))) {
      return machine.fail("this power is no real number");
    }
    return Value(result);
  }
  if (b == 0) return machine.fail("a division by zero");
  if (name == "/") return Value(a / b);
  return Value(name == "%" ? float_modulo(a, b) : float_floor_division(a, b));
}

Value add_texts(Machine& machine, const Text& a, const Text& b) {
  if (!machine.can_make(a.bytes.size() + b.bytes.size())) return {};
  if (a.markup == b.markup) return machine.text(a.bytes + b.bytes, a.markup);
  const std::string left = a.markup ? a.bytes : escape_markup(a.bytes);
  return machine.text(left + (b.markup ? b.bytes : escape_markup(b.bytes)), true);
}

Value add_sequences(Machine& machine, const Value& a, const Value& b) {
  const Sequence& left = *a.sequence();
  const Sequence& right = *b.sequence();
  const bool joins = left.kind == right.kind && left.kind <= SequenceKind::kTuple;
  if (!joins) return no_operator(machine, "+", a, b);
  std::vector<Value> items = left.items;
  items.insert(items.end(), right.items.begin(), right.items.end());
  if (!machine.step(items.size() / 8)) return {};
  return machine.list(std::move(items), left.kind);
}

bool repeats(const Value& value) {
  return value.is_text() ||
         (value.sequence() != nullptr && value.sequence()->kind <= SequenceKind::kTuple);
}

Value repeat(Machine& machine, const Value& value, std::int64_t count) {
  const auto times = static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
  const std::size_t size =
      value.is_text() ? value.bytes().size() : value.sequence()->items.size() * sizeof(Value);
  constexpr std::size_t kMost = std::size_t{1} << 40;
  const bool huge = size > 0 && times > kMost / size;
  if (!machine.can_make(huge ? kMost : size * times)) return {};
  if (!machine.step(size * times / 64)) return {};
  if (value.is_text()) {
    std::string text;
    if (size > 0) text.reserve(size * times);
    for (std::size_t index = 0; size > 0 && index < times; ++index) text += value.bytes();
    return machine.text(std::move(text), value.is_markup());
  }
  std::vector<Value> items;
  for (std::size_t index = 0; size > 0 && index < times; ++index) {
    const std::vector<Value>& source = value.sequence()->items;
    items.insert(items.end(), source.begin(), source.end());
  }
  return machine.list(std::move(items), value.sequence()->kind);
}

bool less_sequences(Machine& machine, const Sequence& a, const Sequence& b) {
  for (std::size_t index = 0; index < a.items.size() && index < b.items.size(); ++index) {
    if (!machine.step() || !machine.can_compare(a.items[index], b.items[index])) return false;
    if (!equal(a.items[index], b.items[index])) {
      return less(machine, a.items[index], b.items[index]);
    }
  }
  return a.items.size() < b.items.size();
}

// Python's float == int and < are exact; doubles are so up to 2^53.
bool less_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.integer() < b.integer();
  return a.number() < b.number();
}

bool no_order(Machine& machine, std::string_view name, const Value& a, const Value& b) {
  no_operator(machine, name, a, b);
  return false;
}

bool ordered(Machine& machine, std::string_view name, const Value& a, const Value& b) {
  Machine::Level level(machine);
  if (!level.ok()) return false;
  if (a.is_number() && b.is_number()) return less_numbers(a, b);
  if (a.is_text() && b.is_text()) return a.bytes() < b.bytes();
  if (repeats(a) && repeats(b) && a.sequence() != nullptr && b.sequence() != nullptr &&
      a.sequence()->kind == b.sequence()->kind) {
    return less_sequences(machine, *a.sequence(), *b.sequence());
  }
  return no_order(machine, name, a, b);
}

}  // namespace

Value binary(Machine& machine, std::string_view name, const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    return integer_operator(machine, name, a.integer(), b.integer());
  }
  if (a.is_number() && b.is_number()) return float_operator(machine, name, a.number(), b.number());
  if (name == "+" && a.is_text() && b.is_text()) return add_texts(machine, *a.text(), *b.text());
  if (name == "+" && a.sequence() != nullptr && b.sequence() != nullptr) {
    return add_sequences(machine, a, b);
  }
  if (name == "*" && repeats(a) && b.is_integral()) return repeat(machine, a, b.integer());
  if (name == "*" && a.is_integral() && repeats(b)) return repeat(machine, b, a.integer());
  if (name == "%" && a.is_text() && !a.is_markup()) return percent_format(machine, a.bytes(), b);
  return no_operator(machine, name, a, b);
}

Value unary(Machine& machine, std::string_view name, const Value& value) {
  if (!value.is_number()) return machine.type_error(fmt::format("the sign \"{}\"", name), value);
  if (value.is_float()) return Value(name == "-" ? -value.number() : value.number());
  return integer_operator(machine, name, 0, value.integer());
}

bool less(Machine& machine, const Value& a, const Value& b) {
  return ordered(machine, "<", a, b);
}

bool contains(Machine& machine, const Value& container, const Value& value) {
  if (container.is_undefined()) return false;
  if (const Mapping* mapping = container.mapping()) return mapping->find(value) != nullptr;
  if (container.is_text()) {
    if (!value.is_text()) return no_order(machine, "in", value, container);
    return machine.can_search(container.bytes().size(), value.bytes().size()) &&
           container.bytes().find(value.bytes()) != std::string::npos;
  }
  if (const Sequence* sequence = container.sequence()) {
    for (const Value& one : sequence->items) {
      if (!machine.step() || !machine.can_compare(one, value)) return false;
      if (equal(one, value)) return true;
    }
    return false;
  }
  if (Generator* generator = container.generator()) {
    while (generator->next < generator->items.size() && machine.step()) {
      if (equal(generator->items[generator->next++], value)) return true;
    }
    return false;
  }
  return no_order(machine, "in", value, container);
}

bool compare(Machine& machine, std::string_view name, const Value& a, const Value& b) {
  if (!machine.can_compare(a, b)) return false;
  if (name == "==") return equal(a, b);
  if (name == "!=") return !equal(a, b);
  if (name == "in") return contains(machine, b, a);
  if (name == "not in") return !contains(machine, b, a);
  if (name == "<") return ordered(machine, name, a, b);
  if (name == ">") return ordered(machine, name, b, a);
  const bool nan =
      (a.is_float() && std::isnan(a.number())) || (b.is_float() && std::isnan(b.number()));
  if (name == "<=") return !ordered(machine, name, b, a) && !nan;
  return !ordered(machine, name, a, b) && !nan;
}

std::int64_t length_of(Machine& machine, const Value& value) {
  if (value.is_undefined()) return 0;
  std::size_t count = 0;
  if (value.is_text()) {
    count = length(value.bytes());
  } else if (const Sequence* sequence = value.sequence()) {
    count = sequence->items.size();
  } else if (const Mapping* mapping = value.mapping()) {
    count = mapping->members.size();
  } else if (Loop* loop = value.loop()) {
    count = loop->size();
  } else {
    machine.fail("a value of type {} has no length", value.type_name());
  }
  return static_cast<std::int64_t>(count);
}

std::string escape_markup(std::string_view text) {
  std::string out;
  for (const char byte : text) {
    switch (byte) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += byte;
    }
  }
  return out;
}

}  // namespace nibble::text::jinja
