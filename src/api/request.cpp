#include "api/request.h"

#include <cmath>

#include "api/json_write.h"
#include "base/text.h"

namespace nibble::api {
namespace {

// Stands for the prompt while the other members are put together: prompts are long, and are written
// straight into the body.
constexpr std::string_view prompt_key(Dialect dialect, bool ids) {
  if (dialect == Dialect::kChat) return "messages";
  if (dialect == Dialect::kSglang) return ids ? "input_ids" : "text";
  return "prompt";
}

Result<> check(const Backend& backend, const GenerationRequest& request) {
  if (!request.prompt_ids.empty() && !backend.token_ids) {
    return usage_error("backend {} takes no token ids; give the prompt as text", backend.name);
  }
  if (request.max_tokens && *request.max_tokens < 1) {
    return usage_error("{} output tokens are asked; ask for 1 or more", *request.max_tokens);
  }
  if (request.min_tokens && request.max_tokens && *request.min_tokens > *request.max_tokens) {
    return usage_error("at least {} output tokens are asked and at most {}", *request.min_tokens,
                       *request.max_tokens);
  }
  if (request.temperature && !(std::isfinite(*request.temperature) && *request.temperature >= 0)) {
    return usage_error("temperature {} is not a number from 0 on", *request.temperature);
  }
  if (!request.extra_body.is_null() && !request.extra_body.is_object()) {
    return usage_error("the extra body is {}; give an object such as {{\"top_k\": 1}}",
                       request.extra_body.kind_name());
  }
  return {};
}

Json stop_json(const std::vector<std::string>& stop) {
  Json list = Json::array();
  for (const std::string& text : stop) list.push(text);
  return list;
}

// The members that all formats spell alike, into the object in which the format has them.
void set_sampling(Json& to, const GenerationRequest& request) {
  if (request.temperature) to.set("temperature", *request.temperature);
  if (request.top_p) to.set("top_p", *request.top_p);
  if (!request.stop.empty()) to.set("stop", stop_json(request.stop));
}

Json openai_members(const Backend& backend, const GenerationRequest& request) {
  const bool chat = backend.dialect == Dialect::kChat;
  Json body = Json::object();
  body.set("model", request.model);
  body.set(prompt_key(backend.dialect, false), Json());
  if (request.max_tokens) {
    const bool newer = chat && request.max_completion_tokens;
    body.set(newer ? "max_completion_tokens" : "max_tokens", *request.max_tokens);
  }
  if (request.min_tokens && backend.min_tokens) body.set("min_tokens", *request.min_tokens);
  set_sampling(body, request);
  if (request.seed) body.set("seed", *request.seed);
  if (request.ignore_eos && backend.ignore_eos) body.set("ignore_eos", true);
  body.set("stream", request.stream);
  if (request.stream && request.include_usage) {
    Json options = Json::object();
    options.set("include_usage", true);
    if (request.continuous_usage && backend.continuous_usage) {
      options.set("continuous_usage_stats", true);
    }
    body.set("stream_options", std::move(options));
  }
  return body;
}

Json sglang_members(const GenerationRequest& request) {
  Json sampling = Json::object();
  if (request.max_tokens) sampling.set("max_new_tokens", *request.max_tokens);
  if (request.min_tokens) sampling.set("min_new_tokens", *request.min_tokens);
  set_sampling(sampling, request);
  if (request.seed) sampling.set("sampling_seed", *request.seed);
  if (request.ignore_eos) sampling.set("ignore_eos", true);
  Json body = Json::object();
  if (!request.model.empty()) body.set("model", request.model);
  body.set(prompt_key(Dialect::kSglang, !request.prompt_ids.empty()), Json());
  body.set("sampling_params", std::move(sampling));
  body.set("stream", request.stream);
  return body;
}

Json llamacpp_members(const GenerationRequest& request) {
  Json body = Json::object();
  if (!request.model.empty()) body.set("model", request.model);
  body.set("prompt", Json());
  if (request.max_tokens) body.set("n_predict", *request.max_tokens);
  set_sampling(body, request);
  if (request.seed) body.set("seed", *request.seed);
  if (request.ignore_eos) body.set("ignore_eos", true);
  body.set("stream", request.stream);
  return body;
}

Json members(const Backend& backend, const GenerationRequest& request) {
  if (backend.dialect == Dialect::kSglang) return sglang_members(request);
  if (backend.dialect == Dialect::kLlamacpp) return llamacpp_members(request);
  return openai_members(backend, request);
}

std::string shown(const Json& value) {
  constexpr std::size_t kValueColumns = 60;
  return printable(value.dump(0), kValueColumns);
}

// Merges `extra` into `body`, in which null stands for the prompt.
void merge(Json& body, const Json& extra, const std::string& path,
           std::vector<std::string>& notes) {
  for (const Json::Member& member : extra.as_object()) {
    const std::string name = path.empty() ? member.first : path + "." + member.first;
    Json* ours = body.find(member.first);
    if (ours != nullptr && ours->is_object() && member.second.is_object()) {
      merge(*ours, member.second, name, notes);
      continue;
    }
    if (ours != nullptr && ours->is_null()) {
      notes.push_back(fmt::format("extra body: {} replaces the prompt", name));
    } else if (ours != nullptr && !(*ours == member.second)) {
      notes.push_back(fmt::format("extra body: {} is {} instead of {}", name, shown(member.second),
                                  shown(*ours)));
    }
    body.set(member.first, member.second);
  }
}

void append_prompt(std::string& out, const Backend& backend, const GenerationRequest& request) {
  if (backend.dialect != Dialect::kChat) {
    if (request.prompt_ids.empty()) {
      append_json_string(out, request.prompt);
    } else {
      append_json_integers(out, request.prompt_ids);
    }
    return;
  }
  const auto append_message = [&out](std::string_view role, std::string_view content,
                                     std::string_view more) {
    out += R"({"role":)";
    append_json_string(out, role);
    out += R"(,"content":)";
    append_json_string(out, content);
    if (!more.empty()) out += ',';
    out += more;
    out += '}';
  };
  out += '[';
  if (request.messages.empty()) append_message("user", request.prompt, {});
  for (std::size_t index = 0; index < request.messages.size(); ++index) {
    if (index > 0) out += ',';
    const ChatMessage& message = request.messages[index];
    append_message(message.role, message.content, message.more);
  }
  out += ']';
}

std::string write_body(const Json& body, bool prompt_is_ours, const Backend& backend,
                       const GenerationRequest& request) {
  const std::string_view key = prompt_key(backend.dialect, !request.prompt_ids.empty());
  std::string out = "{";
  out.reserve(request.prompt.size() + 7 * request.prompt_ids.size() + 512);
  for (const Json::Member& member : body.as_object()) {
    if (out.size() > 1) out += ',';
    append_json_string(out, member.first);
    out += ':';
    if (prompt_is_ours && member.first == key) {
      append_prompt(out, backend, request);
    } else {
      out += member.second.dump(0);
    }
  }
  out += '}';
  return out;
}

std::optional<std::int64_t> limit_in(const Json& body, Dialect dialect) {
  const Json* object = dialect == Dialect::kSglang ? body.find("sampling_params") : &body;
  if (object == nullptr) return std::nullopt;
  for (const char* key : {"max_completion_tokens", "max_tokens", "max_new_tokens", "n_predict"}) {
    const Json* found = object->find(key);
    if (found != nullptr && found->is_integer()) return found->as_integer();
  }
  return std::nullopt;
}

}  // namespace

Result<RequestBody> request_body(const Backend& backend, const GenerationRequest& request) {
  NIBBLE_RETURN_IF_ERROR(check(backend, request));
  RequestBody result;
  Json body = members(backend, request);
  const std::string_view key = prompt_key(backend.dialect, !request.prompt_ids.empty());
  const bool prompt_is_ours = request.extra_body.find(key) == nullptr;
  if (request.min_tokens && !backend.min_tokens) {
    result.notes.push_back(
        fmt::format("backend {} knows no least number of tokens; {}", backend.name,
                    request.ignore_eos ? "ignore_eos stands in for it" : "answers may be shorter"));
  }
  if (request.extra_body.is_object()) merge(body, request.extra_body, "", result.notes);
  const Json* stream = body.find("stream");
  result.stream = stream != nullptr && stream->is_bool() && stream->as_bool();
  result.max_tokens = limit_in(body, backend.dialect);
  result.json = write_body(body, prompt_is_ours, backend, request);
  return result;
}

}  // namespace nibble::api
