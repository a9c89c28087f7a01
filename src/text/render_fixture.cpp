// Renders chat templates for tools/oracle/chat_templates.py: a line of JSON in, a line out.
//
//   in:  {"source": "...", "messages": [...], "tools": [...] or null, "tokens": {...},
//         "add_generation_prompt": true, "variables": {...}, "now": 0}
//   out: {"text": "..."} or {"error": "..."}
#include <iostream>
#include <string>

#include "base/json.h"
#include "text/chat_template.h"

namespace {

using nibble::Json;
using nibble::Result;

Json member(const Json& line, std::string_view name, Json otherwise) {
  const Json* found = line.find(name);
  return found == nullptr ? otherwise : *found;
}

Result<std::string> render(const std::string& text) {
  NIBBLE_ASSIGN_OR_RETURN(const Json line, Json::parse(text, "line"));
  nibble::text::SpecialTokens tokens;
  const Json given = member(line, "tokens", Json::object());
  for (const auto& [name, token] : given.as_object()) tokens[name] = token.as_string();
  const std::string source = member(line, "source", "").as_string();
  NIBBLE_ASSIGN_OR_RETURN(const auto chat_template,
                          nibble::text::ChatTemplate::parse(source, "template", tokens));
  nibble::text::ChatInput input;
  input.messages = member(line, "messages", Json::array());
  input.tools = member(line, "tools", nullptr);
  input.add_generation_prompt = member(line, "add_generation_prompt", false).as_bool();
  input.variables = member(line, "variables", Json::object());
  input.now = member(line, "now", 0).as_integer();
  return chat_template.render(input);
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const Result<std::string> text = render(line);
    Json out = Json::object();
    if (text.ok()) {
      out.set("text", *text);
    } else {
      out.set("error", text.error().message);
    }
    std::cout << out.dump(0) << std::endl;
  }
}
