// All of a diagnosis from its evidence.
#include <cstddef>
#include <fmt/format.h>
#include <utility>

#include "base/units.h"
#include "diagnose/classify.h"
#include "diagnose/diagnosis.h"
#include "diagnose/proposals.h"
#include "diagnose/thresholds.h"

namespace nibble::diagnose {
namespace {

LevelDiagnosis diagnose_level(const Evidence& evidence, std::size_t level) {
  const LevelView view(evidence, level);
  LevelDiagnosis diagnosis{.name = view.level().name};
  diagnosis.users = view.get(Fact::kUsers).value_or(view.in_flight().value_or(0));
  diagnosis.verdicts = classify_level(evidence, level);
  build_waterfall(evidence, level, diagnosis);
  return diagnosis;
}

// A profile without a load: where its steps' time goes, and no cause.
std::string what_the_trace_says(const TraceEvidence& trace) {
  std::string text =
      fmt::format("A step of the profile takes {}, and kernels run in {} of it",
                  fact_text(Fact::kFloor, trace.step_ms), fact_text(Fact::kFloor, trace.busy_ms));
  if (!trace.ops.empty()) {
    text += fmt::format(", most of them {} ({})", trace.ops.front().op,
                        fact_text(Fact::kFloor, trace.ops.front().ms));
  }
  return text + ". What holds the server back takes a load test beside it (--from, --server).";
}

// Kernels of a step without a load: the largest step that was timed, and no cause.
std::string what_the_kernels_say(const GpuEvidence& gpu) {
  std::string text = fmt::format("Kernels were timed on {}", gpu.roofs.title);
  if (gpu.steps.empty()) {
    text += fmt::format(", and which of a step they are is not known: {}", gpu.steps_reason);
  } else {
    const GpuStep& step = gpu.steps.back();
    const KernelCover& cover = step.cover;
    text += fmt::format(
        ": {} of {} operations of a step of {} sequences take {}, their floor is {} of the step's "
        "{}",
        cover.covered(), cover.ops.size(), format_number(step.sequences),
        fact_text(Fact::kFloor, cover.ms()), fact_text(Fact::kFloor, cover.floor_ms()),
        fact_text(Fact::kFloor, step.floor_ms));
  }
  return text + ". What holds a server back takes a load test beside them (--from, --server).";
}

// What a reader must know before believing any of it.
std::string what_weakens(const Evidence& evidence) {
  const std::size_t headline = headline_level(evidence);
  if (headline >= evidence.levels.size()) return "";
  std::string text;
  const LevelEvidence& level = evidence.levels[headline];
  if (const auto failed = level.get(Fact::kFailedShare); failed && *failed > kFailedSome) {
    text += fmt::format(" {} of the requests failed: look at these first.",
                        fact_text(Fact::kFailedShare, *failed));
  }
  if (!level.counts) text += " No level was long enough to be steady.";
  if (evidence.gpu && !evidence.gpu->served_elsewhere.empty()) {
    text += fmt::format(" {}.", evidence.gpu->served_elsewhere);
  }
  return text;
}

}  // namespace

std::string whole_sentence(const Diagnosis& diagnosis) {
  const Evidence& known = diagnosis.evidence;
  if (known.levels.empty() && known.trace) return what_the_trace_says(*known.trace);
  if (known.levels.empty() && known.gpu) return what_the_kernels_say(*known.gpu);
  const std::string claim = diagnosis.verdicts.empty() ? "" : diagnosis.verdicts.front().claim;
  return claim + most_to_win(diagnosis) + what_weakens(known);
}

Diagnosis conclude(Evidence evidence) {
  Diagnosis diagnosis;
  diagnosis.evidence = std::move(evidence);
  const Evidence& known = diagnosis.evidence;
  for (std::size_t level = 0; level < known.levels.size(); ++level) {
    diagnosis.levels.push_back(diagnose_level(known, level));
  }
  diagnosis.headline = headline_level(known);
  diagnosis.verdicts = classify_whole(known, diagnosis.levels);
  diagnosis.proposals = propose(diagnosis);
  diagnosis.sentence = whole_sentence(diagnosis);
  return diagnosis;
}

}  // namespace nibble::diagnose
