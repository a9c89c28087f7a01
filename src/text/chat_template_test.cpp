#include "text/chat_template.h"

#include <ctime>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/testing.h"

namespace nibble::text {
namespace {

Json golden(std::string_view name) {
  const std::string path =
      std::string(NIBBLE_SOURCE_DIR "/tests/golden/chat_templates/").append(name);
  return Json::parse(read_file(path, std::size_t{8} << 20).value(), name).value();
}

// What strftime_now says is in local time.
class ChatTemplates : public testing::Test {
 protected:
  void SetUp() override { tzset(); }

 private:
  ScopedEnvironment zone_{"TZ", "UTC"};
};

ChatTemplate parsed(const std::string& source) {
  auto made = ChatTemplate::parse(source, "test.jinja");
  EXPECT_TRUE(made.ok()) << source << ": " << (made.ok() ? "" : made.error().message);
  return std::move(made).value();
}

Result<std::string> rendered(const std::string& source, ChatInput input = {}) {
  NIBBLE_ASSIGN_OR_RETURN(const ChatTemplate made, ChatTemplate::parse(source, "test.jinja"));
  input.add_generation_prompt = false;
  return made.render(input);
}

std::string text_of(const std::string& source) {
  const auto text = rendered(source);
  return text.ok() ? *text : "ERROR " + text.error().message;
}

std::string error_of(const std::string& source, ChatInput input = {}) {
  const auto text = rendered(source, std::move(input));
  return text.ok() ? "no error: " + *text : text.error().message;
}

void expect_golden(const Result<std::string>& text, const Json& wanted, const std::string& where) {
  if (wanted.is_null()) {
    EXPECT_FALSE(text.ok()) << where << " gave " << (text.ok() ? *text : "");
    return;
  }
  ASSERT_TRUE(text.ok()) << where << ": " << text.error().message;
  EXPECT_EQ(*text, wanted.as_string()) << where;
}

TEST_F(ChatTemplates, EachFamilyRendersAsJinja2) {
  const Json families = golden("families.json");
  const Json talks = golden("conversations.json");
  const Json expected = golden("expected.json");
  ASSERT_EQ(expected.as_object().size(), 11u);
  for (const auto& [name, cases] : expected.as_object()) {
    const Json& family = *families.find(name);
    SpecialTokens tokens;
    for (const auto& [token, text] : family.find("tokens")->as_object()) {
      tokens[token] = text.as_string();
    }
    const auto made = ChatTemplate::parse(family.find("source")->as_string(), name, tokens);
    ASSERT_TRUE(made.ok()) << made.error().message;
    ASSERT_EQ(cases.as_array().size(), 72u);
    for (const Json& one : cases.as_array()) {
      const auto& fields = one.as_array();
      const Json& talk = *talks.find(fields[0].as_string());
      ChatInput input;
      input.messages = *talk.find("messages");
      input.tools = *talk.find("tools");
      input.add_generation_prompt = fields[1].as_bool();
      input.variables = fields[2];
      input.now = 1'700'000'000;
      expect_golden(made->render(input), fields[3], name + ", " + fields[0].as_string());
    }
  }
}

TEST_F(ChatTemplates, EachConstructRendersAsJinja2) {
  const Json file = golden("snippets.json");
  ChatInput input;
  input.variables = *file.find("variables");
  input.now = file.find("now")->as_integer();
  const auto& snippets = file.find("snippets")->as_array();
  ASSERT_GT(snippets.size(), 200u);
  for (const Json& one : snippets) {
    const std::string& source = one.as_array()[0].as_string();
    expect_golden(rendered(source, input), one.as_array()[1], source);
  }
}

TEST(ChatTemplate, WhatIsNotSupportedIsRefusedWithItsLineBeforeAnyRender) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a\n{{ x|urlize }}", "test.jinja, line 2: the filter urlize is not supported"},
      {"{{ x is prime }}", "test.jinja, line 1: the test prime is not supported"},
      {"\n\n{{ now() }}", "test.jinja, line 3: the function now is not supported"},
      {"{{ x.encode() }}", "test.jinja, line 1: the method encode is not supported"},
      {"{{ x|map('urlize') }}", "test.jinja, line 1: the filter urlize is not supported"},
      {"{{ x|select('prime') }}", "test.jinja, line 1: the test prime is not supported"},
      {"{{ x|selectattr('a', 'prime') }}", "test.jinja, line 1: the test prime is not supported"},
      {"{% if no %}{{ x|urlize }}{% endif %}",
       "test.jinja, line 1: the filter urlize is not supported"},
      {"{% include 'x' %}", "test.jinja, line 1: the block {% include %} is not supported here"},
      {"{% endif %}", "test.jinja, line 1: the block {% endif %} is not supported here"},
      {"a\n{% if x %}", "test.jinja, line 2: the block that starts here has no {% endif %}"},
      {"{{ f(*x) }}",
       "test.jinja, line 1: arguments from a list or a mapping (* and **) are not supported"},
      {"{% for x in y recursive %}{% endfor %}",
       "test.jinja, line 1: recursive loops are not supported"},
      {"{{ x", "test.jinja, line 1: the template ends within a tag"},
      {"{# x", "test.jinja, line 1: this comment has no end (#})"},
      {"{{ 'x }}", "test.jinja, line 1: this text has no closing quote"},
      {"{{ x ? }}", "test.jinja, line 1: \"?\" has no meaning within a tag"},
      {"{{ }}", "test.jinja, line 1: an expression is expected here"},
      {"{% set true = 1 %}", "test.jinja, line 1: this name cannot be assigned to"},
      {"{{ (1 }}", "test.jinja, line 1: \"}\" closes no bracket"},
      {"{% break %}", "test.jinja, line 1: this block stands in no loop"},
  };
  for (const auto& [source, message] : cases) EXPECT_EQ(error_of(source), message) << source;
}

TEST(ChatTemplate, FaultsOfARenderNameTheLine) {
  EXPECT_EQ(error_of("a\n{{ x.y }}"), "test.jinja, line 2: 'x' is undefined");
  EXPECT_EQ(error_of("{{ {}.y.z }}"), "test.jinja, line 1: 'dict object' has no attribute 'y'");
  EXPECT_EQ(error_of("\n{{ 'a' + 1 }}"),
            "test.jinja, line 2: \"+\" does not take values of types str and int");
  EXPECT_EQ(error_of("{{ [].append(1) }}"),
            "test.jinja, line 1: access to attribute 'append' of 'list' object is unsafe");
  EXPECT_EQ(error_of("{{ 9223372036854775807 + 1 }}"),
            "test.jinja, line 1: a whole number does not fit in 64 bits");
}

TEST(ChatTemplate, RaiseExceptionIsAnInputErrorInTheTemplatesWords) {
  const auto text = rendered("{{ raise_exception('roles must alternate') }}");
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().kind, ErrorKind::kInput);
  EXPECT_EQ(text.error().message,
            "the chat template refuses the conversation: roles must alternate");
}

TEST(ChatTemplate, HostileTemplatesEnd) {
  const std::vector<std::string> hostile = {
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}",
      "{% set n = namespace(s='xxxxxxxx') %}{% for a in range(100) %}{% set n.s = n.s + n.s %}"
      "{% endfor %}",
      "{{ 'x' * 99999999999 }}",
      "{{ [0] * 99999999999 }}",
      "{{ 'x'.ljust(99999999999) }}",
      "{% set n = namespace(s=[]) %}{% for a in range(100000) %}{% set n.s = [n.s] %}{% endfor %}",
      "{% set n = namespace() %}{% set n.s = [n] %}{{ n.s | tojson }}",
      "{% set n = namespace(s=[]) %}{% for a in range(99) %}{% set n.s = [n.s, n.s] %}{% endfor %}"
      "{{ n.s }}",
      "{% set n = namespace(l=['x']) %}{% for a in range(99) %}{% set n.l = n.l + n.l %}"
      "{% endfor %}",
      "{{ 2 ** 9999 }}",
  };
  ChatInput input;
  input.max_steps = 2'000'000;
  for (const std::string& source : hostile) {
    EXPECT_EQ(error_of(source, input).find("no error"), std::string::npos) << source;
  }
  EXPECT_FALSE(ChatTemplate::parse("{{ " + std::string(10'000, '(') + " }}", "t").ok());
  EXPECT_FALSE(ChatTemplate::parse("{{ " + std::string(10'000, '-') + "1 }}", "t").ok());
  std::string sum = "{{ 1";
  for (int index = 0; index < 10'000; ++index) sum += " + 1";
  EXPECT_FALSE(ChatTemplate::parse(sum + " }}", "t").ok());
  std::string blocks;
  for (int index = 0; index < 10'000; ++index) blocks += "{% if x %}";
  EXPECT_FALSE(ChatTemplate::parse(blocks, "t").ok());
}

TEST(ChatTemplate, LongConversationsRender) {
  ChatInput input;
  for (int index = 0; index < 2000; ++index) {
    Json message = Json::object();
    message.set("role", index % 2 == 0 ? "user" : "assistant");
    message.set("content", std::string(1000, 'x'));
    input.messages.push(std::move(message));
  }
  const auto text = parsed(
                        "{% for m in messages %}{{ '<' + m.role + '>' + m.content | trim }}"
                        "{% for later in messages[loop.index:] %}{% if later.role == 'x' %}y"
                        "{% endif %}{% break %}{% endfor %}{% endfor %}")
                        .render(input);
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(text->size(), 2000u * 1000u + 1000u * 6u + 1000u * 11u);
}

TEST(ChatTemplate, MacrosSeeScopesThatHaveEnded) {
  EXPECT_EQ(text_of("{% set n = namespace() %}{% for i in [1, 2] %}{% macro m() %}{{ i }}"
                    "{% endmacro %}{% set n.m = m %}{% endfor %}{{ n.m() }}"),
            "2");
}

TEST(ChatTemplate, InputOfTheWrongKindIsRefused) {
  ChatInput input;
  input.messages = Json::object();
  EXPECT_EQ(error_of("", input), "messages is an object; give an array");
  input.messages = Json::array();
  input.variables = Json::array();
  EXPECT_EQ(error_of("", input), "the variables of a chat template are an array; give an object");
}

TEST(ChatTemplate, BrokenCharactersBecomeValid) {
  EXPECT_EQ(text_of("a\xff{{ 'b\xf0\x9f' }}"), "a\uFFFD\x62\uFFFD");
}

class ChatTemplateFiles : public testing::Test {
 protected:
  std::filesystem::path write(std::string_view name, std::string_view text) {
    EXPECT_TRUE(write_file(folder_.path() / name, text).ok());
    return folder_.path();
  }
  TemporaryFolder folder_;
};

std::string render_loaded(const std::filesystem::path& folder) {
  const auto found = load_chat_template(folder);
  if (!found.ok()) return "ERROR " + found.error().message;
  if (!found->has_value()) return "NONE";
  return (*found)->render({}).value();
}

TEST_F(ChatTemplateFiles, TheTemplateOfTheFolder) {
  EXPECT_EQ(render_loaded(folder_.path()), "NONE");
  write("tokenizer_config.json", R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>",
      "pad_token": null, "chat_template": "{{ bos_token }}one{{ eos_token }}{{ pad_token }}"})");
  EXPECT_EQ(render_loaded(folder_.path()), "<s>one</s>");
  write("chat_template.jinja", "{{ bos_token }}two");
  EXPECT_EQ(render_loaded(folder_.path()), "<s>two");
}

TEST_F(ChatTemplateFiles, OfSeveralTheDefault) {
  write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "a"},
      {"name": "default", "template": "b"}]})");
  EXPECT_EQ(render_loaded(folder_.path()), "b");
  write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "a"}]})");
  EXPECT_NE(render_loaded(folder_.path()).find("an array without a default"), std::string::npos);
  write("tokenizer_config.json", R"({"chat_template": 3})");
  EXPECT_NE(render_loaded(folder_.path()).find("\"chat_template\" is a number"), std::string::npos);
  write("tokenizer_config.json", R"({"chat_template": null})");
  EXPECT_EQ(render_loaded(folder_.path()), "NONE");
  write("tokenizer_config.json", "{");
  EXPECT_EQ(render_loaded(folder_.path()).find("ERROR"), 0u);
}

}  // namespace
}  // namespace nibble::text
