#include "tactics/tune/choose.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace nibble::tune {
namespace {

constexpr double kShownConfidence = 0.95;
constexpr std::size_t kGlanceRounds = 3;
constexpr double kHopeless = 1.5;  // times the default's, in each of them

// Each look has half as many rounds again as the one before: late looks add little, and every look
// makes all intervals wider.
std::vector<std::size_t> look_rounds(std::size_t least, std::size_t most) {
  std::vector<std::size_t> looks;
  for (std::size_t at = least; at < most; at += std::max<std::size_t>(1, at / 2)) {
    looks.push_back(at);
  }
  looks.push_back(most);
  return looks;
}

}  // namespace

std::string_view to_string(Standing standing) {
  switch (standing) {
    case Standing::kChosen:
      return "chosen";
    case Standing::kTied:
      return "tied";
    case Standing::kSlower:
      return "slower";
    case Standing::kDropped:
      break;
  }
  return "dropped";
}

Chooser::Chooser(std::size_t candidates, std::size_t fallback, const ChoiceRules& rules,
                 std::uint64_t seed)
    : candidates_(candidates), fallback_(fallback), rules_(rules), random_(seed) {
  NIBBLE_CHECK(fallback < candidates && rules.least_rounds >= 1);
  decided_ = candidates == 1;
  const double challengers = std::max(1.0, static_cast<double>(candidates) - 1);
  // Fewer looks for a larger first one: the least rounds depend on how sure each look must be. The
  // last one is of a run that is stopped between two.
  const std::size_t most = std::max(rules.most_rounds, rules.least_rounds);
  const double looks = static_cast<double>(look_rounds(rules.least_rounds, most).size()) + 1;
  const double risk = rules.error_rate / challengers / looks;
  confidence_ = 1 - risk;
  // An interval of the median needs 2 x 0.5^n <= risk.
  const auto needed = static_cast<std::size_t>(std::ceil(std::log2(2 / risk)));
  looks_ = look_rounds(std::max(rules.least_rounds, needed), std::max(most, needed));
}

std::optional<std::size_t> Chooser::next() {
  while (!decided_) {
    if (place_ == order_.size()) {
      if (!order_.empty()) end_round();
      if (decided_) break;
      if (stopped_) {
        decided_ = true;
        break;
      }
      begin_round();
    }
    const std::size_t candidate = order_[place_];
    if (candidates_[candidate].active) return candidate;
    ++place_;
  }
  return std::nullopt;
}

void Chooser::begin_round() {
  order_.clear();
  for (std::size_t at = 0; at < candidates_.size(); ++at) {
    if (candidates_[at].active) order_.push_back(at);
  }
  for (std::size_t at = order_.size(); at > 1; --at) {
    std::swap(order_[at - 1], order_[random_.below(at)]);
  }
  place_ = 0;
}

void Chooser::record(std::size_t candidate, double us) {
  NIBBLE_CHECK(place_ < order_.size() && order_[place_] == candidate);
  candidates_[candidate].times.push_back(us);
  ++place_;
}

void Chooser::drop(std::size_t candidate, std::string why) {
  NIBBLE_CHECK(candidate != fallback_ && candidate < candidates_.size());
  Candidate& dropped = candidates_[candidate];
  dropped.active = false;
  dropped.dropped = true;
  dropped.why = std::move(why);
}

void Chooser::end_round() {
  order_.clear();
  place_ = 0;
  ++round_;
  if (round_ == kGlanceRounds) glance();
  if (std::find(looks_.begin(), looks_.end(), round_) != looks_.end()) look();
  const auto active = std::count_if(candidates_.begin(), candidates_.end(),
                                    [](const Candidate& candidate) { return candidate.active; });
  decided_ = decided_ || active <= 1 || round_ >= looks_.back();
}

// Code for another instruction set may take thirty times as long: the least number of rounds of it
// would spend all the time. Taking a challenger out never harms the default.
void Chooser::glance() {
  for (std::size_t at = 0; at < candidates_.size(); ++at) {
    Candidate& candidate = candidates_[at];
    if (at == fallback_ || !candidate.active) continue;
    bool hopeless = true;
    for (std::size_t round = 0; round < round_; ++round) {
      hopeless = hopeless && candidate.times[round] > kHopeless * fallback().times[round];
    }
    candidate.active = !hopeless;
  }
}

// Takes out those that can no longer win, and decides when nobody is left who could change the
// choice.
void Chooser::look() {
  const double bound = 1 - rules_.margin;
  for (std::size_t at = 0; at < candidates_.size(); ++at) {
    Candidate& candidate = candidates_[at];
    if (at == fallback_ || !candidate.active) continue;
    const Ratio ratio = ratio_of(candidate, fallback());
    if (ratio.interval && ratio.interval->low > bound) candidate.active = false;
  }
  const std::optional<std::size_t> first = leader();
  if (!first) return;
  bool open = false;
  for (std::size_t at = 0; at < candidates_.size(); ++at) {
    Candidate& candidate = candidates_[at];
    if (at == fallback_ || at == *first || !candidate.active) continue;
    const Ratio ratio = ratio_of(candidate, candidates_[*first]);
    // What cannot beat the leader by the margin is of no use to it.
    if (ratio.interval && ratio.interval->low > bound) candidate.active = false;
    open = open || candidate.active;
  }
  decided_ = !open;
}

Chooser::Ratio Chooser::ratio_of(const Candidate& candidate, const Candidate& to) const {
  const std::size_t rounds = std::min({candidate.times.size(), to.times.size(), round_});
  if (rounds == 0) return {};
  std::vector<double> ratios;
  for (std::size_t at = 0; at < rounds; ++at) {
    ratios.push_back(candidate.times[at] / to.times[at]);
  }
  return {median(ratios), quantile_interval(ratios, 0.5, confidence_), rounds};
}

bool Chooser::beats_default(const Candidate& candidate) const {
  if (candidate.dropped) return false;
  const Ratio ratio = ratio_of(candidate, fallback());
  return ratio.interval && ratio.interval->high < 1 && ratio.median <= 1 - rules_.margin;
}

std::optional<std::size_t> Chooser::leader() const {
  std::optional<std::size_t> best;
  double lowest = 1;
  for (std::size_t at = 0; at < candidates_.size(); ++at) {
    if (at == fallback_ || !candidates_[at].active || !beats_default(candidates_[at])) continue;
    const double ratio = ratio_of(candidates_[at], fallback()).median;
    if (best && ratio >= lowest) continue;
    best = at;
    lowest = ratio;
  }
  return best;
}

Standing Chooser::standing_of(std::size_t at, std::size_t choice) const {
  if (candidates_[at].dropped) return Standing::kDropped;
  if (at == choice) return Standing::kChosen;
  const Ratio ratio = ratio_of(candidates_[at], candidates_[choice]);
  const bool hopeless =
      ratio.rounds > 0 && ratio.rounds <= kGlanceRounds && ratio.median > kHopeless;
  const bool slower = hopeless || (ratio.interval && ratio.interval->low > 1);
  return slower ? Standing::kSlower : Standing::kTied;
}

Verdict Chooser::verdict() const {
  Verdict verdict{.choice = leader().value_or(fallback_), .rounds = round_};
  for (std::size_t at = 0; at < candidates_.size(); ++at) {
    const Candidate& candidate = candidates_[at];
    const Ratio ratio = ratio_of(candidate, fallback());
    const std::size_t rounds = std::min(candidate.times.size(), round_);
    const std::vector<double> times(candidate.times.begin(),
                                    candidate.times.begin() + static_cast<std::ptrdiff_t>(rounds));
    CandidateTimes shown{.rounds = rounds,
                         .ratio = ratio.median,
                         .ratio_interval = at == fallback_ ? std::nullopt : ratio.interval,
                         .standing = standing_of(at, verdict.choice),
                         .why = candidate.why};
    if (rounds > 0) {
      shown.median_us = median(times);
      shown.interval_us = quantile_interval(times, 0.5, kShownConfidence);
    }
    if (shown.standing == Standing::kTied) verdict.ties.push_back(at);
    verdict.candidates.push_back(std::move(shown));
  }
  const auto is_ahead = [&](std::size_t at) {
    return !verdict.runner_up ||
           verdict.candidates[at].ratio < verdict.candidates[*verdict.runner_up].ratio;
  };
  for (std::size_t at = 0; at < candidates_.size(); ++at) {
    const CandidateTimes& times = verdict.candidates[at];
    if (at == verdict.choice || times.standing == Standing::kDropped || times.rounds == 0) continue;
    if (is_ahead(at)) verdict.runner_up = at;
  }
  const double ratio = verdict.candidates[verdict.choice].ratio;
  verdict.gain = 1 - ratio;
  verdict.regret = 1 / ratio - 1;
  return verdict;
}

}  // namespace nibble::tune
