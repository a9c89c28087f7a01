// Small JSON values that several documents hold.
//
//   json.set("note", text_or_null(note)).set("missing", string_list(missing));
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace nibble {

inline Json text_or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

inline Json string_list(const std::vector<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts) list.push(text);
  return list;
}

}  // namespace nibble
