#include "serve/pages.h"

#include <algorithm>
#include <array>

#include "api/json_write.h"
#include "api/reply.h"
#include "serve/configuration.h"
#include "serve/field_reader.h"
#include "serve/prompt.h"

namespace nibble::serve {
namespace {

using net::ServerRequest;
using Answer = std::variant<Page, Refusal>;
using Ids = std::vector<engine::TokenId>;
using Maker = Answer (*)(Core&, const ServerRequest&);

// /tokenize counts more than a prompt may have, though not any amount.
constexpr std::int64_t kCountedContexts = 16;

struct Route {
  std::string_view method;
  std::string_view path;
  Maker make;  // null: session.h answers it
};

Answer models(Core& core, const ServerRequest&) {
  const std::array models = {api::ModelInfo{core.model.name, core.engine.options().max_model_len}};
  return Page{.body = api::models_body(models, core.started_at_s)};
}

Answer live(Core&, const ServerRequest&) {
  return Page{.body = R"({"status":"alive"})"};
}

// Whether the engine's thread moves, not whether this process does (vllm#36960).
Answer ready(Core& core, const ServerRequest&) {
  const engine::EngineState state = core.engine.state();
  const Nanoseconds silent = monotonic_now() - state.last_sign_of_life;
  std::string status = "ready";
  if (core.draining) {
    status = "stopping";
  } else if (silent > core.options.ready_timeout) {
    status = fmt::format("the engine has given no sign of life for {:.1f} s", seconds(silent));
  } else if (!state.fault.empty()) {
    status = state.fault;
  }
  const int code = status == "ready" ? 200 : 503;
  return Page{.status = code, .body = Json::object().set("status", status).dump(0)};
}

Answer version(Core& core, const ServerRequest&) {
  return Page{.body = Json::object().set("version", core.options.version).dump(0)};
}

Answer server_info(Core& core, const ServerRequest&) {
  return Page{.body = configuration(core).dump(0)};
}

Answer debug_state(Core& core, const ServerRequest&) {
  const engine::EngineState state = core.engine.state();
  Json finished = Json::object();
  for (std::size_t at = 0; at < kOutcomes; ++at) {
    finished.set(to_string(Outcome{static_cast<std::uint8_t>(at)}),
                 core.counters.outcomes[at].load());
  }
  Json json = Json::object();
  json.set("running", state.running).set("waiting", state.waiting);
  json.set("blocks", state.blocks).set("blocks_in_use", state.blocks_in_use);
  json.set("steps", state.steps).set("step_time_s", seconds(state.step_time));
  json.set("prompt_tokens", state.prompt_tokens);
  json.set("cached_prompt_tokens", state.cached_prompt_tokens);
  json.set("generation_tokens", state.generation_tokens);
  json.set("preemptions", state.preemptions).set("nonfinite_logits", state.nonfinite_logits);
  json.set("silent_s", seconds(monotonic_now() - state.last_sign_of_life));
  json.set("fault", state.fault.empty() ? Json() : Json(state.fault));
  json.set("active_requests", core.active.load()).set("draining", core.draining.load());
  json.set("refused_requests", core.counters.invalid.load() + core.counters.not_found.load());
  json.set("busy_requests", core.counters.busy.load());
  json.set("choices", std::move(finished));
  return Page{.body = json.dump(0)};
}

Answer metrics(Core& core, const ServerRequest&) {
  return Page{.type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics_page(core)};
}

Answer tokens_page(const Core& core, const Ids& ids, bool with_texts) {
  std::string body = R"({"count":)";
  api::append_json_integer(body, std::ssize(ids));
  body += R"(,"max_model_len":)";
  api::append_json_integer(body, core.engine.options().max_model_len);
  body += R"(,"tokens":)";
  api::append_json_integers(body, ids);
  body += R"(,"token_strs":)";
  body += with_texts ? "[" : "null";
  for (std::size_t at = 0; with_texts && at < ids.size(); ++at) {
    if (at > 0) body += ',';
    api::append_json_string(body, core.model.tokenizer.token_text(ids[at]).value_or(""));
  }
  body += with_texts ? "]}" : "}";
  return Page{.body = std::move(body)};
}

Checked<Ids> chat_ids(const Core& core, std::string_view body) {
  const Checked<Parameters> asked = read_parameters(api::Dialect::kChat, body, core.bounds);
  if (const auto* refusal = std::get_if<Refusal>(&asked)) return *refusal;
  return make_chat(core, std::get<Parameters>(asked), kCountedContexts);
}

// What the model would be given: of a chat after its template.
Answer tokenize(Core& core, const ServerRequest& request) {
  const Checked<Json> body = read_body(request.body);
  if (const auto* refusal = std::get_if<Refusal>(&body)) return *refusal;
  FieldReader fields(std::get<Json>(body));
  const std::optional<Refusal> other_model = fields.other_model(core.bounds);
  const bool texts = fields.boolean("return_token_strs", false);
  const bool chat = fields.has("messages");
  // "" has no tokens, which is worth knowing; a generation would have nothing to begin with.
  const std::optional<std::string> prompt = chat ? std::nullopt : fields.string("prompt");
  const bool special = fields.boolean("add_special_tokens", true);
  if (!chat && !prompt) fields.fault_at("prompt", "is missing; give text, or messages");
  if (auto refusal = fields.refusal()) return *refusal;
  if (other_model) return *other_model;
  Checked<Ids> ids = chat ? chat_ids(core, request.body)
                          : encode(core, *prompt, special, "prompt", kCountedContexts);
  if (auto* refusal = std::get_if<Refusal>(&ids)) return *refusal;
  return tokens_page(core, std::get<Ids>(ids), texts);
}

Answer detokenize(Core& core, const ServerRequest& request) {
  const Checked<Json> body = read_body(request.body);
  if (const auto* refusal = std::get_if<Refusal>(&body)) return *refusal;
  FieldReader fields(std::get<Json>(body));
  const std::optional<Refusal> other_model = fields.other_model(core.bounds);
  const Ids ids = fields.token_ids("tokens", core.bounds.vocabulary);
  if (!fields.has("tokens")) fields.fault_at("tokens", "is missing; give a list of token ids");
  if (auto refusal = fields.refusal()) return *refusal;
  if (other_model) return *other_model;
  return Page{.body = Json::object().set("prompt", core.model.tokenizer.decode(ids)).dump(0)};
}

constexpr std::array kRoutes = {
    Route{"POST", "/v1/chat/completions", nullptr},
    Route{"POST", "/v1/completions", nullptr},
    Route{"GET", "/v1/models", models},
    Route{"POST", "/tokenize", tokenize},
    Route{"POST", "/detokenize", detokenize},
    Route{"GET", "/health/live", live},
    Route{"GET", "/health/ready", ready},
    Route{"GET", "/health", ready},
    Route{"GET", "/version", version},
    Route{"GET", "/metrics", metrics},
    Route{"GET", "/server_info", server_info},
    Route{"GET", "/debug/state", debug_state},
};

}  // namespace

Answer make_page(Core& core, const ServerRequest& request) {
  const std::string_view path = request.path();
  std::string_view method = request.method;
  if (method == "HEAD") method = "GET";
  const auto* there = std::find_if(kRoutes.begin(), kRoutes.end(),
                                   [&](const Route& route) { return route.path == path; });
  if (there == kRoutes.end()) return Refusal{404, "there is nothing at this path", ""};
  if (there->method != method || there->make == nullptr) {
    return Refusal{.status = 405,
                   .message = fmt::format("{} takes {} only", path, there->method),
                   .param = "",
                   .allow = there->method == "GET" ? "GET, HEAD" : std::string(there->method)};
  }
  return there->make(core, request);
}

bool open_to_all(std::string_view path) {
  return path == "/health" || path == "/health/live" || path == "/health/ready" ||
         path == "/metrics";
}

std::string metrics_page(Core& core) {
  const engine::EngineState state = core.engine.state();
  const auto count = [](std::int64_t value) { return static_cast<double>(value); };
  api::MetricsPage page(fmt::format("model_name={}", Json(core.model.name).dump(0)));
  page.line("gauge", "nibble:num_requests_running", count(state.running));
  page.line("gauge", "nibble:num_requests_waiting", count(state.waiting));
  page.line("gauge", "nibble:kv_cache_usage_perc",
            state.blocks > 0 ? count(state.blocks_in_use) / count(state.blocks) : 0);
  page.line("counter", "nibble:prefix_cache_queries_total", count(state.prompt_tokens));
  page.line("counter", "nibble:prefix_cache_hits_total", count(state.cached_prompt_tokens));
  page.line("counter", "nibble:num_preemptions_total", count(state.preemptions));
  page.line("counter", "nibble:prompt_tokens_total", count(state.prompt_tokens));
  page.line("counter", "nibble:generation_tokens_total", count(state.generation_tokens));
  page.line("counter", "nibble:nonfinite_logits_total", count(state.nonfinite_logits));
  page.line("counter", "nibble:engine_steps_total", count(state.steps));
  page.line("counter", "nibble:engine_step_seconds_total", api::exact_seconds(state.step_time));
  if (state.expert_load_ratio) {
    page.line("gauge", "nibble:expert_load_ratio", *state.expert_load_ratio);
  }
  for (std::size_t at = 0; at < kOutcomes; ++at) {
    page.line(
        "counter", "nibble:request_success_total", count(core.counters.outcomes[at].load()),
        fmt::format("finished_reason=\"{}\"", to_string(Outcome{static_cast<std::uint8_t>(at)})));
  }
  page.line("counter", "nibble:requests_refused_total", count(core.counters.invalid.load()),
            "reason=\"invalid\"");
  page.line("counter", "nibble:requests_refused_total", count(core.counters.not_found.load()),
            "reason=\"not_found\"");
  page.line("counter", "nibble:requests_refused_total", count(core.counters.busy.load()),
            "reason=\"busy\"");
  page.histogram("nibble:time_to_first_token_seconds", core.counters.ttft);
  page.histogram("nibble:inter_token_latency_seconds", core.counters.itl);
  page.histogram("nibble:e2e_request_latency_seconds", core.counters.end_to_end);
  return page.take();
}

}  // namespace nibble::serve
