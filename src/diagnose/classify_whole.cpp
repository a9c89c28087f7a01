// The verdicts of the whole, from those of its levels.
#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "base/text.h"
#include "diagnose/classify.h"
#include "diagnose/thresholds.h"

namespace nibble::diagnose {
namespace {

// One class over the levels that count.
struct Spread {
  std::vector<std::string> named_at;
  const Verdict* best = nullptr;  // of those where it is named
  double sum = 0;                 // of its confidence
  std::size_t levels = 0;
};

const Verdict* find_verdict(const std::vector<Verdict>& verdicts, Class cls) {
  const auto found = std::find_if(verdicts.begin(), verdicts.end(),
                                  [&](const Verdict& verdict) { return verdict.cls == cls; });
  return found == verdicts.end() ? nullptr : &*found;
}

Spread spread_of(const Evidence& evidence, const std::vector<LevelDiagnosis>& levels, Class cls) {
  Spread spread;
  for (std::size_t index = 0; index < levels.size() && index < evidence.levels.size(); ++index) {
    if (!evidence.levels[index].counts) continue;
    ++spread.levels;
    const Verdict* verdict = find_verdict(levels[index].verdicts, cls);
    if (verdict == nullptr) continue;
    spread.sum += verdict->confidence;
    if (!is_named(*verdict)) continue;
    spread.named_at.push_back(levels[index].name);
    if (spread.best == nullptr || verdict->confidence > spread.best->confidence) {
      spread.best = verdict;
    }
  }
  return spread;
}

void limit_confidence(Verdict& verdict, double most) {
  verdict.confidence = std::min(verdict.confidence, most);
  verdict.certainty = certainty_of(verdict.confidence);
}

// A fault of other levels than the headline: named where it holds at half of them or more, as a
// host's gaps do that vanish among long steps; possible otherwise.
Verdict of_other_levels(const Spread& spread) {
  Verdict verdict = *spread.best;
  const bool common = spread.named_at.size() >= 2 && 2 * spread.named_at.size() >= spread.levels;
  limit_confidence(verdict, common ? kMostWithoutVeto : kMostWithoutNeeded);
  verdict.claim = verdict_claim(verdict, verdict.level);
  verdict.sentence = verdict_sentence(verdict);
  return verdict;
}

Verdict of_headline(const Verdict& there, const Spread& spread) {
  Verdict verdict = there;
  if (is_named(there) && spread.named_at.size() > 1) {
    verdict.sentence += fmt::format(" It is named at {} of {} levels: {}.", spread.named_at.size(),
                                    spread.levels, join(spread.named_at, ", "));
  }
  return verdict;
}

}  // namespace

std::vector<Verdict> classify_whole(const Evidence& evidence,
                                    const std::vector<LevelDiagnosis>& levels) {
  const std::size_t headline = headline_level(evidence);
  std::vector<Verdict> verdicts, elsewhere;
  if (headline >= levels.size()) {
    Verdict none{.cls = Class::kUnexplained};
    none.claim = "No level of load was measured: nothing can be said.";
    none.sentence = none.claim;
    none.experiment = "Put a load on the server.";
    return {none};
  }
  const std::vector<Verdict>& there = levels[headline].verdicts;
  for (const ClassInfo& info : class_infos()) {
    if (!is_fault(info.cls)) continue;
    const Spread spread = spread_of(evidence, levels, info.cls);
    const Verdict* at_headline = find_verdict(there, info.cls);
    if (spread.best != nullptr && (!at_headline || !is_named(*at_headline))) {
      Verdict verdict = of_other_levels(spread);
      (is_named(verdict) ? verdicts : elsewhere).push_back(std::move(verdict));
    } else if (at_headline != nullptr) {
      verdicts.push_back(of_headline(*at_headline, spread));
    }
  }
  sort_verdicts(verdicts);
  const bool fault = !verdicts.empty() && is_named(verdicts.front());
  if (!fault && !there.empty() && !is_fault(there.front().cls)) {
    verdicts.insert(verdicts.begin(), there.front());
  }
  sort_verdicts(elsewhere);
  verdicts.insert(verdicts.end(), elsewhere.begin(), elsewhere.end());
  for (Verdict& verdict : verdicts) verdict.level.clear();
  return verdicts;
}

}  // namespace nibble::diagnose
