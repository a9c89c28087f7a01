// The whole run as JSON, nibble.load/1 (docs/schemas/nibble.load.1.json).
#include <algorithm>
#include <cmath>

#include "base/json_parts.h"
#include "load/run_report.h"

namespace nibble::load {
namespace {

Json strings(const std::vector<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts) list.push(text);
  return list;
}

Json level_json(const LevelResult& level) {
  Json json = to_json(level.report);
  Json joined = to_json(level.joined);
  joined.set("window", text_or_null(level.window));
  json.set("joined", std::move(joined));
  json.set("telemetry", level.telemetry);
  json.set("client_overhead", to_json(level.audit));
  return json;
}

// A member that all levels have alike; null where they differ, or where there is none.
Json common(const std::vector<Json>& levels, std::string_view name) {
  if (levels.empty()) return {};
  const Json* first = levels.front().find(name);
  const bool alike = std::all_of(levels.begin(), levels.end(),
                                 [&](const Json& level) { return *level.find(name) == *first; });
  return alike ? *first : Json();
}

// How many requests a level was asked for; of one level that ended otherwise, how many it had.
Json num_prompts(const RunReport& report) {
  if (report.setup.num_prompts) return *report.setup.num_prompts;
  if (report.levels.size() != 1) return {};
  return report.levels.front().report.all.counts.requests;
}

// In vLLM's order: who, then what the user says of it, which may replace that.
void add_identity(Json& json, const RunReport& report) {
  const RunSetup& setup = report.setup;
  json.set("date", setup.date);
  json.set("endpoint_type", setup.backend).set("backend", setup.backend);
  json.set("label", text_or_null(setup.label));
  json.set("model_id", setup.model_id);
  json.set("tokenizer_id", text_or_null(setup.tokenizer_id));
  json.set("num_prompts", num_prompts(report));
  for (const auto& [name, value] : setup.metadata) {
    if (name != "schema") json.set(name, value);
  }
}

Json setup_json(const RunSetup& setup) {
  Json options = Json::object();
  for (const auto& [name, value] : setup.dataset_options) options.set(name, value);
  Json metadata = Json::object();
  for (const auto& [name, value] : setup.metadata) metadata.set(name, value);
  return Json::object()
      .set("date", setup.date)
      .set("started_utc", setup.started_utc)
      .set("command", setup.command)
      .set("base_url", setup.base_url)
      .set("endpoint", setup.endpoint)
      .set("backend", setup.backend)
      .set("model_id", setup.model_id)
      .set("tokenizer_id", text_or_null(setup.tokenizer_id))
      .set("dataset", setup.dataset)
      .set("dataset_options", std::move(options))
      .set("num_prompts", setup.num_prompts ? Json(*setup.num_prompts) : Json())
      .set("metadata", std::move(metadata))
      .set("label", text_or_null(setup.label))
      .set("seed", setup.seed)
      .set("ignore_eos", setup.ignore_eos)
      .set("timeouts", setup.timeouts)
      .set("server", setup.server)
      .set("host", setup.host)
      .set("notes", strings(setup.notes));
}

Json roof_json(const RunReport& report) {
  if (!report.roof) return {};
  Json levels = Json::array();
  for (const RoofLevel& at : report.roof->levels) {
    levels.push(
        Json::object()
            .set("level", static_cast<std::int64_t>(report.levels[at.level].report.plan.level))
            .set("concurrency", at.concurrency)
            .set("context", at.context)
            .set("step_ms", at.step_ms)
            .set("output_throughput", at.tokens_per_s)
            .set("reached", at.reached));
  }
  return Json::object().set("of", report.roof->of).set("levels", std::move(levels));
}

void add_shape(Json& json, const RunReport& report) {
  json.set("knee", report.knee ? to_json(*report.knee) : Json());
  json.set("knee_reason", text_or_null(report.knee_reason));
  json.set("usl", report.usl ? to_json(*report.usl) : Json());
  json.set("step_fit", report.step_fit ? to_json(*report.step_fit) : Json());
  json.set("step_note", text_or_null(report.step_note));
  json.set("roof", roof_json(report));
  json.set("server_limit", report.server_limit ? to_json(*report.server_limit) : Json());
}

std::string why_part(const RunReport& report) {
  if (!report.incomplete.empty()) return report.incomplete;
  for (const LevelResult& level : report.levels) {
    if (level.report.incomplete.empty()) continue;
    return level_name(level.report.plan) + ": " + level.report.incomplete;
  }
  return report.levels.empty() ? "no level was measured" : "";
}

Json all_definitions() {
  Json json = definitions();
  for (const SeenInfo& info : seen_infos()) json.set(info.name, info.definition);
  json.set("joined",
           "What the server's metrics page and the machine's sensors said meanwhile, over the "
           "part of the level that joined.window names.");
  json.set("client_overhead",
           "What the client may have added: how late its loops were, what it cost, and how far it "
           "is off against a mock whose times are known, which is an upper bound.");
  json.set("series",
           "The run over time, from its first send (warm-ups included): means over equal bins, at "
           "their middles; counters as rates. client.output_rate and client.in_flight are from the "
           "rows, the others were sampled beside the load.");
  return json;
}

}  // namespace

Json to_json(const RunReport& report) {
  std::vector<Json> levels;
  for (const LevelResult& level : report.levels) levels.push_back(level_json(level));
  Json json = Json::object().set("schema", "nibble.load/1");
  add_identity(json, report);
  for (const char* name : {"request_rate", "burstiness", "max_concurrency"}) {
    json.set(name, common(levels, name));
  }
  if (levels.size() == 1) {
    for (const auto& [name, value] : levels.front().as_object()) json.set(name, value);
  }
  const std::string part = why_part(report);
  json.set("complete", part.empty()).set("incomplete_reason", text_or_null(part));
  json.set("sentences", strings(sentences(report)));
  json.set("setup", setup_json(report.setup));
  json.set("levels", Json::array(std::move(levels)));
  add_shape(json, report);
  json.set("series", report.series ? to_json(*report.series) : Json());
  json.set("definitions", all_definitions());
  return json;
}

}  // namespace nibble::load
