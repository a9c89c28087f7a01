#include "diagnose/classify.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "base/text.h"
#include "diagnose/thresholds.h"

namespace nibble::diagnose {
namespace {

constexpr std::size_t kMostSaid = 3;      // clues in a verdict's sentence
constexpr std::size_t kMostReasons = 2;   // missing facts in a clue's
constexpr double kRoundingError = 1e-12;  // of a sum of weights over another

std::string as_sentence(std::string text) {
  if (text.empty()) return text;
  if (text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  if (text.back() != '.') text += '.';
  return text;
}

// Why a fact is not known at this level.
std::string reason_of(const LevelView& view, Fact fact) {
  const Datum& datum = view.level()[fact];
  if (datum.value) return "what is given for it cannot be";
  return datum.reason.empty() ? "nothing tells it" : datum.reason;
}

std::string missing_sentence(const LevelView& view, const ClueDef& clue, const Heard& heard) {
  std::vector<std::string> reasons;
  for (const Fact fact : clue.facts) {
    if (!heard.sentence.empty() || reasons.size() == kMostReasons) break;
    if (view.get(fact)) continue;
    reasons.push_back(fmt::format("{} ({})", info_of(fact).title, reason_of(view, fact)));
  }
  std::string why = "not known: " + join(reasons, ", ");
  if (reasons.empty()) {
    why = heard.sentence.empty() ? "the level that it is compared with lacks it" : heard.sentence;
  }
  return as_sentence(fmt::format("{}; it would tell {}", why, clue.settles));
}

struct Scale {
  double all = 0, held = 0;
  bool needed_unknown = false, veto_unknown = false, killed = false;
};

void weigh(const ClueDef& clue, Says says, Scale& scale) {
  scale.all += clue.weight;
  if (says == Says::kHolds) scale.held += clue.weight;
  if (says == Says::kAgainst) scale.held -= clue.weight;
  if (clue.role == Role::kNeeded) {
    scale.needed_unknown = scale.needed_unknown || says == Says::kUnknown;
    scale.killed = scale.killed || says == Says::kAgainst || says == Says::kNothing;
  }
  if (clue.role == Role::kVeto) {
    scale.veto_unknown = scale.veto_unknown || says == Says::kUnknown;
    scale.killed = scale.killed || says == Says::kAgainst;
  }
}

double confidence_of(const Scale& scale) {
  if (scale.killed || scale.all <= 0) return 0;
  double confidence = std::max(0.0, scale.held / scale.all);
  if (scale.needed_unknown) confidence = std::min(confidence, kMostWithoutNeeded);
  if (scale.veto_unknown) confidence = std::min(confidence, kMostWithoutVeto);
  return confidence;
}

void heaviest_first(std::vector<Clue>& clues) {
  std::stable_sort(clues.begin(), clues.end(),
                   [](const Clue& a, const Clue& b) { return a.weight > b.weight; });
}

// Several clues may rest on one sentence; it is said once.
std::string said_of(const std::vector<Clue>& clues) {
  std::vector<std::string> said;
  for (const Clue& clue : clues) {
    if (said.size() == kMostSaid) break;
    if (std::find(said.begin(), said.end(), clue.sentence) == said.end()) {
      said.push_back(clue.sentence);
    }
  }
  return join(said, " ");
}

// What stands first where no fault is named.
Verdict without_fault(const Evidence& evidence, std::size_t level) {
  Verdict roof = judge(evidence, level, Class::kAtTheRoof);
  if (is_named(roof)) return roof;
  Verdict healthy = judge(evidence, level, Class::kHealthy);
  Verdict unexplained = judge(evidence, level, Class::kUnexplained);
  return unexplained.confidence > healthy.confidence ? unexplained : healthy;
}

}  // namespace

bool applies(const ClueDef& clue, const Evidence& evidence) {
  switch (clue.applies) {
    case Applies::kAlways:
      return true;
    case Applies::kGpu:
      return !evidence.setting.is_cpu;
    case Applies::kSeveralGpus:
      return !evidence.setting.is_cpu && evidence.setting.gpus > 1;
    case Applies::kTrace:
      return evidence.trace.has_value();
  }
  return false;
}

Certainty certainty_of(double confidence) {
  const double value = confidence + kRoundingError;
  if (value >= kCertainFrom) return Certainty::kCertain;
  if (value >= kLikelyFrom) return Certainty::kLikely;
  return value >= kPossibleFrom ? Certainty::kPossible : Certainty::kNone;
}

bool is_named(const Verdict& verdict) {
  return verdict.certainty == Certainty::kLikely || verdict.certainty == Certainty::kCertain;
}

Verdict judge(const Evidence& evidence, std::size_t level, Class cls) {
  const LevelView view(evidence, level);
  Verdict verdict{.cls = cls, .level = view.level().name};
  Scale scale;
  for (const ClueDef& clue : clues_of(cls)) {
    if (!applies(clue, evidence)) continue;
    const Heard heard = clue.hear(view);
    weigh(clue, heard.says, scale);
    Clue said{.id = std::string(clue.id),
              .sentence = as_sentence(heard.sentence),
              .weight = clue.weight,
              .facts = clue.facts};
    if (heard.says == Says::kUnknown) {
      said.sentence = missing_sentence(view, clue, heard);
      verdict.missing.push_back(std::move(said));
    } else if (heard.says == Says::kHolds) {
      verdict.evidence_for.push_back(std::move(said));
    } else if (heard.says == Says::kAgainst) {
      verdict.evidence_against.push_back(std::move(said));
    }
  }
  heaviest_first(verdict.evidence_for);
  heaviest_first(verdict.evidence_against);
  heaviest_first(verdict.missing);
  verdict.confidence = confidence_of(scale);
  verdict.certainty = certainty_of(verdict.confidence);
  verdict.experiment = words_of(cls).experiment;
  verdict.experiment_id = words_of(cls).experiment_id;
  verdict.claim = verdict_claim(verdict, verdict.level);
  verdict.sentence = verdict_sentence(verdict);
  return verdict;
}

std::string verdict_claim(const Verdict& verdict, std::string_view where) {
  const std::string at = where.empty() ? "" : fmt::format("at {} ", where);
  if (verdict.certainty == Certainty::kNone && !is_fault(verdict.cls)) {
    return as_sentence(at +
                       "nothing that is known speaks for a fault, and too little is known to "
                       "say more.");
  }
  return as_sentence(fmt::format("{}{}{}", at, words_of(verdict.cls).claim,
                                 verdict.certainty == Certainty::kCertain
                                     ? ""
                                     : fmt::format(" ({})", to_string(verdict.certainty))));
}

std::string verdict_sentence(const Verdict& verdict) {
  const std::string said = said_of(verdict.evidence_for);
  return said.empty() ? verdict.claim : verdict.claim + " " + said;
}

void sort_verdicts(std::vector<Verdict>& verdicts) {
  const auto rank = [](const Verdict& verdict) {
    return invalidates(verdict.cls) && is_named(verdict);
  };
  std::stable_sort(verdicts.begin(), verdicts.end(), [&](const Verdict& a, const Verdict& b) {
    if (rank(a) != rank(b)) return rank(a);
    if (a.confidence != b.confidence) return a.confidence > b.confidence;
    return a.cls < b.cls;
  });
}

std::vector<Verdict> classify_level(const Evidence& evidence, std::size_t level) {
  std::vector<Verdict> verdicts;
  for (const ClassInfo& info : class_infos()) {
    if (!is_fault(info.cls)) continue;
    Verdict verdict = judge(evidence, level, info.cls);
    if (verdict.certainty != Certainty::kNone) verdicts.push_back(std::move(verdict));
  }
  sort_verdicts(verdicts);
  if (!verdicts.empty() && is_named(verdicts.front())) return verdicts;
  // Where too little is known to say even that all is well, what is possible says more.
  Verdict other = without_fault(evidence, level);
  if (verdicts.empty() || other.certainty != Certainty::kNone) {
    verdicts.insert(verdicts.begin(), std::move(other));
  }
  return verdicts;
}

std::size_t headline_level(const Evidence& evidence) {
  if (evidence.told_by && *evidence.told_by < evidence.levels.size()) return *evidence.told_by;
  const auto known = [](const LevelEvidence& level) {
    return static_cast<double>(std::count_if(level.facts.begin(), level.facts.end(),
                                             [](const Datum& datum) { return datum.known(); }));
  };
  double most = 0;
  for (const LevelEvidence& level : evidence.levels) {
    if (level.counts) most = std::max(most, known(level));
  }
  for (std::size_t index = evidence.levels.size(); index-- > 0;) {
    const LevelEvidence& level = evidence.levels[index];
    if (level.counts && known(level) >= kAsWellKnown * most) return index;
  }
  return evidence.levels.empty() ? 0 : evidence.levels.size() - 1;
}

}  // namespace nibble::diagnose
