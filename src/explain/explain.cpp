#include "explain/explain.h"

#include <algorithm>
#include <set>

#include "explain/explain_parts.h"

namespace nibble {
namespace {

// All analyses but the comparison of the two readings of the peak.
Result<Scene> analyze(const Case& found, const CaseOptions& options, PeakIs peak_is) {
  NIBBLE_ASSIGN_OR_RETURN(Scene scene, set_scene(found, options, peak_is));
  NIBBLE_RETURN_IF_ERROR(measure_levels(scene));
  explain_kernels(scene);
  NIBBLE_RETURN_IF_ERROR(explain_routing(scene));
  explain_shapes(scene);
  explain_step(scene);
  explain_collectives(scene);
  explain_formats(scene);
  explain_power(scene);
  explain_capacity(scene);
  explain_plateau(scene);
  explain_tiles(scene);
  explain_layouts(scene);
  propose(scene);
  explain_little(scene);
  explain_sources(scene);
  return scene;
}

// Two kernels of one shape, or two claims about one thing, get ids of their own.
void make_ids_unique(std::vector<Finding>& findings) {
  std::set<std::string> seen;
  for (Finding& finding : findings) {
    std::string id = finding.id;
    for (int again = 2; !seen.insert(id).second; ++again)
      id = fmt::format("{}#{}", finding.id, again);
    finding.id = std::move(id);
  }
}

}  // namespace

Result<CaseAnalysis> explain_case(const Case& found, const CaseOptions& options) {
  const PeakIs peak_is = quoted_peak_is(found, options);
  NIBBLE_ASSIGN_OR_RETURN(Scene scene, analyze(found, options, peak_is));
  make_ids_unique(scene.analysis.findings);
  const bool quoted = !found.fp4_tflops_quoted.empty() && !scene.fp4_by_flag;
  if (quoted && scene.machine().peak(Precision::kFp4) != nullptr) {
    const PeakIs reversed = peak_is == PeakIs::kDense ? PeakIs::kSparse : PeakIs::kDense;
    NIBBLE_ASSIGN_OR_RETURN(Scene other, analyze(found, options, reversed));
    make_ids_unique(other.analysis.findings);
    explain_peak(scene, &other);
  } else {
    explain_peak(scene, nullptr);
  }
  choose_headlines(scene);
  std::vector<Finding>& findings = scene.analysis.findings;
  make_ids_unique(findings);
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.point < b.point; });
  return std::move(scene.analysis);
}

}  // namespace nibble
