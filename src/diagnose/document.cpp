#include "diagnose/document.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <fmt/core.h>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "diagnose/document_parts.h"

namespace nibble::diagnose {
namespace {

// Ids of the waterfall's first bars: what the ledger says that the machine cannot do without.
constexpr std::array<std::string_view, 8> kFloorBars = {
    "expert_weights", "other_weights", "kv",       "activations",
    "compute",        "collectives",   "launches", "pipeline_bubble"};

std::string subtitle_text(const Diagnosis& diagnosis) {
  // Without a load nothing was held back, and the headline says what there is.
  if (diagnosis.verdicts.empty() || diagnosis.evidence.levels.empty()) return "";
  const Verdict& verdict = diagnosis.verdicts.front();
  const ClassInfo& info = info_of(verdict.cls);
  return fmt::format("{}: {}. Regime: {}. {}.", capitalised(certainty_text(verdict)), info.title,
                     info.regime, without_stop(std::string(info.means)));
}

// "4.10 of 12.0 ms per token and user at 64 users, 1.52 x the throughput".
std::string win_text(const Diagnosis& diagnosis, const Proposal& proposal) {
  const LevelDiagnosis* level = headline_of(diagnosis);
  const std::string whole =
      level != nullptr && level->measured_ms ? " of " + ms_cell(level->measured_ms) : "";
  std::string text = fmt::format("{}{} ms per token and user at {}", ms_cell(proposal.at_most_ms),
                                 whole, headline_name(diagnosis));
  if (proposal.at_most_ratio > 1) {
    text += fmt::format(", {} x the throughput", format_number(proposal.at_most_ratio, 3));
  }
  return text;
}

// What to do first: the best proposal, or else the experiment that would settle the verdict.
std::vector<std::string> first_steps(const Diagnosis& diagnosis) {
  if (!diagnosis.proposals.empty()) {
    const Proposal& best = diagnosis.proposals.front();
    const std::string cost = best.cost.empty() ? "" : fmt::format(" ({})", best.cost);
    std::string text = fmt::format("Do first: {}{}. It wins at most {}.", without_stop(best.title),
                                   cost, win_text(diagnosis, best));
    if (!best.how.empty()) text += fmt::format(" How: {}.", without_stop(best.how));
    return {text};
  }
  if (!diagnosis.verdicts.empty() && !diagnosis.verdicts.front().experiment.empty()) {
    return {
        fmt::format("Find out first: {}.", without_stop(diagnosis.verdicts.front().experiment))};
  }
  return {};
}

std::string layout_text(const Setting& setting) {
  if (setting.is_cpu || setting.gpus < 2) return "";
  std::string text = fmt::format("{} GPUs, TP {}", setting.gpus, setting.tp);
  if (setting.pp > 1) text += fmt::format(", PP {}", setting.pp);
  if (setting.ep > 1) text += fmt::format(", EP {}", setting.ep);
  return text;
}

std::string load_text(const Diagnosis& diagnosis) {
  std::vector<std::string> names;
  for (const LevelDiagnosis& level : diagnosis.levels) names.push_back(level.name);
  if (names.size() < 2) return join(names, ", ");
  return fmt::format("{}; ranked at {}", join(names, ", "), headline_name(diagnosis));
}

void add_setting(Document& document, const Diagnosis& diagnosis) {
  const Setting& setting = diagnosis.evidence.setting;
  const auto add = [&document](const char* name, const std::string& value) {
    if (!value.empty()) document.facts.emplace_back(name, value);
  };
  const bool told = !setting.model.empty() && !setting.machine.empty();
  if (!told) add("Of", setting.title);
  add("Model", setting.model);
  add("Machine", setting.machine);
  add("Engine",
      setting.engine + (setting.engine_version.empty() ? "" : " ") + setting.engine_version);
  add("Layout", layout_text(setting));
  add("Load", load_text(diagnosis));
}

}  // namespace

void add_section(Document& document, Section section) {
  std::erase_if(section.lists, [](const BulletList& list) { return list.bullets.empty(); });
  std::erase_if(section.tables, [](const auto& table) { return table.second.rows().empty(); });
  std::erase_if(section.charts, [](const Chart& chart) { return chart.series.empty(); });
  const bool empty = section.paragraphs.empty() && section.charts.empty() &&
                     section.tables.empty() && section.findings.empty() &&
                     section.bullets.empty() && section.lists.empty();
  if (!empty) document.sections.push_back(std::move(section));
}

const LevelDiagnosis* headline_of(const Diagnosis& diagnosis) {
  if (diagnosis.levels.empty()) return nullptr;
  return &diagnosis.levels[std::min(diagnosis.headline, diagnosis.levels.size() - 1)];
}

const LevelEvidence* headline_evidence(const Diagnosis& diagnosis) {
  const std::vector<LevelEvidence>& levels = diagnosis.evidence.levels;
  if (levels.empty()) return nullptr;
  return &levels[std::min(diagnosis.headline, levels.size() - 1)];
}

std::string headline_name(const Diagnosis& diagnosis) {
  const LevelDiagnosis* level = headline_of(diagnosis);
  return level == nullptr || level->name.empty() ? "the whole" : level->name;
}

std::optional<double> fact_of(const LevelEvidence& level, Fact fact) {
  const std::optional<double> value = level.get(fact);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<double> users_place(const LevelEvidence& level) {
  for (const Fact fact : {Fact::kUsers, Fact::kInFlight}) {
    const std::optional<double> value = fact_of(level, fact);
    if (value && *value > 0) return value;
  }
  return std::nullopt;
}

bool is_floor_bar(const WaterfallBar& bar) {
  return std::find(kFloorBars.begin(), kFloorBars.end(), bar.id) != kFloorBars.end();
}

std::optional<double> floor_ms(const LevelDiagnosis& level) {
  std::optional<double> sum;
  for (const WaterfallBar& bar : level.waterfall) {
    if (bar.ms && std::isfinite(*bar.ms) && is_floor_bar(bar)) sum = sum.value_or(0) + *bar.ms;
  }
  return sum;
}

const WaterfallBar* largest_loss(const LevelDiagnosis& level) {
  const WaterfallBar* largest = nullptr;
  for (const WaterfallBar& bar : level.waterfall) {
    if (!bar.ms || !(*bar.ms > 0) || is_floor_bar(bar)) continue;
    if (largest == nullptr || *bar.ms > *largest->ms) largest = &bar;
  }
  return largest;
}

std::string ms_cell(const std::optional<double>& ms) {
  constexpr double kZero = 0.0005;  // less says nothing
  if (!ms || !std::isfinite(*ms)) return "-";
  return std::abs(*ms) < kZero ? "0" : format_number(*ms, 3);
}

std::string ms_cell_of(const std::optional<double>& ms, const std::optional<double>& whole) {
  if (!ms || !std::isfinite(*ms) || !whole || !(*whole > 0) || !std::isfinite(*whole)) {
    return ms_cell(ms);
  }
  constexpr int kDigits = 3;  // before the last of the whole's
  const int decimals = std::clamp(kDigits - static_cast<int>(std::floor(std::log10(*whole))), 0, 4);
  const bool nothing = std::abs(*ms) < 0.5 * std::pow(10, -decimals);
  return nothing ? "0" : fmt::format("{:.{}f}", *ms, decimals);
}

std::string capitalised(std::string text) {
  if (!text.empty()) {
    text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  }
  return text;
}

std::string without_stop(std::string text) {
  while (!text.empty() && (text.back() == '.' || text.back() == ' ')) text.pop_back();
  return text;
}

std::string certainty_text(const Verdict& verdict) {
  const std::string certainty = verdict.certainty == Certainty::kNone
                                    ? "not certain"
                                    : std::string(to_string(verdict.certainty));
  if (!std::isfinite(verdict.confidence) || verdict.confidence <= 0) return certainty;
  return fmt::format("{} ({:.0f} %)", certainty, 100 * verdict.confidence);
}

Document diagnosis_document(const Diagnosis& diagnosis, const DocumentOptions& options) {
  Diagnosis shown = diagnosis;
  Document document{.command = options.command};
  if (!options.show_hosts) redact(shown, document.command, options.hosts);
  document.title = shown.sentence.empty() ? "Diagnosis" : shown.sentence;
  document.subtitle = subtitle_text(shown);
  document.lead = first_steps(shown);
  add_setting(document, shown);
  for (const auto section_of : {waterfall_section, why_section, experiments_section,
                                proposals_section, sweep_section, gpu_section, roofline_section,
                                signals_section, served_section, tactics_section, energy_section}) {
    add_section(document, section_of(shown));
  }
  add_section(document, {.heading = "Notes", .bullets = shown.evidence.setting.notes});
  add_section(document, {.heading = "Findings", .findings = shown.findings, .detail = true});
  for (const auto section_of : {parts_section, facts_section, provenance_section}) {
    add_section(document, section_of(shown));
  }
  document.data = to_json(shown);
  return document;
}

}  // namespace nibble::diagnose
