// The sections that a case adds: measured kernels, levels, findings, proposals.
#include <algorithm>

#include "base/units.h"
#include "cli/analyze_parts.h"

namespace nibble::cli {
namespace {

Emphasis kernel_emphasis(const KernelAnalysis& kernel) {
  if (kernel.regime == "accounting error") return Emphasis::kBad;
  return kernel.regime == "memory" || kernel.regime == "compute" ? Emphasis::kGood
                                                                 : Emphasis::kWarning;
}

Section kernels_section(const Analysis& whole) {
  const CaseAnalysis& analysis = *whole.explained;
  Section section{.heading = "Measured kernels against their two roofs"};
  section.paragraphs.push_back(
      "A kernel within 2 x of a roof is bound by it; one far above both waits for something else.");
  section.charts.push_back(roofline_chart(whole));
  Table table({{"kernel"},
               {"library", Align::kLeft, 5},
               {"measured", Align::kRight},
               {"TFLOPS", Align::kRight, 1},
               {"memory floor", Align::kRight},
               {"with bf16 input", Align::kRight, 6},
               {"compute floor", Align::kRight, 7},
               {"FLOP/B", Align::kRight, 2},
               {"ridge", Align::kRight, 3},
               {"above floor", Align::kRight},
               {"bound by"},
               {"128x128 coverage", Align::kRight, 4}});
  for (const KernelAnalysis& kernel : analysis.kernels) {
    if (kernel.bytes <= 0) {
      table.row({kernel.label, kernel.measured.library, "-",
                 kernel.measured.tflops ? format_number(*kernel.measured.tflops) : "-", "-", "-",
                 "-", "-", format_number(kernel.ridge), "-", "shape not stated", "-"});
      continue;
    }
    const double floor_us = std::max(kernel.memory_us, kernel.compute_us);
    table.row({kernel.label, kernel.measured.library, format_time_us(kernel.time_us),
               format_number(kernel.flop / kernel.time_us * 1e-6), format_time_us(kernel.memory_us),
               format_time_us(kernel.memory_bf16_activations_us), format_time_us(kernel.compute_us),
               format_number(kernel.intensity), format_number(kernel.ridge),
               format_number(kernel.time_us / floor_us, 3) + " x",
               Cell(kernel.regime, kernel_emphasis(kernel)),
               kernel.wave_coverage ? format_percent(*kernel.wave_coverage) : "-"});
  }
  section.tables.emplace_back("", std::move(table));
  return section;
}

// The terms of all levels in the order of the headline level's; what is unexplained comes last.
std::vector<const WaterfallTerm*> known_terms(const CaseAnalysis& analysis) {
  std::vector<const WaterfallTerm*> terms;
  auto add = [&terms](const LevelAnalysis& level) {
    for (const WaterfallTerm& term : level.waterfall) {
      const bool known = std::any_of(terms.begin(), terms.end(), [&](const WaterfallTerm* other) {
        return other->id == term.id;
      });
      if (!known) terms.push_back(&term);
    }
  };
  add(analysis.levels[analysis.headline]);
  for (const LevelAnalysis& level : analysis.levels) add(level);
  std::stable_partition(terms.begin(), terms.end(),
                        [](const WaterfallTerm* term) { return term->id != "unexplained"; });
  return terms;
}

const WaterfallTerm* find_term(const LevelAnalysis& level, std::string_view id) {
  for (const WaterfallTerm& term : level.waterfall) {
    if (term.id == id) return &term;
  }
  return nullptr;
}

Chart waterfall_chart(const LevelAnalysis& level) {
  Chart chart{.id = "waterfall",
              .kind = Chart::Kind::kWaterfall,
              .title = fmt::format("From the floor to the measured step at {} sequences",
                                   format_number(level.measured.concurrency)),
              .x = {.title = "part of the step"},
              .y = {.title = "time (ms)"}};
  chart.caption =
      "Each bar starts where the last one ends; the last bar is the time that was measured.";
  ChartSeries series{.name = "step"};
  for (const WaterfallTerm& term : level.waterfall)
    series.points.push_back({.y = term.time_us / kKilo, .label = term.title});
  series.points.push_back({.y = level.measured_step_us / kKilo, .label = "measured"});
  chart.series.push_back(std::move(series));
  return chart;
}

Section levels_section(const Analysis& whole) {
  const CaseAnalysis& analysis = *whole.explained;
  Section section{.heading = "From the floor to the measured step"};
  std::vector<const LevelAnalysis*> measured;
  for (const LevelAnalysis& level : analysis.levels) {
    if (level.measured_step_us > 0) measured.push_back(&level);
  }
  if (measured.empty()) {
    section.paragraphs.push_back(
        "The case has no throughput at any load level, so there is no step to explain.");
    return section;
  }
  section.charts.push_back(waterfall_chart(analysis.levels[analysis.headline]));
  section.charts.push_back(throughput_chart(whole));
  std::vector<Column> columns = {{"per step"}};
  for (const LevelAnalysis* level : measured)
    columns.push_back(
        {fmt::format("at {}", format_number(level->measured.concurrency)), Align::kRight});
  Table table(std::move(columns));
  for (const WaterfallTerm* term : known_terms(analysis)) {
    std::vector<Cell> cells = {Cell(term->title)};
    for (const LevelAnalysis* level : measured) {
      const WaterfallTerm* found = find_term(*level, term->id);
      cells.emplace_back(found ? format_time_us(found->time_us) : "-",
                         term->id == "unexplained" ? Emphasis::kWarning : Emphasis::kNone);
    }
    table.row(std::move(cells));
  }
  table.rule();
  std::vector<Cell> total = {Cell("measured (running / tok/s)", Emphasis::kStrong)};
  for (const LevelAnalysis* level : measured)
    total.emplace_back(format_time_us(level->measured_step_us), Emphasis::kStrong);
  table.row(std::move(total));
  section.tables.emplace_back("", std::move(table));
  for (const WaterfallTerm& term : analysis.levels[analysis.headline].waterfall) {
    if (!term.note.empty()) section.bullets.push_back(fmt::format("{}: {}", term.title, term.note));
  }
  return section;
}

Section tiles_section(const CaseAnalysis& analysis) {
  Section section{.heading = "Shared memory of a tile on this chip"};
  Table table({{"tile"},
               {"stage", Align::kRight},
               {"of it codes", Align::kRight, 2},
               {"of it scales", Align::kRight, 2},
               {"stages", Align::kRight},
               {"epilogue", Align::kRight, 1},
               {"barriers", Align::kRight, 1},
               {"total B", Align::kRight},
               {"limit B", Align::kRight},
               {"left for the launcher", Align::kRight},
               {"verdict"}});
  for (const SharedBudget& tile : analysis.tiles) {
    const bool fits = tile.verdict == TileVerdict::kFits;
    table.row(
        {to_string(tile.tile), fmt::format("{}", tile.stage_bytes),
         fmt::format("{}", tile.a_bytes + tile.b_bytes),
         fmt::format("{}", tile.scale_a_bytes + tile.scale_b_bytes), fmt::format("{}", tile.stages),
         fmt::format("{}", tile.epilogue_bytes), fmt::format("{}", tile.fixed_bytes),
         fmt::format("{}", tile.total_bytes), fmt::format("{}", tile.limit_bytes),
         fits ? fmt::format("{}", tile.limit_bytes - tile.total_bytes) : "-",
         Cell(std::string(to_string(tile.verdict)), fits ? Emphasis::kGood : Emphasis::kBad)});
  }
  section.tables.emplace_back("", std::move(table));
  return section;
}

Section proposals_section(const CaseAnalysis& analysis) {
  Section section{.heading = "What would help, by what it could win at most"};
  Table table({{"proposal"},
               {"at most, per step", Align::kRight},
               {"throughput", Align::kRight},
               {"depends on", Align::kLeft, 2},
               {"cheapest experiment", Align::kLeft, 1}});
  for (const Proposal& proposal : analysis.proposals) {
    table.row({proposal.title, format_time_us(proposal.at_most_us),
               format_number(proposal.at_most_ratio, 3) + " x", proposal.depends_on,
               proposal.experiment});
  }
  section.tables.emplace_back("", std::move(table));
  return section;
}

}  // namespace

std::vector<Section> case_sections(const Analysis& analysis) {
  if (!analysis.explained) return {};
  const CaseAnalysis& explained = *analysis.explained;
  std::vector<Section> sections;
  sections.push_back(levels_section(analysis));
  sections.push_back({.heading = "What the measured numbers say", .findings = explained.findings});
  if (!explained.proposals.empty()) sections.push_back(proposals_section(explained));
  if (!explained.kernels.empty()) sections.push_back(kernels_section(analysis));
  if (!explained.tiles.empty()) sections.push_back(tiles_section(explained));
  if (!explained.missing_signals.empty()) {
    sections.push_back(
        {.heading = "Signals that the case lacks", .bullets = explained.missing_signals});
  }
  return sections;
}

}  // namespace nibble::cli
