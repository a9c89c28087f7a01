#include <algorithm>
#include <cstdint>
#include <map>

#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/tactics_report.h"

namespace nibble::cli {
namespace {

std::string with_commas(std::int64_t number) {
  return format_count(static_cast<double>(number));
}

std::string bytes_text(std::int64_t bytes) {
  return with_commas(bytes) + " B";
}

std::string heading_text(const TacticsReport& report, const Style& style) {
  const Chip& chip = report.chip;
  const std::string title = chip.machine.empty()
                                ? chip.arch.name()
                                : fmt::format("{}, compiled for {}", chip.title, chip.arch.name());
  std::string text = style.strong(title) + "\n";
  text += style.wrap(
              fmt::format("shared memory: {} a block, {} an SM, of which each block takes {} more "
                          "than it asks for; {} registers, {} warps and {} blocks an SM",
                          bytes_text(chip.limits.shared_per_block),
                          bytes_text(chip.limits.shared_per_sm), bytes_text(kReservedShared),
                          with_commas(chip.limits.registers_per_sm), chip.warps_per_sm,
                          chip.blocks_per_sm),
              0) +
          "\n";
  if (!report.survey.compiler.empty()) {
    text += "compiled by " + report.survey.compiler + "\n";
  } else if (!report.survey.compiler_reason.empty()) {
    text += style.warning(style.wrap(
                "Not compiled, so that registers and spills are not known and fitting means bytes "
                "and shapes alone: " +
                    report.survey.compiler_reason,
                0)) +
            "\n";
  }
  text += "products: " + report.subject + "\n";
  for (const std::string& note : report.notes) text += "  " + style.wrap(note, 2) + "\n";
  return text;
}

std::string spills_text(const std::optional<int>& bytes) {
  return bytes ? bytes_text(*bytes) : "-";
}

std::string parts_text(const TileBudget& budget, const Style& style) {
  Table table({{"part"}, {"bytes", Align::kRight}, {"of"}, {"how"}});
  for (const BudgetPart& part : budget.parts) {
    table.row(
        {part.name, with_commas(part.bytes), part.per_stage ? "a stage" : "a block", part.how});
  }
  return table.render(style);
}

std::string stages_text(const TileBudget& budget, const Style& style) {
  Table table({{"stages", Align::kRight},
               {"ring", Align::kRight},
               {"in all", Align::kRight},
               {"left", Align::kRight},
               {"blocks an SM", Align::kRight},
               {""}});
  for (const StageBudget& row : budget.stages) {
    const bool fits = row.left_bytes >= 0;
    table.row({fmt::format("{}", row.stages), with_commas(row.ring_bytes),
               with_commas(row.total_bytes), with_commas(row.left_bytes),
               fmt::format("{}", row.blocks_per_sm),
               fits ? Cell("") : Cell("does not fit", Emphasis::kBad)});
  }
  return table.render(style);
}

std::string way_text(Way way) {
  return way == Way::kTokensOnM ? "tokens on M" : "weights on M";
}

std::string cutlass_text(const TacticsReport& report, const Style& style) {
  if (report.cutlass.empty()) return "";
  std::string text = "\n" + style.heading("CUTLASS for the same tile") + "\n";
  text += style.wrap(
              "NVFP4 on SM120, tokens on M: CUTLASS main, EpilogueAuto, bf16 C/D, as many stages "
              "as fit; its own size, without what a launcher adds (docs/arithmetic.md)",
              0) +
          "\n" +
          style.wrap(fmt::format("Bytes do not tell registers and spills; where they stand here, "
                                 "they are those of {}",
                                 kCutlassCompiled),
                     0) +
          "\n";
  Table table({{"kernel"},
               {"stages", Align::kRight},
               {"a stage", Align::kRight, 1},
               {"epilogue", Align::kRight, 2},
               {"the rest", Align::kRight, 3},
               {"in all", Align::kRight},
               {""},
               {"registers", Align::kRight},
               {"spills", Align::kRight}});
  for (const CutlassUse& use : report.cutlass) {
    table.row(
        {use.kernel, fmt::format("{}", use.stages), with_commas(use.stage_bytes),
         with_commas(use.epilogue_bytes), with_commas(use.fixed_bytes), with_commas(use.bytes),
         use.verdict == "fits" ? std::string("fits by bytes") : use.verdict,
         use.registers ? fmt::format("{}", *use.registers) : "-", spills_text(use.spill_bytes)});
  }
  return text + table.render(style);
}

std::string explained_text(const TacticsReport& report, const Style& style) {
  if (!report.tile) return "";
  std::string text;
  for (const TileBudget& budget : report.budgets) {
    text += "\n" +
            style.heading(fmt::format("{} of {}, {}", to_string(*report.tile),
                                      to_string(budget.family), way_text(budget.way))) +
            "\n" + style.wrap(budget.product, 0) + "\n";
    text += parts_text(budget, style) + "\n" + stages_text(budget, style);
  }
  return text + cutlass_text(report, style);
}

std::string registers_text(const Feasibility& found) {
  return found.registers ? fmt::format("{}", *found.registers) : "-";
}

Cell verdict_cell(const Feasibility& found) {
  if (found.feasible()) {
    return found.compiled() ? Cell("fits", Emphasis::kGood)
                            : Cell("fits by bytes", Emphasis::kNone);
  }
  std::string limit(to_string(*found.limit));
  std::replace(limit.begin(), limit.end(), '_', ' ');
  return {"no: " + limit, Emphasis::kBad};
}

std::vector<const Feasibility*> sorted_of(const TacticsReport& report, const std::string& op,
                                          TacticFamily family) {
  std::vector<const Feasibility*> rows;
  for (const Feasibility& found : report.survey.tactics) {
    if (found.op == op && found.candidate.family() == family) rows.push_back(&found);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Feasibility* one, const Feasibility* other) {
    return one->feasible() && !other->feasible();
  });
  return rows;
}

// "w4a4 tokens 128x256x128 3 stages 2x4 warps split" in the two parts that a narrow table has
// beside the column of stages: "tokens 128x256x128" and "2x4 warps split".
struct ShortName {
  std::string tile;
  std::string rest;
};

ShortName short_name(const Feasibility& found) {
  constexpr std::string_view kStages = " stages";
  const std::string tile = to_string(found.candidate.tile());
  std::string_view name = found.name;
  const std::string family = fmt::format("{} ", to_string(found.candidate.family()));
  if (name.starts_with(family)) name.remove_prefix(family.size());
  const std::size_t at = name.find(tile);
  const std::size_t stages = name.find(kStages);
  if (at == std::string_view::npos || stages == std::string_view::npos) {
    return {.tile = std::string(name), .rest = ""};
  }
  return {.tile = std::string(name.substr(0, at + tile.size())),
          .rest = std::string(trim(name.substr(stages + kStages.size())))};
}

// What compiling is for stays; the headings are short, and the name is in parts.
std::string narrow_table(const std::vector<const Feasibility*>& rows, const Style& style) {
  Table table({{"verdict"},
               {"stages", Align::kRight},
               {"shared", Align::kRight},
               {"regs", Align::kRight},
               {"spills", Align::kRight},
               {"blocks", Align::kRight},
               {"tile"},
               {"the rest", Align::kLeft, 1}});
  for (const Feasibility* row : rows) {
    const bool placed = row->feasible() || row->registers;
    const ShortName name = short_name(*row);
    table.row({verdict_cell(*row), fmt::format("{}", row->shared.stages),
               bytes_text(row->shared.total), registers_text(*row), spills_text(row->spill_bytes),
               placed ? fmt::format("{}", row->blocks.blocks()) : "-", name.tile, name.rest});
  }
  return table.render(style);
}

// Whether a table with names in full has room for registers, spills and blocks.
bool is_narrow(const std::vector<const Feasibility*>& rows, const Style& style) {
  constexpr std::size_t kNumbers = 64;  // verdict, shared, registers, spills, blocks/SM and gaps
  std::size_t longest = 0;
  for (const Feasibility* row : rows) longest = std::max(longest, row->name.size());
  return style.width > 0 && style.width < kNumbers + longest;
}

std::string table_text(const std::vector<const Feasibility*>& rows, const Style& style) {
  if (is_narrow(rows, style)) return narrow_table(rows, style);
  // As in a list of files, the name comes last: on a narrow terminal it is the one to be broken.
  Table table({{"verdict"},
               {"a stage", Align::kRight, 5},
               {"scales", Align::kRight, 6},
               {"stages", Align::kRight, 4},
               {"epilogue", Align::kRight, 7},
               {"shared", Align::kRight},
               {"registers", Align::kRight},
               {"spills", Align::kRight},
               {"blocks/SM", Align::kRight},
               {"by", Align::kLeft, 3},
               {"tactic"}});
  for (const Feasibility* row : rows) {
    const bool placed = row->feasible() || row->registers;
    table.row({verdict_cell(*row), bytes_text(row->shared.stage()),
               bytes_text(row->shared.scale_stage), fmt::format("{}", row->shared.stages),
               bytes_text(row->shared.epilogue), bytes_text(row->shared.total),
               registers_text(*row), spills_text(row->spill_bytes),
               placed ? fmt::format("{}", row->blocks.blocks()) : "-",
               placed ? std::string(to_string(row->blocks.bound())) : "-", row->name});
  }
  return table.render(style);
}

std::string sentence_of(const Feasibility& found) {
  if (found.remedies.empty()) return found.reason;
  return fmt::format("{}; it fits with {}", found.reason, join(found.remedies, ", or with "));
}

// A sentence once, however many tactics it is about.
std::string rejected_text(const std::vector<const Feasibility*>& rows, const Style& style) {
  std::map<std::string, std::vector<std::string>> names;
  std::vector<std::string> order;
  for (const Feasibility* row : rows) {
    if (row->feasible()) continue;
    std::vector<std::string>& list = names[sentence_of(*row)];
    if (list.empty()) order.push_back(sentence_of(*row));
    list.push_back(row->name);
  }
  std::string text;
  for (const std::string& sentence : order) {
    const std::vector<std::string>& list = names[sentence];
    const std::string who =
        list.size() > 3 ? fmt::format("{} tactics", list.size()) : join(list, "; ");
    text += "  " + style.wrap(who + ": " + sentence, 4) + "\n";
  }
  return text;
}

// "Feasible" is what was compiled; what was not may still spill, or have too many registers.
std::string count_text(const std::vector<const Feasibility*>& rows, int tiles, const Style& style) {
  const auto fitting = std::count_if(rows.begin(), rows.end(),
                                     [](const Feasibility* row) { return row->feasible(); });
  const auto proven = std::count_if(rows.begin(), rows.end(), [](const Feasibility* row) {
    return row->feasible() && row->compiled();
  });
  if (fitting == 0) {
    return style.bad("No tactic is feasible") + fmt::format(" of {}.\n", rows.size());
  }
  std::string what = fmt::format("{} of {} feasible", proven, rows.size());
  if (proven == 0) what = fmt::format("{} of {} fit by bytes", fitting, rows.size());
  if (proven > 0 && proven < fitting)
    what += fmt::format(", {} more fit by bytes", fitting - proven);
  const std::string_view unknown =
      proven < fitting ? "; registers and spills, which only compiling tells, may reject some" : "";
  return style.wrap(fmt::format("{}, {} of them distinct in M, N, K and the way round{}.", what,
                                tiles, unknown),
                    0) +
         "\n";
}

std::string group_text(const TacticsReport& report, const TacticProduct& product,
                       TacticFamily family, const Style& style) {
  const std::vector<const Feasibility*> rows = sorted_of(report, product.op, family);
  const std::string head = fmt::format("{} {}", to_string(family), product.op);
  std::string text = "\n" + style.heading(head) + "\n" + style.wrap(product.text(family), 0) + "\n";
  if (rows.empty()) {
    return text + (report.tile ? "No tactic of the list has this tile.\n" : "No tactics.\n");
  }
  text += table_text(rows, style);
  text += count_text(rows, distinct_tiles(report.survey.tactics, product.op, family), style);
  return text + rejected_text(rows, style);
}

}  // namespace

std::string tactics_text(const TacticsReport& report, const Style& style) {
  std::string text = heading_text(report, style) + explained_text(report, style);
  for (const TacticProduct& product : report.products) {
    for (const TacticFamily family : report.families) {
      text += group_text(report, product, family, style);
    }
  }
  return text;
}

}  // namespace nibble::cli
