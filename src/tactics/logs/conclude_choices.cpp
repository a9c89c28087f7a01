// What was chosen: whether anything was, of how many, and whether ranks agree.
#include <algorithm>
#include <fmt/core.h>

#include "base/text.h"
#include "tactics/logs/conclusion_parts.h"
#include "tactics/logs/conclusions.h"

namespace nibble::logs {
namespace {

// One search of a tuner: an operation at one shape, on one rank.
struct Search {
  const TacticLog* log = nullptr;
  const Entry* first = nullptr;
  std::set<std::string> tried, skipped;
  bool chosen = false;
  bool none_valid = false;  // the program says so
};

std::string at_rows(const Entry& entry) {
  return entry.bucket ? fmt::format(" at {}", counted(*entry.bucket, "row", "rows")) : "";
}

std::vector<Search> searches(const Scene& scene) {
  std::map<std::string, Search> found;
  for (const TacticLog& log : scene.logs) {
    if (log.format != "log") continue;
    for (const Entry& entry : log.entries) {
      if (entry.op.empty() || entry.runner == "Triton") continue;
      Search& search = found[fmt::format("{}\n{}\n{}\n{}", log.name, entry.rank, entry.op,
                                         entry.bucket.value_or(-1))];
      if (search.first == nullptr) {
        search.first = &entry;
        search.log = &log;
      }
      const std::string tactic = entry.runner + " " + entry.tactic;
      if (entry.status == Status::kTried) search.tried.insert(tactic);
      if (entry.status == Status::kSkipped && !entry.tactic.empty()) search.skipped.insert(tactic);
      search.chosen = search.chosen || entry.status == Status::kChosen;
      search.none_valid = search.none_valid || (entry.status == Status::kDefault &&
                                                entry.reason.kind == ReasonClass::kNoKernel);
    }
  }
  std::vector<Search> list;
  for (auto& [key, search] : found) list.push_back(std::move(search));
  return list;
}

// By operation: how many searches, and the first of them.
struct Tally {
  const Search* first = nullptr;
  std::int64_t searches = 0;
  std::int64_t most = 0;  // tactics of one search
};

void add_none_chosen(const std::vector<Search>& list, std::vector<Finding>& findings) {
  std::map<std::string, Tally> tallies;
  for (const Search& search : list) {
    const bool all_failed = search.log->shows_tried && !search.skipped.empty() &&
                            search.tried.empty() && !search.chosen;
    if (!all_failed && !search.none_valid) continue;
    Tally& tally = tallies[search.first->op];
    if (tally.first == nullptr) tally.first = &search;
    ++tally.searches;
    tally.most = std::max(tally.most, static_cast<std::int64_t>(search.skipped.size()));
  }
  for (const auto& [op, tally] : tallies) {
    const std::string source = source_of(*tally.first->log, *tally.first->first);
    Finding finding{.id = "tactics.log.none_chosen." + id_part(op),
                    .title = "Nothing could be chosen",
                    .value = static_cast<double>(tally.searches),
                    .unit = "shapes"};
    finding.verdict = "fallback";
    finding.inputs = {{"shapes", static_cast<double>(tally.searches), "shapes", source},
                      {"tactics", static_cast<double>(tally.most), "tactics", source}};
    const std::string tried =
        tally.most == 0 ? "" : fmt::format(" ({})", counted(tally.most, "tactic", "tactics"));
    finding.sentence = fmt::format(
        "Every tactic of {}{} failed in {}, first{} in {}: the run used the fallback (tactic -1), "
        "whose time says nothing about native kernels",
        op, tried, counted(tally.searches, "shape", "shapes"), at_rows(*tally.first->first),
        source);
    findings.push_back(std::move(finding));
  }
}

void add_single(const std::vector<Search>& list, std::vector<Finding>& findings) {
  std::map<std::string, Tally> tallies;
  for (const Search& search : list) {
    const bool single =
        search.log->shows_tried && search.tried.size() == 1 && search.skipped.empty();
    if (!single) continue;
    Tally& tally = tallies[search.first->op];
    if (tally.first == nullptr) tally.first = &search;
    ++tally.searches;
  }
  for (const auto& [op, tally] : tallies) {
    const std::string source = source_of(*tally.first->log, *tally.first->first);
    Finding finding{.id = "tactics.log.single." + id_part(op),
                    .title = "One candidate",
                    .value = static_cast<double>(tally.searches),
                    .unit = "shapes"};
    finding.verdict = "untuned";
    finding.inputs = {{"shapes", static_cast<double>(tally.searches), "shapes", source}};
    finding.sentence =
        fmt::format("Untuned: {} had one candidate in {}, {}{}; nothing was compared", op,
                    counted(tally.searches, "shape", "shapes"), *tally.first->tried.begin(),
                    at_rows(*tally.first->first));
    findings.push_back(std::move(finding));
  }
}

// Choices of one operation at one shape, by rank.
struct Choices {
  const Entry* first = nullptr;
  std::map<std::string, std::string> by_rank;  // the last one of a rank counts
};

// Of caches: each GPU, with the first file that names it.
std::map<std::string, std::string> gpus_of(const Scene& scene) {
  std::map<std::string, std::string> gpus;
  for (const TacticLog& log : scene.logs) {
    const std::string device = device_of(log);
    if (!device.empty()) gpus.try_emplace(device, log.name);
  }
  return gpus;
}

void add_two_gpus(const Scene& scene, std::vector<Finding>& findings) {
  const std::map<std::string, std::string> gpus = gpus_of(scene);
  if (gpus.size() < 2) return;
  const auto& [one, file] = *gpus.begin();
  const auto& [other, other_file] = *std::next(gpus.begin());
  Finding finding{.id = "tactics.log.gpus",
                  .title = "Several GPUs",
                  .value = static_cast<double>(gpus.size()),
                  .unit = "GPUs"};
  finding.verdict = "not_compared";
  finding.inputs = {{"GPUs", static_cast<double>(gpus.size()), "GPUs", "names in the caches"}};
  finding.sentence = fmt::format(
      "{} is of {} and {} of {}: they are no ranks of one run, and choices are compared only "
      "between files of one GPU",
      file, one, other_file, other);
  findings.push_back(std::move(finding));
}

void add_disagreement(const Scene& scene, std::vector<Finding>& findings) {
  const bool several = gpus_of(scene).size() > 1;
  std::map<std::string, Choices> all;
  for (const TacticLog& log : scene.logs) {
    // Files of configurations are no ranks: one is for each shape of experts and each data type.
    if (!log.configs.empty()) continue;
    for (const Entry& entry : log.entries) {
      if (entry.status != Status::kChosen || entry.tactic.empty()) continue;
      std::string rank = entry.rank;
      if (rank.empty() && scene.logs.size() > 1) rank = log.name;
      Choices& choices =
          all[fmt::format("{}\n{}\n{}\n{}", several ? device_of(log) : "", entry.op, entry.shape,
                          entry.shape.empty() ? entry.bucket.value_or(-1) : 0)];
      if (choices.first == nullptr) choices.first = &entry;
      choices.by_rank[rank] = entry.runner + " " + entry.tactic;
    }
  }
  std::int64_t compared = 0;
  std::int64_t differing = 0;
  const Choices* example = nullptr;
  for (const auto& [key, choices] : all) {
    if (choices.by_rank.size() < 2) continue;
    ++compared;
    const std::string& reference = choices.by_rank.begin()->second;
    const bool differs =
        std::any_of(choices.by_rank.begin(), choices.by_rank.end(),
                    [&](const auto& choice) { return choice.second != reference; });
    if (!differs) continue;
    ++differing;
    if (example == nullptr) example = &choices;
  }
  if (differing == 0) return;
  const auto& [rank, tactic] = *example->by_rank.begin();
  const auto other = std::find_if(example->by_rank.begin(), example->by_rank.end(),
                                  [&](const auto& choice) { return choice.second != tactic; });
  Finding finding{.id = "tactics.log.ranks",
                  .title = "Ranks disagree",
                  .value = static_cast<double>(differing),
                  .unit = "shapes"};
  finding.verdict = "differ";
  finding.inputs = {{"differing", static_cast<double>(differing), "shapes", "choices by rank"},
                    {"compared", static_cast<double>(compared), "shapes", "choices by rank"}};
  finding.sentence = fmt::format(
      "Ranks chose differently in {} of {}: for {}{} {} took {}, {} took {}; they wait for each "
      "other at every collective, so the slower choice counts",
      differing, counted(compared, "shape", "shapes"), subject_of(*example->first),
      at_rows(*example->first), rank, tactic, other->first, other->second);
  findings.push_back(std::move(finding));
}

// Every runner has a fallback, tactic -1, for any shape.
void add_fallback_chosen(const Scene& scene, std::vector<Finding>& findings) {
  std::int64_t choices = 0;
  std::int64_t fallbacks = 0;
  for (const TacticLog& log : scene.logs) {
    for (const Entry& entry : log.entries) {
      if (entry.status != Status::kChosen || entry.tactic.empty() || entry.runner == "Triton")
        continue;
      ++choices;
      if (entry.tactic == "-1") ++fallbacks;
    }
  }
  if (fallbacks == 0) return;
  Finding finding{.id = "tactics.log.fallback_chosen",
                  .title = "Fallback chosen",
                  .value = static_cast<double>(fallbacks),
                  .unit = "choices"};
  finding.verdict = "fallback";
  finding.inputs = {{"fallbacks", static_cast<double>(fallbacks), "choices", "tactic -1"},
                    {"choices", static_cast<double>(choices), "choices", "the logs"}};
  finding.sentence = fmt::format(
      "{} of {} {} the fallback (tactic -1): it was the fastest, or nothing else could run",
      fallbacks, counted(choices, "choice", "choices"), fallbacks == 1 ? "is" : "are");
  findings.push_back(std::move(finding));
}

}  // namespace

void conclude_choices(const Scene& scene, std::vector<Finding>& findings) {
  const std::vector<Search> list = searches(scene);
  add_none_chosen(list, findings);
  add_single(list, findings);
  add_fallback_chosen(scene, findings);
  add_two_gpus(scene, findings);
  add_disagreement(scene, findings);
}

}  // namespace nibble::logs
