#include "tactics/tune/tuner.h"

#include <algorithm>
#include <fmt/core.h>
#include <optional>
#include <utility>

#include "base/text.h"
#include "tactics/tune/store.h"

namespace nibble::tune {
namespace {

class KeyTuner {
 public:
  KeyTuner(TuneBackend& backend, const TuneOptions& options, const Now& now,
           const TuneProgress& progress, TuningEntry& entry)
      : backend_(backend), options_(options), now_(now), progress_(progress), entry_(entry) {}

  void run() {
    const Result<Candidates> found = backend_.candidates(entry_.key);
    if (!found.ok()) {
      entry_.note = "no candidates: " + found.error().message;
      return;
    }
    entry_.fallback = found->fallback;
    entry_.infeasible = found->infeasible;
    if (found->feasible.empty()) {
      entry_.note = fmt::format("no feasible kernel: of {} tactics none fits this shape and device",
                                found->infeasible.size());
      return;
    }
    check_all(found->feasible);
    choose();
  }

 private:
  void reject(const AnyTactic& tactic, std::string why) {
    entry_.rejected.push_back({tactic, std::move(why)});
  }

  void check_all(const std::vector<AnyTactic>& feasible) {
    for (const AnyTactic& tactic : feasible) {
      progress_("checking " + to_string(tactic));
      std::string wrong = check(tactic);
      if (wrong.empty()) {
        right_.push_back(tactic);
      } else {
        reject(tactic, std::move(wrong));
      }
    }
  }

  std::string check(const AnyTactic& tactic) {
    for (const std::int64_t tokens : entry_.checked_tokens) {
      const Result<CheckRun> run = backend_.check(entry_.key, tactic, tokens, options_.replays);
      const std::string wrong =
          run.ok() ? what_is_wrong(*run, options_.replays) : "faulted: " + run.error().message;
      if (!wrong.empty()) return fmt::format("at {} tokens: {}", tokens, wrong);
    }
    return "";
  }

  // Where the default itself faults, what was timed has nothing to be held against: all over again.
  void choose() {
    const double end = now_() + options_.seconds;
    while (!right_.empty()) {
      const auto at = std::find(right_.begin(), right_.end(), entry_.fallback);
      const std::size_t fallback =
          at == right_.end() ? 0 : static_cast<std::size_t>(at - right_.begin());
      if (time(fallback, end)) return;
      right_.erase(right_.begin() + static_cast<std::ptrdiff_t>(fallback));
    }
    entry_.note = fmt::format("no correct kernel: all {} feasible tactics are wrong or faulted",
                              entry_.rejected.size());
  }

  // False: the tactic that the others are held against faulted.
  bool time(std::size_t fallback, double end) {
    Chooser chooser(right_.size(), fallback, options_.rules, options_.seed);
    if (right_.size() == 1) return time_alone();
    while (const std::optional<std::size_t> next = chooser.next()) {
      progress_("timing " + to_string(right_[*next]));
      const Result<double> us = backend_.time_us(entry_.key, right_[*next], chooser.round());
      const std::string fault = !us.ok()     ? "faulted: " + us.error().message
                                : !(*us > 0) ? std::string("took no time by its clock")
                                             : "";
      if (fault.empty()) {
        chooser.record(*next, *us);
      } else {
        reject(right_[*next], "while it was timed: " + fault);
        if (*next == fallback) return false;
        chooser.drop(*next, fault);
      }
      if (now_() >= end) chooser.stop();
    }
    take(chooser.verdict(), fallback);
    return true;
  }

  // Nothing to compare with; its time is worth knowing all the same.
  bool time_alone() {
    std::vector<double> times;
    for (std::size_t round = 0; round < options_.rules.least_rounds; ++round) {
      const Result<double> us = backend_.time_us(entry_.key, right_.front(), round);
      if (!us.ok()) {
        reject(right_.front(), "while it was timed: faulted: " + us.error().message);
        return false;
      }
      times.push_back(*us);
    }
    const Sample sample = summarize(std::move(times), 0.95);
    entry_.choice = right_.front();
    entry_.rounds = sample.values.size();
    entry_.times = {{right_.front(),
                     {.median_us = sample.median,
                      .interval_us = sample.interval,
                      .rounds = sample.values.size(),
                      .standing = Standing::kChosen}}};
    entry_.note = "untuned: single candidate";
    note_default(right_.front());
    return true;
  }

  void note_default(const AnyTactic& stands_in) {
    if (stands_in == entry_.fallback) return;
    entry_.note += fmt::format("{}the default {} cannot be used; {} stood in for it",
                               entry_.note.empty() ? "" : "; ", to_string(entry_.fallback),
                               to_string(stands_in));
  }

  void take(const Verdict& verdict, std::size_t fallback) {
    entry_.choice = right_[verdict.choice];
    entry_.rounds = verdict.rounds;
    entry_.gain = verdict.gain;
    entry_.regret = verdict.regret;
    if (verdict.runner_up) entry_.runner_up = right_[*verdict.runner_up];
    for (std::size_t at = 0; at < right_.size(); ++at) {
      const CandidateTimes& times = verdict.candidates[at];
      if (times.standing != Standing::kDropped) entry_.times.push_back({right_[at], times});
    }
    std::stable_sort(entry_.times.begin(), entry_.times.end(),
                     [](const TimedTactic& left, const TimedTactic& right) {
                       return left.times.ratio < right.times.ratio;
                     });
    if (verdict.rounds == 0) entry_.note = "untuned: the time ended before one round";
    note_default(right_[fallback]);
  }

  TuneBackend& backend_;
  const TuneOptions& options_;
  const Now& now_;
  const TuneProgress& progress_;
  TuningEntry& entry_;
  std::vector<AnyTactic> right_;
};

std::string without_candidates_text(const TuningEntry& entry) {
  std::string text = fmt::format("{} is not in the file: {}", to_string(entry.key), entry.note);
  if (!entry.infeasible.empty()) {
    text += fmt::format("; the first, {}: {}", to_string(entry.infeasible.front().tactic),
                        entry.infeasible.front().why);
  }
  return text;
}

}  // namespace

TuningEntry tune_key(TuneBackend& backend, const TuningKey& key, const TuneOptions& options,
                     const Now& now, const TuneProgress& progress) {
  TuningEntry entry{.key = key,
                    .routing = options.routing,
                    .replays = options.replays,
                    .checked_tokens = checked_tokens(key)};
  KeyTuner(backend, options, now, progress, entry).run();
  return entry;
}

bool TuneReport::failed() const {
  return std::any_of(keys.begin(), keys.end(), [&](const TuningKey& key) {
    const TuningEntry* entry = file.find(key);
    return entry == nullptr || !entry->choice;
  });
}

Result<TuneReport> tune_keys(TuneBackend& backend, const TuneRequest& request, const Now& now,
                             const std::function<double()>& unix_now,
                             const TuneProgress& progress) {
  // Before the lock: what is decided from here on, by whomever, is decided.
  double begin_unix_s = unix_now();
  NIBBLE_ASSIGN_OR_RETURN(const BackendIdentity identity, backend.identity());
  TuneReport report{
      .path = request.output.empty() ? default_tuning_path(identity.site) : request.output,
      .keys = request.keys};
  bool waited = false;
  NIBBLE_ASSIGN_OR_RETURN(TuningStore store, TuningStore::open(report.path, identity.site, [&] {
                            waited = true;
                            progress("waiting for another process that tunes into this file");
                          }));
  if (!store.note().empty()) report.notes.push_back(store.note());
  // All of the run that was waited for, also what it decided before this process began.
  if (waited) begin_unix_s = std::min(begin_unix_s, store.file().began_unix_s);
  std::size_t begun = 0;
  for (const TuningKey& key : request.keys) {
    const TuningEntry* known = store.file().find(key);
    const bool is_decided = known != nullptr && known->choice &&
                            known->key.from_tokens <= key.from_tokens &&
                            (!request.again || known->taken_unix_s >= begin_unix_s);
    if (is_decided) {
      report.reused.push_back(key);
      ++begun;
      continue;
    }
    ++begun;
    TuningEntry entry = tune_key(backend, key, request.options, now, [&](std::string_view what) {
      progress(fmt::format("{} of {}: {}: {}", begun, request.keys.size(), to_string(key), what));
    });
    if (entry.times.empty() && entry.rejected.empty()) {
      report.notes.push_back(without_candidates_text(entry));
      report.without_candidates.push_back(std::move(entry));
      continue;
    }
    entry.taken_unix_s = unix_now();
    TuningFile& file = store.file();
    file.version = request.version;
    file.command = request.command;
    file.compiler = identity.compiler;
    file.began_unix_s = begin_unix_s;
    NIBBLE_RETURN_IF_ERROR(store.put(std::move(entry)));
  }
  if (waited && !report.reused.empty()) {
    report.notes.push_back(
        fmt::format("another process was tuning into {}: {} of its choices are taken",
                    report.path.string(), report.reused.size()));
  }
  report.file = store.file();
  return report;
}

}  // namespace nibble::tune
