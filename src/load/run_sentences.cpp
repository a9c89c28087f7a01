// What a reader must know beside the numbers of a run.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <set>

#include "base/text.h"
#include "base/units.h"
#include "load/cells.h"
#include "load/level_sentences.h"
#include "load/record_json.h"
#include "load/run_headline.h"
#include "load/run_report.h"
#include "load/run_signals.h"

namespace nibble::load {
namespace {

constexpr std::size_t kMostMessage = 100;

std::string interval_words(const std::optional<Interval>& interval, int significant = 3) {
  if (!interval) return "";
  return fmt::format(" ({} to {})", format_number(interval->low, significant),
                     format_number(interval->high, significant));
}

// "15 x http_status "503: overloaded", 7 x reset": the most first.
std::string failures_of(const LevelMetrics& metrics) {
  std::vector<std::pair<std::int64_t, std::string>> parts;
  for (std::size_t index = 1; index < kOutcomes; ++index) {
    const std::int64_t count = metrics.counts.by_outcome[index];
    const bool ours = static_cast<Outcome>(index) == Outcome::kCancelled;  // no failure
    if (count == 0 || (ours && metrics.counts.failed > 0)) continue;
    const std::string message = printable(metrics.messages[index], kMostMessage);
    const std::string quoted = message.empty() ? "" : fmt::format(" \"{}\"", message);
    parts.emplace_back(
        count, fmt::format("{} x {}{}", count, to_string(static_cast<Outcome>(index)), quoted));
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> words;
  for (auto& [count, text] : parts) words.push_back(std::move(text));
  return words.empty() ? "none was sent" : join(words, ", ");
}

class Sentences {
 public:
  explicit Sentences(const RunReport& report) : report_(report) {}

  std::vector<std::string> list() {
    if (!report_.incomplete.empty()) say("the run is only a part: {}", report_.incomplete);
    if (report_.levels.empty()) say("no level was measured");
    tell_headline(report_, list_);
    failures();
    each_level(&Sentences::parts);
    each_level(&Sentences::failed_checks);
    client();
    usl();
    step_fit();
    roof();
    each_level(&Sentences::offered);
    each_level(&Sentences::steadiness);
    settled();
    percentiles();
    each_level(&Sentences::flags);
    unchecked();
    tell_signals(report_, list_);
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

  // Levels of which `has` holds, and that of them with the greatest `measure`.
  template <class Has, class Measure>
  std::pair<Indices, std::size_t> levels_that(const Has& has, const Measure& measure) const {
    Indices levels;
    std::size_t worst = 0;
    for (std::size_t index = 0; index < report_.levels.size(); ++index) {
      const LevelResult& level = report_.levels[index];
      if (!has(level)) continue;
      if (levels.empty() || measure(level) > measure(report_.levels[worst])) worst = index;
      levels.push_back(index);
    }
    return {levels, worst};
  }

  void failures() {
    const auto share = [](const LevelResult& level) {
      const Counts& counts = level.report.all.counts;
      const bool none = counts.ok == 0;
      const double all = static_cast<double>(counts.ok + counts.failed);
      return none || all == 0 ? 1.0 : static_cast<double>(counts.failed) / all;
    };
    const auto [levels, worst] = levels_that(
        [](const LevelResult& level) {
          const Counts& counts = level.report.all.counts;
          return counts.ok == 0 || counts.failed > 0;
        },
        share);
    if (levels.empty()) return;
    const LevelMetrics& all = at(worst).all;
    std::string text = "no request succeeded: " + failures_of(all);
    if (all.counts.ok > 0) {
      text = fmt::format("{} of {} requests failed: {}", all.counts.failed,
                         all.counts.ok + all.counts.failed, failures_of(all));
      if (all.success_ratio && *all.success_ratio < all.options.least_success) {
        text += "; latencies are those of the ones that the server chose to answer";
      }
    }
    list_.push_back(about(names_of(report_, levels, worst), text));
  }

  void parts(std::size_t level, LevelSentences& said) const {
    const LevelReport& report = at(level);
    if (!report.incomplete.empty() && report.incomplete != report_.incomplete) {
      said.add(level, "only a part: " + report.incomplete);
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

  // One line for all levels: the rest is in client_overhead.
  void client() {
    const auto lag = [](const LevelResult& level) {
      return worst_of(level.audit.loops).lag_p99_ms / level.audit.gap_ms.value_or(1);
    };
    const auto cpu = [](const LevelResult& level) { return worst_of(level.audit.loops).cpu_share; };
    const auto [limited, busiest] =
        levels_that([](const LevelResult& level) { return level.audit.cpu_limited; }, cpu);
    const auto [late, latest] = levels_that(
        [](const LevelResult& level) { return level.audit.late && !level.audit.cpu_limited; }, lag);
    if (!limited.empty()) limited_client(limited, busiest);
    if (!late.empty()) limited_client(late, latest);
    if (!limited.empty() || !late.empty()) return;
    const auto [watched, worst] =
        levels_that([](const LevelResult& level) { return !level.audit.loops.empty(); }, lag);
    if (!watched.empty()) able_client(watched, worst);
  }

  void limited_client(const Indices& levels, std::size_t worst) {
    const ClientAudit& audit = report_.levels[worst].audit;
    const LoopLoad loop = worst_of(audit.loops);
    const std::string what =
        audit.cpu_limited ? fmt::format("a loop used {} of a core", format_percent(loop.cpu_share))
                          : fmt::format("loops were up to {} late at P99 beside {} between chunks",
                                        format_time_us(loop.lag_p99_ms * 1e3),
                                        format_time_us(audit.gap_ms.value_or(0) * 1e3));
    list_.push_back(about(names_of(report_, levels, worst),
                          fmt::format("client-limited: {}; {}", what, audit.in_doubt)));
  }

  void able_client(const Indices& levels, std::size_t worst) {
    const ClientAudit& audit = report_.levels[worst].audit;
    const LoopLoad loop = worst_of(audit.loops);
    std::string text =
        fmt::format("the client kept up: loops {} late at P99, {} of a core",
                    format_time_us(loop.lag_p99_ms * 1e3), format_percent(loop.cpu_share));
    if (audit.calibration) {
      text +=
          fmt::format("; by the built-in mock it is off by {} in TTFT and {} in a gap (medians)",
                      format_time_us(audit.calibration->ttft_error_ms.p50 * 1e3),
                      format_time_us(audit.calibration->itl_error_ms.p50 * 1e3));
    }
    list_.push_back(about(names_of(report_, levels, worst), text));
  }

  void usl() {
    if (!report_.usl || !report_.usl->valid()) return;
    const UslFit& fit = *report_.usl;
    std::string end = "no peak";
    if (fit.peak) {
      end =
          fmt::format("peak at {} users{}{}", format_number(fit.peak->value, 3),
                      interval_words(fit.peak->interval), fit.beyond_sweep ? ", extrapolated" : "");
    } else if (fit.ceiling) {
      end = fmt::format("nears {} tok/s", format_number(*fit.ceiling));
    }
    say("USL fit: {} tok/s for one user, sigma {}, kappa {}: {}; off by {} rms",
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
    std::vector<std::string> lacking;
    for (const FittedTerm& term : fit.terms) {
      if (!term.value) {
        lacking.push_back(fmt::format("{} ({})", to_string(term.term), term.reason));
        continue;
      }
      std::string text = fmt::format("{} = {} ms{}", to_string(term.term),
                                     format_number(*term.value, 3), interval_words(term.interval));
      if (term.roof && term.over_roof) {
        text += fmt::format(", {} x its roof of {}", format_number(*term.over_roof, 3),
                            format_number(*term.roof, 3));
        const bool below = term.interval && term.interval->high < *term.roof;
        if (below) text += " (faster than it can be: an accounting error)";
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
    if (!lacking.empty()) say("terms without a value: {}", join(lacking, "; "));
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
    if (*best->reached > 1) {
      say("accounting error: {} of what the ledger's floor of decode ({}) allows for {} sequences "
          "of "
          "{} tokens: what is served is not that model, layout or machine, or it drafts tokens "
          "(--draft-tokens)",
          format_percent(*best->reached), report_.roof->of, format_compact(best->concurrency),
          format_count(best->context));
      return;
    }
    say("the ledger's floor of decode ({}) allows {} tok/s for {} sequences of {} tokens: {} of it "
        "was reached there, the most of all levels; prefill is not in it",
        report_.roof->of, format_number(best->tokens_per_s), format_compact(best->concurrency),
        format_count(best->context), format_percent(*best->reached));
  }

  // A sweep over rates says it in its headline.
  void offered(std::size_t level, LevelSentences& said) const {
    const LevelResult& result = report_.levels[level];
    if (report_.levels.size() > 1 || !shortfall_of(result)) return;
    const char* why = sent_late(result)
                          ? "the client sent more than half of them late, so that this is no "
                            "measure of the server"
                          : "the server did not keep up, and latencies grow with the length of the "
                            "level";
    said.add(level, fmt::format("{} requests a second were offered and {} answered: {}",
                                format_number(*result.report.plan.request_rate),
                                cell_of(rates_of(result).request_throughput), why));
  }

  void steadiness(std::size_t level, LevelSentences& said) const {
    const LevelReport& report = at(level);
    if (report.all.counts.ok == 0) return;
    if (!report.steady.valid()) {
      const auto& seen = report_.levels[level].joined.values;
      const bool told = std::any_of(seen.begin(), seen.end(),
                                    [](const SeenValue& value) { return value.value.has_value(); });
      const bool marked = report_.levels.size() > 1 && told;
      said.add(level, fmt::format("no steady window ({}): numbers are of the whole level{}, ramp "
                                  "and drain included",
                                  report.steady.reason, marked ? " (~)" : ""));
    } else if (!report.steady.note.empty()) {
      const bool fair = report.steady.enough || !report.inside;
      said.add(level, report.steady.note + (fair ? "" : ": these are of the whole level"));
    }
  }

  void settled() {
    const auto half = [](const LevelResult& level) {
      return level.report.rate.half_width.value_or(0);
    };
    const auto [levels, worst] = levels_that(
        [](const LevelResult& level) {
          return !level.report.rate.converged && level.report.rate.half_width.has_value();
        },
        half);
    if (levels.empty()) return;
    const StopState& rate = at(worst).rate;
    const std::string why = report_.levels.size() == 1 ? ": " + rate.reason : "";
    list_.push_back(about(names_of(report_, levels, worst),
                          fmt::format("tok/s is not settled: known to {} (95 %){}",
                                      format_percent(*rate.half_width), why)));
  }

  // A percentile that has too few values is '-'; one that was asked for is shown with a '*'.
  void percentiles() {
    std::set<double> withheld;
    std::set<double> marked;
    const bool single = report_.levels.size() == 1;
    for (const LevelResult& level : report_.levels) {
      const LevelMetrics& shown = single ? level.report.all : latencies_of(level);
      const MetricsOptions& options = shown.options;
      const auto& all = options.quantiles;
      const double highest = all.empty() ? 0 : *std::max_element(all.begin(), all.end());
      for (const double q : all) {
        const bool asked = options.is_asked(q);
        const bool in_sweep = options.asked.empty() ? q == highest : asked;
        if (!unsupported(shown, q) || (!single && !in_sweep)) continue;
        (asked ? marked : withheld).insert(q);
      }
    }
    const auto takes = [](const std::set<double>& quantiles) {
      std::vector<std::string> parts;
      for (const double q : quantiles) {
        parts.push_back(fmt::format("{} takes {}", percentile_title(q), least_samples(q)));
      }
      return listed(parts);
    };
    if (!marked.empty()) {
      say("* marks percentiles of too few requests for an interval ({}): they may be far off",
          takes(marked));
    }
    if (!withheld.empty()) {
      say("percentiles of too few requests are left out ({})", takes(withheld));
    }
  }

  static bool unsupported(const LevelMetrics& metrics, double q) {
    for (const Metric metric : {Metric::kTtft, Metric::kTpot, Metric::kItl, Metric::kE2el}) {
      const Quantile* quantile = metrics[metric].find(q);
      if (quantile != nullptr && !quantile->supported()) return true;
    }
    return false;
  }

  void flags(std::size_t level, LevelSentences& said) const {
    const LevelMetrics& all = at(level).all;
    if (all.counts.ok == 0) return;
    const std::vector<std::string> told = flags_told_elsewhere(all);
    for (const std::string& flag : all.flags) {
      if (std::find(told.begin(), told.end(), flag) == told.end()) said.add(level, flag);
    }
  }

  // One line: what the checks lack has mostly one cause.
  void unchecked() {
    std::set<std::string> ids;
    Indices levels;
    std::string why;
    for (std::size_t level = 0; level < report_.levels.size(); ++level) {
      for (const Check& check : at(level).checks) {
        if (check.holds) continue;
        ids.insert(check.id);
        if (levels.empty() || levels.back() != level) levels.push_back(level);
        if (why.empty()) why = check.sentence;
      }
    }
    if (ids.empty()) return;
    list_.push_back(
        about(names_of(report_, levels),
              fmt::format("not checked: {} ({})", listed({ids.begin(), ids.end()}), why)));
  }

  const RunReport& report_;
  std::vector<std::string> list_;
};

}  // namespace

std::vector<std::string> sentences(const RunReport& report) {
  return Sentences(report).list();
}

}  // namespace nibble::load
