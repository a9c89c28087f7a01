// Conversations to the text that a model was trained on, by the template that its checkpoint ships:
// a small interpreter of Jinja that renders as transformers' apply_chat_template does, or refuses.
//
//   NIBBLE_ASSIGN_OR_RETURN(const auto found, load_chat_template("models/Qwen3-8B"));
//   ChatInput input;
//   input.messages = Json::parse(R"([{"role": "user", "content": "Hi"}])", "request").value();
//   NIBBLE_ASSIGN_OR_RETURN(const std::string prompt, found->render(input));
//   tokenizer.encode(prompt, {.add_special = false});   // the template has written BOS itself
//
// A template writes the token that begins a text itself, where the model has one: encode what it
// renders with add_special = false, so that the token stands there exactly once.
#pragma once

#include <cstddef>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace nibble::text {

namespace jinja {
struct Program;
}

// By their names in templates: bos_token, eos_token, pad_token, unk_token, ...
using SpecialTokens = std::map<std::string, std::string, std::less<>>;

struct ChatInput {
  Json messages = Json::array();
  Json tools;  // null, or an array
  bool add_generation_prompt = true;
  Json variables = Json::object();     // further ones, as enable_thinking
  std::time_t now = 0;                 // for strftime_now, in local time
  std::size_t max_steps = 20'000'000;  // some seconds; then the render fails
};

// Never changes: one object may be used by many threads; copies share it.
class ChatTemplate {
 public:
  // `where` names the template in messages. Blocks, filters, tests, functions and methods that this
  // interpreter does not have are refused here, with the line.
  static Result<ChatTemplate> parse(std::string_view source, std::string_view where,
                                    SpecialTokens tokens = {});

  // An input error with the template's own words where it calls raise_exception.
  Result<std::string> render(const ChatInput& input) const;

  std::string_view where() const;  // as given to parse()
  const SpecialTokens& tokens() const { return tokens_; }

 private:
  ChatTemplate(std::shared_ptr<const jinja::Program> program, SpecialTokens tokens);

  std::shared_ptr<const jinja::Program> program_;  // shared by copies: made once, never changed
  SpecialTokens tokens_;
};

// From chat_template.jinja of a checkpoint's folder, or else "chat_template" of its
// tokenizer_config.json (of several, the one named "default"); with the special tokens of
// tokenizer_config.json. nullopt where the folder has neither.
Result<std::optional<ChatTemplate>> load_chat_template(const std::filesystem::path& folder);

}  // namespace nibble::text
