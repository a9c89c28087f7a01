// Why: what speaks for and against the verdicts, what was tried, and what to change.
#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <string>
#include <utility>

#include "base/units.h"
#include "diagnose/document_parts.h"

namespace nibble::diagnose {
namespace {

constexpr std::size_t kVerdictsShown = 3;

void add_clues(BulletList& list, const char* label, const std::vector<Clue>& clues) {
  for (const Clue& clue : clues) {
    list.bullets.push_back(fmt::format("{}: {}", label, clue.sentence));
  }
}

BulletList grounds_of(const Verdict& verdict, std::size_t rank) {
  BulletList list{.heading = fmt::format("{}. {}: {}", rank,
                                         capitalised(std::string(info_of(verdict.cls).title)),
                                         certainty_text(verdict))};
  // The first one's sentence is the title of the page.
  if (rank > 1 && !verdict.sentence.empty()) list.bullets.push_back(verdict.sentence);
  add_clues(list, "For", verdict.evidence_for);
  add_clues(list, "Against", verdict.evidence_against);
  add_clues(list, "Not seen", verdict.missing);
  if (!verdict.experiment.empty()) {
    list.bullets.push_back("Cheapest experiment: " + verdict.experiment);
  }
  return list;
}

}  // namespace

Section why_section(const Diagnosis& diagnosis) {
  Section section{.heading = "Why"};
  const std::size_t shown = std::min(kVerdictsShown, diagnosis.verdicts.size());
  for (std::size_t at = 0; at < shown; ++at) {
    section.lists.push_back(grounds_of(diagnosis.verdicts[at], at + 1));
  }
  return section;
}

Section experiments_section(const Diagnosis& diagnosis) {
  Section section{.heading = "What was tried"};
  for (const Experiment& experiment : diagnosis.experiments) {
    const auto& confirms = experiment.confirms;
    const char* answer = !confirms ? "left open" : *confirms ? "confirmed" : "not confirmed";
    section.bullets.push_back(
        fmt::format("{} {}. {}: {}.", experiment.question, without_stop(experiment.outcome),
                    capitalised(std::string(info_of(experiment.about).title)), answer));
  }
  return section;
}

Section proposals_section(const Diagnosis& diagnosis) {
  Section section{.heading = "What to change"};
  if (diagnosis.proposals.empty()) return section;
  section.paragraphs.push_back(fmt::format(
      "Against what is named first, then by the most that each can win at {}; wins do not "
      "add up.",
      headline_name(diagnosis)));
  Table table({{"at most, ms", Align::kRight},
               {"throughput", Align::kRight},
               {"change"},
               {"cost", Align::kLeft, 1},
               {"depends on", Align::kLeft, 2}});
  std::size_t rank = 0;
  for (const Proposal& proposal : diagnosis.proposals) {
    ++rank;
    table.row({ms_cell(proposal.at_most_ms), format_number(proposal.at_most_ratio, 3) + " x",
               Cell(fmt::format("{}. {}", rank, proposal.title),
                    rank == 1 ? Emphasis::kStrong : Emphasis::kNone),
               proposal.cost, proposal.depends_on});
    std::string text = without_stop(proposal.title) + ":";
    if (!proposal.how.empty()) text += fmt::format(" {}.", without_stop(proposal.how));
    if (!proposal.cost.empty()) text += fmt::format(" Cost: {}.", without_stop(proposal.cost));
    if (!proposal.evidence.empty()) {
      text += fmt::format(" Why: {}.", without_stop(proposal.evidence));
    }
    if (text.back() != ':') section.bullets.push_back(std::move(text));
  }
  section.tables.emplace_back("", std::move(table));
  return section;
}

}  // namespace nibble::diagnose
