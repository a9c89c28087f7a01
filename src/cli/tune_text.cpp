#include <algorithm>
#include <fmt/core.h>

#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/tune_report.h"

namespace nibble::cli {
namespace {

using tune::TuningEntry;

constexpr std::size_t kMostNote = 400;  // columns

std::string tune_shape_cell(const tune::TuningShape& shape) {
  return fmt::format("{} x [{}, {}]", shape.experts, shape.n, shape.k);
}

std::string tune_range_cell(const tune::TuningKey& key) {
  if (key.from_tokens == key.tokens) return fmt::format("{}", key.tokens);
  return fmt::format("{}-{}", key.from_tokens, key.tokens);
}

const tune::TimedTactic* timed(const TuningEntry& entry, const tune::AnyTactic& tactic) {
  const auto found =
      std::find_if(entry.times.begin(), entry.times.end(),
                   [&](const tune::TimedTactic& one) { return one.tactic == tactic; });
  return found == entry.times.end() ? nullptr : &*found;
}

std::string time_of(const TuningEntry& entry, const tune::AnyTactic& tactic) {
  const tune::TimedTactic* found = timed(entry, tactic);
  return found == nullptr ? "-" : format_time_us(found->times.median_us);
}

std::vector<Cell> entry_cells(const TuningEntry& entry) {
  const tune::TuningShape& shape = entry.key.shape;
  std::vector<Cell> cells = {shape.op, tune_shape_cell(shape), tune_range_cell(entry.key)};
  if (!entry.choice) {
    cells.emplace_back("none", Emphasis::kBad);
    cells.insert(cells.end(), {"-", "-", "-", "-"});
  } else {
    const bool kept = *entry.choice == entry.fallback;
    cells.emplace_back(kept ? "default" : tune::to_string(*entry.choice),
                       kept ? Emphasis::kNone : Emphasis::kGood);
    cells.emplace_back(time_of(entry, *entry.choice));
    cells.emplace_back(time_of(entry, entry.fallback));
    cells.emplace_back(format_percent(entry.regret));
    cells.emplace_back(format_percent(entry.gain));
  }
  cells.emplace_back(fmt::format("{}", entry.rounds));
  cells.emplace_back(fmt::format("{}", entry.times.size()));
  cells.emplace_back(fmt::format("{}", entry.rejected.size()),
                     entry.rejected.empty() ? Emphasis::kNone : Emphasis::kWarning);
  return cells;
}

std::string entries_table(const tune::Audit& audit, const Style& style) {
  Table table({{"op"},
               {"shape", Align::kLeft, 2},
               {"tokens", Align::kRight},
               {"choice"},
               {"time", Align::kRight},
               {"default", Align::kRight, 1},
               {"regret", Align::kRight},
               {"gain", Align::kRight, 3},
               {"rounds", Align::kRight, 4},
               {"timed", Align::kRight, 5},
               {"rejected", Align::kRight, 1}});
  for (const tune::AuditLine& line : audit.lines) {
    if (line.needed) table.row(entry_cells(*line.entry));
  }
  return table.render(style);
}

std::string tune_ratio_text(const tune::CandidateTimes& times) {
  std::string text = fmt::format("{:.3f} of the default's time", times.ratio);
  if (times.ratio_interval) {
    text +=
        fmt::format(" ({:.3f} to {:.3f})", times.ratio_interval->low, times.ratio_interval->high);
  }
  return text;
}

// What the table has no room for: the default, how sure the choice is, who came next, who tied, who
// was wrong.
std::string entry_details(const TuningEntry& entry, const Style& style) {
  std::string text = style.strong(to_string(entry.key)) + "\n";
  const auto say = [&](const std::string& line) { text += "  " + style.wrap(line, 4) + "\n"; };
  if (!entry.note.empty()) say(printable(entry.note, kMostNote));
  say("default: " + tune::to_string(entry.fallback));
  if (entry.choice && *entry.choice != entry.fallback) {
    const tune::TimedTactic* choice = timed(entry, *entry.choice);
    say(fmt::format("choice: {}{}", tune::to_string(*entry.choice),
                    choice == nullptr ? "" : ", " + tune_ratio_text(choice->times)));
  }
  if (entry.runner_up) {
    const tune::TimedTactic* next = timed(entry, *entry.runner_up);
    say(fmt::format("runner-up: {}{}", tune::to_string(*entry.runner_up),
                    next == nullptr ? "" : ", " + tune_ratio_text(next->times)));
  }
  if (const std::vector<std::string> ties = entry.ties(); !ties.empty()) {
    say(fmt::format("tied with the choice: {}", join(ties, "; ")));
  }
  for (const tune::RejectedTactic& one : entry.rejected) {
    say(style.warning(fmt::format("rejected: {}: {}", tune::to_string(one.tactic),
                                  printable(one.why, kMostNote))));
  }
  if (!entry.infeasible.empty()) {
    say(fmt::format("{} tactics do not fit; the first, {}: {}", entry.infeasible.size(),
                    tune::to_string(entry.infeasible.front().tactic),
                    printable(entry.infeasible.front().why, kMostNote)));
  }
  return text;
}

// All of it is text of the file.
std::string site_text(const tune::TuningSite& site) {
  const bool of_cpu = site.driver == "none";
  return fmt::format("{}, {} {}, driver {}, kernels {}\n", printable(site.device), site.units,
                     of_cpu ? "processors" : "SMs", printable(site.driver),
                     printable(site.kernel_version));
}

// Of what the table shows, and how much it does not.
std::string summary_text(const tune::Audit& audit) {
  std::string text =
      audit.needed == 0
          ? std::string("\nnone of the file's keys is needed\n")
          : fmt::format("\n{} of {} keys keep the default; its largest regret is {}\n",
                        audit.kept_defaults, audit.needed, format_percent(audit.largest_regret));
  const std::size_t others = audit.lines.size() - audit.needed;
  if (others == 0) return text;
  return text + fmt::format("the file holds {} more {}, of other shapes or numbers of tokens\n",
                            others, others == 1 ? "key" : "keys");
}

}  // namespace

std::string tune_text(const tune::TuningFile& file, const tune::Audit& audit, const TuneSaid& said,
                      const Style& style) {
  std::string text = site_text(file.site);
  text += said.path + "\n\n" + entries_table(audit, style);
  for (const tune::AuditLine& line : audit.lines) {
    if (line.needed) text += "\n" + entry_details(*line.entry, style);
  }
  text += summary_text(audit);
  if (!said.reused.empty()) {
    text += fmt::format("{} keys were in the file already; --again measures them anew\n",
                        said.reused.size());
  }
  for (const tune::MissingKey& one : audit.missing) {
    text +=
        style.warning(style.wrap(fmt::format("missing: {}: {}", to_string(one.key), one.why), 0)) +
        "\n";
  }
  for (const std::string& note : said.notes) text += style.wrap(note, 0) + "\n";
  return text;
}

}  // namespace nibble::cli
