#include "serve/prompt.h"

#include <ctime>

namespace nibble::serve {
namespace {

using Ids = std::vector<engine::TokenId>;

// Normalization may make a text shorter before it is cut into tokens: three characters into one.
constexpr std::size_t kMostShrinking = 4;
// A tenth of the template's own limit: a loop serves others meanwhile, and conversations that fit
// into a context take thousands.
constexpr std::size_t kMostTemplateSteps = 2'000'000;

Json messages_json(const Parameters& asked) {
  Json messages = Json::array();
  for (const api::ChatMessage& message : asked.messages) {
    messages.push(Json::object().set("role", message.role).set("content", message.content));
  }
  return messages;
}

Checked<Ids> make_chat(const Core& core, const Parameters& asked) {
  if (!core.model.chat_template) {
    return Refusal{400, "this model has no chat template; ask /v1/completions", "messages"};
  }
  text::ChatInput input;
  input.messages = messages_json(asked);
  input.add_generation_prompt = asked.add_generation_prompt;
  if (asked.template_values.is_object()) input.variables = asked.template_values;
  input.now = std::time(nullptr);
  input.max_steps = kMostTemplateSteps;
  Result<std::string> text = core.model.chat_template->render(input);
  if (!text) return Refusal{400, text.error().message, "messages"};
  return encode(core, *text, asked.add_special, "messages");
}

}  // namespace

Checked<Ids> encode(const Core& core, std::string_view text, bool add_special,
                    std::string_view param) {
  const auto tokens = static_cast<std::size_t>(core.engine.options().max_model_len);
  const std::size_t most = tokens * core.longest_token * kMostShrinking;
  if (text.size() > most) {
    return Refusal{
        400,
        fmt::format("{} of {} bytes is longer than the {} tokens of this model's context", param,
                    text.size(), tokens),
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
    ReadyPrompt& one = ready.emplace_back(ReadyPrompt{.ids = prompt.ids});
    if (prompt.ids.empty()) {
      Checked<Ids> made = encode(core, prompt.text, asked.add_special, "prompt");
      if (auto* refusal = std::get_if<Refusal>(&made)) return std::move(*refusal);
      one.ids = std::move(std::get<Ids>(made));
    }
    if (!asked.echo) continue;
    one.text = prompt.ids.empty()
                   ? prompt.text
                   : core.model.tokenizer.decode(prompt.ids, {.skip_special = asked.skip_special});
  }
  return ready;
}

}  // namespace nibble::serve
