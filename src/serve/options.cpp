#include "serve/options.h"

namespace nibble::serve {

Json to_json(const ServeOptions& options) {
  Json json = Json::object();
  json.set("host", options.host).set("port", options.port);
  json.set("http_threads", static_cast<std::uint64_t>(options.threads));
  json.set("api_key", options.api_key.empty() ? "none" : "set");
  json.set("allow_origin", options.allow_origin);
  json.set("max_body_bytes", static_cast<std::uint64_t>(options.max_body_bytes));
  json.set("max_header_bytes", static_cast<std::uint64_t>(options.max_header_bytes));
  json.set("request_timeout_s", seconds(options.request_timeout));
  json.set("ready_timeout_s", seconds(options.ready_timeout));
  json.set("shutdown_timeout_s", seconds(options.shutdown_timeout));
  return json;
}

Json to_json(const engine::EngineOptions& options) {
  Json json = Json::object();
  json.set("max_running_requests", options.max_running_requests);
  json.set("max_num_batched_tokens", options.max_num_batched_tokens);
  json.set("max_queued_requests", options.max_queued_requests);
  json.set("max_model_len", options.max_model_len);
  json.set("kv_blocks", options.kv_blocks);
  json.set("block_tokens", options.block_tokens);
  json.set("prefix_caching", options.prefix_caching);
  json.set("threads", options.threads);
  return json;
}

}  // namespace nibble::serve
