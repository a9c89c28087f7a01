// The methods of text (text/jinja/methods.h).
#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "text/jinja/format.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/split.h"
#include "text/jinja/unicode.h"

namespace nibble::text::jinja {
namespace {

Value same_kind(Machine& machine, const Value& self, std::string text) {
  return machine.text(std::move(text), self.is_markup());
}

Value strip(Machine& machine, const Value& self, const Bound& arguments, bool start, bool end) {
  std::string_view text = self.bytes();
  const Value* given = arguments[0];
  if (given == nullptr || given->is_none()) {
    if (start) text = strip_start(text);
    if (end) text = strip_end(text);
  } else {
    const std::string characters = arguments.text(0, "");
    if (!machine.can_search(text.size(), characters.size())) return {};
    if (start) text = strip_start(text, characters);
    if (end) text = strip_end(text, characters);
  }
  return same_kind(machine, self, std::string(text));
}

Value call_strip(Machine& machine, const Value& self, const Bound& arguments) {
  return strip(machine, self, arguments, true, true);
}
Value call_lstrip(Machine& machine, const Value& self, const Bound& arguments) {
  return strip(machine, self, arguments, true, false);
}
Value call_rstrip(Machine& machine, const Value& self, const Bound& arguments) {
  return strip(machine, self, arguments, false, true);
}
Value call_upper(Machine& machine, const Value& self, const Bound&) {
  return same_kind(machine, self, upper(self.bytes()));
}
Value call_lower(Machine& machine, const Value& self, const Bound&) {
  return same_kind(machine, self, lower(self.bytes()));
}
Value call_capitalize(Machine& machine, const Value& self, const Bound&) {
  return same_kind(machine, self, capitalize(self.bytes()));
}
Value call_title(Machine& machine, const Value& self, const Bound&) {
  return same_kind(machine, self, title(self.bytes()));
}

// self[start:end] of the arguments 1 and 2; `offset` becomes its first character.
std::string_view range_of(Machine& machine, const Value& self, const Bound& arguments,
                          std::int64_t& offset) {
  const std::string& text = self.bytes();
  if (!arguments.has(1) && !arguments.has(2)) return text;
  const auto size = static_cast<std::int64_t>(length(text));
  const auto place = [&](std::size_t index, std::int64_t otherwise) {
    const Value* given = arguments[index];
    if (given == nullptr || given->is_none()) return otherwise;
    const std::int64_t at = arguments.integer(index, otherwise);
    return std::clamp<std::int64_t>(at < 0 ? std::max(at, -size) + size : at, 0, size);
  };
  if (arguments.has(1) && arguments[1]->is_integral() && arguments[1]->integer() > size) {
    machine.fail("the start lies behind the end of the text");
    return {};
  }
  offset = place(1, 0);
  const std::int64_t end = std::max(place(2, size), offset);
  const std::size_t first = byte_offset(text, static_cast<std::size_t>(offset));
  const std::size_t last = byte_offset(text, static_cast<std::size_t>(end));
  return std::string_view(text).substr(first, last - first);
}

Value starts_or_ends(Machine& machine, const Value& self, const Bound& arguments, bool start) {
  std::int64_t offset = 0;
  const std::string_view text = range_of(machine, self, arguments, offset);
  const auto matches = [&](const Value& affix) {
    if (!affix.is_text()) machine.type_error(start ? "startswith" : "endswith", affix);
    if (!affix.is_text() || affix.bytes().size() > text.size()) return false;
    const std::size_t at = start ? 0 : text.size() - affix.bytes().size();
    return text.substr(at, affix.bytes().size()) == affix.bytes();
  };
  const Sequence* several = arguments[0]->sequence();
  if (several == nullptr || several->kind != SequenceKind::kTuple) {
    return Value(matches(*arguments[0]));
  }
  return Value(std::any_of(several->items.begin(), several->items.end(), matches));
}

Value call_startswith(Machine& machine, const Value& self, const Bound& arguments) {
  return starts_or_ends(machine, self, arguments, true);
}
Value call_endswith(Machine& machine, const Value& self, const Bound& arguments) {
  return starts_or_ends(machine, self, arguments, false);
}

std::int64_t found_at(Machine& machine, const Value& self, const Bound& arguments, bool last) {
  std::int64_t offset = 0;
  const std::string_view text = range_of(machine, self, arguments, offset);
  const std::string wanted = arguments.text(0, "");
  if (!machine.can_search(text.size(), wanted.size())) return 0;
  const std::size_t at = last ? text.rfind(wanted) : text.find(wanted);
  if (at == std::string_view::npos) return -1;
  return offset + static_cast<std::int64_t>(length(text.substr(0, at)));
}

Value call_find(Machine& machine, const Value& self, const Bound& arguments) {
  return Value(found_at(machine, self, arguments, false));
}
Value call_rfind(Machine& machine, const Value& self, const Bound& arguments) {
  return Value(found_at(machine, self, arguments, true));
}
Value call_index(Machine& machine, const Value& self, const Bound& arguments) {
  const std::int64_t at = found_at(machine, self, arguments, false);
  return at < 0 ? machine.fail("the text does not hold what index looks for") : Value(at);
}

Value call_count(Machine& machine, const Value& self, const Bound& arguments) {
  std::int64_t offset = 0;
  const std::string_view text = range_of(machine, self, arguments, offset);
  const std::string wanted = arguments.text(0, "");
  if (!machine.can_search(text.size(), wanted.size())) return {};
  if (wanted.empty()) return Value(static_cast<std::int64_t>(length(text)) + 1);
  std::int64_t count = 0;
  for (std::size_t at = 0; (at = text.find(wanted, at)) != std::string_view::npos;) {
    ++count;
    at += wanted.size();
  }
  return Value(count);
}

Value call_replace(Machine& machine, const Value& self, const Bound& arguments) {
  if (self.is_markup()) return machine.fail("replace of a safe text is not supported");
  return machine.text(replace(machine, self.bytes(), arguments.text(0, ""), arguments.text(1, ""),
                              arguments.integer(2, -1)));
}

Value call_join(Machine& machine, const Value& self, const Bound& arguments) {
  if (self.is_markup()) return machine.fail("join of a safe text is not supported");
  const auto items = machine.iterate(*arguments[0]);
  if (!items) return {};
  std::string out;
  for (std::size_t index = 0; index < items->size(); ++index) {
    const Value& one = (*items)[index];
    if (!one.is_text()) return machine.type_error("join", one);
    if (index > 0) out += self.bytes();
    out += one.bytes();
    if (!machine.can_make(out.size())) return {};
  }
  return machine.text(std::move(out));
}

Value call_format(Machine& machine, const Value& self, const Bound& arguments) {
  if (self.is_markup()) return machine.fail("format of a safe text is not supported");
  return brace_format(machine, self.bytes(), arguments.all());
}

Value list_of(Machine& machine, const Value& self, const std::vector<std::string_view>& parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) {
    if (!machine.step()) return {};
    items.push_back(machine.text(std::string(part), self.is_markup()));
  }
  return machine.list(std::move(items));
}

Value split_at(Machine& machine, const Value& self, const Bound& arguments, bool from_end) {
  const std::int64_t most = arguments.integer(1, -1);
  const Value* separator = arguments[0];
  if (separator == nullptr || separator->is_none()) {
    return list_of(machine, self, split_space(self.bytes(), most, from_end));
  }
  const std::string text = arguments.text(0, "");
  if (!machine.can_search(self.bytes().size(), text.size())) return {};
  if (text.empty()) return machine.fail("split needs a separator that is not empty");
  return list_of(machine, self, split_text(self.bytes(), text, most, from_end));
}

Value call_split(Machine& machine, const Value& self, const Bound& arguments) {
  return split_at(machine, self, arguments, false);
}
Value call_rsplit(Machine& machine, const Value& self, const Bound& arguments) {
  return split_at(machine, self, arguments, true);
}
Value call_splitlines(Machine& machine, const Value& self, const Bound& arguments) {
  return list_of(machine, self, split_lines(self.bytes(), arguments.truthy(0, false)));
}

Value partition(Machine& machine, const Value& self, const Bound& arguments, bool from_end) {
  if (self.is_markup()) return machine.fail("partition of a safe text is not supported");
  const std::string& text = self.bytes();
  const std::string separator = arguments.text(0, "");
  if (separator.empty()) return machine.fail("partition needs a separator that is not empty");
  if (!machine.can_search(text.size(), separator.size())) return {};
  const std::size_t at = from_end ? text.rfind(separator) : text.find(separator);
  if (at != std::string::npos) {
    return machine.tuple({machine.text(text.substr(0, at)), machine.text(separator),
                          machine.text(text.substr(at + separator.size()))});
  }
  const Value none = machine.text("");
  return from_end ? machine.tuple({none, none, self}) : machine.tuple({self, none, none});
}

Value call_partition(Machine& machine, const Value& self, const Bound& arguments) {
  return partition(machine, self, arguments, false);
}
Value call_rpartition(Machine& machine, const Value& self, const Bound& arguments) {
  return partition(machine, self, arguments, true);
}

Value call_removeprefix(Machine& machine, const Value& self, const Bound& arguments) {
  const std::string affix = arguments.text(0, "");
  const bool has = self.bytes().compare(0, affix.size(), affix) == 0;
  return same_kind(machine, self, self.bytes().substr(has ? affix.size() : 0));
}
Value call_removesuffix(Machine& machine, const Value& self, const Bound& arguments) {
  const std::string affix = arguments.text(0, "");
  const std::string& text = self.bytes();
  const bool has = text.size() >= affix.size() &&
                   text.compare(text.size() - affix.size(), affix.size(), affix) == 0;
  return same_kind(machine, self, text.substr(0, text.size() - (has ? affix.size() : 0)));
}

// True where there are characters and each satisfies the condition.
Value each(const Value& self, bool (*condition)(char32_t)) {
  const std::string& text = self.bytes();
  for (std::size_t at = 0; at < text.size();) {
    if (!condition(next_character(text, at))) return Value(false);
  }
  return Value(!text.empty());
}

Value call_isspace(Machine&, const Value& self, const Bound&) {
  return each(self, is_space);
}
Value call_isalpha(Machine&, const Value& self, const Bound&) {
  return each(self, is_letter);
}
Value call_isalnum(Machine&, const Value& self, const Bound&) {
  return each(self, is_letter_or_number);
}
Value call_isdigit(Machine&, const Value& self, const Bound&) {
  return each(self, is_digit);
}
Value call_islower(Machine&, const Value& self, const Bound&) {
  return Value(is_lower(self.bytes()));
}
Value call_isupper(Machine&, const Value& self, const Bound&) {
  return Value(is_upper(self.bytes()));
}

Value justify(Machine& machine, const Value& self, const Bound& arguments, bool left) {
  const std::int64_t width = arguments.integer(0, 0);
  const std::string fill = arguments.text(1, " ");
  if (length(fill) != 1) return machine.fail("the character to fill with is not one character");
  const auto present = static_cast<std::int64_t>(length(self.bytes()));
  if (width <= present) return self;
  const auto count = static_cast<std::size_t>(width - present);
  if (!machine.can_make(count) || !machine.can_make(count * fill.size())) return {};
  std::string padding;
  for (std::size_t index = 0; index < count; ++index) padding += fill;
  return same_kind(machine, self, left ? self.bytes() + padding : padding + self.bytes());
}

Value call_ljust(Machine& machine, const Value& self, const Bound& arguments) {
  return justify(machine, self, arguments, true);
}
Value call_rjust(Machine& machine, const Value& self, const Bound& arguments) {
  return justify(machine, self, arguments, false);
}

Value call_zfill(Machine& machine, const Value& self, const Bound& arguments) {
  const std::int64_t width = arguments.integer(0, 0);
  const auto present = static_cast<std::int64_t>(length(self.bytes()));
  if (width <= present) return self;
  const auto missing = static_cast<std::size_t>(width - present);
  if (!machine.can_make(missing)) return {};
  const std::string& text = self.bytes();
  const bool has_sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  std::string out = text.substr(0, has_sign ? 1 : 0);
  out.append(missing, '0');
  return same_kind(machine, self, out + text.substr(has_sign ? 1 : 0));
}

constexpr bool kByName = true;
constexpr bool kByPlace = false;

constexpr std::array<TextMethod, 32> kMethods = {{
    {{"strip", {"chars"}, 0, kByPlace}, call_strip},
    {{"lstrip", {"chars"}, 0, kByPlace}, call_lstrip},
    {{"rstrip", {"chars"}, 0, kByPlace}, call_rstrip},
    {{"upper", {}, 0, kByPlace}, call_upper},
    {{"lower", {}, 0, kByPlace}, call_lower},
    {{"capitalize", {}, 0, kByPlace}, call_capitalize},
    {{"title", {}, 0, kByPlace}, call_title},
    {{"startswith", {"prefix", "start", "end"}, 1, kByPlace}, call_startswith},
    {{"endswith", {"suffix", "start", "end"}, 1, kByPlace}, call_endswith},
    {{"find", {"sub", "start", "end"}, 1, kByPlace}, call_find},
    {{"rfind", {"sub", "start", "end"}, 1, kByPlace}, call_rfind},
    {{"index", {"sub", "start", "end"}, 1, kByPlace}, call_index},
    {{"count", {"sub", "start", "end"}, 1, kByPlace}, call_count},
    {{"replace", {"old", "new", "count"}, 2, kByPlace}, call_replace},
    {{"join", {"iterable"}, 1, kByPlace}, call_join},
    {{"format", {}, 0, kByName, true}, call_format},
    {{"split", {"sep", "maxsplit"}, 0, kByName}, call_split},
    {{"rsplit", {"sep", "maxsplit"}, 0, kByName}, call_rsplit},
    {{"splitlines", {"keepends"}, 0, kByName}, call_splitlines},
    {{"partition", {"sep"}, 1, kByPlace}, call_partition},
    {{"rpartition", {"sep"}, 1, kByPlace}, call_rpartition},
    {{"removeprefix", {"prefix"}, 1, kByPlace}, call_removeprefix},
    {{"removesuffix", {"suffix"}, 1, kByPlace}, call_removesuffix},
    {{"isspace", {}, 0, kByPlace}, call_isspace},
    {{"isalpha", {}, 0, kByPlace}, call_isalpha},
    {{"isalnum", {}, 0, kByPlace}, call_isalnum},
    {{"isdigit", {}, 0, kByPlace}, call_isdigit},
    {{"islower", {}, 0, kByPlace}, call_islower},
    {{"isupper", {}, 0, kByPlace}, call_isupper},
    {{"ljust", {"width", "fillchar"}, 1, kByPlace}, call_ljust},
    {{"rjust", {"width", "fillchar"}, 1, kByPlace}, call_rjust},
    {{"zfill", {"width"}, 1, kByPlace}, call_zfill},
}};

}  // namespace

const TextMethod* find_text_method(std::string_view name) {
  for (const TextMethod& method : kMethods) {
    if (method.signature.name == name) return &method;
  }
  return nullptr;
}

}  // namespace nibble::text::jinja
