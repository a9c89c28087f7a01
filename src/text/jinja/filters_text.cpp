// The filters that make text.
#include <array>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/split.h"
#include "text/jinja/unicode.h"

namespace nibble::text::jinja {
namespace {

// soft_str: text as it is, markup included; anything else printed.
Value changed(Machine& machine, const Value& input, std::string (*change)(std::string_view)) {
  const Value text = to_text(machine, input);
  if (machine.failed()) return {};
  return machine.text(change(text.bytes()), text.is_markup());
}

Value apply_upper(Machine& machine, const Value& input, const Bound&) {
  return changed(machine, input, upper);
}
Value apply_lower(Machine& machine, const Value& input, const Bound&) {
  return changed(machine, input, lower);
}
Value apply_capitalize(Machine& machine, const Value& input, const Bound&) {
  return changed(machine, input, capitalize);
}

bool starts_word(char32_t before) {
  return is_space(before) || before == '-' || before == '(' || before == '{' || before == '[' ||
         before == '<';
}

// Other than str.title(), which starts words behind any character that is no letter.
std::string title_words(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const bool separator = starts_word(next_character(text, at));
    while (at < text.size()) {
      std::size_t next = at;
      if (starts_word(next_character(text, next)) != separator) break;
      at = next;
    }
    const std::string_view word = text.substr(start, at - start);
    const std::size_t first = byte_offset(word, 1);
    out += upper(word.substr(0, first)) + lower(word.substr(first));
  }
  return out;
}

Value apply_title(Machine& machine, const Value& input, const Bound&) {
  const Value text = to_text(machine, input);
  if (machine.failed()) return {};
  return machine.text(title_words(text.bytes()));
}

Value apply_string(Machine& machine, const Value& input, const Bound&) {
  return to_text(machine, input);
}

Value apply_safe(Machine& machine, const Value& input, const Bound&) {
  return machine.text(print(machine, input), true);
}

Value apply_escape(Machine& machine, const Value& input, const Bound&) {
  if (input.is_markup()) return input;
  return machine.text(escape_markup(print(machine, input)), true);
}

Value apply_trim(Machine& machine, const Value& input, const Bound& arguments) {
  const Value text = to_text(machine, input);
  if (machine.failed()) return {};
  const Value* given = arguments[0];
  if (given == nullptr || given->is_none()) {
    const std::string_view stripped = strip_start(strip_end(text.bytes()));
    return machine.text(std::string(stripped), text.is_markup());
  }
  const std::string characters = arguments.text(0, "");
  if (!machine.can_search(text.bytes().size(), characters.size())) return {};
  const std::string_view stripped = strip_start(strip_end(text.bytes(), characters), characters);
  return machine.text(std::string(stripped), text.is_markup());
}

Value apply_replace(Machine& machine, const Value& input, const Bound& arguments) {
  const Value* count = arguments[2];
  const std::int64_t most = count == nullptr || count->is_none() ? -1 : arguments.integer(2, -1);
  return machine.text(replace(machine, print(machine, input), print(machine, *arguments[0]),
                              print(machine, *arguments[1]), most));
}

Value apply_format(Machine& machine, const Value& input, const Bound& arguments) {
  const Value text = to_text(machine, input);
  if (machine.failed()) return {};
  const auto& [positional, named] = arguments.all();
  if (!positional.empty() && !named.empty()) {
    return machine.fail("format takes values either by place or by name");
  }
  if (named.empty()) return percent_format(machine, text.bytes(), machine.tuple(positional));
  std::vector<std::pair<Value, Value>> members;
  for (const auto& [name, value] : named) members.emplace_back(machine.text(name), value);
  return percent_format(machine, text.bytes(), machine.mapping(std::move(members)));
}

Value apply_join(Machine& machine, const Value& input, const Bound& arguments) {
  const auto items = machine.iterate(input);
  if (!items) return {};
  const Value* path = arguments[1];
  const bool has_path = path != nullptr && !path->is_none();
  const std::string separator = arguments.has(0) ? print(machine, *arguments[0]) : "";
  std::string out;
  for (std::size_t index = 0; index < items->size(); ++index) {
    if (!machine.step() || !machine.can_make(out.size())) return {};
    if (index > 0) out += separator;
    const Value& one = (*items)[index];
    out += print(machine, has_path ? attribute_path(machine, one, *path) : one);
  }
  return machine.text(std::move(out));
}

// jinja2 joins lines that are not empty behind the indentation.
Value apply_indent(Machine& machine, const Value& input, const Bound& arguments) {
  if (!input.is_text()) return machine.type_error("indent", input);
  std::string indentation;
  if (arguments.has(0) && arguments[0]->is_text()) {
    indentation = arguments[0]->bytes();
  } else {
    const std::int64_t width = std::max<std::int64_t>(arguments.integer(0, 4), 0);
    if (!machine.can_make(static_cast<std::size_t>(width))) return {};
    indentation.assign(static_cast<std::size_t>(width), ' ');
  }
  const bool blank = arguments.truthy(2, false);
  const std::string text = input.bytes() + "\n";
  const std::vector<std::string_view> lines = split_lines(text, false);
  std::string out = arguments.truthy(1, false) ? indentation : "";
  for (std::size_t index = 0; index < lines.size(); ++index) {
    if (!machine.step() || !machine.can_make(out.size())) return {};
    if (index > 0) out += '\n';
    if (index > 0 && (blank || !lines[index].empty())) out += indentation;
    out += lines[index];
  }
  return machine.text(std::move(out), input.is_markup());
}

// The indent and the separators of json.dumps.
bool read_layout(Machine& machine, const Bound& arguments, JsonStyle& style) {
  const Value* indent = arguments[1];
  if (indent != nullptr && indent->is_text()) {
    style.indent = indent->bytes();
  } else if (indent != nullptr && !indent->is_none()) {
    const std::int64_t width = std::max<std::int64_t>(arguments.integer(1, 0), 0);
    if (width > 100) machine.fail("tojson takes an indent of at most 100");
    style.indent = std::string(static_cast<std::size_t>(std::min<std::int64_t>(width, 100)), ' ');
  }
  if (style.indent) style.item_separator = ",";
  const Value* separators = arguments[2];
  if (separators == nullptr || separators->is_none()) return !machine.failed();
  const Sequence* pair = separators->sequence();
  if (pair == nullptr || pair->items.size() != 2 || !pair->items[0].is_text() ||
      !pair->items[1].is_text()) {
    machine.fail("tojson takes as separators two texts, as in (',', ':')");
    return false;
  }
  style.item_separator = pair->items[0].bytes();
  style.key_separator = pair->items[1].bytes();
  return !machine.failed();
}

Value apply_tojson(Machine& machine, const Value& input, const Bound& arguments) {
  JsonStyle style;
  style.ensure_ascii = arguments.truthy(0, false);
  style.sort_keys = arguments.truthy(3, false);
  if (!read_layout(machine, arguments, style)) return {};
  return machine.text(to_json(machine, input, style));
}

constexpr std::array<Filter, 16> kFilters = {{
    {{"upper", {}, 0}, apply_upper},
    {{"lower", {}, 0}, apply_lower},
    {{"capitalize", {}, 0}, apply_capitalize},
    {{"title", {}, 0}, apply_title},
    {{"string", {}, 0}, apply_string},
    {{"safe", {}, 0}, apply_safe},
    {{"escape", {}, 0}, apply_escape},
    {{"e", {}, 0}, apply_escape},
    {{"forceescape", {}, 0},
     [](Machine& machine, const Value& input, const Bound&) {
       return machine.text(escape_markup(print(machine, input)), true);
     }},
    {{"trim", {"chars"}, 0}, apply_trim},
    {{"replace", {"old", "new", "count"}, 2}, apply_replace},
    {{"format", {}, 0, true, true}, apply_format},
    {{"join", {"d", "attribute"}, 0}, apply_join},
    {{"indent", {"width", "first", "blank"}, 0}, apply_indent},
    {{"tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, 0}, apply_tojson},
    {{"wordcount", {}, 0},
     [](Machine& machine, const Value& input, const Bound&) {
       std::int64_t words = 0;
       bool within = false;
       const std::string text = print(machine, input);
       for (std::size_t at = 0; at < text.size();) {
         const char32_t character = next_character(text, at);
         const bool part = is_letter_or_number(character) || character == '_';
         words += part && !within ? 1 : 0;
         within = part;
       }
       return Value(words);
     }},
}};

}  // namespace

std::span<const Filter> text_filters() {
  return kFilters;
}

}  // namespace nibble::text::jinja
