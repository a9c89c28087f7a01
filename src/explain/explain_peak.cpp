// Point 11: which conclusions hang on how the quoted FP4 peak is meant. Both readings are computed,
// and the findings compared.
#include <algorithm>
#include <map>

#include "base/text.h"
#include "base/units.h"
#include "explain/explain_parts.h"

namespace nibble {
namespace {

const char* name_of(PeakIs is) {
  return is == PeakIs::kDense ? "dense" : "sparse";
}

bool differs(const Finding& a, const Finding& b) {
  return a.value != b.value || a.verdict != b.verdict || a.missing != b.missing;
}

// "Compute floor" -> "compute floor"; "FLOP per element" stays.
std::string inside_sentence(std::string title) {
  const auto is_upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  if (title.size() > 1 && is_upper(title[0]) && !is_upper(title[1]))
    title[0] = static_cast<char>(title[0] - 'A' + 'a');
  return title;
}

// The dotted stem that many ids share: "kernel.regime.nvfp4.16x2048x6144" -> "kernel.regime".
std::string stem(const std::string& id) {
  const std::vector<std::string> parts = split(id, '.');
  return parts.size() < 2 ? id : parts[0] + "." + parts[1];
}

std::string stems(const std::vector<const Finding*>& findings) {
  std::vector<std::string> names;
  for (const Finding* finding : findings) {
    const std::string name = stem(finding->id);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return join(names, ", ");
}

// What these findings are about, in the words of people: each title once, in the order of points.
std::string titles(std::vector<const Finding*> findings) {
  constexpr std::size_t kShown = 6;
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding* a, const Finding* b) { return a->point < b->point; });
  std::vector<std::string> kinds;
  for (const Finding* finding : findings) {
    const std::string kind = inside_sentence(finding->title);
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  if (kinds.empty()) return "none";
  if (kinds.size() <= kShown + 1) return join(kinds, ", ");  // "1 more" is no shorter than its name
  const std::size_t more = kinds.size() - kShown;
  kinds.resize(kShown);
  return fmt::format("{}, and {} more kinds", join(kinds, ", "), more);
}

// All that these findings rest on, each source once.
std::vector<FindingInput> inputs_of(const std::vector<const Finding*>& findings) {
  std::map<std::string, FindingInput> by_source;
  for (const Finding* finding : findings) {
    for (const FindingInput& input : finding->inputs)
      by_source.emplace(input.source + input.name, input);
  }
  std::vector<FindingInput> inputs;
  for (auto& [key, input] : by_source) inputs.push_back(std::move(input));
  return inputs;
}

// Marks every finding, and returns those that change under the other reading.
std::vector<const Finding*> mark_dependents(Scene& scene, const Scene& other) {
  std::map<std::string, const Finding*> others;
  for (const Finding& finding : other.analysis.findings) others.emplace(finding.id, &finding);
  std::vector<const Finding*> dependents;
  for (Finding& finding : scene.analysis.findings) {
    const auto found = others.find(finding.id);
    const bool depends = found == others.end() || differs(finding, *found->second);
    finding.assumptions.push_back(depends
                                      ? fmt::format("the quoted peak is {}: {} would change this",
                                                    name_of(scene.peak_is), name_of(other.peak_is))
                                      : "holds whether the quoted peak is sparse or dense");
    if (depends) dependents.push_back(&finding);
  }
  return dependents;
}

Inputs& add_quoted(Inputs& inputs, const Case& found) {
  for (std::size_t index = 0; index < found.fp4_tflops_quoted.size(); ++index) {
    inputs.given(index == 0 ? "quoted" : "quoted_high", found.fp4_tflops_quoted[index], "TFLOPS",
                 fmt::format("machine.fp4_tflops_quoted[{}]", index));
  }
  return inputs;
}

// A flag's number stands instead of the quoted one, so there are no two readings to compare.
void explain_flag(Scene& scene) {
  const Sourced& used = scene.machine().peak(Precision::kFp4)->dense_tflops;
  const std::vector<double>& quoted = scene.found.fp4_tflops_quoted;
  scene.conclude({.id = "peak.used",
                  .point = 11,
                  .title = "Dense FP4 peak in use",
                  .value = used.value,
                  .unit = "TFLOPS",
                  .verdict = "a flag's number",
                  .formula = "as given",
                  .inputs = Inputs(scene).peak(Precision::kFp4).list(),
                  .sentence = fmt::format(
                      "{} TFLOPS dense are used, a flag's number ({}){}.",
                      format_number(used.value), used.source,
                      quoted.empty() ? ""
                                     : fmt::format(", and not the {} TFLOPS that the case quotes",
                                                   format_number(quoted.front())))});
  scene.cannot_say("peak.dependents", 11, "Findings that depend on sparse or dense",
                   "a flag replaces the case's quoted peak, whose two readings are then beside the "
                   "point");
}

void explain_used(Scene& scene) {
  const Case& found = scene.found;
  const double used = scene.machine().peak(Precision::kFp4)->dense_tflops.value;
  const bool as_stated = !found.fp4_tflops_quoted_is.empty() &&
                         found.fp4_tflops_quoted_is.starts_with(name_of(scene.peak_is));
  Inputs inputs(scene);
  scene.conclude(
      {.id = "peak.used",
       .point = 11,
       .title = "Dense FP4 peak in use",
       .value = used,
       .unit = "TFLOPS",
       .verdict = as_stated ? found.fp4_tflops_quoted_is : name_of(scene.peak_is),
       .formula =
           scene.peak_is == PeakIs::kDense ? "quoted" : "dense as assumed, or quoted / ratio",
       .inputs = add_quoted(inputs, found).peak(Precision::kFp4).list(),
       .confidence = Confidence::kLikely,
       .sentence = fmt::format("The quoted {} TFLOPS are taken as {}: {} TFLOPS dense.",
                               format_number(found.fp4_tflops_quoted.front()),
                               as_stated ? found.fp4_tflops_quoted_is : name_of(scene.peak_is),
                               format_number(used))});
}

void explain_ratio(Scene& scene) {
  const Case& found = scene.found;
  if (found.fp4_tflops_quoted.empty() || !found.fp4_tflops_dense_assumed) return;
  Inputs ratio_inputs(scene);
  add_quoted(ratio_inputs, found)
      .given("dense_assumed", *found.fp4_tflops_dense_assumed, "TFLOPS",
             "machine.fp4_tflops_dense_assumed");
  const double low = found.fp4_tflops_quoted.front() / *found.fp4_tflops_dense_assumed;
  const double high = found.fp4_tflops_quoted.back() / *found.fp4_tflops_dense_assumed;
  scene.conclude(
      {.id = "peak.ratio",
       .point = 11,
       .title = "Quoted over assumed dense",
       .value = low,
       .unit = "x",
       .verdict = low <= 2 && 2 <= high ? "2:4 sparsity" : "not the factor of 2:4 sparsity",
       .formula = "quoted / dense assumed",
       .inputs = ratio_inputs.list(),
       .sentence = fmt::format(
           "The quoted peak is {} to {} times the assumed dense one; 2:4 sparsity gives 2.",
           format_number(low), format_number(high))});
}

void explain_range(Scene& scene) {
  const Case& found = scene.found;
  if (found.fp4_tflops_quoted.size() < 2) return;
  Inputs inputs(scene);
  add_quoted(inputs, found);
  const double spread = found.fp4_tflops_quoted.back() / found.fp4_tflops_quoted.front();
  scene.conclude({.id = "peak.range",
                  .point = 11,
                  .title = "Range of the quoted peak",
                  .value = spread,
                  .unit = "x",
                  .formula = "highest / lowest",
                  .inputs = inputs.list(),
                  .sentence = fmt::format(
                      "The quoted peaks differ by a factor of {}, as the clocks behind them do.",
                      format_number(spread))});
}

}  // namespace

void explain_peak(Scene& scene, const Scene* other) {
  if (scene.fp4_by_flag) {
    explain_flag(scene);
    explain_ratio(scene);
    explain_range(scene);
    return;
  }
  if (other == nullptr) {
    scene.cannot_say(
        "peak.used", 11, "Sparse or dense",
        scene.found.fp4_tflops_quoted.empty()
            ? "the case quotes no FP4 peak"
            : fmt::format("{} has no FP4 matrix unit in the catalog", scene.machine().name));
    return;
  }
  const std::size_t total = scene.analysis.findings.size();
  const std::vector<const Finding*> dependents = mark_dependents(scene, *other);
  const double count = static_cast<double>(dependents.size());
  const std::string names = stems(dependents);
  const std::string list = titles(dependents);
  const std::vector<FindingInput> resting_on = inputs_of(dependents);
  explain_used(scene);
  explain_ratio(scene);
  explain_range(scene);
  Inputs inputs(scene);
  add_quoted(inputs, scene.found).peak(Precision::kFp4);
  for (const FindingInput& input : resting_on)
    inputs.add(input.name, input.value, input.unit, input.source);
  scene.conclude(
      {.id = "peak.dependents",
       .point = 11,
       .title = "Findings that depend on sparse or dense",
       .value = count,
       .unit = "findings",
       .verdict = names,
       .formula = "findings whose value or verdict differs between the two readings",
       .inputs = inputs.list(),
       .sentence = fmt::format(
           "{} of {} findings would change if the quoted peak were {} ({} TFLOPS dense): {}.",
           format_number(count), total, name_of(other->peak_is),
           format_number(other->machine().peak(Precision::kFp4)->dense_tflops.value), list)});
}

}  // namespace nibble
