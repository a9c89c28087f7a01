// The filters that make numbers.
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace nibble::text::jinja {
namespace {

// Python allows single underscores between digits.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '_') {
      out += text[at];
      continue;
    }
    const auto digit = [&](std::size_t index) {
      return index < text.size() && std::isalnum(static_cast<unsigned char>(text[index])) != 0;
    };
    if (at == 0 || !digit(at - 1) || !digit(at + 1)) return std::nullopt;
  }
  return out;
}

std::string_view stripped(std::string_view text) {
  return strip_start(strip_end(text));
}

enum class Parsed { kNumber, kNone, kTooLarge };

// int(text, base)
Parsed parse_integer(std::string_view text, int base, std::int64_t& value) {
  auto digits = without_underscores(stripped(text));
  if (!digits || digits->empty()) return Parsed::kNone;
  if (digits->front() == '+') digits->erase(0, 1);
  if (digits->empty() || digits->front() == '+') return Parsed::kNone;
  const auto parsed = std::from_chars(digits->data(), digits->data() + digits->size(), value, base);
  if (parsed.ptr != digits->data() + digits->size()) return Parsed::kNone;
  if (parsed.ec == std::errc::result_out_of_range) return Parsed::kTooLarge;
  return parsed.ec == std::errc() ? Parsed::kNumber : Parsed::kNone;
}

// float(text)
std::optional<double> parse_float(std::string_view text) {
  auto digits = without_underscores(stripped(text));
  if (!digits || digits->empty()) return std::nullopt;
  if (digits->find_first_of("xXpP(") != std::string::npos) return std::nullopt;
  const char* const start = digits->c_str();
  char* end = nullptr;
  const double value = std::strtod(start, &end);
  if (end != start + digits->size()) return std::nullopt;
  return value;
}

Value truncated(Machine& machine, double value, const Value& otherwise) {
  if (std::isnan(value)) return otherwise;
  if (!(std::abs(value) < 9.2e18)) return machine.fail("a whole number does not fit in 64 bits");
  return Value(static_cast<std::int64_t>(value));
}

Value apply_int(Machine& machine, const Value& input, const Bound& arguments) {
  const Value otherwise = arguments.has(0) ? *arguments[0] : Value(std::int64_t{0});
  const std::int64_t base = arguments.integer(1, 10);
  if (base != 10 && base != 2 && base != 8 && base != 16) {
    return machine.fail("int takes the bases 2, 8, 10 and 16 here");
  }
  if (input.is_integral()) return Value(input.integer());
  if (input.is_float()) {
    return std::isinf(input.number()) ? machine.fail("int does not take infinity")
                                      : truncated(machine, input.number(), otherwise);
  }
  if (!input.is_text()) {
    return input.is_undefined() ? machine.type_error("int", input) : otherwise;
  }
  if (base != 10 && stripped(input.bytes()).find_first_of("xXoObB") == 1) {
    return machine.fail("int takes no prefix of a base here");
  }
  std::int64_t value = 0;
  const Parsed parsed = parse_integer(input.bytes(), static_cast<int>(base), value);
  if (parsed == Parsed::kTooLarge) return machine.fail("a whole number does not fit in 64 bits");
  if (parsed == Parsed::kNumber) return Value(value);
  const std::optional<double> number = parse_float(input.bytes());
  if (!number || std::isinf(*number)) return otherwise;
  return truncated(machine, *number, otherwise);
}

Value apply_float(Machine& machine, const Value& input, const Bound& arguments) {
  const Value otherwise = arguments.has(0) ? *arguments[0] : Value(0.0);
  if (input.is_number()) return Value(input.number());
  if (input.is_undefined()) return machine.type_error("float", input);
  if (!input.is_text()) return otherwise;
  const std::optional<double> number = parse_float(input.bytes());
  return number ? Value(*number) : otherwise;
}

Value apply_abs(Machine& machine, const Value& input, const Bound&) {
  if (!input.is_number()) return machine.type_error("abs", input);
  if (input.is_float()) return Value(std::abs(input.number()));
  return input.integer() < 0 ? unary(machine, "-", input) : Value(input.integer());
}

// round(value, digits): the decimal number nearest to the exact value, the even one of two.
double rounded(double value, int digits) {
  return std::strtod(fmt::format("{:.{}f}", value, digits).c_str(), nullptr);
}

Value apply_round(Machine& machine, const Value& input, const Bound& arguments) {
  const std::int64_t digits = arguments.integer(0, 0);
  const std::string method = arguments.text(1, "common");
  if (!input.is_number()) return machine.type_error("round", input);
  if (digits < 0 || digits > 300) return machine.fail("round takes 0 to 300 digits here");
  if (method == "common") {
    if (input.is_integral()) return Value(input.integer());
    if (!std::isfinite(input.number())) return input;
    return Value(rounded(input.number(), static_cast<int>(digits)));
  }
  if (method != "ceil" && method != "floor") {
    return machine.fail("round takes the methods common, ceil and floor");
  }
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = input.number() * scale;
  if (!std::isfinite(scaled)) return machine.fail("round does not take this number");
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

constexpr std::array<Filter, 4> kFilters = {{
    {{"int", {"default", "base"}, 0}, apply_int},
    {{"float", {"default"}, 0}, apply_float},
    {{"abs", {}, 0}, apply_abs},
    {{"round", {"precision", "method"}, 0}, apply_round},
}};

}  // namespace

std::span<const Filter> number_filters() {
  return kFilters;
}

}  // namespace nibble::text::jinja
