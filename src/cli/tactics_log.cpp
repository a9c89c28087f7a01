#include "cli/tactics_log.h"

#include <algorithm>
#include <fmt/core.h>
#include <map>
#include <tuple>
#include <vector>

#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "machine/spec.h"
#include "tactics/chip.h"
#include "tactics/logs/conclusions.h"
#include "tactics/logs/log_document.h"

namespace nibble::cli {
namespace {

using logs::Entry;
using logs::Status;
using logs::TacticLog;

// Rows of a table for people; --json has all of them.
constexpr std::size_t kMostRows = 40;

std::string log_bytes(const std::optional<std::int64_t>& bytes) {
  return bytes ? format_count(static_cast<double>(*bytes)) + " B" : "-";
}

std::string log_heading(const TacticLog& log, const Style& style) {
  std::vector<std::string> parts;
  for (const std::string& program : log.programs) {
    const auto version = log.versions.find(program);
    parts.push_back(version == log.versions.end() ? program : program + " " + version->second);
  }
  if (const auto arch = log.versions.find("architecture"); arch != log.versions.end()) {
    parts.push_back("for " + arch->second);
  }
  parts.insert(parts.end(), log.devices.begin(), log.devices.end());
  if (log.lines > 0) parts.push_back(format_count(static_cast<double>(log.lines)) + " lines");
  std::string text = style.strong(printable(log.name)) + "  " + log.format;
  if (!parts.empty()) text += ": " + join(parts, ", ");
  return style.wrap(text, 2) + "\n";
}

// What one row of the first table stands for.
using FailureKey = std::tuple<std::string, std::string, std::string, std::string, std::string>;
struct Failure {
  std::int64_t tactics = 0;
  std::int64_t lines = 0;
  std::string where;
};

std::map<FailureKey, Failure> log_failures(std::span<const TacticLog> logs) {
  std::map<FailureKey, Failure> failures;
  for (const TacticLog& log : logs) {
    for (const Entry& entry : log.entries) {
      if (entry.status == Status::kTried || entry.status == Status::kChosen) continue;
      Failure& failure =
          failures[{std::string(to_string(entry.reason.kind)), std::string(to_string(entry.status)),
                    entry.op.empty() ? entry.runner : entry.op,
                    log_bytes(entry.reason.wanted_bytes), log_bytes(entry.reason.limit_bytes)}];
      failure.tactics += entry.tactics;
      failure.lines += entry.count;
      if (failure.where.empty()) failure.where = fmt::format("{}:{}", log.name, entry.line);
    }
  }
  return failures;
}

std::string failures_table(std::span<const TacticLog> logs, const Style& style) {
  const std::map<FailureKey, Failure> failures = log_failures(logs);
  if (failures.empty()) return "";
  Table table({{"reason"},
               {"operation"},
               {"status", Align::kLeft, 2},
               {"tactics", Align::kRight, 1},
               {"lines", Align::kRight},
               {"asks for", Align::kRight},
               {"limit there", Align::kRight, 3},
               {"first", Align::kLeft, 4}});
  for (const auto& [key, failure] : failures) {
    const auto& [reason, status, operation, wanted, limit] = key;
    const bool counts = status != to_string(Status::kDefault);
    table.row({reason, printable(operation, 60), status,
               counts ? format_count(static_cast<double>(failure.tactics)) : "-",
               format_count(static_cast<double>(failure.lines)), wanted, limit,
               printable(failure.where, 60)});
  }
  return "\n" + style.heading("What did not run, by reason") + "\n" + table.render(style);
}

std::string choices_table(std::span<const TacticLog> logs, const Style& style) {
  std::vector<std::pair<const TacticLog*, const Entry*>> choices;
  for (const TacticLog& log : logs) {
    for (const Entry& entry : log.entries) {
      if (entry.status == Status::kChosen) choices.emplace_back(&log, &entry);
    }
  }
  if (choices.empty()) return "";
  std::stable_sort(choices.begin(), choices.end(), [](const auto& a, const auto& b) {
    return std::tie(a.second->op, a.second->bucket) < std::tie(b.second->op, b.second->bucket);
  });
  Table table({{"operation"},
               {"rows", Align::kRight},
               {"runner", Align::kLeft, 2},
               {"tactic"},
               {"rank", Align::kLeft, 1},
               {"time", Align::kRight, 3}});
  const std::size_t shown = std::min(choices.size(), kMostRows);
  for (std::size_t index = 0; index < shown; ++index) {
    const Entry& entry = *choices[index].second;
    table.row({entry.op, entry.bucket ? format_count(static_cast<double>(*entry.bucket)) : "-",
               entry.runner, entry.tactic.empty() ? entry.reason.text : entry.tactic,
               entry.rank.empty() ? "-" : entry.rank,
               entry.time_ms ? format_time_us(*entry.time_ms * 1e3) : "-"});
  }
  std::string text = "\n" + style.heading("What was chosen") + "\n" + table.render(style);
  if (shown < choices.size()) {
    text += style.faint(fmt::format("{} more with --json", choices.size() - shown)) + "\n";
  }
  return text;
}

Result<BlockLimits> limits_from(const Arguments& arguments) {
  const std::string arch = arguments.text("--arch").value_or("");
  if (const std::optional<std::string> name = arguments.text("--machine")) {
    NIBBLE_ASSIGN_OR_RETURN(const MachineSpec machine, load_machine(*name));
    NIBBLE_ASSIGN_OR_RETURN(const Chip chip, chip_of(machine, arch));
    return chip.limits;
  }
  if (arch.empty()) return kSm120Limits;
  NIBBLE_ASSIGN_OR_RETURN(const Chip chip, chip_of(arch));
  return chip.limits;
}

}  // namespace

OptionDef from_log_option() {
  return {.name = "--from-log",
          .value = "FILE",
          .kind = ValueKind::kFile,
          .help =
              "reads what an autotuner of FlashInfer, SGLang, vLLM or TensorRT-LLM tried, from a "
              "log or a cache of it; --arch or --machine is the chip to judge for, sm_120 by "
              "default",
          .repeatable = true};
}

std::string tactics_log_text(std::span<const TacticLog> logs, const BlockLimits& limits,
                             const Style& style) {
  std::string text;
  for (const TacticLog& log : logs) text += log_heading(log, style);
  text += failures_table(logs, style);
  text += choices_table(logs, style);
  const std::vector<Finding> findings = logs::conclusions(logs, limits);
  if (!findings.empty()) {
    text += "\n" + style.heading("What that says for " + logs::arch_name(limits)) + "\n";
    for (const Finding& finding : findings) {
      text += "  " + style.wrap(printable(finding.sentence, 1200), 2) + "\n";
    }
  }
  for (const TacticLog& log : logs) {
    for (const std::string& note : log.notes) text += "  " + style.wrap("note: " + note, 2) + "\n";
  }
  return text;
}

Result<int> run_tactics_log(const Arguments& arguments) {
  NIBBLE_ASSIGN_OR_RETURN(const BlockLimits limits, limits_from(arguments));
  std::vector<TacticLog> logs;
  for (const std::string& path : arguments.all("--from-log")) {
    NIBBLE_ASSIGN_OR_RETURN(TacticLog log, logs::read_tactic_log(path));
    logs.push_back(std::move(log));
  }
  if (arguments.has("--json")) {
    const std::vector<Finding> findings = logs::conclusions(logs, limits);
    fmt::print("{}\n", logs::log_document(logs, limits, findings).dump());
  } else {
    fmt::print("{}", tactics_log_text(logs, limits, Style::for_stdout()));
  }
  return 0;
}

}  // namespace nibble::cli
