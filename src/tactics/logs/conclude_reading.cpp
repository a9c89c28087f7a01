// What the logs do not tell: nothing in them, caches that were not used, lines that no rule knows.
#include <algorithm>
#include <fmt/core.h>

#include "tactics/logs/conclusion_parts.h"
#include "tactics/logs/conclusions.h"

namespace nibble::logs {
namespace {

Finding about(const TacticLog& log, std::string_view word, std::string_view title, double value,
              std::string_view unit) {
  Finding finding{.id = fmt::format("tactics.log.{}.{}", word, id_part(log.name)),
                  .title = std::string(title),
                  .value = value,
                  .unit = std::string(unit)};
  finding.inputs = {{std::string(word), value, std::string(unit), log.name}};
  return finding;
}

void conclude_empty(const TacticLog& log, std::vector<Finding>& findings) {
  const bool manifest = log.format == "FlashInfer cache manifest";
  const auto failures =
      std::count_if(log.entries.begin(), log.entries.end(), [](const Entry& entry) {
        return entry.status == Status::kFailed && entry.runner != "Triton";
      });
  const bool only_failures =
      failures > 0 && failures == static_cast<std::ptrdiff_t>(log.entries.size());
  if ((!log.entries.empty() && !only_failures) || manifest) return;
  Finding finding = about(log, "empty", "Nothing in it", 0, "entries");
  finding.verdict = "empty";
  if (log.format == "log") {
    finding.sentence = fmt::format(
        "{} has {} and none of an autotuner{}: tuning was off, or its log level hides it "
        "(FLASHINFER_LOGGING_LEVEL=info, TLLM_LOG_LEVEL=WARNING)",
        log.name, counted(log.lines, "line", "lines"),
        only_failures ? ", but failures of CUTLASS's kernels, which stand above" : "");
  } else {
    finding.sentence = fmt::format("{} holds no choice: every call uses the fallback", log.name);
  }
  findings.push_back(std::move(finding));
}

void conclude_saved(const TacticLog& log, std::vector<Finding>& findings) {
  if (log.saved != 0) return;
  const auto skipped =
      std::count_if(log.entries.begin(), log.entries.end(),
                    [](const Entry& entry) { return entry.status == Status::kSkipped; });
  if (skipped == 0) return;
  Finding finding = about(log, "saved", "Nothing saved", 0, "configurations");
  finding.verdict = "fallback";
  finding.sentence = fmt::format(
      "The tuner of {} saved no configuration, although it skipped tactics: none that it tried "
      "could "
      "be chosen, and the run used the fallback (tactic -1)",
      log.name);
  findings.push_back(std::move(finding));
}

void conclude_chip(const TacticLog& log, const Scene& scene, std::vector<Finding>& findings) {
  const bool chip = is_other_chip(log, scene);
  if (!chip && !is_other_gpu(log, scene)) return;
  const auto architecture = log.versions.find("architecture");
  const bool told = chip && architecture != log.versions.end();
  const std::string theirs = told ? architecture->second : device_of(log);
  const std::string ours =
      told || scene.asked.machine.empty() ? arch_name(scene.limits) : scene.asked.machine;
  Finding finding = about(log, "other_chip", "Another chip", 1, "logs");
  finding.verdict = "other_chip";
  finding.sentence = fmt::format(
      "{} is of another {} ({}) than {}: what could not run there may run here, and what was "
      "chosen there need not be the fastest here",
      log.name, chip ? "chip" : "GPU", theirs, ours);
  findings.push_back(std::move(finding));
}

void conclude_notes(const TacticLog& log, std::vector<Finding>& findings) {
  for (const std::string& note : log.notes) {
    if (!note.starts_with("cache not used")) continue;
    Finding finding = about(log, "cache_ignored", "Cache not used", 1, "caches");
    finding.verdict = "ignored";
    finding.sentence = fmt::format("{}: {}", log.name, note);
    findings.push_back(std::move(finding));
  }
}

void conclude_unread(const TacticLog& log, std::vector<Finding>& findings) {
  if (log.unread > 0) {
    Finding finding =
        about(log, "unread", "Not understood", static_cast<double>(log.unread), "lines");
    finding.verdict = "unread";
    finding.headline = false;
    finding.sentence =
        fmt::format("{} of a tuner in {} {} in a form that is not known here; the first: {}",
                    counted(log.unread, "message", "messages"), log.name,
                    log.unread == 1 ? "is" : "are", log.first_unread);
    findings.push_back(std::move(finding));
  }
  if (log.dropped > 0) {
    Finding finding =
        about(log, "dropped", "Not kept", static_cast<double>(log.dropped), "entries");
    finding.headline = false;
    const bool full = log.entries.size() >= kMostEntries;
    finding.sentence =
        fmt::format("{} holds more than {} {}; {} of later ones {} not in these numbers", log.name,
                    format_count(static_cast<double>(full ? kMostEntries : kMostRanks)),
                    full ? "different entries" : "ranks", counted(log.dropped, "line", "lines"),
                    log.dropped == 1 ? "is" : "are");
    findings.push_back(std::move(finding));
  }
}

}  // namespace

void conclude_reading(const Scene& scene, std::vector<Finding>& findings) {
  for (const TacticLog& log : scene.logs) {
    conclude_empty(log, findings);
    conclude_chip(log, scene, findings);
    conclude_saved(log, findings);
    conclude_notes(log, findings);
    conclude_unread(log, findings);
  }
}

}  // namespace nibble::logs
