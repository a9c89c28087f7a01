// What `nibble tactics` found, for people and as a document.
//
//   fmt::print("{}", tactics_text(report, Style::for_stdout()));
//   fmt::print("{}\n", tactics_document(report).dump());   // nibble.tactics/1
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/terminal.h"
#include "tactics/cutlass.h"
#include "tactics/explain.h"
#include "tactics/survey.h"

namespace nibble::cli {

struct TacticsReport {
  std::string command;
  Chip chip;
  std::string subject;  // "GLM-5-NVFP4, TP8", or "given sizes"
  std::vector<TacticProduct> products;
  std::vector<TacticFamily> families;
  Survey survey;
  std::optional<TacticTile> tile;   // --explain
  std::vector<TileBudget> budgets;  // of the first product
  std::vector<CutlassUse> cutlass;
  std::vector<std::string> notes;
};

std::string tactics_text(const TacticsReport& report, const Style& style);
Json tactics_document(const TacticsReport& report);

}  // namespace nibble::cli
