// For tests: a built-in case's document, and edits of it by the path that findings name.
//
//   Json json = case_document("glm5_rtxpro6000");
//   at(json, "load.levels[2].itl_ms.p50") = Json(300.0);
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"

namespace nibble {

inline Json case_document(std::string_view name) {
  const std::filesystem::path path =
      std::filesystem::path(NIBBLE_SOURCE_DIR) / "data/cases" / fmt::format("{}.json", name);
  const Result<std::string> text = read_file(path, 1U << 20U);
  NIBBLE_CHECK(text.ok());
  return Json::parse(*text, path.string()).value();
}

// The member that a path names; a missing last member is made (null).
inline Json& at(Json& json, std::string_view path) {
  Json* here = &json;
  while (!path.empty()) {
    if (path.front() == '[') {
      const std::size_t close = path.find(']');
      const std::size_t index = std::stoul(std::string(path.substr(1, close - 1)));
      NIBBLE_CHECK(index < here->as_array().size());
      here = &here->as_array()[index];
      path.remove_prefix(close + 1);
      continue;
    }
    if (path.front() == '.') path.remove_prefix(1);
    const std::string_view key = path.substr(0, path.find_first_of(".["));
    if (here->find(key) == nullptr) here->set(key, Json());
    here = here->find(key);
    path.remove_prefix(key.size());
  }
  return *here;
}

// Removes a member of an object.
inline void erase(Json& object, std::string_view key) {
  std::erase_if(object.as_object(), [&](const Json::Member& member) { return member.first == key; });
}

}  // namespace nibble
