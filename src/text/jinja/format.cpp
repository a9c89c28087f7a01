#include "text/jinja/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/unicode.h"

namespace nibble::text::jinja {
namespace {

constexpr int kMaxWidth = 1000;

// One conversion: %[(key)][flags][width][.precision]type
struct Conversion {
  std::optional<std::string> key;
  bool left = false;
  bool zeros = false;
  bool plus = false;
  bool space = false;
  int width = 0;
  int precision = -1;
  char type = '\0';
};

std::optional<int> number(std::string_view& rest) {
  int value = 0;
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (parsed.ec != std::errc() || value > kMaxWidth || value < 0) return std::nullopt;
  rest.remove_prefix(static_cast<std::size_t>(parsed.ptr - rest.data()));
  return value;
}

bool starts_number(std::string_view rest) {
  return !rest.empty() && rest.front() >= '0' && rest.front() <= '9';
}

void read_flags(std::string_view& rest, Conversion& made) {
  for (; !rest.empty(); rest.remove_prefix(1)) {
    switch (rest.front()) {
      case '-':
        made.left = true;
        break;
      case '0':
        made.zeros = true;
        break;
      case '+':
        made.plus = true;
        break;
      case ' ':
        made.space = true;
        break;
      default:
        return;
    }
  }
}

// `rest` stands behind the "%".
std::optional<Conversion> read_conversion(std::string_view& rest) {
  Conversion made;
  if (!rest.empty() && rest.front() == '(') {
    const std::size_t end = rest.find(')');
    if (end == std::string_view::npos) return std::nullopt;
    made.key = std::string(rest.substr(1, end - 1));
    rest.remove_prefix(end + 1);
  }
  read_flags(rest, made);
  if (starts_number(rest)) {
    const auto width = number(rest);
    if (!width) return std::nullopt;
    made.width = *width;
  }
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    const auto precision = starts_number(rest) ? number(rest) : std::optional<int>(0);
    if (!precision) return std::nullopt;
    made.precision = *precision;
  }
  if (rest.empty()) return std::nullopt;
  made.type = rest.front();
  rest.remove_prefix(1);
  return made;
}

std::string float_digits(double value, int precision, char type) {
  char format[8] = "%.*f";
  format[3] = type;
  const int size = std::snprintf(nullptr, 0, format, precision < 0 ? 6 : precision, value);
  std::string out(static_cast<std::size_t>(size) + 1, '\0');
  std::snprintf(out.data(), out.size(), format, precision < 0 ? 6 : precision, value);
  out.pop_back();
  return out;
}

std::optional<std::string> convert_number(Machine& machine, const Conversion& made,
                                          const Value& value) {
  if (!value.is_number()) {
    machine.type_error(fmt::format("%{}", made.type), value);
    return std::nullopt;
  }
  const bool whole = std::string_view("diuxXo").find(made.type) != std::string_view::npos;
  if (!whole) return float_digits(value.number(), made.precision, made.type);
  const bool decimal = std::string_view("diu").find(made.type) != std::string_view::npos;
  const double rounded = std::trunc(value.number());
  if (value.is_float() && (!decimal || !(std::abs(rounded) < 9e18))) {
    machine.fail("%{} does not take this number", made.type);
    return std::nullopt;
  }
  const std::int64_t integer =
      value.is_float() ? static_cast<std::int64_t>(rounded) : value.integer();
  if (made.precision >= 0) machine.fail("a precision of whole numbers is not supported");
  if (made.type == 'x') return fmt::format("{:x}", integer);
  if (made.type == 'X') return fmt::format("{:X}", integer);
  if (made.type == 'o') return fmt::format("{:o}", integer);
  return std::to_string(integer);
}

std::string padded(std::string text, const Conversion& made, bool is_number) {
  if (is_number && text.front() != '-' && (made.plus || made.space)) {
    text.insert(0, made.plus ? "+" : " ");
  }
  const std::size_t size = length(text);
  const auto width = static_cast<std::size_t>(made.width);
  if (size >= width) return text;
  if (made.left) return text.append(width - size, ' ');
  if (!made.zeros || !is_number) return text.insert(0, width - size, ' ');
  const bool has_sign = text.front() == '-' || text.front() == '+' || text.front() == ' ';
  return text.insert(has_sign ? 1 : 0, width - size, '0');
}

std::string convert(Machine& machine, const Conversion& made, const Value& value) {
  if (made.type == 's' || made.type == 'r') {
    std::string text = made.type == 's' ? print(machine, value) : represent(machine, value);
    if (made.precision >= 0) {
      text.resize(byte_offset(text, static_cast<std::size_t>(made.precision)));
    }
    return padded(std::move(text), made, false);
  }
  if (std::string_view("diuxXofFeEgG").find(made.type) == std::string_view::npos) {
    machine.fail("the conversion %{} is not supported", made.type >= ' ' ? made.type : '?');
    return "";
  }
  auto text = convert_number(machine, made, value);
  return text ? padded(std::move(*text), made, true) : "";
}

// Gives the values of a format one after the other.
class PercentValues {
 public:
  PercentValues(Machine& machine, const Value& values) : machine_(machine), values_(values) {
    const Sequence* sequence = values.sequence();
    if (sequence != nullptr && sequence->kind == SequenceKind::kTuple) tuple_ = sequence;
  }

  Value take(const Conversion& made) {
    if (made.key) {
      const Mapping* mapping = values_.mapping();
      const Value* found = mapping == nullptr ? nullptr : mapping->find(*made.key);
      by_key_ = true;
      return found != nullptr ? *found : machine_.fail("the format has no value {}", *made.key);
    }
    const std::size_t count = tuple_ != nullptr ? tuple_->items.size() : 1;
    if (next_ == count) return machine_.fail("the format has more places than values");
    ++next_;
    return tuple_ != nullptr ? tuple_->items[next_ - 1] : values_;
  }

  void finish() {
    const bool is_mapping =
        values_.mapping() != nullptr || (values_.sequence() != nullptr && tuple_ == nullptr);
    const std::size_t count = tuple_ != nullptr ? tuple_->items.size() : 1;
    if (next_ < count && !is_mapping && !by_key_) {
      machine_.fail("the format has fewer places than values");
    }
  }

 private:
  Machine& machine_;
  const Value& values_;
  const Sequence* tuple_ = nullptr;
  std::size_t next_ = 0;
  bool by_key_ = false;
};

// {}, {0}, {name} with no further words.
Value brace_value(Machine& machine, std::string_view field, const Arguments& arguments,
                  std::size_t& automatic) {
  if (field.find_first_of(".[!:") != std::string_view::npos) {
    return machine.fail("format takes only {{}}, {{0}} and {{name}} here");
  }
  std::size_t index = 0;
  const auto parsed = std::from_chars(field.data(), field.data() + field.size(), index);
  const bool numbered = !field.empty() && parsed.ptr == field.data() + field.size();
  if (field.empty()) index = automatic++;
  if (field.empty() || (numbered && parsed.ec == std::errc())) {
    if (index >= arguments.positional.size()) return machine.fail("format has too few arguments");
    return arguments.positional[index];
  }
  for (const auto& [name, value] : arguments.named) {
    if (name == field) return value;
  }
  return machine.fail("format has no argument {}", field);
}

}  // namespace

Value percent_format(Machine& machine, std::string_view format, const Value& values) {
  PercentValues source(machine, values);
  std::string out;
  while (!machine.failed()) {
    const std::size_t at = format.find('%');
    out += format.substr(0, at);
    if (at == std::string_view::npos) break;
    format.remove_prefix(at + 1);
    const auto made = read_conversion(format);
    if (!made) return machine.fail("the format is incomplete");
    if (made->type == '%') {
      out += '%';
      continue;
    }
    const Value value = source.take(*made);
    if (machine.failed()) return {};
    out += convert(machine, *made, value);
    if (!machine.step() || !machine.can_make(out.size())) return {};
  }
  source.finish();
  return machine.text(std::move(out));
}

Value brace_format(Machine& machine, std::string_view format, const Arguments& arguments) {
  std::string out;
  std::size_t automatic = 0;
  while (!machine.failed() && machine.can_make(out.size())) {
    const std::size_t at = format.find_first_of("{}");
    out += format.substr(0, at);
    if (at == std::string_view::npos) break;
    const char brace = format[at];
    format.remove_prefix(at + 1);
    if (!format.empty() && format.front() == brace) {
      out += brace;
      format.remove_prefix(1);
      continue;
    }
    const std::size_t end = format.find('}');
    if (brace == '}' || end == std::string_view::npos) {
      return machine.fail("the format has a single {}", brace);
    }
    const Value value = brace_value(machine, format.substr(0, end), arguments, automatic);
    out += print(machine, value);
    format.remove_prefix(end + 1);
  }
  return machine.text(std::move(out));
}

}  // namespace nibble::text::jinja
