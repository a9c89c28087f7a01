// Which findings are read first: for each point those that answer it for the kernel that is
// farthest from its floor and for the level with most signals. The others are the detail behind
// them.
#include <algorithm>

#include "base/text.h"
#include "explain/explain_parts.h"

namespace nibble {
namespace {

// The kernel with the largest time over its floor: the one that needs explaining.
std::string farthest_kernel(const CaseAnalysis& analysis) {
  const KernelAnalysis* farthest = nullptr;
  double most = 0;
  for (const KernelAnalysis& kernel : analysis.kernels) {
    const double floor_us = std::max(kernel.memory_us, kernel.compute_us);
    if (floor_us <= 0 || kernel.time_us / floor_us <= most) continue;
    most = kernel.time_us / floor_us;
    farthest = &kernel;
  }
  return farthest == nullptr ? "" : kernel_slug(farthest->measured);
}

std::vector<std::string> headline_patterns(const Scene& scene) {
  const CaseAnalysis& analysis = scene.analysis;
  const std::string kernel = farthest_kernel(analysis);
  std::vector<std::string> patterns = {
      "ridge.fp4",          "shapes.*",           "collectives.verdict",
      "collectives.ring.*", "formats.measured.*", "formats.excess.*",
      "power.share.*",      "power.position.*",   "utilization.*",
      "kv.per_token",       "kv.fit.*",           "plateau*",
      "tile.limit",         "tile.failed.*",      "layouts.predicted.*",
      "layouts.floor.*",    "layouts.verdict.*",  "layouts.agreement.*",
      "peak.used",          "peak.dependents",    "proposal.*",
      "tuning.*",           "parameters",         "claim.*",
      "disagreement.*",     "routing.rows.64"};
  for (const char* name :
       {"intensity.elements.", "intensity.bf16.", "intensity.", "intensity.below_ridge.",
        "kernel.memory_floor.", "kernel.over_memory.", "kernel.over_compute.", "kernel.regime.",
        "kernel.ceiling.", "kernel.cache."}) {
    patterns.push_back(name + kernel);
  }
  for (const Finding& finding : analysis.findings) {
    // Coverage belongs to the kernels whose formats are compared.
    if (finding.id.starts_with("formats.excess."))
      patterns.push_back("tiles.coverage." + finding.id.substr(15));
  }
  if (analysis.levels.empty()) return patterns;
  const std::string level = level_slug(analysis.levels[analysis.headline].measured.concurrency);
  for (const char* name : {"routing.rows.", "routing.busiest.", "routing.rank.", "tile.win."})
    patterns.push_back(name + level);
  for (const char* name :
       {".measured", ".expert_weights", ".collectives", ".prefill", ".unexplained"}) {
    patterns.push_back("step." + level + name);
  }
  for (const char* name : {".step", ".implied_rate", ".ratio"})
    patterns.push_back("little." + level + name);
  // Levels are sorted: at the last one most requests wait.
  const std::string largest = level_slug(analysis.levels.back().measured.concurrency);
  patterns.push_back("little." + largest + ".step");
  return patterns;
}

}  // namespace

void choose_headlines(Scene& scene) {
  const std::vector<std::string> patterns = headline_patterns(scene);
  for (Finding& finding : scene.analysis.findings) {
    // What cannot be said, and what cannot be true, is always read first.
    const bool notable =
        !finding.missing.empty() || finding.verdict.find("accounting") != std::string::npos;
    finding.headline =
        notable || std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
          return glob_match(pattern, finding.id);
        });
  }
}

}  // namespace nibble
