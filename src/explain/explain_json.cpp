// The `case` member of nibble.ledger/1.
#include "explain/explain.h"

namespace nibble {
namespace {

Json optional_number(const std::optional<double>& number) {
  return Json(number);
}

Json to_json(const KernelAnalysis& kernel) {
  Json json = Json::object();
  const MeasuredKernel& measured = kernel.measured;
  json.set("label", kernel.label);
  json.set("library", measured.library);
  json.set("weights", to_string(measured.format))
      .set("activations", to_string(measured.activations));
  json.set("m", optional_number(measured.m))
      .set("n", optional_number(measured.n))
      .set("k", optional_number(measured.k));
  json.set("tflops", optional_number(measured.tflops));
  json.set("cold", measured.cold ? Json(*measured.cold) : Json());
  json.set("precision", to_string(kernel.precision));
  json.set("peak_tflops", kernel.peak_tflops).set("ridge_flop_per_byte", kernel.ridge);
  if (kernel.regime.empty()) return json.set("missing", "m, n and k are not stated");
  json.set("time_us", kernel.time_us).set("flop", kernel.flop);
  json.set("bytes", kernel.bytes).set("bytes_bf16_activations", kernel.bytes_bf16_activations);
  json.set("memory_us", kernel.memory_us);
  json.set("memory_bf16_activations_us", kernel.memory_bf16_activations_us);
  json.set("compute_us", kernel.compute_us);
  json.set("flop_per_byte", kernel.intensity);
  json.set("flop_per_byte_bf16_activations", kernel.intensity_bf16_activations);
  json.set("regime", kernel.regime);
  json.set("wave_coverage", optional_number(kernel.wave_coverage));
  return json;
}

Json to_json(const LevelAnalysis& level) {
  Json json = Json::object();
  json.set("concurrency", level.measured.concurrency).set("running", level.running);
  json.set("context", level.context > 0 ? Json(level.context) : Json());
  json.set("output_tok_s", level.output_tok_s > 0 ? Json(level.output_tok_s) : Json());
  json.set("measured_step_us", level.measured_step_us > 0 ? Json(level.measured_step_us) : Json());
  if (level.floor_missing.empty()) {
    json.set("floor", to_json(level.floor));
  } else {
    json.set("floor", Json()).set("floor_missing", level.floor_missing);
  }
  if (level.prefill) {
    json.set("prefill", to_json(*level.prefill)).set("prefill_passes", level.prefill_passes);
  }
  if (level.spread)
    json.set("routing", to_json(*level.spread)).set("routing_ranks", level.spread_ranks);
  Json terms = Json::array();
  for (const WaterfallTerm& term : level.waterfall) {
    Json entry = Json::object();
    entry.set("id", term.id)
        .set("title", term.title)
        .set("time_us", term.time_us)
        .set("note", term.note);
    terms.push(std::move(entry));
  }
  return json.set("waterfall", std::move(terms));
}

Json to_json(const Proposal& proposal) {
  Json json = Json::object();
  json.set("id", proposal.id).set("title", proposal.title);
  json.set("at_most_us", proposal.at_most_us).set("at_most_ratio", proposal.at_most_ratio);
  json.set("depends_on", proposal.depends_on).set("experiment", proposal.experiment);
  return json.set("evidence", proposal.evidence);
}

Json to_json(const SharedBudget& budget) {
  Json json = Json::object();
  json.set("tile", to_string(budget.tile))
      .set("stages", budget.stages)
      .set("stage_bytes", budget.stage_bytes);
  json.set("a_bytes", budget.a_bytes).set("b_bytes", budget.b_bytes);
  json.set("scale_a_bytes", budget.scale_a_bytes).set("scale_b_bytes", budget.scale_b_bytes);
  json.set("epilogue_bytes", budget.epilogue_bytes).set("fixed_bytes", budget.fixed_bytes);
  json.set("total_bytes", budget.total_bytes).set("limit_bytes", budget.limit_bytes);
  return json.set("verdict", to_string(budget.verdict));
}

template <class T>
Json list(const std::vector<T>& items) {
  Json json = Json::array();
  for (const T& item : items) json.push(to_json(item));
  return json;
}

}  // namespace

Json to_json(const CaseAnalysis& analysis) {
  Json json = Json::object();
  json.set("name", analysis.source.name).set("source", analysis.source.source);
  json.set("kernels", list(analysis.kernels));
  json.set("levels", list(analysis.levels));
  json.set("headline",
           analysis.levels.empty() ? Json() : Json(static_cast<std::int64_t>(analysis.headline)));
  json.set("tiles", list(analysis.tiles));
  json.set("findings", list(analysis.findings));
  json.set("proposals", list(analysis.proposals));
  Json missing = Json::array();
  for (const std::string& signal : analysis.missing_signals) missing.push(signal);
  return json.set("missing_signals", std::move(missing));
}

}  // namespace nibble
