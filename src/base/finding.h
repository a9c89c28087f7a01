// A conclusion with everything that it rests on. Sentences are made from findings, so that a
// changed input changes exactly the findings that depend on it (docs/design.md, section 2).
//
//   Finding{.id = "intensity.nvfp4.16x2048x6144", .point = 1, .title = "Arithmetic intensity",
//           .value = 54.9, .unit = "FLOP/B", .formula = "2*M*N*K / bytes",
//           .inputs = {{"m", 16, "rows", "kernels[1].m"}, ...},
//           .sentence = "16x2048x6144 does 54.9 FLOP per byte, 21 x below the ridge of 1,158."}
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace nibble {

struct FindingInput {
  std::string name;    // symbol in the formula: "bandwidth"
  double value = 0;    // in `unit`
  std::string unit;    // "GB/s", "rows", ...
  std::string source;  // "case: machine.bandwidth_gb_s", "catalog: rtx-pro-6000-server", "assumed"
};

enum class Confidence {
  kDerived,   // arithmetic on given numbers: right if they are
  kLikely,    // rests on an assumption that usually holds
  kPossible,  // consistent with the numbers; other explanations are too
};

struct Finding {
  std::string id;               // stable, dotted, lower case
  int point = 0;                // which question of the case it answers; 0: none
  std::string title;            // a few words
  std::optional<double> value;  // the number, in `unit`
  std::string unit;
  std::string verdict;  // a word where the answer is one: "memory", "fits", "consistent"
  std::string missing;  // why there is no value, when there is none
  std::string formula;  // in the symbols of `inputs`
  std::vector<FindingInput> inputs;
  std::vector<std::string> assumptions;
  Confidence confidence = Confidence::kDerived;
  std::string sentence;  // for people; made from the fields above
  bool headline = true;  // shown first; the others are the detail behind it
};

std::string_view to_string(Confidence confidence);
// Every member, always: "value" is null when "missing" says why, a verdict or reason that is not
// there is null.
Json to_json(const Finding& finding);

}  // namespace nibble
