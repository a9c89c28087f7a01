#include "model/fields.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>

namespace nibble {

std::optional<std::int64_t> either(ObjectReader& reader,
                                   std::initializer_list<std::string_view> names,
                                   const NumberRange& range) {
  std::optional<std::int64_t> value;
  std::string_view first_name;
  for (const std::string_view name : names) {
    const auto items = reader.numbers(name, range);
    if (!items || items->empty()) continue;
    const double item = items->front();
    if (std::any_of(items->begin(), items->end(), [item](double other) { return other != item; })) {
      reader.fault_at(name, "differs from layer to layer, which nibble cannot count");
    } else if (std::floor(item) != item || std::abs(item) > 1e15) {
      reader.fault_at(name, fmt::format("is {}; it must be a whole number", item));
    } else if (!value) {
      value = static_cast<std::int64_t>(item);
      first_name = name;
    } else if (static_cast<double>(*value) != item) {
      reader.fault_at(
          name, fmt::format("is {}, but \"{}\" is {}; they mean the same and must agree", item,
                            first_name, *value));
    }
  }
  return value;
}

}  // namespace nibble
