// Tactics that could not run, by what stopped them.
#include <algorithm>
#include <fmt/core.h>
#include <optional>
#include <tuple>
#include <utility>

#include "tactics/logs/conclusion_parts.h"
#include "tactics/logs/conclusions.h"
#include "tactics/logs/tactic_count.h"

namespace nibble::logs {
namespace {

bool stopped(const Entry& entry) {
  return entry.status == Status::kSkipped || entry.status == Status::kFailed;
}

// Entries that one sentence speaks of.
struct Stopped {
  const TacticLog* log = nullptr;  // of the first
  const Entry* first = nullptr;
  TacticCount count;
  std::optional<Tile> tile;
  bool fp4 = false;
  std::optional<std::int64_t> of;  // tactics of the operation, where the logs show what was tried

  std::int64_t tactics() const { return count.tactics(); }
};

using Key = std::tuple<std::string, ReasonClass, std::int64_t, std::int64_t>;

// All tactics that the logs speak of, by operation; none where no log shows what was tried.
std::map<std::string, std::int64_t> tactics_by_subject(const Scene& scene) {
  const bool shown = std::any_of(scene.logs.begin(), scene.logs.end(),
                                 [](const TacticLog& log) { return log.shows_tried; });
  if (!shown) return {};
  std::map<std::string, std::set<std::string>> names;
  for (const TacticLog& log : scene.logs) {
    for (const Entry& entry : log.entries) {
      if (!entry.tactic.empty()) {
        names[subject_of(entry)].insert(entry.runner + " " + entry.tactic);
      }
    }
  }
  std::map<std::string, std::int64_t> numbers;
  for (const auto& [subject, tactics] : names) {
    numbers[subject] = static_cast<std::int64_t>(tactics.size());
  }
  return numbers;
}

// There may be as many groups as entries: nothing that is said of a group may walk the entries.
std::map<Key, Stopped> group_stopped(const Scene& scene) {
  std::map<Key, Stopped> groups;
  for (const TacticLog& log : scene.logs) {
    for (const Entry& entry : log.entries) {
      if (!stopped(entry)) continue;
      Stopped& group =
          groups[{subject_of(entry), entry.reason.kind, entry.reason.wanted_bytes.value_or(0),
                  entry.reason.limit_bytes.value_or(0)}];
      if (group.first == nullptr) {
        group.first = &entry;
        group.log = &log;
      }
      group.count.add(entry);
      if (!group.tile && entry.reason.tile) group.tile = entry.reason.tile;
      group.fp4 = group.fp4 || entry.reason.fp4;
    }
  }
  const std::map<std::string, std::int64_t> all = tactics_by_subject(scene);
  for (auto& [key, group] : groups) {
    const auto found = all.find(std::get<std::string>(key));
    if (found != all.end()) group.of = found->second;
  }
  return groups;
}

// "72 of 80 tactics of X were skipped"; "a kernel of Triton failed".
std::string who(const Stopped& group) {
  const std::string subject = subject_of(*group.first);
  if (group.first->status == Status::kFailed && group.count.names.empty()) {
    const std::string lines = counted(group.count.lines, "line", "lines");
    if (subject == "Triton") return fmt::format("A Triton kernel failed in {}", lines);
    return fmt::format("{} failed in {} outside of an autotuner's messages",
                       subject == "CUTLASS" ? "A CUTLASS kernel" : subject, lines);
  }
  const std::int64_t number = group.tactics();
  const std::string verb = number == 1 ? "was" : "were";
  if (group.of && *group.of > number) {
    return fmt::format("{} of {} of {} {} skipped", number, counted(*group.of, "tactic", "tactics"),
                       subject, verb);
  }
  return fmt::format("{} of {} {} skipped", counted(number, "tactic", "tactics"), subject, verb);
}

bool is_one(const Stopped& group) {
  return group.tactics() == 1;
}

Finding base_finding(const Stopped& group, std::string_view word) {
  Finding finding{.id = fmt::format("tactics.log.{}.{}", word, id_part(subject_of(*group.first)))};
  finding.verdict = json_name(group.first->reason.kind);
  finding.value = static_cast<double>(group.tactics());
  finding.unit = "tactics";
  const std::string source = source_of(*group.log, *group.first);
  finding.inputs = {{"tactics", static_cast<double>(group.tactics()), "tactics", source},
                    {"lines", static_cast<double>(group.count.lines), "lines", source}};
  return finding;
}

std::string explain_hint(const Stopped& group) {
  if (!group.tile) return "";
  if (!group.fp4) {
    return fmt::format("; the tile is {}x{}", group.tile->m, group.tile->n);
  }
  return fmt::format(
      "; \"nibble tactics --explain {}\" says whether the tile fits with fewer stages",
      fp4_name(*group.tile));
}

// Bytes that the log names, against the block of the chip asked for.
Finding shared_with_bytes(const Scene& scene, const Stopped& group) {
  const std::int64_t wanted = *group.first->reason.wanted_bytes;
  const std::int64_t theirs = group.first->reason.limit_bytes.value_or(0);
  const std::int64_t ours = scene.limits.shared_per_block;
  Finding finding = base_finding(group, "shared");
  finding.id += fmt::format(".{}", wanted);
  finding.title = "Shared memory";
  finding.formula = "wanted > limit";
  const std::string source = source_of(*group.log, *group.first);
  finding.inputs.push_back({"wanted", static_cast<double>(wanted), "B", source});
  finding.inputs.push_back({"limit of the log's GPU", static_cast<double>(theirs), "B", source});
  finding.inputs.push_back({"limit", static_cast<double>(ours), "B", arch_name(scene.limits)});
  const std::string asks = fmt::format("{}: {} for {} of shared memory", who(group),
                                       is_one(group) ? "it asks" : "they ask", bytes_text(wanted));
  if (wanted > ours) {
    finding.sentence = fmt::format("{}, and a block of {} has {}{}", asks, arch_name(scene.limits),
                                   bytes_text(ours), explain_hint(group));
  } else {
    finding.verdict = "fits_here";
    finding.sentence =
        fmt::format("{}, more than the {} of the log's GPU; a block of {} has {}", asks,
                    bytes_text(theirs), arch_name(scene.limits), bytes_text(ours));
  }
  return finding;
}

Finding opaque(const Scene& scene, const Stopped& group) {
  Finding finding = base_finding(group, "not_initialised");
  finding.title = "Not initialised";
  finding.confidence = Confidence::kLikely;
  finding.assumptions = {
      "CUTLASS's initialize() asks the driver for the kernel's shared memory and returns Error "
      "Internal when it is refused (NVIDIA/cutlass issue 3096); other refusals return the same"};
  const std::string limit =
      is_other_chip(*group.log, scene)
          ? ""
          : fmt::format(" ({} on {})", bytes_text(scene.limits.shared_per_block),
                        arch_name(scene.limits));
  finding.sentence = fmt::format(
      "{}: CUTLASS did not set {} up and gave no reason; that is what it does when a kernel asks "
      "for "
      "more shared memory than a block has{}{}",
      who(group), is_one(group) ? "it" : "them", limit, explain_hint(group));
  return finding;
}

Finding unexplained(const Stopped& group) {
  Finding finding = base_finding(group, "skipped");
  finding.title = "Skipped";
  if (group.first->tactic.empty()) {
    finding.sentence = fmt::format(
        "{}, in {}; the log does not say why: FLASHINFER_LOGGING_LEVEL=debug "
        "(TLLM_LOG_LEVEL=DEBUG) "
        "logs each reason",
        who(group), counted(group.count.lines, "message", "messages"));
  } else {
    finding.sentence = fmt::format(
        "{}: {}", who(group),
        group.first->reason.text.empty() ? "no reason is given" : group.first->reason.text);
  }
  return finding;
}

// How many failures of the same process follow a fault, of any number of faults.
class FailuresBehind {
 public:
  explicit FailuresBehind(const Scene& scene) {
    for (const TacticLog& log : scene.logs) {
      for (const Entry& entry : log.entries) {
        if (stopped(entry)) by_process_[{&log, entry.rank}][entry.line] += entry.count;
      }
    }
    for (auto& [process, lines] : by_process_) {
      std::int64_t behind = 0;
      for (auto at = lines.rbegin(); at != lines.rend(); ++at) {
        behind += std::exchange(at->second, behind);
      }
    }
  }

  std::int64_t of(const TacticLog& log, const Entry& fault) const {
    return by_process_.at({&log, fault.rank}).at(fault.line);
  }

 private:
  // Of each line with a failure, how many come in later ones.
  std::map<std::pair<const TacticLog*, std::string>, std::map<std::int64_t, std::int64_t>>
      by_process_;
};

Finding fault_finding(const FailuresBehind& failures, const Stopped& group) {
  Finding finding = base_finding(group, "fault");
  finding.title = "Illegal access";
  finding.confidence = Confidence::kLikely;
  finding.assumptions = {
      "such an error stays with the process's context (CUDA Runtime API, cudaError)"};
  const std::int64_t behind = failures.of(*group.log, *group.first);
  finding.inputs.push_back({"failures behind it", static_cast<double>(behind), "lines",
                            source_of(*group.log, *group.first)});
  finding.sentence = fmt::format("{} by an illegal address or instruction, first in {}", who(group),
                                 source_of(*group.log, *group.first));
  if (behind > 0) {
    finding.sentence += fmt::format(
        "; {} of the same process that {} behind it may say nothing about their tactics, because "
        "the error stays with the process",
        counted(behind, "failure", "failures"), behind == 1 ? "comes" : "come");
  }
  return finding;
}

Finding of_class(const Stopped& group) {
  const ReasonClass kind = group.first->reason.kind;
  Finding finding = base_finding(group, json_name(kind));
  finding.title = to_string(kind);
  const bool one = is_one(group);
  std::string_view why = "a block's shared memory is too small, and by how much is not told";
  if (kind == ReasonClass::kNoKernel) why = one ? "it has no kernel" : "they have no kernel";
  if (kind == ReasonClass::kAlignment) why = "sizes do not divide as the kernel needs";
  if (kind == ReasonClass::kTimeout) why = one ? "it took too long" : "they took too long";
  if (kind == ReasonClass::kMemory) why = "the GPU's memory was full";
  finding.sentence = fmt::format("{}: {}", who(group), why);
  if (kind == ReasonClass::kNoKernel) finding.sentence += explain_hint(group);
  return finding;
}

// How far the sentence goes: on how many ranks, and what only stands beside the tuner's words.
void add_rests_on(const Stopped& group, Finding& finding) {
  const Entry& first = *group.first;
  const bool beside = first.status == Status::kSkipped && first.tactic.empty() &&
                      first.reason.kind != ReasonClass::kUnknown &&
                      first.reason.kind != ReasonClass::kNone;
  if (beside) {
    finding.confidence = Confidence::kLikely;
    finding.sentence += fmt::format(
        "; their kernels printed \"{}\" before the tuner counted them, which names no reason "
        "itself",
        first.reason.text);
  }
  if (const std::size_t ranks = group.count.ranks.size(); ranks > 1) {
    finding.sentence += fmt::format("; {} ranks say so", ranks);
    finding.inputs.push_back(
        {"ranks", static_cast<double>(ranks), "ranks", "prefixes of the lines"});
  }
}

}  // namespace

void conclude_failures(const Scene& scene, std::vector<Finding>& findings) {
  const std::size_t before = findings.size();
  std::vector<const Stopped*> groups;
  const std::map<Key, Stopped> all = group_stopped(scene);
  const FailuresBehind failures(scene);
  for (const auto& [key, group] : all) {
    const Reason& reason = group.first->reason;
    groups.push_back(&group);
    switch (reason.kind) {
      case ReasonClass::kSharedMemory:
        findings.push_back(reason.wanted_bytes ? shared_with_bytes(scene, group) : of_class(group));
        break;
      case ReasonClass::kNotInitialised:
        findings.push_back(opaque(scene, group));
        break;
      case ReasonClass::kFault:
        findings.push_back(fault_finding(failures, group));
        break;
      case ReasonClass::kMemory:
      case ReasonClass::kTimeout:
      case ReasonClass::kNoKernel:
      case ReasonClass::kAlignment:
        findings.push_back(of_class(group));
        break;
      case ReasonClass::kNone:
      case ReasonClass::kUntuned:
      case ReasonClass::kUnknown:
        findings.push_back(unexplained(group));
        break;
    }
  }
  for (std::size_t index = before; index < findings.size(); ++index) {
    add_rests_on(*groups[index - before], findings[index]);
  }
}

}  // namespace nibble::logs
