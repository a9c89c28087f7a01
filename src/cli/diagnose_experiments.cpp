#include "cli/diagnose_experiments.h"

#include <algorithm>
#include <array>
#include <functional>

#include "base/units.h"
#include "diagnose/read_evidence.h"

namespace nibble::cli {
namespace {

using diagnose::Diagnosis;
using diagnose::Experiment;
using diagnose::Fact;
using diagnose::LevelEvidence;

// A change of less than this is none: two runs of one level differ by as much.
constexpr double kNoise = 0.10;
// Where a change is looked for: twice the load, half of the length.
constexpr double kClearChange = 0.25;

struct Compared {
  const LevelEvidence& before;
  const LevelEvidence& after;
};

struct Outcome {
  std::string text;
  std::optional<bool> confirms;
};

struct Plan {
  std::string_view id;
  std::string_view question;
  bool needs_lengths;  // only where prompts are made to a length
  std::function<std::vector<LoadChange>(const LevelEvidence&, const LiveRun&)> changes;
  std::function<Outcome(const Compared&)> judge;
};

LoadChange users_of(double users) {
  return {"--max-concurrency", fmt::format("{:.0f}", std::max(1.0, users))};
}

// "running requests 4 -> 8", or why one of them is not known.
std::string change_text(Fact fact, const Compared& compared) {
  const auto text = [fact](const LevelEvidence& level) {
    const auto value = level.get(fact);
    return value ? fact_text(fact, *value) : std::string("not known");
  };
  return fmt::format("{} {} -> {}", info_of(fact).title, text(compared.before),
                     text(compared.after));
}

// after / before - 1; nullopt where one is not known.
std::optional<double> change_of(Fact fact, const Compared& compared) {
  const auto before = compared.before.get(fact);
  const auto after = compared.after.get(fact);
  if (!before || !after || *before <= 0) return std::nullopt;
  return *after / *before - 1;
}

Outcome judged(std::string text, const std::optional<double>& change,
               const std::function<std::optional<bool>(double)>& rule) {
  if (!change) return {std::move(text), std::nullopt};
  return {std::move(text), rule(*change)};
}

Outcome judge_more_users(const Compared& compared) {
  std::string text =
      change_text(Fact::kRunning, compared) + ", " + change_text(Fact::kOutputRate, compared);
  return judged(std::move(text), change_of(Fact::kRunning, compared),
                [](double change) -> std::optional<bool> {
                  if (change < kNoise) return true;  // it runs no more, although more ask
                  return change > kClearChange ? std::optional(false) : std::nullopt;
                });
}

Outcome judge_shorter(const Compared& compared) {
  std::string text =
      change_text(Fact::kRunning, compared) + ", " + change_text(Fact::kKvUsage, compared);
  return judged(std::move(text), change_of(Fact::kRunning, compared),
                [](double change) -> std::optional<bool> {
                  if (change > kClearChange) return true;  // it was the cache that was full
                  return change < kNoise ? std::optional(false) : std::nullopt;
                });
}

Outcome judge_decode_only(const Compared& compared) {
  std::string text =
      change_text(Fact::kItlP99, compared) + ", " + change_text(Fact::kTpot, compared);
  return judged(std::move(text), change_of(Fact::kItlP99, compared),
                [](double change) -> std::optional<bool> {
                  if (change < -kClearChange) return true;
                  return change > -kNoise ? std::optional(false) : std::nullopt;
                });
}

Outcome judge_unique(const Compared& compared) {
  std::string text =
      change_text(Fact::kCachedShare, compared) + ", " + change_text(Fact::kOutputRate, compared);
  return judged(std::move(text), change_of(Fact::kOutputRate, compared),
                [](double change) -> std::optional<bool> {
                  if (change < -kNoise) return true;
                  return change > -kNoise / 2 ? std::optional(false) : std::nullopt;
                });
}

Outcome judge_client(const Compared& compared) {
  std::string text =
      change_text(Fact::kClientLag, compared) + ", " + change_text(Fact::kOutputRate, compared);
  return judged(std::move(text), change_of(Fact::kOutputRate, compared),
                [](double change) -> std::optional<bool> {
                  if (change > kNoise) return true;  // with more loops it gets more
                  return std::nullopt;
                });
}

Outcome judge_temperature(const Compared& compared) {
  std::string text = change_text(Fact::kDegenerateShare, compared);
  const auto after = compared.after.get(Fact::kDegenerateShare);
  const auto before = compared.before.get(Fact::kDegenerateShare);
  if (!after || !before) return {std::move(text), std::nullopt};
  // Sampling breaks repetition of a sound model; a broken one goes on.
  return {std::move(text), *after > *before / 2};
}

std::vector<LoadChange> no_more_than_users(const LevelEvidence& level) {
  return {users_of(level.get(Fact::kUsers).value_or(1))};
}

const std::array<Plan, 6>& plans() {
  static const std::array<Plan, 6> list = {{
      {"more_users", "does it run more requests when twice as many ask?", false,
       [](const LevelEvidence& level, const LiveRun&) {
         return std::vector<LoadChange>{users_of(2 * level.get(Fact::kUsers).value_or(1))};
       },
       judge_more_users},
      {"shorter_requests", "does it run more requests when each is half as long?", true,
       [](const LevelEvidence& level, const LiveRun& live) {
         std::vector<LoadChange> changes = no_more_than_users(level);
         for (const char* option : {"--random-input-len", "--random-output-len"}) {
           changes.emplace_back(
               option, fmt::format("{}", std::max<std::int64_t>(1, live.length(option) / 2)));
         }
         return changes;
       },
       judge_shorter},
      {"decode_only", "do the long gaps go when there is nearly no prompt?", true,
       [](const LevelEvidence& level, const LiveRun&) {
         std::vector<LoadChange> changes = no_more_than_users(level);
         changes.emplace_back("--random-input-len", "1");
         return changes;
       },
       judge_decode_only},
      {"unique_prompts", "is it as fast with prompts that it has not seen?", false,
       [](const LevelEvidence& level, const LiveRun&) {
         std::vector<LoadChange> changes = no_more_than_users(level);
         changes.emplace_back("--dataset-name", "random");
         changes.emplace_back("--random-prefix-len", "0");
         return changes;
       },
       judge_unique},
      {"fresh_client_audit", "does it give more when the client has more threads?", false,
       [](const LevelEvidence& level, const LiveRun&) {
         std::vector<LoadChange> changes = no_more_than_users(level);
         changes.emplace_back("--loops", "4");
         changes.emplace_back("--self-audit", "fresh");
         return changes;
       },
       judge_client},
      {"other_temperature", "does it repeat itself when it samples?", false,
       [](const LevelEvidence& level, const LiveRun&) {
         std::vector<LoadChange> changes = no_more_than_users(level);
         changes.emplace_back("--temperature", "1");
         return changes;
       },
       judge_temperature},
  }};
  return list;
}

}  // namespace

Experiment run_experiment(const diagnose::Verdict& verdict, const Diagnosis& diagnosis,
                          LiveRun& live) {
  Experiment experiment{.id = verdict.experiment_id, .about = verdict.cls};
  const auto plan = std::find_if(plans().begin(), plans().end(), [&verdict](const Plan& one) {
    return one.id == verdict.experiment_id;
  });
  if (plan == plans().end()) {
    experiment.id = "none";
    experiment.question = verdict.experiment;
    experiment.outcome = "not run: nibble cannot change that from here";
    return experiment;
  }
  experiment.question = std::string(plan->question);
  if (plan->needs_lengths && !live.random_prompts()) {
    experiment.outcome = "not run: the prompts come from a file, whose lengths are its own";
    return experiment;
  }
  const LevelEvidence& before = diagnosis.evidence.levels[diagnosis.headline];
  const Result<Json> document = live.load_again(plan->changes(before, live));
  if (!document.ok()) {
    experiment.outcome = "not finished: " + document.error().message;
    return experiment;
  }
  diagnose::Evidence seen;
  const Result<> read = diagnose::read_load(
      *document, {.name = "experiment", .origin = diagnose::Origin::kMeasured}, seen);
  if (!read.ok() || seen.levels.empty()) {
    experiment.outcome = read.ok() ? "not finished: no level" : read.error().message;
    return experiment;
  }
  Outcome outcome = plan->judge({before, seen.levels.front()});
  experiment.outcome = std::move(outcome.text);
  experiment.confirms = outcome.confirms;
  return experiment;
}

}  // namespace nibble::cli
