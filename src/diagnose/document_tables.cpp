// What the rest stands on: operations as served, kernels and tactics, energy, facts and provenance.
#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "diagnose/document_parts.h"

namespace nibble::diagnose {
namespace {

constexpr std::size_t kMostKernels = 40;  // rows that anybody looks through

// The kernel of an operation that was timed nearest to as many tokens as the headline's step has.
const KernelEvidence* kernel_for(const Diagnosis& diagnosis, const std::string& op) {
  const LevelEvidence* level = headline_evidence(diagnosis);
  const double tokens = level == nullptr ? 1 : fact_of(*level, Fact::kRunning).value_or(1);
  const KernelEvidence* nearest = nullptr;
  for (const KernelEvidence& kernel : diagnosis.evidence.kernels) {
    if (kernel.op != op) continue;
    if (nearest == nullptr ||
        std::abs(kernel.tokens - tokens) < std::abs(nearest->tokens - tokens)) {
      nearest = &kernel;
    }
  }
  return nearest;
}

std::string us_cell(double us) {
  return std::isfinite(us) && us > 0 ? format_number(us, 3) : "-";
}

std::string times_cell(double time, double floor) {
  if (!(floor > 0) || !(time > 0)) return "-";
  return format_number(time / floor, 3) + " x";
}

// Mangled templates fill lines; their beginnings and ends tell them apart.
std::string names_of_kernels(const ServedOp& op) {
  constexpr std::size_t kMostNames = 2;
  constexpr std::size_t kWidestName = 32;
  std::vector<std::string> names;
  for (std::size_t at = 0; at < std::min(op.kernels.size(), kMostNames); ++at) {
    names.push_back(printable(op.kernels[at], kWidestName));
  }
  return join(names, ", ");
}

Table served_table(const Diagnosis& diagnosis, const TraceEvidence& trace) {
  Table table({{"operation"},
               {"ms a step", Align::kRight},
               {"share", Align::kRight},
               {"kernels", Align::kRight},
               {"each, us", Align::kRight},
               {"alone, us", Align::kRight},
               {"floor, us", Align::kRight},
               {"which"}});
  const auto share = [&trace](double ms) {
    return trace.step_ms > 0 ? format_share(ms / trace.step_ms) : "-";
  };
  for (const ServedOp& op : trace.ops) {
    const KernelEvidence* kernel = kernel_for(diagnosis, op.op);
    const double each = op.count > 0 ? op.ms / op.count * 1000 : 0;
    table.row({{op.op, op.op == "unmapped" ? Emphasis::kWarning : Emphasis::kNone},
               ms_cell(op.ms),
               share(op.ms),
               format_number(op.count, 3),
               us_cell(each),
               kernel == nullptr ? "-" : us_cell(kernel->time_us),
               kernel == nullptr ? "-" : us_cell(kernel->floor_us),
               names_of_kernels(op)});
  }
  table.rule();
  const double idle = trace.step_ms - trace.busy_ms;
  if (idle > 0) table.row({"no kernel running", ms_cell(idle), share(idle), "", "", "", "", ""});
  table.row({{"step", Emphasis::kStrong},
             {ms_cell(trace.step_ms), Emphasis::kStrong},
             "",
             "",
             "",
             "",
             "",
             ""});
  return table;
}

// Worst first: time over floor; those without a floor at the end.
std::vector<const KernelEvidence*> kernels_worst_first(const Evidence& evidence) {
  std::vector<const KernelEvidence*> kernels;
  for (const KernelEvidence& kernel : evidence.kernels) kernels.push_back(&kernel);
  const auto over = [](const KernelEvidence* kernel) {
    return kernel->floor_us > 0 && kernel->time_us > 0 ? kernel->time_us / kernel->floor_us : 0;
  };
  std::stable_sort(
      kernels.begin(), kernels.end(),
      [&over](const KernelEvidence* a, const KernelEvidence* b) { return over(a) > over(b); });
  return kernels;
}

Table kernels_table(const std::vector<const KernelEvidence*>& kernels) {
  Table table({{"operation"},
               {"tactic"},
               {"shape"},
               {"tokens", Align::kRight},
               {"time, us", Align::kRight},
               {"floor, us", Align::kRight},
               {"over floor", Align::kRight},
               {"TFLOPS", Align::kRight},
               {"from"}});
  for (std::size_t at = 0; at < std::min(kernels.size(), kMostKernels); ++at) {
    const KernelEvidence& kernel = *kernels[at];
    constexpr double kFar = 2;
    const bool far = kernel.floor_us > 0 && kernel.time_us > kFar * kernel.floor_us;
    table.row(
        {kernel.op,
         kernel.kernel,
         kernel.shape,
         format_number(kernel.tokens, 3),
         us_cell(kernel.time_us),
         us_cell(kernel.floor_us),
         {times_cell(kernel.time_us, kernel.floor_us), far ? Emphasis::kWarning : Emphasis::kNone},
         us_cell(kernel.tflops),
         kernel.source});
  }
  return table;
}

// "no GPU: power, temperature", each reason once, in the order of the facts.
std::vector<std::string> missing_facts(const LevelEvidence& level) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const FactInfo& info : fact_infos()) {
    const Datum& datum = level[info.fact];
    if (datum.known() || datum.reason.empty()) continue;
    auto found = std::find_if(reasons.begin(), reasons.end(),
                              [&datum](const auto& known) { return known.first == datum.reason; });
    if (found == reasons.end()) found = reasons.insert(found, {datum.reason, {}});
    found->second.emplace_back(info.title);
  }
  std::vector<std::string> bullets;
  for (const auto& [reason, titles] : reasons) {
    bullets.push_back(fmt::format("{}: {}", without_stop(capitalised(reason)), join(titles, ", ")));
  }
  return bullets;
}

std::string text_of_member(const Json& item, std::string_view name) {
  const Json* found = item.find(name);
  if (found == nullptr || found->is_null()) return "";
  return found->is_string() ? found->as_string() : found->dump(0);
}

}  // namespace

Section served_section(const Diagnosis& diagnosis) {
  // Of a profile without a load it is what there is to see.
  Section section{.heading = "As served, by operation", .detail = !diagnosis.levels.empty()};
  const auto& trace = diagnosis.evidence.trace;
  if (!trace) return section;
  section.paragraphs.push_back(fmt::format(
      "{} steps of a trace ({}{}{}): {} ms each, {} ms of them with a kernel running. \"alone\": "
      "the same kernel timed by itself; \"floor\": the least the machine allows.",
      format_number(trace->steps), trace->source, trace->engine.empty() ? "" : ", ", trace->engine,
      ms_cell(trace->step_ms), ms_cell(trace->busy_ms)));
  section.tables.emplace_back("", served_table(diagnosis, *trace));
  return section;
}

Section tactics_section(const Diagnosis& diagnosis) {
  Section section{.heading = "Tactics and kernels", .detail = true};
  const Setting& setting = diagnosis.evidence.setting;
  if (!setting.tactic.empty()) {
    std::string text = fmt::format("The server runs {}", setting.tactic);
    if (setting.best_tactic == setting.tactic) {
      text += ", the best that this machine has";
    } else if (!setting.best_tactic.empty()) {
      text += fmt::format("; this machine could run {}", setting.best_tactic);
    }
    section.paragraphs.push_back(text + ".");
  }
  const auto kernels = kernels_worst_first(diagnosis.evidence);
  if (kernels.empty()) return section;
  std::string caption = "Kernels timed alone, farthest from their floor first.";
  if (kernels.size() > kMostKernels) {
    caption += fmt::format(" {} more are in report.json.", kernels.size() - kMostKernels);
  }
  section.tables.emplace_back(std::move(caption), kernels_table(kernels));
  return section;
}

Section energy_section(const Diagnosis& diagnosis) {
  Section section{.heading = "Energy", .detail = true};
  Table table({{"level"},
               {"J/token", Align::kRight},
               {"least, J/token", Align::kRight},
               {"over the least", Align::kRight}});
  for (const LevelDiagnosis& level : diagnosis.levels) {
    if (!level.joules_per_token) continue;
    const double least = level.joules_floor.value_or(0);
    table.row({level.name, us_cell(*level.joules_per_token), us_cell(least),
               times_cell(*level.joules_per_token, least)});
  }
  section.tables.emplace_back("Of an output token; the least: the floor's step at this power.",
                              std::move(table));
  return section;
}

Section facts_section(const Diagnosis& diagnosis) {
  Section section{.heading = "Every number and its source", .detail = true};
  const LevelEvidence* level = headline_evidence(diagnosis);
  if (level == nullptr) return section;
  Table table({{"fact"}, {"value", Align::kRight}, {"known by"}, {"where it stands"}});
  for (const FactInfo& info : fact_infos()) {
    const Datum& datum = (*level)[info.fact];
    if (!datum.known()) continue;
    table.row({std::string(info.title), fact_text(info.fact, *datum.value),
               std::string(to_string(datum.origin)), datum.source});
  }
  section.tables.emplace_back(fmt::format("At {}. Other levels are in report.json.", level->name),
                              std::move(table));
  section.lists.push_back({.heading = "Not known, and why", .bullets = missing_facts(*level)});
  return section;
}

Section provenance_section(const Diagnosis& diagnosis) {
  Section section{.heading = "What this was made from", .detail = true};
  const Evidence& evidence = diagnosis.evidence;
  Table table({{"what"}, {"from"}, {"when"}});
  if (evidence.sources.is_array()) {
    for (const Json& item : evidence.sources.as_array()) {
      table.row({text_of_member(item, "what"), text_of_member(item, "from"),
                 text_of_member(item, "when")});
    }
  }
  section.tables.emplace_back("Read or run, in this order.", std::move(table));
  if (!evidence.trace && !evidence.trace_reason.empty()) {
    section.bullets.push_back("No trace: " + evidence.trace_reason);
  }
  if (evidence.kernels.empty() && !evidence.kernels_reason.empty()) {
    section.bullets.push_back("No kernels: " + evidence.kernels_reason);
  }
  return section;
}

}  // namespace nibble::diagnose
