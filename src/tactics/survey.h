// All tactics of products on a chip: which are feasible, compiled for it in a few threads.
//
//   const Survey survey = survey_tactics({.products = products, .chip = chip},
//                                        [](std::string_view, int done, int all) {});
//   for (const Feasibility& found : survey.tactics) say(found.name, found.reason);
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tactics/feasible.h"

namespace nibble {

struct SurveyRequest {
  std::vector<TacticProduct> products;
  std::vector<TacticFamily> families = {TacticFamily::kW4A4, TacticFamily::kW4A16};
  Chip chip;
  std::optional<TacticTile> tile;  // tactics of this one alone
  bool compile = true;             // those that pass otherwise
  int threads = 1;
};

struct Survey {
  std::vector<Feasibility> tactics;  // by product, then by family, then as they are thought of
  std::string compiler;              // "NVRTC 13.0 (...)"; "": none, or it was not asked
  std::string compiler_reason;       // why there is none
};

// Called from one thread at a time, with what is compiled next, and how many of how many are done.
using SurveyProgress = std::function<void(std::string_view now, int done, int all)>;

Survey survey_tactics(const SurveyRequest& request, const SurveyProgress& progress);

// With a compiler, or the reason why there is none, of one's own choice.
struct SurveyCompiler {
  Result<std::string> name;
  std::function<Result<cuda::Cubin>(const TacticProduct& product, const TacticCandidate& candidate,
                                    const std::string& arch)>
      compile;
};
Survey survey_with(const SurveyRequest& request, const SurveyCompiler& compiler,
                   const SurveyProgress& progress);

// Tiles that differ in M, N, K or in the way round, among the feasible ones of an operation and
// family.
int distinct_tiles(const std::vector<Feasibility>& tactics, std::string_view op,
                   TacticFamily family);

}  // namespace nibble
