// From clues to verdicts: how much of what could speak for a class does.
//
//   const Verdict verdict = judge(evidence, 3, Class::kSchedulerCap);
//   verdict.confidence    // (weights that hold - weights against) / all weights that apply
//   const std::size_t level = headline_level(evidence);   // the one that the whole is told by
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "diagnose/clues.h"
#include "diagnose/diagnosis.h"

namespace nibble::diagnose {

struct ClassWords {
  Class cls;
  std::string_view claim;          // "the scheduler's cap holds requests back"
  std::string_view experiment;     // the cheapest one that would settle it
  std::string_view experiment_id;  // that nibble can run itself; empty: none
};
const ClassWords& words_of(Class cls);

bool is_fault(Class cls);     // all but healthy, at the roof and unexplained
bool invalidates(Class cls);  // the numbers are not those of the deployment

// One class at one level, whether it is named or not.
Verdict judge(const Evidence& evidence, std::size_t level, Class cls);
Certainty certainty_of(double confidence);
bool is_named(const Verdict& verdict);  // likely or certain

// Best first: what invalidates the measurement, then confidence, then the order of Class.
void sort_verdicts(std::vector<Verdict>& verdicts);

// The claim of a verdict; `where` is a level's name or empty. Its sentence is the claim with what
// speaks for it.
std::string verdict_claim(const Verdict& verdict, std::string_view where);
std::string verdict_sentence(const Verdict& verdict);

// The highest level that counts, or the highest one where none does.
std::size_t headline_level(const Evidence& evidence);

}  // namespace nibble::diagnose
