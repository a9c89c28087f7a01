// What `nibble analyze` computes before it is shown, and the documents that show it.
// Internal to the command.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/analyze_kernels.h"
#include "explain/explain.h"
#include "ledger/step.h"
#include "report/document.h"

namespace nibble::cli {

struct ComparedLayout {
  ParallelLayout layout;
  std::vector<Step> levels;
  Capacity capacity;
  std::string refused;  // why this layout is not possible; levels are then empty
};

struct Analysis {
  Deployment deployment;
  Capacity capacity;
  std::vector<Step> levels;  // by concurrency
  std::size_t shown = 0;     // the level whose operations are shown
  std::optional<Step> prefill;
  std::vector<ComparedLayout> compared;
  std::vector<Finding> findings;  // of the floor
  std::optional<CaseAnalysis> explained;
  std::optional<BenchFile> kernels;  // --kernels
  std::string command;
};

Json analysis_json(const Analysis& analysis);          // nibble.ledger/1
Document analysis_document(const Analysis& analysis);  // sections for the terminal and the report

// Sections that only a case has, in reading order; used by analysis_document.
std::vector<Section> case_sections(const Analysis& analysis);
Chart roofline_chart(const Analysis& analysis);
Chart throughput_chart(const Analysis& analysis);

}  // namespace nibble::cli
