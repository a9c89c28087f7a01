// A diagnosis as JSON, nibble.diagnosis/1 (docs/schemas/nibble.diagnosis.1.json). Complete: every
// fact that there could be is in it, and a null stands beside its reason.
#include <cmath>

#include "base/json_parts.h"
#include "diagnose/diagnosis.h"

namespace nibble::diagnose {
namespace {

// {"value": 32, "unit": "", "source": "...", "origin": "recorded", "reason": null}.
Json datum_json(const Datum& datum, std::string_view unit) {
  const bool known = datum.value && std::isfinite(*datum.value);
  const char* fallback = datum.value ? "what was measured is no number" : "not measured";
  return Json::object()
      .set("value", known ? Json(*datum.value) : Json())
      .set("unit", unit)
      .set("source", known ? text_or_null(datum.source) : Json())
      .set("origin", known ? Json(to_string(datum.origin)) : Json())
      .set("reason", known                  ? Json()
                     : datum.reason.empty() ? Json(fallback)
                                            : Json(datum.reason));
}

Json facts_json(const LevelEvidence& level) {
  Json facts = Json::object();
  for (const FactInfo& info : fact_infos()) {
    facts.set(info.name, datum_json(level[info.fact], info.unit));
  }
  return facts;
}

Json clues_json(const std::vector<Clue>& clues) {
  Json list = Json::array();
  for (const Clue& clue : clues) {
    Json facts = Json::array();
    for (const Fact fact : clue.facts) facts.push(info_of(fact).name);
    list.push(Json::object()
                  .set("id", clue.id)
                  .set("sentence", clue.sentence)
                  .set("weight", clue.weight)
                  .set("facts", std::move(facts)));
  }
  return list;
}

Json verdict_json(const Verdict& verdict) {
  const ClassInfo& info = info_of(verdict.cls);
  return Json::object()
      .set("class", info.name)
      .set("title", info.title)
      .set("regime", info.regime)
      .set("means", info.means)
      .set("level", text_or_null(verdict.level))
      .set("confidence", verdict.confidence)
      .set("certainty", to_string(verdict.certainty))
      .set("claim", verdict.claim)
      .set("sentence", verdict.sentence)
      .set("evidence", Json::object()
                           .set("for", clues_json(verdict.evidence_for))
                           .set("against", clues_json(verdict.evidence_against))
                           .set("missing", clues_json(verdict.missing)))
      .set("experiment", text_or_null(verdict.experiment))
      .set("experiment_id", text_or_null(verdict.experiment_id));
}

Json verdicts_json(const std::vector<Verdict>& verdicts) {
  Json list = Json::array();
  for (const Verdict& verdict : verdicts) list.push(verdict_json(verdict));
  return list;
}

// What the level's users would get without the bar: as many in flight, each token that much sooner.
Json rate_without(const LevelDiagnosis& level, const std::optional<double>& rate,
                  const WaterfallBar& bar) {
  if (!rate || !bar.ms || !level.measured_ms) return {};
  const double left = *level.measured_ms - *bar.ms;
  return left > 0 ? Json(*rate * *level.measured_ms / left) : Json();
}

Json waterfall_json(const LevelDiagnosis& level, const std::optional<double>& rate) {
  Json list = Json::array();
  for (const WaterfallBar& bar : level.waterfall) {
    list.push(Json::object()
                  .set("id", bar.id)
                  .set("title", bar.title)
                  .set("ms", bar.ms)
                  .set("tokens_per_s_without", rate_without(level, rate, bar))
                  .set("note", text_or_null(bar.note))
                  .set("reason", bar.ms               ? Json()
                                 : bar.reason.empty() ? Json("not known")
                                                      : Json(bar.reason))
                  .set("origin", to_string(bar.origin)));
  }
  return list;
}

Json floor_json(const LevelEvidence& level) {
  if (!level.floor) return {};
  const FloorParts& floor = *level.floor;
  return Json::object()
      .set("expert_weights", floor.expert_weights)
      .set("other_weights", floor.other_weights)
      .set("kv", floor.kv)
      .set("activations", floor.activations)
      .set("compute", floor.compute)
      .set("collectives", floor.collectives)
      .set("launches", floor.launches)
      .set("pipeline_bubble", floor.pipeline_bubble)
      .set("total", floor.total())
      .set("prefill", level.prefill_floor);
}

Json level_json(const LevelDiagnosis& level, const LevelEvidence* facts) {
  const std::optional<double> rate = facts ? facts->get(Fact::kOutputRate) : std::nullopt;
  Json json = Json::object()
                  .set("name", level.name)
                  .set("users", level.users)
                  .set("counts", facts == nullptr || facts->counts)
                  .set("measured_ms", level.measured_ms)
                  .set("output_rate", rate)
                  .set("waterfall", waterfall_json(level, rate))
                  .set("waterfall_reason", text_or_null(level.waterfall_reason))
                  .set("verdicts", verdicts_json(level.verdicts))
                  .set("joules_per_token", level.joules_per_token)
                  .set("joules_reason", text_or_null(level.joules_reason))
                  .set("joules_floor", level.joules_floor)
                  .set("joules_floor_reason", text_or_null(level.joules_floor_reason));
  if (facts == nullptr) return json;
  const bool timed = facts->start_s != 0 || facts->end_s != 0;
  json.set("start_s", timed ? Json(facts->start_s) : Json());
  json.set("end_s", timed ? Json(facts->end_s) : Json());
  json.set("floor_ms", floor_json(*facts));
  json.set("floor_reason", facts->floor ? Json() : text_or_null(facts->floor_reason));
  return json.set("facts", facts_json(*facts));
}

Json proposals_json(const std::vector<Proposal>& proposals) {
  Json list = Json::array();
  for (const Proposal& proposal : proposals) {
    const bool bounded = std::isfinite(proposal.at_most_ratio);
    list.push(Json::object()
                  .set("id", proposal.id)
                  .set("title", proposal.title)
                  .set("at_most_ms", proposal.at_most_ms)
                  .set("at_most_ratio", bounded ? Json(proposal.at_most_ratio) : Json())
                  .set("at_most_reason", bounded ? Json() : Json("all of the time is in it"))
                  .set("cost", proposal.cost)
                  .set("depends_on", proposal.depends_on)
                  .set("how", proposal.how)
                  .set("evidence", proposal.evidence)
                  .set("because", info_of(proposal.because).name));
  }
  return list;
}

Json experiments_json(const std::vector<Experiment>& experiments) {
  Json list = Json::array();
  for (const Experiment& experiment : experiments) {
    list.push(Json::object()
                  .set("id", experiment.id)
                  .set("question", experiment.question)
                  .set("outcome", experiment.outcome)
                  .set("about", info_of(experiment.about).name)
                  .set("confirms", experiment.confirms ? Json(*experiment.confirms) : Json()));
  }
  return list;
}

Json setting_json(const Setting& setting) {
  return Json::object()
      .set("title", setting.title)
      .set("engine", text_or_null(setting.engine))
      .set("engine_version", text_or_null(setting.engine_version))
      .set("model", text_or_null(setting.model))
      .set("machine", text_or_null(setting.machine))
      .set("is_cpu", setting.is_cpu)
      .set("gpus", setting.gpus)
      .set("tp", setting.tp)
      .set("pp", setting.pp)
      .set("ep", setting.ep)
      .set("max_running", setting.max_running)
      .set("power_limit_w", setting.power_limit_w)
      .set("copy_power_w", setting.copy_power_w)
      .set("clock_mhz", setting.clock_mhz)
      .set("link_generation", setting.link_generation)
      .set("link_width", setting.link_width)
      .set("throttle_temperature_c", setting.throttle_temperature_c)
      .set("prompts_unique", setting.prompts_unique ? Json(*setting.prompts_unique) : Json())
      .set("tactic", text_or_null(setting.tactic))
      .set("best_tactic", text_or_null(setting.best_tactic))
      .set("notes", string_list(setting.notes));
}

Json kernels_json(const std::vector<KernelEvidence>& kernels) {
  Json list = Json::array();
  for (const KernelEvidence& kernel : kernels) {
    list.push(Json::object()
                  .set("op", kernel.op)
                  .set("kernel", text_or_null(kernel.kernel))
                  .set("shape", text_or_null(kernel.shape))
                  .set("tokens", kernel.tokens)
                  .set("time_us", kernel.time_us)
                  .set("floor_us", kernel.floor_us)
                  .set("intensity", kernel.intensity > 0 ? Json(kernel.intensity) : Json())
                  .set("tflops", kernel.tflops)
                  .set("source", kernel.source));
  }
  return list;
}

Json trace_json(const std::optional<TraceEvidence>& trace) {
  if (!trace) return {};
  Json ops = Json::array();
  for (const ServedOp& op : trace->ops) {
    ops.push(Json::object()
                 .set("op", op.op)
                 .set("ms", op.ms)
                 .set("count", op.count)
                 .set("kernels", string_list(op.kernels)));
  }
  return Json::object()
      .set("source", trace->source)
      .set("engine", text_or_null(trace->engine))
      .set("steps", trace->steps)
      .set("step_ms", trace->step_ms)
      .set("busy_ms", trace->busy_ms)
      .set("ops", std::move(ops));
}

Json series_json(const std::vector<Series>& all) {
  Json list = Json::array();
  for (const Series& series : all) {
    Json points = Json::array();
    for (const auto& [time, value] : series.points) {
      points.push(Json::array({Json(time), Json(value)}));
    }
    list.push(Json::object()
                  .set("name", series.name)
                  .set("unit", series.unit)
                  .set("points", std::move(points)));
  }
  return list;
}

Json phases_json(const Evidence& evidence) {
  Json list = Json::array();
  for (const auto& [name, span] : evidence.phases) {
    list.push(
        Json::object().set("level", name).set("start_s", span.first).set("end_s", span.second));
  }
  return list;
}

Json cover_json(const KernelCover& cover) {
  Json ops = Json::array();
  for (const CoveredOp& op : cover.ops) {
    ops.push(Json::object()
                 .set("op", op.op)
                 .set("count", op.count)
                 .set("tokens", op.tokens)
                 .set("time_us", op.time_us)
                 .set("floor_us", op.floor_us)
                 .set("kernel", text_or_null(op.kernel))
                 .set("reason", op.time_us ? Json() : text_or_null(op.reason)));
  }
  return ops;
}

Json gpu_steps_json(const std::vector<GpuStep>& steps) {
  Json list = Json::array();
  for (const GpuStep& step : steps) {
    list.push(Json::object()
                  .set("sequences", step.sequences)
                  .set("floor_ms", step.floor_ms)
                  .set("covered_ms", step.cover.ms())
                  .set("covered_floor_ms", step.cover.floor_ms())
                  .set("uncovered_floor_ms", step.cover.open_floor_ms())
                  .set("ops", cover_json(step.cover)));
  }
  return list;
}

Json gpu_json(const std::optional<GpuEvidence>& gpu) {
  if (!gpu) return {};
  return Json::object()
      .set("on", gpu->on)
      .set("measured", to_json(gpu->roofs))
      .set("catalog", gpu->catalog ? to_json(*gpu->catalog) : Json())
      .set("source", gpu->source)
      .set("explains", gpu->served_elsewhere.empty())
      .set("served_elsewhere", text_or_null(gpu->served_elsewhere))
      .set("conditions", to_json(conditions_over(gpu->rows)))
      .set("steps", gpu_steps_json(gpu->steps))
      .set("steps_reason", gpu->steps.empty() ? text_or_null(gpu->steps_reason) : Json());
}

Json array_or_empty(const Json& list) {
  return list.is_array() ? list : Json::array();
}

}  // namespace

Json to_json(const Diagnosis& diagnosis) {
  const Evidence& evidence = diagnosis.evidence;
  Json levels = Json::array();
  for (std::size_t index = 0; index < diagnosis.levels.size(); ++index) {
    levels.push(level_json(diagnosis.levels[index],
                           index < evidence.levels.size() ? &evidence.levels[index] : nullptr));
  }
  Json findings = Json::array();
  for (const Finding& finding : diagnosis.findings) findings.push(to_json(finding));
  const bool any = diagnosis.headline < diagnosis.levels.size();
  Json waterfall = any ? *levels.as_array()[diagnosis.headline].find("waterfall") : Json::array();
  return Json::object()
      .set("schema", "nibble.diagnosis/1")
      .set("sentence", diagnosis.sentence)
      .set("setting", setting_json(evidence.setting))
      .set("verdicts", verdicts_json(diagnosis.verdicts))
      .set("headline", any ? Json(diagnosis.levels[diagnosis.headline].name) : Json())
      .set("waterfall", std::move(waterfall))
      .set("proposals", proposals_json(diagnosis.proposals))
      .set("experiments", experiments_json(diagnosis.experiments))
      .set("findings", std::move(findings))
      .set("levels", std::move(levels))
      .set("kernels", kernels_json(evidence.kernels))
      .set("kernels_reason", text_or_null(evidence.kernels_reason))
      .set("gpu", gpu_json(evidence.gpu))
      .set("trace", trace_json(evidence.trace))
      .set("trace_reason", evidence.trace ? Json() : text_or_null(evidence.trace_reason))
      .set("roofs", evidence.roofs)
      .set("series", series_json(evidence.series))
      .set("phases", phases_json(evidence))
      .set("sources", array_or_empty(evidence.sources));
}

}  // namespace nibble::diagnose
