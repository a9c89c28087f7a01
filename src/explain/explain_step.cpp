// Point 5: the step at each level, term by term.
#include <algorithm>

#include "base/units.h"
#include "explain/explain_parts.h"

namespace nibble {
namespace {

std::string at_text(const LevelAnalysis& level) {
  if (level.running == level.measured.concurrency) {
    return fmt::format("At {}", counted(level.running, "sequence"));
  }
  return fmt::format("At {}, of which {} run", counted(level.measured.concurrency, "request"),
                     format_count(level.running));
}

// What a term rests on, besides the load.
void add_term_inputs(Inputs& inputs, std::string_view id) {
  if (id == "expert_weights") {
    inputs.experts().expert_sizes().layers().bandwidth().layout();
  } else if (id == "kv") {
    inputs.layers().bandwidth().layout().lengths();
  } else if (id == "collectives") {
    inputs.expert_sizes().layers().layout().link();
  } else if (id == "launches") {
    inputs.layers().layout();
  } else if (id == "other_weights") {
    inputs.experts().expert_sizes().layers().bandwidth().layout();
  } else if (id == "activations") {
    inputs.experts().expert_sizes().layers().bandwidth().layout().lengths();
  } else {
    inputs.deployment().lengths();
  }
}

std::string formula_of(std::string_view id) {
  if (id == "expert_weights")
    return "MoE layers * distinct experts * bytes per expert and GPU / bandwidth";
  if (id == "other_weights") return "bytes of all other weights per GPU / bandwidth";
  if (id == "kv") return "sequences * tokens * bytes per token and GPU / bandwidth";
  if (id == "activations") return "bytes read and written per operation / bandwidth";
  if (id == "compute") return "sum of max(0, FLOP / peak - bytes / bandwidth)";
  if (id == "collectives") return "sum of the alpha-beta times of the collectives";
  if (id == "launches") return "kernels * gap";
  if (id == "pipeline_bubble") return "(stages - microbatches) * stage time";
  if (id == "prefill")
    return "share of running * input_len / output_len prompt tokens in the floor of a prefill pass";
  return "measured step - all other terms";
}

void explain_term(Scene& scene, const LevelAnalysis& level, const WaterfallTerm& term) {
  const bool rest = term.id == "unexplained";
  Inputs inputs(scene);
  inputs.concurrency(level.measured).cap();
  add_term_inputs(inputs, term.id);
  if (term.id == "launches") {
    inputs.add("gap", scene.deployment().effective_launch_gap_us(), "us",
               scene.machine().launch_gap_us ? fmt::format("catalog: {}", scene.machine().name)
                                             : "assumed");
  }
  inputs.rate(level.measured);  // the term's share of the step, and what is left
  std::vector<std::string> assumptions;
  if (rest) {
    assumptions = {
        "no kernel and no collective was measured at these shapes",
        fmt::format("prompts are prefilled in passes of {} or one step's prompts, whichever is "
                    "more",
                    counted(kPrefillChunkTokens, "token"))};
  } else if (term.id == "expert_weights") {
    assumptions = {fmt::format("{} routing", scene.deployment().routing.source)};
  }
  const double share = term.time_us / level.measured_step_us;
  scene.conclude(
      {.id = fmt::format("step.{}.{}", level_slug(level.measured.concurrency), term.id),
       .point = 5,
       .title = term.title,
       .value = term.time_us,
       .unit = "us",
       .formula = formula_of(term.id),
       .inputs = inputs.list(),
       .assumptions = std::move(assumptions),
       .confidence = rest ? Confidence::kLikely : Confidence::kDerived,
       .sentence = fmt::format("{}: {} {} ({}), {} of the step.", at_text(level), term.title,
                               format_time_us(term.time_us), term.note, percent_text(share))});
}

void explain_floor(Scene& scene, const LevelAnalysis& level) {
  const std::string slug = level_slug(level.measured.concurrency);
  if (!level.floor_missing.empty()) {
    scene.cannot_say(fmt::format("step.{}.floor", slug), 5, "Floor of the step",
                     level.floor_missing);
    return;
  }
  scene.conclude(
      {.id = fmt::format("step.{}.floor", slug),
       .point = 5,
       .title = "Floor of the decode step",
       .value = level.floor.step_us,
       .unit = "us",
       .formula = "sum over operations of max(bytes / bandwidth, FLOP / peak, link) + gaps",
       .inputs = Inputs(scene).deployment().concurrency(level.measured).cap().lengths().list(),
       .assumptions = assumptions(scene.deployment()),
       .sentence =
           fmt::format("{}: no decode step is shorter than {}: {} tok/s at most, without prefill.",
                       at_text(level), format_time_us(level.floor.step_us),
                       format_number(level.floor.tokens_per_s))});
}

void explain_measured(Scene& scene, const LevelAnalysis& level) {
  const std::string slug = level_slug(level.measured.concurrency);
  if (level.measured_step_us <= 0) {
    scene.cannot_say(fmt::format("step.{}.measured", slug), 5, "Measured step",
                     fmt::format("the level at concurrency {} has no rate", slug));
    scene.lacks(fmt::format("output tok/s at concurrency {}: how long its step takes", slug));
    return;
  }
  scene.conclude(
      {.id = fmt::format("step.{}.measured", slug),
       .point = 5,
       .title = "Measured step",
       .value = level.measured_step_us,
       .unit = "us",
       .formula = "running / output rate",
       .inputs = Inputs(scene).concurrency(level.measured).cap().rate(level.measured).list(),
       .assumptions = {"one token per sequence and step"},
       .sentence =
           fmt::format("{} and {} tok/s a step takes {}, all that happens between tokens included.",
                       at_text(level), format_number(level.output_tok_s),
                       format_time_us(level.measured_step_us))});
}

// The floor is above the measured time: somebody's number is wrong.
void explain_accounting(Scene& scene, const LevelAnalysis& level) {
  scene.conclude(
      {.id = fmt::format("step.{}.accounting", level_slug(level.measured.concurrency)),
       .point = 5,
       .title = "Over 100 % of a roof",
       .value = level.floor.step_us / level.measured_step_us * 100,
       .unit = "%",
       .verdict = "accounting error",
       .formula = "floor / measured step",
       .inputs = Inputs(scene)
                     .deployment()
                     .concurrency(level.measured)
                     .cap()
                     .lengths()
                     .rate(level.measured)
                     .list(),
       .sentence = fmt::format("{}: {} measured is less than the floor of {}: the roofs, the "
                               "layout, the load or the count of tokens is wrong.",
                               at_text(level), format_time_us(level.measured_step_us),
                               format_time_us(level.floor.step_us))});
}

}  // namespace

void explain_step(Scene& scene) {
  if (scene.analysis.levels.empty()) {
    scene.cannot_say("step", 5, "The step", "the case has no load level");
    scene.lacks("output tok/s at a known concurrency: how long a step takes");
    return;
  }
  if (!mean_context(scene.found)) {
    scene.lacks("load.input_len and load.output_len: KV traffic, prefill and capacity");
  }
  for (std::size_t index = 0; index < scene.analysis.levels.size(); ++index) {
    const LevelAnalysis level = scene.analysis.levels[index];
    explain_measured(scene, level);
    explain_floor(scene, level);
    if (level.waterfall.empty() && level.measured_step_us > 0 && level.floor_missing.empty()) {
      explain_accounting(scene, level);
    }
    for (const WaterfallTerm& term : level.waterfall) {
      if (index == scene.analysis.headline || term.id == "unexplained")
        explain_term(scene, level, term);
    }
  }
}

}  // namespace nibble
