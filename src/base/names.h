// The names that an enum's values have in files and on the command line: one table for writing and
// for reading.
//
//   constexpr Named<LineEnd> kLineEnds[] = {{"lf", LineEnd::kLf}, {"crlf", LineEnd::kCrLf}};
//   name_of(kLineEnds, LineEnd::kLf);                     // "lf"
//   value_of(kLineEnds, "cr");                            // nullopt
//   read_choice(reader, "line_end", kLineEnds, line_end); // a fault names what would be right
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "base/text.h"

namespace nibble {

template <class Enum>
struct Named {
  std::string_view name;
  Enum value;
};

// Every value has its line in the table.
template <class Enum, std::size_t n>
std::string_view name_of(const Named<Enum> (&table)[n], std::type_identity_t<Enum> value) {
  for (const Named<Enum>& entry : table) {
    if (entry.value == value) return entry.name;
  }
  NIBBLE_CHECK(false);
  return "";
}

template <class Enum, std::size_t n>
std::optional<Enum> value_of(const Named<Enum> (&table)[n], std::string_view name) {
  for (const Named<Enum>& entry : table) {
    if (entry.name == name) return entry.value;
  }
  return std::nullopt;
}

// Reads the member when it is there; another name is a fault that lists the right ones.
template <class Enum, std::size_t n>
void read_choice(ObjectReader& reader, std::string_view key, const Named<Enum> (&table)[n],
                 Enum& target) {
  const std::optional<std::string> given = reader.string(key);
  if (!given) return;
  if (const std::optional<Enum> value = value_of(table, *given)) {
    target = *value;
    return;
  }
  std::vector<std::string> names;
  for (const Named<Enum>& entry : table) names.emplace_back(entry.name);
  reader.fault_at(
      key, fmt::format("is \"{}\"; it must be one of {}", printable(*given), join(names, ", ")));
}

}  // namespace nibble
