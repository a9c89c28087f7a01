// A case explained: what each measured number is worth against the floor, and why.
//
//   NIBBLE_ASSIGN_OR_RETURN(const CaseAnalysis analysis, explain_case(found, {}));
//   for (const Finding& finding : analysis.findings) fmt::print("{}\n", finding.sentence);
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/finding.h"
#include "base/json.h"
#include "base/result.h"
#include "explain/case.h"
#include "ledger/step.h"

namespace nibble {

struct CaseOptions {
  std::optional<PeakIs> peak_is;  // how the case's quoted peak is meant; default: as the case says
  // Applied to the deployment that the case describes: flags of the command line (machine
  // overrides, routing, KV format, link, collectives).
  std::function<Result<>(Deployment&)> adjust;
};

// A measured GEMM against its two roofs.
struct KernelAnalysis {
  MeasuredKernel measured;
  std::string label;  // "nvfp4 16x2048x6144"
  double flop = 0;
  double time_us = 0;                 // stated, or FLOP / rate
  double bytes = 0;                   // activations in the kernel's own format
  double bytes_bf16_activations = 0;  // activations as the layer before wrote them
  double memory_us = 0;               // from `bytes`
  double memory_bf16_activations_us = 0;
  double compute_us = 0;
  double intensity = 0;  // FLOP / bytes
  double intensity_bf16_activations = 0;
  Precision precision = Precision::kBf16;
  double peak_tflops = 0;
  double ridge = 0;    // FLOP/B where the two roofs meet
  std::string regime;  // "memory", "compute", "launch or latency", "accounting error";
                       // empty when m, n, k are not stated: then only rates are known
  std::optional<double> wave_coverage;  // of 128x128 tiles
};

struct WaterfallTerm {
  // "expert_weights", "other_weights", "kv", "activations", "compute" (matrix units beyond the
  // memory time), "collectives", "launches", "pipeline_bubble", "prefill", "unexplained"
  std::string id;
  std::string title;
  double time_us = 0;
  std::string note;
};

// One load level: measured time per step by Little's law, and what explains it.
struct LevelAnalysis {
  MeasuredLevel measured;
  double running = 0;           // sequences per step: min(concurrency, max_running_requests)
  double context = 0;           // mean tokens in the cache: input + output / 2; 0: not stated
  double output_tok_s = 0;      // stated, or the total's share of generated tokens; 0: neither
  double measured_step_us = 0;  // running / output_tok_s; 0: no rate
  Step floor;                   // empty when floor_missing says why
  std::string floor_missing;
  std::optional<Step> prefill;         // a chunk of whole prompts
  double prefill_passes = 0;           // such chunks per step in steady state, mostly below 1
  std::optional<RoutingStats> spread;  // over `spread_ranks` groups of experts
  std::int64_t spread_ranks = 1;
  // Adds up to measured_step_us. Empty when there is no rate, no floor, or when the decode floor
  // alone exceeds the measured time (an accounting error, which a finding names).
  std::vector<WaterfallTerm> waterfall;
};

struct Proposal {
  std::string id;
  std::string title;
  double at_most_us = 0;     // per step at the headline level: an upper bound
  double at_most_ratio = 0;  // of throughput
  std::string depends_on;
  std::string experiment;  // the cheapest one that would settle it
  std::string evidence;
};

struct CaseAnalysis {
  Case source;
  Deployment deployment;  // as the case describes it
  std::vector<KernelAnalysis> kernels;
  std::vector<LevelAnalysis> levels;
  std::size_t headline = 0;                  // index of the level with most signals
  std::vector<SharedBudget> tiles;           // this chip
  std::vector<Finding> findings;             // ordered by point
  std::vector<Proposal> proposals;           // best first
  std::vector<std::string> missing_signals;  // each with what it would settle
};

Result<CaseAnalysis> explain_case(const Case& found, const CaseOptions& options);

Json to_json(const CaseAnalysis& analysis);  // the `case` member of nibble.ledger/1

}  // namespace nibble
