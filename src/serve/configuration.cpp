#include "serve/configuration.h"

namespace nibble::serve {
namespace {

Json about_model(const Core& core) {
  const engine::ModelInfo& info = core.engine.model();
  const engine::EngineOptions& options = core.engine.options();
  Json model = Json::object();
  model.set("name", core.model.name).set("path", core.model.path);
  model.set("architecture", info.architecture).set("vocabulary", info.vocabulary);
  model.set("max_context", info.max_context);
  model.set("chat_template", core.model.chat_template.has_value());
  if (core.model.facts.is_object()) {
    for (const auto& [key, value] : core.model.facts.as_object()) model.set(key, value);
  }
  model.set("kv_bytes_per_token", info.kv_bytes_per_token);
  model.set("kv_cache_bytes", info.kv_bytes_per_token * options.block_tokens * options.kv_blocks);
  return model;
}

// What a request gets that does not say.
Json about_sampling(const ServedModel& model) {
  return Json::object()
      .set("generation_config", model.generation_config)
      .set("temperature", model.defaults.temperature)
      .set("top_p", model.defaults.top_p)
      .set("top_k", model.defaults.top_k)
      .set("min_p", model.defaults.min_p)
      .set("repetition_penalty", model.defaults.repetition_penalty);
}

}  // namespace

Json configuration(const Core& core) {
  return Json::object()
      .set("version", core.options.version)
      .set("url", core.url())
      .set("model", about_model(core))
      .set("sampling", about_sampling(core.model))
      .set("engine", to_json(core.engine.options()))
      .set("server", to_json(core.options).set("port", core.port.load()))
      .set("inject", to_json(core.options.inject));
}

}  // namespace nibble::serve
