#include "text/jinja/filters.h"

#include <charconv>

#include "base/text.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace nibble::text::jinja {

const Filter* find_filter(std::string_view name) {
  for (const auto filters :
       {text_filters(), list_filters(), number_filters(), choosing_filters()}) {
    for (const Filter& filter : filters) {
      if (filter.signature.name == name) return &filter;
    }
  }
  return nullptr;
}

Value apply(Machine& machine, const Filter& filter, const Value& input,
            const Arguments& arguments) {
  const Bound bound(machine, filter.signature, arguments);
  if (machine.failed() || !machine.step(input.is_text() ? input.bytes().size() / 64 + 1 : 1)) {
    return {};
  }
  return filter.apply(machine, input, bound);
}

Value attribute_path(Machine& machine, const Value& value, const Value& path) {
  if (path.is_integral()) return item(machine, value, path);
  if (!path.is_text()) return machine.type_error("an attribute", path);
  Value found = value;
  for (const std::string& part : split(path.bytes(), '.')) {
    std::int64_t index = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool digits = !part.empty() && part.front() != '-' &&
                        parsed.ptr == part.data() + part.size() && parsed.ec == std::errc();
    found = item(machine, found, digits ? Value(index) : machine.text(part));
    if (machine.failed()) return {};
  }
  return found;
}

Value sort_key(Machine& machine, const Value& value, const Value* path, bool case_sensitive) {
  const bool has_path = path != nullptr && !path->is_none();
  const Value key = has_path ? attribute_path(machine, value, *path) : value;
  if (case_sensitive || !key.is_text()) return key;
  return machine.text(lower(key.bytes()));
}

}  // namespace nibble::text::jinja
