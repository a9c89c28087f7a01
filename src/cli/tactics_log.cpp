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
#include "tactics/logs/tactic_count.h"

namespace nibble::cli {
namespace {

using logs::Entry;
using logs::Status;
using logs::TacticLog;

// Rows of a table for people; --json has all of them.
constexpr std::size_t kMostRows = 40;

std::string log_bytes(const std::optional<std::int64_t>& bytes) {
  return bytes ? logs::bytes_text(*bytes) : "-";
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
  if (log.lines > 0) {
    parts.push_back(fmt::format("{} {}", format_count(static_cast<double>(log.lines)),
                                log.lines == 1 ? "line" : "lines"));
  }
  std::string text = style.strong(printable(log.name)) + "  " + log.format;
  if (!parts.empty()) text += ": " + join(parts, ", ");
  return style.wrap(text, 2) + "\n";
}

// What one row of the first table stands for.
using FailureKey = std::tuple<std::string, std::string, std::string, std::string, std::string>;
struct Failure {
  logs::TacticCount count;  // as the sentences count: a tactic once, on however many ranks
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
      failure.count.add(entry);
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
               {"ranks", Align::kRight, 3},
               {"lines", Align::kRight},
               {"asks for", Align::kRight},
               {"limit there", Align::kRight, 4},
               {"first", Align::kLeft, 5}});
  for (const auto& [key, failure] : failures) {
    const auto& [reason, status, operation, wanted, limit] = key;
    const bool counts = status != to_string(Status::kDefault);
    const std::size_t ranks = failure.count.ranks.size();
    table.row({reason, printable(operation, 60), status,
               counts ? format_count(static_cast<double>(failure.count.tactics())) : "-",
               ranks == 0 ? "-" : fmt::format("{}", ranks),
               format_count(static_cast<double>(failure.count.lines)), wanted, limit,
               printable(failure.where, 60)});
  }
  return "\n" + style.heading("What did not run, by reason") + "\n" + table.render(style);
}

// Names of the files as rows show them: the last part, where that tells them apart.
std::map<std::string, std::string> short_names(std::span<const TacticLog> logs) {
  std::map<std::string, int> uses;
  const auto last = [](const std::string& name) { return name.substr(name.rfind('/') + 1); };
  for (const TacticLog& log : logs) ++uses[last(log.name)];
  std::map<std::string, std::string> names;
  for (const TacticLog& log : logs) {
    const std::string name = last(log.name);
    names[log.name] = printable(uses[name] > 1 ? log.name : name, 60);
  }
  return names;
}

// A table whose rows say which file they are from, where there are several.
class LogTable {
 public:
  LogTable(std::span<const TacticLog> logs, std::vector<Column> columns)
      : several_(logs.size() > 1), names_(short_names(logs)), table_(with_file(columns)) {}

  void row(const std::string& file, std::vector<Cell> cells) {
    if (several_) cells.insert(cells.begin(), names_.at(file));
    table_.row(std::move(cells));
  }
  std::string render(const Style& style) const { return table_.render(style); }

 private:
  std::vector<Column> with_file(std::vector<Column> columns) const {
    if (several_) columns.insert(columns.begin(), Column{"file"});
    return columns;
  }

  bool several_;
  std::map<std::string, std::string> names_;
  Table table_;
};

// The fastest of a search, and how many were timed: where nothing says which one was chosen, these
// times are all that there is.
struct Timed {
  std::string file;
  const Entry* first = nullptr;
  std::vector<const Entry*> entries;
};

std::vector<Timed> timed_searches(std::span<const TacticLog> logs) {
  using Key = std::tuple<std::string, std::int64_t, std::string, std::string, std::string>;
  std::map<Key, Timed> searches;
  for (const TacticLog& log : logs) {
    for (const Entry& entry : log.entries) {
      if (entry.status != Status::kTried || !entry.time_ms) continue;
      Timed& search =
          searches[{entry.op, entry.bucket.value_or(-1), entry.runner, entry.rank, log.name}];
      search.file = log.name;
      if (search.first == nullptr) search.first = &entry;
      search.entries.push_back(&entry);
    }
  }
  std::vector<Timed> list;
  for (auto& [key, search] : searches) {
    std::stable_sort(search.entries.begin(), search.entries.end(),
                     [](const Entry* a, const Entry* b) { return *a->time_ms < *b->time_ms; });
    list.push_back(std::move(search));
  }
  return list;
}

// "19 in 19.0 us, 20 in 20.0 us, 8 in 80.0 us"
std::string fastest_text(const std::vector<const Entry*>& entries) {
  constexpr std::size_t kMostTimes = 3;
  std::vector<std::string> parts;
  for (const Entry* entry : entries) {
    if (parts.size() == kMostTimes) break;
    parts.push_back(fmt::format("{} in {}", entry->tactic, format_time_us(*entry->time_ms * 1e3)));
  }
  return join(parts, ", ") + (entries.size() > kMostTimes ? ", ..." : "");
}

std::string rows_text(const Entry& entry) {
  return entry.bucket ? format_count(static_cast<double>(*entry.bucket)) : "-";
}

std::string more_text(std::size_t all, std::size_t shown, const Style& style) {
  if (shown >= all) return "";
  return style.faint(fmt::format("{} more with --json", all - shown)) + "\n";
}

std::string timed_table(std::span<const TacticLog> logs, const Style& style) {
  const std::vector<Timed> searches = timed_searches(logs);
  if (searches.empty()) return "";
  LogTable table(logs, {{"operation"},
                        {"rows", Align::kRight},
                        {"runner", Align::kLeft, 2},
                        {"rank", Align::kLeft, 3},
                        {"timed", Align::kRight},
                        {"the fastest tactics"}});
  const std::size_t shown = std::min(searches.size(), kMostRows);
  for (std::size_t index = 0; index < shown; ++index) {
    const Timed& search = searches[index];
    const Entry& entry = *search.first;
    table.row(search.file, {entry.op.empty() ? "-" : entry.op, rows_text(entry), entry.runner,
                            entry.rank.empty() ? "-" : entry.rank,
                            format_count(static_cast<double>(search.entries.size())),
                            fastest_text(search.entries)});
  }
  return "\n" + style.heading("What was timed") + "\n" + table.render(style) +
         more_text(searches.size(), shown, style);
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
  LogTable table(logs, {{"operation"},
                        {"rows", Align::kRight},
                        {"runner", Align::kLeft, 2},
                        {"tactic"},
                        {"rank", Align::kLeft, 1},
                        {"time", Align::kRight, 3}});
  const std::size_t shown = std::min(choices.size(), kMostRows);
  for (std::size_t index = 0; index < shown; ++index) {
    const Entry& entry = *choices[index].second;
    table.row(choices[index].first->name,
              {entry.op, rows_text(entry), entry.runner,
               entry.tactic.empty() ? entry.reason.text : entry.tactic,
               entry.rank.empty() ? "-" : entry.rank,
               entry.time_ms ? format_time_us(*entry.time_ms * 1e3) : "-"});
  }
  return "\n" + style.heading("What was chosen") + "\n" + table.render(style) +
         more_text(choices.size(), shown, style);
}

struct JudgedFor {
  BlockLimits limits = kSm120Limits;
  logs::AskedChip asked;
};

Result<JudgedFor> judged_for(const Arguments& arguments) {
  const std::string arch = arguments.text("--arch").value_or("");
  if (const std::optional<std::string> name = arguments.text("--machine")) {
    NIBBLE_ASSIGN_OR_RETURN(const MachineSpec machine, load_machine(*name));
    NIBBLE_ASSIGN_OR_RETURN(const Chip chip, chip_of(machine, arch));
    return JudgedFor{.limits = chip.limits, .asked = {.named = true, .machine = chip.title}};
  }
  if (arch.empty()) return JudgedFor{};
  NIBBLE_ASSIGN_OR_RETURN(const Chip chip, chip_of(arch));
  return JudgedFor{.limits = chip.limits, .asked = {.named = true, .machine = ""}};
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
                             const logs::AskedChip& asked, const Style& style) {
  std::string text;
  for (const TacticLog& log : logs) text += log_heading(log, style);
  text += failures_table(logs, style);
  text += timed_table(logs, style);
  text += choices_table(logs, style);
  const std::vector<Finding> findings = logs::conclusions(logs, limits, asked);
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
  NIBBLE_ASSIGN_OR_RETURN(const JudgedFor judged, judged_for(arguments));
  std::vector<TacticLog> logs;
  for (const std::string& path : arguments.all("--from-log")) {
    NIBBLE_ASSIGN_OR_RETURN(TacticLog log, logs::read_tactic_log(path));
    logs.push_back(std::move(log));
  }
  if (arguments.has("--json")) {
    const std::vector<Finding> findings = logs::conclusions(logs, judged.limits, judged.asked);
    fmt::print("{}\n", logs::log_document(logs, judged.limits, findings).dump());
  } else {
    fmt::print("{}", tactics_log_text(logs, judged.limits, judged.asked, Style::for_stdout()));
  }
  return 0;
}

}  // namespace nibble::cli
