// Which of some candidates is the fastest, told from noise: a state machine that says what to time
// next and is told the time.
//
//   Chooser chooser(candidates, default_index, rules, seed);
//   while (const auto next = chooser.next()) chooser.record(*next, time_of(*next));
//   chooser.verdict().choice
//
// Every round times each candidate that is left once, in an order drawn anew, so that what drifts
// meets all alike. A candidate is judged by the ratios of its times to the default's of the same
// round: their median, and its distribution-free interval. It wins when the whole interval is below
// 1 and the median is so by a margin; of several winners the lowest median. Otherwise the default
// stays. The intervals are so wide that the default loses wrongly in no more than `error_rate` of
// all choices, for all candidates and all looks at the data together (Bonferroni). Who is half as
// slow again in each of the first rounds is timed no more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/stats.h"

namespace nibble::tune {

struct ChoiceRules {
  double error_rate = 0.01;
  double margin = 0.02;  // what a challenger must win by at least
  std::size_t least_rounds = 16;
  std::size_t most_rounds = 400;
};

enum class Standing {
  kChosen,   // the default, or the challenger that beat it
  kTied,     // with the choice: their interval holds 1
  kSlower,   // than the choice, beyond noise
  kDropped,  // faulted while it was timed
};
std::string_view to_string(Standing standing);  // "chosen", "tied", "slower", "dropped"

struct CandidateTimes {
  double median_us = 0;
  std::optional<Interval> interval_us;  // 95 %
  std::size_t rounds = 0;
  double ratio = 1;                        // to the default: median over the rounds
  std::optional<Interval> ratio_interval;  // as sure as the rules want it
  Standing standing = Standing::kTied;
  std::string why;  // of kDropped
};

struct Verdict {
  std::size_t choice = 0;
  std::optional<std::size_t> runner_up;    // the lowest ratio but the choice's
  std::vector<std::size_t> ties;           // with the choice
  std::vector<CandidateTimes> candidates;  // by index
  std::size_t rounds = 0;
  double gain = 0;    // 1 - ratio of the choice: the share of the time that it saves
  double regret = 0;  // 1 / ratio - 1: what the default loses against it
};

class Chooser {
 public:
  // `fallback` is the default's index. One candidate is no choice: next() says so at once.
  Chooser(std::size_t candidates, std::size_t fallback, const ChoiceRules& rules,
          std::uint64_t seed);

  std::optional<std::size_t> next();  // nullopt: decided
  void record(std::size_t candidate, double us);
  // It faulted and is timed no more. The default must not: a new Chooser begins without it.
  void drop(std::size_t candidate, std::string why);
  // The time is spent: the round that has begun is the last one, and is not counted unless whole.
  void stop() { stopped_ = true; }

  std::size_t round() const { return round_; }  // whole ones
  Verdict verdict() const;

 private:
  struct Candidate {
    std::vector<double> times;  // one a round
    bool active = true;
    bool dropped = false;
    std::string why;
  };
  struct Ratio {
    double median = 1;
    std::optional<Interval> interval;
    std::size_t rounds = 0;
  };

  void begin_round();
  void end_round();
  void glance();
  void look();
  bool beats_default(const Candidate& candidate) const;
  std::optional<std::size_t> leader() const;  // of those that beat the default
  Ratio ratio_of(const Candidate& candidate, const Candidate& to) const;
  const Candidate& fallback() const { return candidates_[fallback_]; }
  Standing standing_of(std::size_t at, std::size_t choice) const;

  std::vector<Candidate> candidates_;
  std::size_t fallback_;
  ChoiceRules rules_;
  Random random_;
  double confidence_ = 0;           // of an interval at one look
  std::vector<std::size_t> looks_;  // rounds after which candidates are judged
  std::vector<std::size_t> order_;  // of this round
  std::size_t place_ = 0;           // in it
  std::size_t round_ = 0;
  bool decided_ = false;
  bool stopped_ = false;
};

}  // namespace nibble::tune
