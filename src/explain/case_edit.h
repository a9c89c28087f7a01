// For tests: a built-in case's document, edits of it by the path that findings name, and findings
// by their ids.
//
//   Json json = case_document("glm5_rtxpro6000");
//   at(json, "load.levels[2].itl_ms.p50") = Json(300.0);
//   find(explain_document(json), "little.1024.ratio")->value
#pragma once

#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "explain/case.h"
#include "explain/explain.h"

namespace nibble {

inline constexpr const char* kGlm = "glm5_rtxpro6000";

inline Json case_document(std::string_view name) {
  const std::optional<std::string_view> text = built_in_case(name);
  NIBBLE_CHECK(text.has_value());
  return Json::parse(*text, name).value();
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

// The paths of all numbers in a document.
inline void collect_numbers(const Json& json, const std::string& path,
                            std::set<std::string>& paths) {
  if (json.is_number()) paths.insert(path);
  if (json.is_array()) {
    for (std::size_t index = 0; index < json.as_array().size(); ++index) {
      collect_numbers(json.as_array()[index], fmt::format("{}[{}]", path, index), paths);
    }
  }
  if (!json.is_object()) return;
  for (const auto& [key, member] : json.as_object()) {
    collect_numbers(member, path.empty() ? key : path + "." + key, paths);
  }
}

// Removes a member of an object.
inline void erase(Json& object, std::string_view key) {
  std::erase_if(object.as_object(),
                [&](const Json::Member& member) { return member.first == key; });
}

inline CaseAnalysis explain_document(const Json& json, const CaseOptions& options = {}) {
  const Result<Case> found = parse_case(json, "test.json");
  if (!found) fmt::print("{}\n", found.error().message);
  NIBBLE_CHECK(found.ok());
  Result<CaseAnalysis> analysis = explain_case(*found, options);
  if (!analysis) fmt::print("{}\n", analysis.error().message);
  NIBBLE_CHECK(analysis.ok());
  return *std::move(analysis);
}

// nullptr when there is none.
inline const Finding* find(const CaseAnalysis& analysis, std::string_view id) {
  for (const Finding& finding : analysis.findings) {
    if (finding.id == id) return &finding;
  }
  return nullptr;
}

// NaN when there is no such finding or it has no value: equal to nothing.
inline double value_of(const CaseAnalysis& analysis, std::string_view id) {
  const Finding* finding = find(analysis, id);
  return finding != nullptr ? finding->value.value_or(NAN) : NAN;
}

inline std::string verdict_of(const CaseAnalysis& analysis, std::string_view id) {
  const Finding* finding = find(analysis, id);
  return finding != nullptr ? finding->verdict : "(no finding)";
}

// What is said of the case as it is.
inline const CaseAnalysis& unchanged() {
  static const CaseAnalysis kAnalysis = explain_document(case_document(kGlm));
  return kAnalysis;
}

}  // namespace nibble
