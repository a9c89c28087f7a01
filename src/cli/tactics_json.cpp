// The nibble.tactics/1 document (docs/schemas/nibble.tactics.1.json). Every member is always there;
// what is not known is null, and a reason stands beside it.
#include "base/json_parts.h"
#include "cli/tactics_report.h"
#include "cli/version.h"

namespace nibble::cli {
namespace {

Json integer_or_null(const std::optional<int>& value) {
  return value ? Json(*value) : Json();
}

// Rejected, or feasible with its registers and spills known.
bool is_settled(const Feasibility& found) {
  return !found.feasible() || found.compiled();
}

std::string_view way_name(Way way) {
  return way == Way::kTokensOnM ? "tokens_on_m" : "weights_on_m";
}

Json tile_json(const TacticTile& tile) {
  return Json::object().set("m", tile.m).set("n", tile.n).set("k", tile.k);
}

Json limits_json(const Chip& chip) {
  return Json::object()
      .set("shared_per_block_bytes", chip.limits.shared_per_block)
      .set("shared_per_sm_bytes", chip.limits.shared_per_sm)
      .set("reserved_per_block_bytes", kReservedShared)
      .set("registers_per_sm", chip.limits.registers_per_sm)
      .set("registers_per_thread", kMostRegistersOfThread)
      .set("warps_per_sm", chip.warps_per_sm)
      .set("blocks_per_sm", chip.blocks_per_sm);
}

Json products_json(const TacticsReport& report) {
  Json list = Json::array();
  for (const TacticProduct& product : report.products) {
    Json texts = Json::object();
    for (const TacticFamily family : report.families) {
      texts.set(to_string(family), product.text(family));
    }
    list.push(Json::object()
                  .set("op", product.op)
                  .set("experts", product.experts)
                  .set("n", product.n)
                  .set("k", product.k)
                  .set("format", to_string(product.format))
                  .set("gated", product.epilogue != Epilogue::kPlain)
                  .set("bias", product.bias)
                  .set("text", std::move(texts)));
  }
  return list;
}

Json shared_parts_json(const BlockBudget& budget) {
  return Json::object()
      .set("m_per_stage", budget.m_stage)
      .set("n_per_stage", budget.n_stage)
      .set("scales_per_stage", budget.scale_stage)
      .set("stages", budget.stages)
      .set("barriers", budget.barriers)
      .set("rows", budget.rows)
      .set("tables", budget.tables)
      .set("epilogue", budget.epilogue);
}

Json blocks_json(const BlocksPerSm& blocks) {
  return Json::object()
      .set("by_shared", blocks.shared)
      .set("by_registers", integer_or_null(blocks.registers))
      .set("by_threads", blocks.threads)
      .set("by_blocks", blocks.slots)
      .set("bound", to_string(blocks.bound()));
}

Json tactic_json(const Feasibility& found) {
  const TacticCandidate& candidate = found.candidate;
  return Json::object()
      .set("op", found.op)
      .set("family", to_string(candidate.family()))
      .set("name", found.name)
      .set("tile", tile_json(candidate.tile()))
      .set("way", way_name(candidate.way()))
      .set("feasible", found.feasible())
      .set("compiled", found.compiled())
      .set("limit", found.limit ? Json(to_string(*found.limit)) : Json())
      .set("reason", text_or_null(found.reason))
      .set("remedies", string_list(found.remedies))
      .set("shared_bytes", found.shared.total)
      .set("shared_parts", shared_parts_json(found.shared))
      .set("threads", candidate.threads())
      .set("wanted_blocks_per_sm", candidate.blocks_per_sm())
      .set("registers", integer_or_null(found.registers))
      .set("spill_bytes", integer_or_null(found.spill_bytes))
      .set("stack_bytes", integer_or_null(found.stack_bytes))
      .set("registers_reason", text_or_null(found.registers_reason))
      .set("blocks_per_sm", found.blocks.blocks())
      .set("blocks", blocks_json(found.blocks));
}

Json summary_json(const TacticsReport& report) {
  Json list = Json::array();
  for (const TacticProduct& product : report.products) {
    for (const TacticFamily family : report.families) {
      int all = 0;
      int feasible = 0;
      bool compiled = true;
      for (const Feasibility& found : report.survey.tactics) {
        if (found.op != product.op || found.candidate.family() != family) continue;
        ++all;
        feasible += found.feasible() ? 1 : 0;
        compiled = compiled && is_settled(found);
      }
      list.push(
          Json::object()
              .set("op", product.op)
              .set("family", to_string(family))
              .set("tactics", all)
              .set("feasible", feasible)
              .set("compiled", compiled && !report.survey.compiler.empty())
              .set("distinct_tiles", distinct_tiles(report.survey.tactics, product.op, family)));
    }
  }
  return list;
}

Json budget_json(const TileBudget& budget) {
  Json parts = Json::array();
  for (const BudgetPart& part : budget.parts) {
    parts.push(Json::object()
                   .set("name", part.name)
                   .set("bytes", part.bytes)
                   .set("per_stage", part.per_stage)
                   .set("how", part.how));
  }
  Json stages = Json::array();
  for (const StageBudget& row : budget.stages) {
    stages.push(Json::object()
                    .set("stages", row.stages)
                    .set("shared_bytes", row.total_bytes)
                    .set("left_bytes", row.left_bytes)
                    .set("blocks_per_sm", row.blocks_per_sm));
  }
  return Json::object()
      .set("family", to_string(budget.family))
      .set("way", way_name(budget.way))
      .set("product", budget.product)
      .set("parts", std::move(parts))
      .set("stages", std::move(stages));
}

Json explained_json(const TacticsReport& report) {
  if (!report.tile) return {};
  Json budgets = Json::array();
  for (const TileBudget& budget : report.budgets) budgets.push(budget_json(budget));
  Json cutlass = Json::array();
  for (const CutlassUse& use : report.cutlass) {
    cutlass.push(Json::object()
                     .set("kernel", use.kernel)
                     .set("stages", use.stages)
                     .set("per_stage_bytes", use.stage_bytes)
                     .set("epilogue_bytes", use.epilogue_bytes)
                     .set("other_bytes", use.fixed_bytes)
                     .set("shared_bytes", use.bytes)
                     .set("verdict", use.verdict)
                     .set("registers", integer_or_null(use.registers))
                     .set("spill_bytes", integer_or_null(use.spill_bytes)));
  }
  return Json::object()
      .set("tile", tile_json(*report.tile))
      .set("budgets", std::move(budgets))
      .set("cutlass", std::move(cutlass));
}

}  // namespace

Json tactics_document(const TacticsReport& report) {
  Json tactics = Json::array();
  bool compiled = !report.survey.compiler.empty();
  for (const Feasibility& found : report.survey.tactics) {
    tactics.push(tactic_json(found));
    compiled = compiled && is_settled(found);
  }
  return Json::object()
      .set("schema", "nibble.tactics/1")
      .set("version", version())
      .set("command", report.command)
      .set("arch", report.chip.arch.name())
      .set("machine", text_or_null(report.chip.machine))
      .set("limits", limits_json(report.chip))
      .set("compiled", compiled)
      .set("compiler", text_or_null(report.survey.compiler))
      .set("compiler_reason", text_or_null(report.survey.compiler_reason))
      .set("subject", report.subject)
      .set("products", products_json(report))
      .set("summary", summary_json(report))
      .set("tactics", std::move(tactics))
      .set("explained", explained_json(report))
      .set("notes", string_list(report.notes));
}

}  // namespace nibble::cli
