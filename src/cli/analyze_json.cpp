// `nibble.ledger/1` (docs/schemas/nibble.ledger.1.json).
#include "cli/analyze_parts.h"
#include "cli/version.h"

namespace nibble::cli {
namespace {

Json model_json(const ModelSpec& model) {
  const ParameterCount count = count_parameters(model);
  Json json = Json::object();
  json.set("name", model.name).set("title", model.title).set("source", model.source);
  json.set("architecture", model.architecture);
  json.set("layers", static_cast<std::int64_t>(model.layers.size())).set("hidden", model.hidden);
  json.set("attention", to_string(model.attention.kind));
  json.set("experts", model.moe ? Json(model.moe->experts) : Json());
  json.set("experts_per_token", model.moe ? Json(model.moe->top_k) : Json());
  json.set("parameters_total", count.total).set("parameters_active", count.active);
  json.set("parameters_embedding", count.embedding).set("parameters_mtp", count.mtp);
  json.set("checkpoint_bytes", checkpoint_bytes(model));
  json.set("quantization", model.quantization.summary());
  Json warnings = Json::array();
  for (const std::string& warning : model.warnings) warnings.push(warning);
  json.set("warnings", std::move(warnings));
  return json;
}

Json load_json(const Deployment& deployment) {
  const LinkSpeed link = deployment.effective_link();
  Json json = Json::object();
  json.set("context_tokens", deployment.context);
  json.set("kv_format", to_string(deployment.effective_kv_format()));
  json.set("activations",
           deployment.activations ? Json(to_string(*deployment.activations)) : Json());
  json.set("routing", deployment.routing.source);
  json.set("draft_tokens", deployment.draft_tokens);
  json.set("bandwidth_efficiency", deployment.bandwidth_efficiency);
  json.set("memory_utilization", deployment.memory_utilization);
  json.set("link_gb_s", deployment.layout.gpus() > 1 ? Json(link.bandwidth_gb_s) : Json());
  json.set("link_latency_us", deployment.layout.gpus() > 1 ? Json(link.latency_us) : Json());
  json.set("all_reduce", to_string(deployment.all_reduce));
  json.set("launch_gap_us", deployment.effective_launch_gap_us());
  json.set("tile", deployment.tile ? Json(to_string(*deployment.tile)) : Json());
  return json;
}

Json steps_json(const std::vector<Step>& steps) {
  Json list = Json::array();
  for (const Step& step : steps) list.push(to_json(step));
  return list;
}

Json compared_json(const std::vector<ComparedLayout>& compared) {
  Json list = Json::array();
  for (const ComparedLayout& other : compared) {
    Json json = Json::object();
    json.set("layout", to_json(other.layout));
    json.set("refused", other.refused.empty() ? Json() : Json(other.refused));
    json.set("capacity", other.refused.empty() ? to_json(other.capacity) : Json());
    json.set("levels", steps_json(other.levels));
    list.push(std::move(json));
  }
  return list;
}

}  // namespace

Json analysis_json(const Analysis& analysis) {
  Json json = Json::object();
  json.set("schema", "nibble.ledger/1").set("version", version()).set("command", analysis.command);
  json.set("model", model_json(analysis.deployment.model));
  json.set("machine", to_json(analysis.deployment.machine));
  json.set("layout", to_json(analysis.deployment.layout));
  json.set("load", load_json(analysis.deployment));
  Json lines = Json::array();
  for (const std::string& line : assumptions(analysis.deployment)) lines.push(line);
  json.set("assumptions", std::move(lines));
  json.set("capacity", to_json(analysis.capacity));
  json.set("levels", steps_json(analysis.levels));
  json.set("prefill", analysis.prefill ? to_json(*analysis.prefill) : Json());
  json.set("compare", compared_json(analysis.compared));
  json.set("kernels", analysis.kernels
                          ? kernels_json(analysis.deployment, analysis.levels, *analysis.kernels)
                          : Json());
  Json findings = Json::array();
  for (const Finding& finding : analysis.findings) findings.push(to_json(finding));
  if (analysis.explained) {
    for (const Finding& finding : analysis.explained->findings) findings.push(to_json(finding));
  }
  json.set("findings", std::move(findings));
  json.set("case", analysis.explained ? to_json(*analysis.explained) : Json());
  return json;
}

}  // namespace nibble::cli
