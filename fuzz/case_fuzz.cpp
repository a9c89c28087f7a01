// Any bytes as a case: parsed or refused, explained or refused, never a crash.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "explain/case.h"
#include "explain/explain.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const nibble::Result<nibble::Json> json = nibble::Json::parse(text, "fuzz.json");
  if (!json) return 0;
  const nibble::Result<nibble::Case> found = nibble::parse_case(*json, "fuzz.json");
  // Names of files and of this machine would leave the input.
  if (!found || found->gpu == "this" || found->model_name.find('/') != std::string::npos) return 0;
  nibble::Case few = *found;
  if (few.levels.size() > 2) few.levels.resize(2);  // each level costs the same arithmetic again
  const nibble::Result<nibble::CaseAnalysis> analysis = nibble::explain_case(few, {});
  if (analysis) nibble::to_json(*analysis).dump();
  return 0;
}
