#include "text/chat_template.h"

#include <array>
#include <utility>

#include "base/file.h"
#include "base/utf8.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"

namespace nibble::text {
namespace {

constexpr std::size_t kMaxTemplateBytes = std::size_t{4} << 20;
constexpr std::size_t kMaxConfigBytes = std::size_t{256} << 20;  // lists every added token

constexpr std::array<std::string_view, 7> kTokenNames = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

jinja::Value to_value(jinja::Machine& machine, const Json& json);

jinja::Value to_list(jinja::Machine& machine, const Json& json) {
  std::vector<jinja::Value> items;
  items.reserve(json.as_array().size());
  for (const Json& one : json.as_array()) items.push_back(to_value(machine, one));
  return machine.list(std::move(items));
}

jinja::Value to_mapping(jinja::Machine& machine, const Json& json) {
  std::vector<std::pair<jinja::Value, jinja::Value>> members;
  members.reserve(json.as_object().size());
  for (const auto& [key, value] : json.as_object()) {
    members.emplace_back(machine.text(make_valid(key)), to_value(machine, value));
  }
  return machine.mapping(std::move(members));
}

// As deep as the JSON, which its reader has bounded.
jinja::Value to_value(jinja::Machine& machine, const Json& json) {
  if (!machine.step()) return {};
  if (json.is_null()) return jinja::Value(jinja::None{});
  if (json.is_bool()) return jinja::Value(json.as_bool());
  if (json.is_integer()) return jinja::Value(json.as_integer());
  if (json.is_number()) return jinja::Value(json.as_number());
  if (json.is_string()) return machine.text(make_valid(json.as_string()));
  return json.is_array() ? to_list(machine, json) : to_mapping(machine, json);
}

Error fault_of(const jinja::Machine& machine, const jinja::Program& program) {
  if (machine.raised()) {
    return input_error("the chat template refuses the conversation: {}", machine.fault());
  }
  return input_error("{}, line {}: {}", program.where, machine.fault_line(), machine.fault());
}

// A token is written as its text, or as an object with the text as "content".
void read_token(const Json& config, std::string_view name, SpecialTokens& tokens) {
  const Json* token = config.find(name);
  if (token == nullptr) return;
  const Json* content = token->is_object() ? token->find("content") : token;
  if (content != nullptr && content->is_string()) {
    tokens.insert_or_assign(std::string(name), content->as_string());
  }
}

// The template in tokenizer_config.json, nullptr where it has none.
Result<const std::string*> find_template(const Json& config, std::string_view where) {
  const Json* found = config.find("chat_template");
  if (found == nullptr || found->is_null()) return static_cast<const std::string*>(nullptr);
  if (found->is_string()) return &found->as_string();
  if (found->is_array()) {
    for (const Json& one : found->as_array()) {
      const Json* name = one.find("name");
      const Json* source = one.find("template");
      const bool fits = name != nullptr && name->is_string() && name->as_string() == "default";
      if (fits && source != nullptr && source->is_string()) return &source->as_string();
    }
  }
  return input_error(
      "{}: \"chat_template\" is {}; nibble takes a string, or an array of which one entry has the "
      "name \"default\" and a \"template\"",
      where, found->is_array() ? "an array without a default" : found->kind_name());
}

bool is_file(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

}  // namespace

ChatTemplate::ChatTemplate(std::shared_ptr<const jinja::Program> program, SpecialTokens tokens)
    : program_(std::move(program)), tokens_(std::move(tokens)) {}

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, std::string_view where,
                                         SpecialTokens tokens) {
  if (source.size() > kMaxTemplateBytes) {
    return input_error("{}: a chat template of {} bytes is too large; the limit is {}", where,
                       source.size(), kMaxTemplateBytes);
  }
  NIBBLE_ASSIGN_OR_RETURN(jinja::Program program, jinja::parse_program(source, where));
  return ChatTemplate(std::make_shared<const jinja::Program>(std::move(program)),
                      std::move(tokens));
}

std::string_view ChatTemplate::where() const {
  return program_->where;
}

Result<std::string> ChatTemplate::render(const ChatInput& input) const {
  if (!input.messages.is_array()) {
    return input_error("messages is {}; give an array", input.messages.kind_name());
  }
  if (!input.variables.is_object()) {
    return input_error("the variables of a chat template are {}; give an object",
                       input.variables.kind_name());
  }
  jinja::Limits limits;
  limits.max_steps = input.max_steps;
  jinja::Machine machine(limits, input.now);
  jinja::Interpreter interpreter(machine);
  for (const auto& [name, token] : tokens_) interpreter.define(name, machine.text(token));
  for (const auto& [name, value] : input.variables.as_object()) {
    interpreter.define(name, to_value(machine, value));
  }
  interpreter.define("messages", to_value(machine, input.messages));
  interpreter.define("tools", to_value(machine, input.tools));
  if (input.variables.find("documents") == nullptr) {
    interpreter.define("documents", jinja::Value(jinja::None{}));
  }
  interpreter.define("add_generation_prompt", jinja::Value(input.add_generation_prompt));
  std::string text = interpreter.render(*program_);
  if (machine.failed()) return fault_of(machine, *program_);
  return text;
}

Result<std::optional<ChatTemplate>> load_chat_template(const std::filesystem::path& folder) {
  const std::filesystem::path config_path = folder / "tokenizer_config.json";
  const std::filesystem::path template_path = folder / "chat_template.jinja";
  Json config = Json::object();
  if (is_file(config_path)) {
    NIBBLE_ASSIGN_OR_RETURN(const std::string text, read_file(config_path, kMaxConfigBytes));
    NIBBLE_ASSIGN_OR_RETURN(config, Json::parse(text, config_path.string()));
  }
  SpecialTokens tokens;
  for (const std::string_view name : kTokenNames) read_token(config, name, tokens);
  if (is_file(template_path)) {
    NIBBLE_ASSIGN_OR_RETURN(const std::string source, read_file(template_path, kMaxTemplateBytes));
    NIBBLE_ASSIGN_OR_RETURN(ChatTemplate made,
                            ChatTemplate::parse(source, template_path.string(), std::move(tokens)));
    return std::optional<ChatTemplate>(std::move(made));
  }
  NIBBLE_ASSIGN_OR_RETURN(const std::string* source, find_template(config, config_path.string()));
  if (source == nullptr) return std::optional<ChatTemplate>();
  NIBBLE_ASSIGN_OR_RETURN(
      ChatTemplate made,
      ChatTemplate::parse(*source, config_path.string() + ": chat_template", std::move(tokens)));
  return std::optional<ChatTemplate>(std::move(made));
}

}  // namespace nibble::text
