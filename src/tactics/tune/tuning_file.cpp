#include "tactics/tune/tuning_file.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <utility>

#include "tactics/tune/gate.h"

namespace nibble::tune {
namespace {

Json interval_json(const std::optional<Interval>& interval) {
  if (!interval) return {};
  return Json::array().push(interval->low).push(interval->high);
}

Json timed_json(const TimedTactic& timed, std::string_view op) {
  const CandidateTimes& times = timed.times;
  Json json = Json::object();
  json.set("tactic", to_json(timed.tactic, op)).set("text", to_string(timed.tactic));
  json.set("median_us", times.median_us).set("interval_us", interval_json(times.interval_us));
  json.set("rounds", static_cast<std::int64_t>(times.rounds)).set("ratio", times.ratio);
  json.set("ratio_interval", interval_json(times.ratio_interval));
  return json.set("standing", to_string(times.standing));
}

Json rejected_json(const std::vector<RejectedTactic>& rejected, std::string_view op) {
  Json list = Json::array();
  for (const RejectedTactic& one : rejected) {
    list.push(Json::object()
                  .set("tactic", to_json(one.tactic, op))
                  .set("text", to_string(one.tactic))
                  .set("why", one.why));
  }
  return list;
}

Json optional_tactic(const std::optional<AnyTactic>& tactic, std::string_view op) {
  return tactic ? to_json(*tactic, op) : Json();
}

}  // namespace

std::vector<std::string> TuningEntry::ties() const {
  std::vector<std::string> names;
  for (const TimedTactic& timed : times) {
    if (timed.times.standing == Standing::kTied) names.push_back(to_string(timed.tactic));
  }
  return names;
}

const TuningEntry* TuningFile::find(const TuningKey& key) const {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const TuningEntry& entry) { return entry.key.is_same(key); });
  return found == entries.end() ? nullptr : &*found;
}

void TuningFile::put(TuningEntry entry) {
  for (TuningEntry& old : entries) {
    if (!old.key.is_same(entry.key)) continue;
    old = std::move(entry);
    return;
  }
  entries.push_back(std::move(entry));
}

std::string contradiction(const TuningEntry& entry) {
  // Numbers of a file have six digits.
  constexpr double kDigits = 1e-4;
  if (entry.checked_tokens != checked_tokens(entry.key)) {
    return "checked_tokens are not the ends of the key's range of tokens";
  }
  const TimedTactic* chosen = nullptr;
  for (const TimedTactic& timed : entry.times) {
    if (timed.times.rounds > entry.rounds) {
      return fmt::format("{} was timed in {} rounds of {}", to_string(timed.tactic),
                         timed.times.rounds, entry.rounds);
    }
    if (timed.times.standing != Standing::kChosen) continue;
    if (chosen != nullptr) return "two of its times are \"chosen\"";
    chosen = &timed;
  }
  if (!entry.choice) {
    if (chosen != nullptr) return "it has no choice, and one of its times is \"chosen\"";
    return entry.note.empty() ? "it has no choice, and no note says why" : "";
  }
  if (chosen == nullptr || chosen->tactic != *entry.choice) {
    return fmt::format("its choice, {}, is not the \"chosen\" one of its times",
                       to_string(*entry.choice));
  }
  const double gain = 1 - chosen->times.ratio;
  const double regret = 1 / chosen->times.ratio - 1;
  if (std::abs(entry.gain - gain) > kDigits ||
      std::abs(entry.regret - regret) > kDigits * (1 + std::abs(regret))) {
    return fmt::format(
        "its gain {} and regret_of_default {} do not follow from the ratio {} of its "
        "choice",
        entry.gain, entry.regret, chosen->times.ratio);
  }
  const auto is_runner_up = [&](const TimedTactic& timed) {
    return timed.tactic == *entry.runner_up;
  };
  if (entry.runner_up && std::none_of(entry.times.begin(), entry.times.end(), is_runner_up)) {
    return fmt::format("its runner-up, {}, is not among its times", to_string(*entry.runner_up));
  }
  return "";
}

Json to_json(const TuningEntry& entry) {
  const std::string& op = entry.key.shape.op;
  Json json = Json::object();
  json.set("key", to_json(entry.key)).set("routing", entry.routing);
  json.set("taken_unix_s", entry.taken_unix_s).set("replays", entry.replays);
  Json checked = Json::array();
  for (const std::int64_t tokens : entry.checked_tokens) checked.push(tokens);
  json.set("checked_tokens", std::move(checked));
  json.set("choice", optional_tactic(entry.choice, op));
  json.set("choice_text", entry.choice ? Json(to_string(*entry.choice)) : Json());
  json.set("default", to_json(entry.fallback, op)).set("default_text", to_string(entry.fallback));
  json.set("runner_up", optional_tactic(entry.runner_up, op));
  json.set("gain", entry.gain).set("regret_of_default", entry.regret);
  json.set("rounds", static_cast<std::int64_t>(entry.rounds));
  Json ties = Json::array();
  for (const std::string& name : entry.ties()) ties.push(name);
  json.set("ties", std::move(ties));
  Json times = Json::array();
  for (const TimedTactic& timed : entry.times) times.push(timed_json(timed, op));
  json.set("times", std::move(times));
  json.set("rejected", rejected_json(entry.rejected, op));
  json.set("infeasible", rejected_json(entry.infeasible, op));
  return json.set("note", entry.note);
}

Json to_json(const TuningFile& file) {
  Json json = Json::object();
  json.set("schema", "nibble.tuning/1").set("version", file.version);
  json.set("command", file.command).set("site", to_json(file.site));
  json.set("compiler", file.compiler).set("began_unix_s", file.began_unix_s);
  json.set("taken_unix_s", file.taken_unix_s);
  Json entries = Json::array();
  for (const TuningEntry& entry : file.entries) entries.push(to_json(entry));
  return json.set("entries", std::move(entries));
}

}  // namespace nibble::tune
