#include "base/finding.h"

#include <cmath>

namespace nibble {
namespace {

Json to_json(const FindingInput& input) {
  Json json = Json::object();
  json.set("name", input.name).set("value", input.value).set("unit", input.unit);
  json.set("source", input.source);
  return json;
}

void set_unless_empty(Json& json, std::string_view key, const std::string& text) {
  if (!text.empty()) json.set(key, text);
}

}  // namespace

std::string_view to_string(Confidence confidence) {
  switch (confidence) {
    case Confidence::kDerived:
      return "derived";
    case Confidence::kLikely:
      return "likely";
    case Confidence::kPossible:
      return "possible";
  }
  return "possible";
}

Json to_json(const Finding& finding) {
  Json json = Json::object();
  json.set("id", finding.id);
  if (finding.point != 0) json.set("point", finding.point);
  set_unless_empty(json, "title", finding.title);
  const bool finite = finding.value.has_value() && std::isfinite(*finding.value);
  json.set("value", finite ? Json(*finding.value) : Json());
  set_unless_empty(json, "unit", finding.unit);
  set_unless_empty(json, "verdict", finding.verdict);
  if (finding.missing.empty() && finding.value.has_value() && !finite) {
    json.set("missing", "the result is not a finite number");
  } else {
    set_unless_empty(json, "missing", finding.missing);
  }
  set_unless_empty(json, "formula", finding.formula);
  if (!finding.inputs.empty()) {
    Json inputs = Json::array();
    for (const FindingInput& input : finding.inputs) inputs.push(to_json(input));
    json.set("inputs", std::move(inputs));
  }
  if (!finding.assumptions.empty()) {
    Json assumptions = Json::array();
    for (const std::string& assumption : finding.assumptions) assumptions.push(assumption);
    json.set("assumptions", std::move(assumptions));
  }
  json.set("confidence", to_string(finding.confidence));
  set_unless_empty(json, "sentence", finding.sentence);
  return json;
}

}  // namespace nibble
