// For tests: the value that a JSON text is.
//
//   const Json json = parsed(R"({"a": [1, 2]})");
#pragma once

#include <string_view>

#include "base/json.h"

namespace nibble {

inline Json parsed(std::string_view text) {
  return Json::parse(text, "x.json").value();
}

}  // namespace nibble
