// What a reader must know beside the numbers of a run.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <fmt/format.h>

#include "base/text.h"
#include "base/units.h"
#include "load/record_json.h"
#include "load/run_report.h"

namespace nibble::load {
namespace {

constexpr std::string_view kTailFlag = "P99 is withheld";  // told here with its percentiles

using Indices = std::vector<std::size_t>;

// "1, 2 and 4".
std::string listed(const std::vector<std::string>& names) {
  if (names.size() < 2) return join(names, "");
  const std::vector<std::string> first(names.begin(), names.end() - 1);
  return join(first, ", ") + " and " + names.back();
}

// A text without its numbers: levels that say the same of other numbers share a sentence.
std::string shape_of(std::string_view text) {
  std::string shape;
  for (const char c : text) {
    const bool number = std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.' || c == ',';
    if (!number) shape += c;
  }
  return shape;
}

// Sentences on levels, those alike made one.
class LevelSentences {
 public:
  explicit LevelSentences(const RunReport& report) : report_(report) {}

  // `key` keeps sentences apart that differ in a number only.
  void add(std::size_t level, std::string text, std::string_view key = "") {
    const std::string shape = shape_of(text) + std::string(key);
    // A level that says the same twice speaks of two things.
    auto found = std::find_if(said_.begin(), said_.end(), [&](const Said& said) {
      return said.shape == shape && said.levels.back() != level;
    });
    if (found == said_.end()) found = said_.insert(found, {shape, {}, {}});
    found->texts.push_back(std::move(text));
    found->levels.push_back(level);
  }

  void tell(std::vector<std::string>& list) const {
    for (const Said& said : said_) list.push_back(line(said));
  }

 private:
  struct Said {
    std::string shape;
    std::vector<std::string> texts;
    Indices levels;
  };

  std::string line(const Said& said) const {
    const std::string& last = said.texts.back();
    if (report_.levels.size() == 1) return last;
    const bool alike = std::all_of(said.texts.begin(), said.texts.end(),
                                   [&last](const std::string& text) { return text == last; });
    if (alike) return fmt::format("{}: {}", names(said.levels), last);
    const Indices others(said.levels.begin(), said.levels.end() - 1);
    return fmt::format("{}: {} (much the same: {})", names({said.levels.back()}), last,
                       names(others));
  }

  std::string names(const Indices& levels) const {
    if (levels.size() == report_.levels.size()) return "every level";
    std::vector<std::string> names;
    bool users = true;
    for (const std::size_t level : levels) {
      users = users && users_of(report_.levels[level].report.plan).has_value();
      names.push_back(level_name(report_.levels[level].report.plan));
    }
    if (!users || names.size() == 1) return listed(names);
    names.clear();
    for (const std::size_t level : levels) {
      names.push_back(format_compact(*users_of(report_.levels[level].report.plan)));
    }
    return listed(names) + " users";
  }

  const RunReport& report_;
  std::vector<Said> said_;
};

std::string interval_words(const std::optional<Interval>& interval, int significant = 3) {
  if (!interval) return "";
  return fmt::format(" ({} to {})", format_number(interval->low, significant),
                     format_number(interval->high, significant));
}

std::string failures_of(const Counts& counts) {
  std::vector<std::string> parts;
  for (int index = 1; index < kOutcomes; ++index) {
    const auto outcome = static_cast<Outcome>(index);
    const std::int64_t count = counts.by_outcome[static_cast<std::size_t>(index)];
    if (count > 0) parts.push_back(fmt::format("{} {}", count, to_string(outcome)));
  }
  return parts.empty() ? "none was sent" : join(parts, ", ");
}

class Sentences {
 public:
  explicit Sentences(const RunReport& report) : report_(report) {}

  std::vector<std::string> list() {
    if (!report_.incomplete.empty()) say("the run is only a part: {}", report_.incomplete);
    if (report_.levels.empty()) say("no level was measured");
    each_level(&Sentences::grave);
    each_level(&Sentences::failed_checks);
    each_level(&Sentences::limited);
    knee();
    usl();
    step_fit();
    roof();
    each_level(&Sentences::offered);
    each_level(&Sentences::steadiness);
    each_level(&Sentences::tails);
    each_level(&Sentences::flags);
    each_level(&Sentences::unchecked);
    client();
    for (const std::string& note : report_.setup.notes) list_.push_back(note);
    return std::move(list_);
  }

 private:
  using PerLevel = void (Sentences::*)(std::size_t, LevelSentences&) const;

  template <class... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) {
    list_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  void each_level(PerLevel tell) {
    LevelSentences said(report_);
    for (std::size_t level = 0; level < report_.levels.size(); ++level) (this->*tell)(level, said);
    said.tell(list_);
  }
  const LevelReport& at(std::size_t level) const { return report_.levels[level].report; }
  // The flag on failures comes first, and there is nothing to read where nothing succeeded.
  static bool latencies_are_void(const LevelMetrics& all) {
    return all.success_ratio && *all.success_ratio < all.options.least_success;
  }

  void grave(std::size_t level, LevelSentences& said) const {
    const LevelReport& report = at(level);
    if (!report.incomplete.empty()) said.add(level, "only a part: " + report.incomplete);
    if (report.all.counts.ok == 0) {
      said.add(level, "no request succeeded: " + failures_of(report.all.counts));
    } else if (latencies_are_void(report.all) && !report.all.flags.empty()) {
      said.add(level, report.all.flags.front());
    }
    if (!report.rows_note.empty()) said.add(level, report.rows_note);
  }

  void failed_checks(std::size_t level, LevelSentences& said) const {
    for (const Check& check : at(level).checks) {
      if (check.holds && !*check.holds) {
        said.add(level, fmt::format("the check {} fails: {}", check.id, check.sentence));
      }
    }
  }

  void limited(std::size_t level, LevelSentences& said) const {
    const ClientAudit& audit = report_.levels[level].audit;
    if (audit.client_limited) said.add(level, audit.verdict);
  }

  void knee() {
    if (!report_.knee) {
      if (report_.levels.size() > 1 && !report_.knee_reason.empty()) {
        say("no knee: {}", report_.knee_reason);
      }
      return;
    }
    const Knee& knee = *report_.knee;
    const std::string best =
        fmt::format("best {} tok/s at {} users", format_number(knee.best_throughput),
                    format_compact(knee.best_concurrency));
    if (!knee.concurrency) {
      say("no knee: {}; {}", knee.reason, best);
    } else {
      std::string interval;
      if (knee.interval && knee.interval->low < knee.interval->high) {
        interval = fmt::format(" (95 %: {} to {})", format_compact(knee.interval->low),
                               format_compact(knee.interval->high));
      }
      say("knee at {} users{}: {}; {}{}", format_compact(*knee.concurrency), interval, knee.reason,
          best, knee.for_90 ? fmt::format(", 90 % of it at {}", format_compact(*knee.for_90)) : "");
    }
    if (knee.declines)
      say("throughput falls again above {}", format_compact(knee.best_concurrency));
  }

  void usl() {
    if (!report_.usl || !report_.usl->valid()) return;
    const UslFit& fit = *report_.usl;
    std::string end = "it names no peak";
    if (fit.peak) {
      end = fmt::format("its peak lies at {} users{}{}", format_number(fit.peak->value, 3),
                        interval_words(fit.peak->interval),
                        fit.beyond_sweep ? ", above the highest level: extrapolated" : "");
    } else if (fit.ceiling) {
      end = fmt::format("it never falls and nears {} tok/s", format_number(*fit.ceiling));
    }
    say("USL: one user alone {} tok/s, sigma {}, kappa {}; {}; off by {} rms",
        format_number(fit.lambda.value), format_number(fit.sigma.value, 3),
        format_number(fit.kappa.value, 3), end, format_percent(fit.residual));
  }

  void step_fit() {
    if (!report_.step_fit) return;
    const StepFit& fit = *report_.step_fit;
    if (!fit.valid()) {
      say("no physical fit: {}", fit.reason);
      return;
    }
    std::vector<std::string> terms;
    for (const FittedTerm& term : fit.terms) {
      if (!term.value) continue;
      std::string text = fmt::format("{} = {} ms{}", to_string(term.term),
                                     format_number(*term.value, 3), interval_words(term.interval));
      if (term.roof && term.over_roof) {
        text += fmt::format(", {} x its roof of {}", format_number(*term.over_roof, 3),
                            format_number(*term.roof, 3));
      }
      terms.push_back(std::move(text));
    }
    say("TPOT = t0 + a E[D(B)]/E + b B S + c B: {}; off by {} rms", join(terms, "; "),
        format_percent(fit.residual));
    constexpr double kLoose = 0.1;
    if (fit.residual > kLoose) {
      say("that fit is loose: what these levels add to a step is not in its terms, such as a queue "
          "or prefill between the steps");
    }
    for (const FittedTerm& term : fit.terms) {
      if (!term.value) say("{} has no value: {}", to_string(term.term), term.reason);
    }
    if (!report_.step_note.empty()) say("roofs: {}", report_.step_note);
  }

  void roof() {
    if (!report_.roof) return;
    const RoofLevel* best = nullptr;
    for (const RoofLevel& level : report_.roof->levels) {
      const bool higher = level.reached && (best == nullptr || *level.reached > *best->reached);
      if (higher) best = &level;
    }
    if (best == nullptr) return;
    say("the ledger's floor of decode ({}) allows {} tok/s for {} sequences of {} tokens: {} of it "
        "was reached there, the most of all levels; prefill is not in it",
        report_.roof->of, format_number(best->tokens_per_s), format_compact(best->concurrency),
        format_count(best->context), format_percent(*best->reached));
  }

  // An open loop that the server does not keep up with: latencies then grow with the level's
  // length. Random arrivals vary by 1/sqrt(n).
  void offered(std::size_t level, LevelSentences& said) const {
    const LevelReport& report = at(level);
    const auto& asked = report.plan.request_rate;
    const auto& answered = rates_of(report_.levels[level]).request_throughput;
    if (!asked || !std::isfinite(*asked) || !(*asked > 0) || !answered) return;
    const auto n = static_cast<double>(report.all.counts.requests);
    const double noise = n > 0 ? 3 / std::sqrt(n) : 1;
    constexpr double kLeastGap = 0.1;
    const double gap = 1 - *answered / *asked;
    if (gap < std::max(kLeastGap, noise)) return;
    said.add(level, fmt::format("{} requests a second were offered and {} answered: the server did "
                                "not keep up, and latencies grow with the length of the level",
                                format_number(*asked), format_number(*answered)));
  }

  void steadiness(std::size_t level, LevelSentences& said) const {
    const LevelReport& report = at(level);
    if (report.all.counts.ok == 0) return;
    if (!report.steady.valid()) {
      said.add(level, fmt::format("no steady window ({}): the numbers are of the whole level, ramp "
                                  "and drain included",
                                  report.steady.reason));
    } else if (!report.steady.note.empty()) {
      said.add(level, report.steady.note);
    }
    if (!report.rate.converged && report.rate.half_width) {
      said.add(level, fmt::format("tok/s is known to {} (95 %), and not settled: {}",
                                  format_percent(*report.rate.half_width), report.rate.reason));
    }
  }

  // Which percentiles tables leave out, and why: a sweep shows the highest, a single level all.
  void tails(std::size_t level, LevelSentences& said) const {
    const bool single = report_.levels.size() == 1;
    const LevelMetrics& shown = single ? at(level).all : latencies_of(report_.levels[level]);
    const auto& asked = shown.options.quantiles;
    const double highest = asked.empty() ? 0 : *std::max_element(asked.begin(), asked.end());
    for (const double q : asked) {
      std::vector<std::string> titles;
      std::string why;
      for (const Metric metric : {Metric::kTtft, Metric::kTpot, Metric::kItl, Metric::kE2el}) {
        const Quantile* quantile = shown[metric].find(q);
        if (quantile == nullptr || quantile->supported()) continue;
        titles.emplace_back(info_of(metric).title);
        if (why.empty()) why = quantile->reason;
      }
      if (titles.empty() || (!single && q < highest)) continue;
      const std::string name = "P" + format_compact(q * 100);
      said.add(level, fmt::format("{} of {} is not shown: {}", name, listed(titles), why), name);
    }
  }

  void flags(std::size_t level, LevelSentences& said) const {
    const LevelMetrics& all = at(level).all;
    if (all.counts.ok == 0) return;
    const std::size_t first = latencies_are_void(all) ? 1 : 0;
    for (std::size_t index = first; index < all.flags.size(); ++index) {
      if (!all.flags[index].starts_with(kTailFlag)) said.add(level, all.flags[index]);
    }
  }

  void unchecked(std::size_t level, LevelSentences& said) const {
    for (const Check& check : at(level).checks) {
      if (!check.holds) said.add(level, "not checked: " + check.sentence);
    }
  }

  // Of those that kept up, the one with most events to handle stands for all.
  void client() {
    const LevelResult* hardest = nullptr;
    for (const LevelResult& level : report_.levels) {
      if (level.audit.client_limited || level.audit.verdict.empty()) continue;
      const bool harder =
          hardest == nullptr || level.report.all.output_throughput.value_or(0) >
                                    hardest->report.all.output_throughput.value_or(0);
      if (harder) hardest = &level;
    }
    if (hardest == nullptr) return;
    const std::string where =
        report_.levels.size() > 1 ? level_name(hardest->report.plan) + ": " : "";
    list_.push_back(where + hardest->audit.verdict);
  }

  const RunReport& report_;
  std::vector<std::string> list_;
};

}  // namespace

std::vector<std::string> sentences(const RunReport& report) {
  return Sentences(report).list();
}

}  // namespace nibble::load
