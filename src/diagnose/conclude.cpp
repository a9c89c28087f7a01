// All of a diagnosis from its evidence.
#include <cstddef>
#include <utility>

#include "diagnose/classify.h"
#include "diagnose/diagnosis.h"
#include "diagnose/proposals.h"

namespace nibble::diagnose {
namespace {

LevelDiagnosis diagnose_level(const Evidence& evidence, std::size_t level) {
  const LevelView view(evidence, level);
  LevelDiagnosis diagnosis{.name = view.level().name};
  diagnosis.users = view.get(Fact::kUsers).value_or(view.in_flight().value_or(0));
  diagnosis.verdicts = classify_level(evidence, level);
  build_waterfall(evidence, level, diagnosis);
  return diagnosis;
}

}  // namespace

Diagnosis conclude(Evidence evidence) {
  Diagnosis diagnosis;
  diagnosis.evidence = std::move(evidence);
  const Evidence& known = diagnosis.evidence;
  for (std::size_t level = 0; level < known.levels.size(); ++level) {
    diagnosis.levels.push_back(diagnose_level(known, level));
  }
  diagnosis.headline = headline_level(known);
  diagnosis.verdicts = classify_whole(known, diagnosis.levels);
  diagnosis.proposals = propose(diagnosis);
  diagnosis.sentence = diagnosis.verdicts.front().claim + most_to_win(diagnosis);
  return diagnosis;
}

}  // namespace nibble::diagnose
