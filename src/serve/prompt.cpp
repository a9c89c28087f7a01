#include "serve/prompt.h"

#include <ctime>
#include <optional>
#include <utility>

#include "engine/options.h"

namespace nibble::serve {
namespace {

using Ids = std::vector<engine::TokenId>;

// A tenth of the template's own limit: a loop serves others meanwhile, and conversations that fit
// into a context take thousands.
constexpr std::size_t kMostTemplateSteps = 2'000'000;

// Templates take the arguments of a call as an object; clients send them as JSON in a string.
void open_arguments(Json& calls) {
  if (!calls.is_array()) return;
  for (Json& call : calls.as_array()) {
    Json* function = call.find("function");
    Json* arguments = function == nullptr ? nullptr : function->find("arguments");
    if (arguments == nullptr || !arguments->is_string()) continue;
    Result<Json> opened = Json::parse(arguments->as_string(), "arguments");
    if (opened.ok()) *arguments = std::move(*opened);
  }
}

// As the template sees it: with tool_calls, tool_call_id, name and whatever else it holds.
Result<Json> message_json(const api::ChatMessage& message) {
  Json json = Json::object().set("role", message.role).set("content", message.content);
  if (message.more.empty()) return json;
  NIBBLE_ASSIGN_OR_RETURN(Json more, Json::parse("{" + message.more + "}", "a message"));
  for (auto& [key, value] : more.as_object()) {
    if (value.is_null()) continue;
    if (key == "tool_calls") open_arguments(value);
    json.set(key, std::move(value));
  }
  return json;
}

Result<Json> messages_json(const Parameters& asked) {
  Json messages = Json::array();
  for (const api::ChatMessage& message : asked.messages) {
    NIBBLE_ASSIGN_OR_RETURN(Json json, message_json(message));
    messages.push(std::move(json));
  }
  return messages;
}

// The sentence of the engine, before anything else of the request costs time.
std::optional<Refusal> refuse_prompt(const Core& core, Ids& ids) {
  engine::EngineRequest request{.prompt = std::move(ids)};
  const Result<> fits = engine::admit(request, core.engine.options(), core.engine.model());
  ids = std::move(request.prompt);
  if (fits.ok()) return std::nullopt;
  return Refusal{400, fits.error().message, "prompt"};
}

// The path of the template is the server's own business.
std::string without_path(const std::string& sentence, std::string_view path) {
  if (path.empty() || !sentence.starts_with(path)) return sentence;
  constexpr std::string_view kNoLine = ", line 0";  // of a fault that stands in no line
  std::string_view rest = std::string_view(sentence).substr(path.size());
  if (rest.starts_with(kNoLine)) rest.remove_prefix(kNoLine.size());
  return fmt::format("the chat template{}", rest);
}

Checked<ReadyPrompt> make_completion(const Core& core, const Parameters& asked,
                                     const api::Prompt& prompt) {
  ReadyPrompt ready{.ids = prompt.ids};
  if (prompt.ids.empty()) {
    Checked<Ids> made = encode(core, prompt.text, asked.add_special, "prompt");
    if (auto* refusal = std::get_if<Refusal>(&made)) return std::move(*refusal);
    ready.ids = std::move(std::get<Ids>(made));
  }
  if (auto refusal = refuse_prompt(core, ready.ids)) return std::move(*refusal);
  if (asked.echo) {
    ready.text = prompt.ids.empty() ? prompt.text
                                    : core.model.tokenizer.decode(
                                          prompt.ids, {.skip_special = asked.skip_special});
  }
  return ready;
}

}  // namespace

Checked<Ids> make_chat(const Core& core, const Parameters& asked, std::int64_t contexts) {
  if (!core.model.chat_template) {
    return Refusal{400, "this model has no chat template; ask /v1/completions", "messages"};
  }
  const std::int64_t context = core.engine.options().max_model_len;
  if (std::ssize(asked.messages) / contexts > context) {
    return Refusal{400,
                   fmt::format("messages are {}, more than the {} tokens (max_model_len) of a "
                               "context; shorten the conversation",
                               asked.messages.size(), context),
                   "messages"};
  }
  text::ChatInput input;
  Result<Json> messages = messages_json(asked);
  if (!messages) return Refusal{400, messages.error().message, "messages"};
  input.messages = std::move(*messages);
  input.add_generation_prompt = asked.add_generation_prompt;
  if (asked.template_values.is_object()) input.variables = asked.template_values;
  input.now = std::time(nullptr);
  input.max_steps = kMostTemplateSteps;
  Result<std::string> text = core.model.chat_template->render(input);
  if (!text) {
    return Refusal{400, without_path(text.error().message, core.model.chat_template->where()),
                   "messages"};
  }
  return encode(core, *text, asked.add_special, "messages", contexts);
}

Checked<Ids> encode(const Core& core, std::string_view text, bool add_special,
                    std::string_view param, std::int64_t contexts) {
  const std::int64_t context = core.engine.options().max_model_len;
  const std::int64_t least = core.token_bound.least_tokens(text);
  if (least / contexts > context) {
    return Refusal{
        400,
        fmt::format("{} of {} bytes has at least {} tokens; the limit (max_model_len) "
                    "is {} tokens{}; shorten it",
                    param, text.size(), least, context,
                    contexts > 1 ? fmt::format(", and {} times that are counted", contexts)
                                 : std::string(", prompt and output")),
        std::string(param)};
  }
  Result<Ids> ids = core.model.tokenizer.encode(text, {.add_special = add_special});
  if (!ids) return Refusal{400, ids.error().message, std::string(param)};
  return std::move(*ids);
}

Checked<std::vector<ReadyPrompt>> make_prompts(const Core& core, const Parameters& asked) {
  std::vector<ReadyPrompt> ready;
  if (asked.dialect == api::Dialect::kChat) {
    Checked<Ids> made = make_chat(core, asked);
    if (auto* refusal = std::get_if<Refusal>(&made)) return std::move(*refusal);
    ready.push_back({.ids = std::move(std::get<Ids>(made))});
    return ready;
  }
  for (const api::Prompt& prompt : asked.prompts) {
    Checked<ReadyPrompt> made = make_completion(core, asked, prompt);
    if (auto* refusal = std::get_if<Refusal>(&made)) return std::move(*refusal);
    ready.push_back(std::move(std::get<ReadyPrompt>(made)));
  }
  return ready;
}

}  // namespace nibble::serve
