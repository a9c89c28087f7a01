// Two diagnoses side by side, with the noise of both taken into account.
//
//   NIBBLE_ASSIGN_OR_RETURN(const DiagnosisDiff diff, diff_of(before, after));   //
//   nibble.diagnosis/1 for (const LevelChange& level : diff.levels) print(level.name,
//   level.rate.verdict);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace nibble::diagnose {

// A number of both; where one lacks it there is no change.
struct Change {
  std::optional<double> before, after;
  std::optional<double> change;  // after / before - 1
};

// A bar of the waterfall, ms.
struct BarChange {
  std::string id;
  std::string title;
  Change ms;
  std::string note;  // which one alone has it
};

struct LevelChange {
  std::string name;
  std::optional<double> users;
  Change measured_ms;   // a token and user
  Change rate;          // output tokens/s
  double noise = 0;     // of the change of the rate: both rates' own, 1 % at least
  std::string verdict;  // "faster", "slower", "within noise"; "only in A.json"
  std::vector<BarChange> bars;
  std::string class_before, class_after;  // of the best verdict; empty: none
};

struct DiagnosisDiff {
  std::string name_a, name_b;
  std::vector<LevelChange> levels;        // by users
  std::string class_before, class_after;  // of the whole
  std::string sentence;
};

// Input errors name the document that is no nibble.diagnosis/1.
Result<DiagnosisDiff> diff_of(const Json& a, const Json& b, const std::string& name_a = "A",
                              const std::string& name_b = "B");

Json to_json(const DiagnosisDiff& diff);
// The same in one: an object with `error` where a document is no diagnosis.
Json diff_diagnoses(const Json& a, const Json& b);

}  // namespace nibble::diagnose
