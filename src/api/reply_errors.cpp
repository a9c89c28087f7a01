// Errors and the list of models.
#include <chrono>
#include <fmt/format.h>

#include "api/error_text.h"
#include "api/json_write.h"
#include "api/reply.h"
#include "base/json.h"
#include "base/text.h"

namespace nibble::api {
namespace {

// vLLM names Python's exception classes, llama.cpp OpenAI's types.
std::string_view error_type(Dialect dialect, int status) {
  const bool llamacpp = dialect == Dialect::kLlamacpp;
  if (status == 401) return llamacpp ? "authentication_error" : "AuthenticationError";
  if (status == 404) return llamacpp ? "not_found_error" : "NotFoundError";
  if (status == 429) return llamacpp ? "rate_limit_error" : "RateLimitError";
  if (status == 503) return llamacpp ? "unavailable_error" : "ServiceUnavailableError";
  if (status >= 500) return llamacpp ? "server_error" : "InternalServerError";
  return llamacpp ? "invalid_request_error" : "BadRequestError";
}

}  // namespace

std::string error_body(Dialect dialect, int status, std::string_view message,
                       std::string_view param) {
  std::string out = R"({"error":{"message":)";
  append_json_string(out, message);
  out += R"(,"type":)";
  append_json_string(out, error_type(dialect, status));
  if (dialect != Dialect::kLlamacpp) {
    out += R"(,"param":)";
    if (param.empty()) {
      out += "null";
    } else {
      append_json_string(out, param);
    }
  }
  out += R"(,"code":)";
  append_json_integer(out, status);
  out += "}}";
  return out;
}

void append_error_event(std::string& out, Dialect dialect, int status, std::string_view message) {
  out += "data: ";
  out += error_body(dialect, status, message);
  out += "\n\n";
}

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string models_body(std::span<const ModelInfo> models, std::int64_t created_s) {
  Json data = Json::array();
  for (const ModelInfo& model : models) {
    Json entry = Json::object();
    entry.set("id", model.id).set("object", "model").set("created", created_s);
    entry.set("owned_by", "nibble").set("root", model.id).set("parent", nullptr);
    entry.set("max_model_len", model.max_model_len ? Json(*model.max_model_len) : Json());
    data.push(std::move(entry));
  }
  return Json::object().set("object", "list").set("data", std::move(data)).dump(0);
}

Result<std::vector<ModelInfo>> read_models(std::string_view body) {
  const Result<Json> json = Json::parse(body, "/v1/models");
  const Json* data = json.ok() ? json->find("data") : nullptr;
  if (data == nullptr || !data->is_array()) {
    return run_error("/v1/models gave no list of models but: {}", error_text(body));
  }
  std::vector<ModelInfo> models;
  for (const Json& entry : data->as_array()) {
    const Json* id = entry.find("id");
    if (id == nullptr || !id->is_string()) continue;
    const Json* length = entry.find("max_model_len");
    const bool known = length != nullptr && length->is_integer() && length->as_integer() > 0;
    models.push_back({id->as_string(), known ? std::optional(length->as_integer()) : std::nullopt});
  }
  return models;
}

}  // namespace nibble::api
