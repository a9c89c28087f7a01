#include "base/finding.h"

#include <cmath>

#include "base/json_parts.h"

namespace nibble {
namespace {

Json to_json(const FindingInput& input) {
  Json json = Json::object();
  json.set("name", input.name).set("value", input.value).set("unit", input.unit);
  json.set("source", input.source);
  return json;
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
  const bool finite = finding.value.has_value() && std::isfinite(*finding.value);
  std::string missing = finding.missing;
  if (missing.empty() && finding.value && !finite) missing = "the result is not a finite number";
  Json inputs = Json::array();
  for (const FindingInput& input : finding.inputs) inputs.push(to_json(input));
  Json assumptions = Json::array();
  for (const std::string& assumption : finding.assumptions) assumptions.push(assumption);

  Json json = Json::object();
  json.set("id", finding.id).set("point", finding.point).set("headline", finding.headline);
  json.set("title", finding.title);
  json.set("value", finite ? Json(*finding.value) : Json()).set("unit", finding.unit);
  json.set("verdict", text_or_null(finding.verdict)).set("missing", text_or_null(missing));
  json.set("formula", finding.formula);
  json.set("inputs", std::move(inputs)).set("assumptions", std::move(assumptions));
  json.set("confidence", to_string(finding.confidence)).set("sentence", finding.sentence);
  return json;
}

}  // namespace nibble
