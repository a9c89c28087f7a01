#include "serve/parameters.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

namespace nibble::serve {
namespace {

using api::Dialect;

const Bounds kBounds = {.vocabulary = 100, .model = "m"};

std::string body_of(Dialect dialect, const std::string& more) {
  const char* prompt = dialect == Dialect::kChat ? R"("messages":[{"role":"user","content":"a"}])"
                                                 : R"("prompt":"a")";
  return fmt::format("{{{}{}{}}}", prompt, more.empty() ? "" : ",", more);
}

Checked<Parameters> read(Dialect dialect, const std::string& more) {
  return read_parameters(dialect, body_of(dialect, more), kBounds);
}

Parameters taken(Dialect dialect, const std::string& more) {
  Checked<Parameters> result = read(dialect, more);
  if (const auto* refusal = std::get_if<Refusal>(&result)) {
    ADD_FAILURE() << more << ": " << refusal->message;
    return {};
  }
  return std::get<Parameters>(std::move(result));
}

void expect_refused(Dialect dialect, const std::string& more, const std::string& param) {
  const Checked<Parameters> result = read(dialect, more);
  const auto* refusal = std::get_if<Refusal>(&result);
  ASSERT_NE(refusal, nullptr) << more;
  EXPECT_EQ(refusal->status, 400) << more;
  EXPECT_EQ(refusal->param, param) << more << ": " << refusal->message;
  EXPECT_NE(refusal->message.find(param), std::string::npos) << refusal->message;
}

struct Bad {
  const char* field;
  std::vector<const char*> values;
};

// Of both endpoints. 2147483648 is one more than is taken; 1e300 no whole number that is held.
const std::vector<Bad> kBad = {
    {"model", {"1", "[]"}},
    {"max_tokens", {"0", "-1", "1.5", "\"8\"", "true", "[8]", "2147483648", "1e300"}},
    {"min_tokens", {"-1", "0.5", "\"1\"", "2147483648"}},
    {"temperature", {"-0.1", "101", "\"1\"", "true", "[]", "{}", "1e300"}},
    {"top_p", {"0", "-0.5", "1.01", "\"1\"", "1e300"}},
    {"top_k", {"-2", "101", "1.5", "\"1\"", "1e300"}},
    {"min_p", {"-0.1", "1.1", "\"0\""}},
    {"presence_penalty", {"-2.1", "2.1", "\"0\""}},
    {"frequency_penalty", {"-2.1", "2.1", "\"0\""}},
    {"repetition_penalty", {"0", "-1", "101", "\"1\""}},
    {"seed", {"1.5", "\"1\"", "1e300", "true", "9223372036854775808", "-9223372036854775809"}},
    {"stop", {"\"\"", "[\"\"]", "1", "[1]", "[null]", "{}", "true"}},
    {"stop_token_ids", {"1", "[100]", "[-1]", "[1.5]", "[\"1\"]", "[null]", "{}", "[1e300]"}},
    {"ignore_eos", {"1", "\"true\"", "[]"}},
    {"include_stop_str_in_output", {"1", "\"true\""}},
    {"skip_special_tokens", {"0", "\"true\""}},
    {"logit_bias",
     {"[]", "1", "{\"100\":1}", "{\"-1\":1}", "{\"a\":1}", "{\"\":1}", "{\"01\":1}", "{\"1.0\":1}",
      "{\"1\":\"x\"}", "{\"1\":101}", "{\"1\":-101}", "{\"1\":null}", "{\"99999999999\":1}"}},
    {"n", {"0", "-1", "129", "1.5", "\"2\""}},
    {"best_of", {"2", "0", "\"1\""}},
    {"stream", {"1", "\"true\""}},
    {"stream_options", {"{}", "{\"include_usage\":true}", "1", "[]"}},  // without a stream
    {"user", {"1", "{}"}},
    {"tools", {"[{\"type\":\"function\"}]", "1"}},
    {"tool_choice", {"\"required\"", "{\"type\":\"function\"}"}},
    {"response_format", {"{\"type\":\"json_object\"}", "\"text\""}},
    {"suffix", {"\"x\""}},
    {"prompt_logprobs", {"0", "1"}},
    {"guided_json", {"{\"type\":\"object\"}", "\"{}\"", "true"}},
    {"guided_regex", {"\"a\""}},
    {"guided_choice", {"[\"a\"]"}},
    {"guided_grammar", {"\"root\""}},
    {"guided_whitespace_pattern", {"\" \""}},
    {"guided_decoding_backend", {"\"xgrammar\""}},
    {"structured_outputs", {"{\"json\":{}}"}},
    {"documents", {"[{}]"}},
    {"use_beam_search", {"true"}},
    {"allowed_token_ids", {"[1]"}},
    {"add_special_tokens", {"1"}},
};

TEST(Parameters, EveryBadValueIsRefusedByItsField) {
  for (const Dialect dialect : {Dialect::kChat, Dialect::kCompletions}) {
    for (const Bad& bad : kBad) {
      for (const char* value : bad.values) {
        expect_refused(dialect, fmt::format("\"{}\":{}", bad.field, value), bad.field);
      }
    }
  }
}

TEST(Parameters, BadValuesOfOneEndpoint) {
  const Dialect chat = Dialect::kChat;
  for (const char* value : {"1", "\"true\""}) {
    expect_refused(chat, fmt::format("\"logprobs\":{}", value), "logprobs");
  }
  for (const char* value : {"-1", "21", "1.5", "\"1\"", "true"}) {
    expect_refused(chat, fmt::format("\"logprobs\":true,\"top_logprobs\":{}", value),
                   "top_logprobs");
    expect_refused(Dialect::kCompletions, fmt::format("\"logprobs\":{}", value), "logprobs");
  }
  expect_refused(chat, R"("top_logprobs":2)", "top_logprobs");
  expect_refused(chat, R"("max_completion_tokens":0)", "max_completion_tokens");
  expect_refused(chat, R"("echo":true)", "echo");
  expect_refused(chat, R"("add_generation_prompt":1)", "add_generation_prompt");
  expect_refused(chat, R"("chat_template":"{{ x }}")", "chat_template");
  expect_refused(chat, R"("chat_template_kwargs":[])", "chat_template_kwargs");
  expect_refused(chat, R"("continue_final_message":true)", "continue_final_message");
  expect_refused(Dialect::kCompletions, R"("echo":true,"logprobs":0)", "echo");
  expect_refused(Dialect::kCompletions, R"("echo":true,"max_tokens":0)", "max_tokens");
}

TEST(Parameters, FieldsThatContradictEachOther) {
  expect_refused(Dialect::kCompletions, R"("min_tokens":3,"max_tokens":2)", "min_tokens");
  expect_refused(Dialect::kCompletions, R"("min_tokens":17)", "min_tokens");  // 16 at most
  EXPECT_EQ(taken(Dialect::kCompletions, R"("min_tokens":16)").min_tokens, 16);
  EXPECT_EQ(taken(Dialect::kCompletions, R"("min_tokens":17,"max_tokens":17)").min_tokens, 17);
  EXPECT_EQ(taken(Dialect::kChat, R"("min_tokens":17)").min_tokens, 17);
  expect_refused(Dialect::kChat, R"("stream":true,"stream_options":{"include_usage":1})",
                 "stream_options");
  const std::string seventeen = R"("stop":["a","a","a","a","a","a","a","a","a","a","a","a","a",)"
                                R"("a","a","a","a"])";
  expect_refused(Dialect::kChat, seventeen, "stop");
  expect_refused(Dialect::kChat, fmt::format("\"stop\":\"{}\"", std::string(1025, 'a')), "stop");
}

// What the server sets itself would be lost without a word.
TEST(Parameters, WhatATemplateIsGiven) {
  const auto kwargs = [](const std::string& values) {
    return fmt::format(R"("chat_template_kwargs":{{{}}})", values);
  };
  for (const char* values : {R"("messages":[])", R"("tools":[])", R"("add_generation_prompt":0)",
                             R"("add_generation_prompt":"false")"}) {
    expect_refused(Dialect::kChat, kwargs(values), "chat_template_kwargs");
  }
  const auto prompts = [&](const std::string& more) {
    return taken(Dialect::kChat, more).add_generation_prompt;
  };
  EXPECT_FALSE(prompts(kwargs(R"("add_generation_prompt":false)")));
  EXPECT_TRUE(
      prompts(R"("add_generation_prompt":false,)" + kwargs(R"("add_generation_prompt":true)")));
  EXPECT_TRUE(prompts(kwargs(R"("add_generation_prompt":null,"tools":null)")));
}

TEST(Parameters, BadPrompts) {
  for (const char* value :
       {"\"\"", "[]", "null", "1", "true", "{}", "[\"\"]", "[[]]", "[-1]", "[[1],[-1]]", "[1.5]",
        "[\"a\",1]", "[1,\"a\"]", "[99999999999]", "[null]", "[[\"a\"]]"}) {
    const std::string body = fmt::format(R"({{"prompt":{}}})", value);
    const auto result = read_parameters(Dialect::kCompletions, body, kBounds);
    const auto* refusal = std::get_if<Refusal>(&result);
    ASSERT_NE(refusal, nullptr) << body;
    EXPECT_EQ(refusal->param, "prompt") << body;
  }
  for (const char* value :
       {"[]", "\"a\"", "null", "{}", "[1]", "[{}]", "[{\"content\":\"a\"}]", "[null]",
        R"([{"role":1,"content":"a"}])", R"([{"role":"user","content":1}])",
        R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}])",
        R"([{"role":"user","content":[1]}])"}) {
    const std::string body = fmt::format(R"({{"messages":{}}})", value);
    const auto result = read_parameters(Dialect::kChat, body, kBounds);
    const auto* refusal = std::get_if<Refusal>(&result);
    ASSERT_NE(refusal, nullptr) << body;
    EXPECT_EQ(refusal->param, "messages") << body;
  }
}

TEST(Parameters, BodiesThatAreNoRequest) {
  for (const char* body :
       {"", "x", "[]", "1", "null", "{", "{\"prompt\":\"a\"} x",
        "{\"prompt\":\"a\",\"prompt\":\"b\"}", "{\"prompt\":\"\xFF\"}",
        "{\"prompt\":\"a\",\"temperature\":NaN}", "{\"prompt\":\"a\",\"temperature\":1e999}",
        "{\"prompt\":\"a\",\"n\":1,\"n\":1}"}) {
    const auto result = read_parameters(Dialect::kCompletions, body, kBounds);
    const auto* refusal = std::get_if<Refusal>(&result);
    ASSERT_NE(refusal, nullptr) << body;
    EXPECT_EQ(refusal->status, 400);
    EXPECT_FALSE(refusal->message.empty());
  }
}

TEST(Parameters, TheModelIsTheOneThatIsServed) {
  EXPECT_EQ(taken(Dialect::kChat, R"("model":"m")").n, 1);
  EXPECT_EQ(taken(Dialect::kChat, R"("model":null)").n, 1);
  const auto result = read(Dialect::kChat, R"("model":"gpt-4")");
  const auto* refusal = std::get_if<Refusal>(&result);
  ASSERT_NE(refusal, nullptr);
  EXPECT_EQ(refusal->status, 404);
  EXPECT_EQ(refusal->param, "model");
  EXPECT_EQ(std::get<Refusal>(read(Dialect::kChat, R"("model":"")")).status, 404);
}

TEST(Parameters, WhatAsksForNothingIsTaken) {
  for (const char* field :
       {"tools", "functions", "response_format", "guided_json", "guided_regex", "guided_anything",
        "structured_outputs", "logits_processors", "bad_words", "chat_template", "suffix"}) {
    for (const char* value : {"null", "[]", "{}", "\"\""}) {
      taken(Dialect::kChat, fmt::format("\"{}\":{}", field, value));
    }
  }
  taken(Dialect::kChat, R"("tool_choice":"auto","length_penalty":1.0,"priority":0)");
}

TEST(Parameters, SeedsOfSixtyFourBits) {
  EXPECT_EQ(taken(Dialect::kChat, R"("seed":9223372036854775807)").sampling.seed,
            std::uint64_t{INT64_MAX});
  EXPECT_EQ(taken(Dialect::kChat, R"("seed":-9223372036854775808)").sampling.seed,
            std::uint64_t{1} << 63);
}

TEST(Parameters, TheModelsOwnDefaults) {
  Bounds bounds = kBounds;
  bounds.defaults.temperature = 0.6;
  bounds.defaults.top_p = 0.95;
  bounds.defaults.top_k = 20;
  bounds.defaults.min_p = 0.05;
  bounds.defaults.repetition_penalty = 1.05;
  const auto sampling = [&](const std::string& more) {
    const auto result = read_parameters(Dialect::kChat, body_of(Dialect::kChat, more), bounds);
    return std::get<Parameters>(result).sampling;
  };
  const engine::Sampling plain = sampling("");
  EXPECT_EQ(plain.temperature, 0.6);
  EXPECT_EQ(plain.top_p, 0.95);
  EXPECT_EQ(plain.top_k, 20);
  EXPECT_EQ(plain.min_p, 0.05);
  EXPECT_EQ(plain.repetition_penalty, 1.05);
  const engine::Sampling own = sampling(R"("temperature":1,"top_k":-1,"min_p":0,"top_p":null)");
  EXPECT_EQ(own.temperature, 1);
  EXPECT_EQ(own.top_k, 0);
  EXPECT_EQ(own.min_p, 0);
  EXPECT_EQ(own.top_p, 0.95);
}

// More answers than run and wait at once could never be served: "try again later" would be a lie.
TEST(Parameters, MoreAnswersThanTheEngineHasPlaces) {
  Bounds bounds = kBounds;
  bounds.places = 5;
  const auto refusal_of = [&](const char* body) {
    auto result = read_parameters(Dialect::kCompletions, body, bounds);
    return std::holds_alternative<Refusal>(result) ? std::get<Refusal>(result)
                                                   : Refusal{.param = ""};
  };
  EXPECT_EQ(refusal_of(R"({"prompt":"a","n":5})").param, "");
  const Refusal refusal = refusal_of(R"({"prompt":"a","n":6})");
  EXPECT_EQ(refusal.status, 400);
  EXPECT_EQ(refusal.param, "n");
  EXPECT_NE(refusal.message.find("max_queued_requests"), std::string::npos) << refusal.message;
  EXPECT_EQ(refusal_of(R"({"prompt":["a","b"],"n":3})").param, "n");
  EXPECT_EQ(refusal_of(R"({"prompt":["a","b","c","d","e","f"]})").param, "prompt");
}

TEST(Parameters, Defaults) {
  const Parameters asked = taken(Dialect::kCompletions, "");
  EXPECT_EQ(asked.max_tokens, std::nullopt);
  EXPECT_EQ(asked.sampling.temperature, 1);
  EXPECT_EQ(asked.sampling.top_p, 1);
  EXPECT_EQ(asked.sampling.top_k, 0);
  EXPECT_EQ(asked.sampling.repetition_penalty, 1);
  EXPECT_EQ(asked.sampling.logprobs, std::nullopt);
  EXPECT_TRUE(asked.skip_special);
  EXPECT_TRUE(asked.add_special);
  EXPECT_FALSE(asked.stream);
  EXPECT_EQ(asked.choices(), 1);
  EXPECT_FALSE(taken(Dialect::kChat, "").add_special);
  EXPECT_TRUE(taken(Dialect::kChat, "").add_generation_prompt);
  // Without a seed two requests draw different ones.
  EXPECT_NE(taken(Dialect::kChat, "").sampling.seed, taken(Dialect::kChat, "").sampling.seed);
}

TEST(Parameters, AllThatIsTaken) {
  const Parameters asked = taken(
      Dialect::kChat,
      R"("max_tokens":5,"max_completion_tokens":7,"min_tokens":2,"temperature":0.5,"top_p":0.9,
         "top_k":-1,"min_p":0.1,"presence_penalty":-2,"frequency_penalty":2,
         "repetition_penalty":1.1,"seed":-1,"stop":["a","b"],"stop_token_ids":[3,99],
         "ignore_eos":true,"include_stop_str_in_output":true,"skip_special_tokens":false,
         "logit_bias":{"0":-100,"99":100},"logprobs":true,"top_logprobs":20,"n":3,"best_of":3,
         "stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},
         "user":"u","chat_template_kwargs":{"enable_thinking":false},"add_generation_prompt":false,
         "tools":[],"tool_choice":"none","response_format":{"type":"text"},"prompt_logprobs":null,
         "unknown_field":{"x":1})");
  EXPECT_EQ(asked.max_tokens, 7);
  EXPECT_EQ(asked.min_tokens, 2);
  EXPECT_EQ(asked.sampling.temperature, 0.5);
  EXPECT_EQ(asked.sampling.top_p, 0.9);
  EXPECT_EQ(asked.sampling.top_k, 0);
  EXPECT_EQ(asked.sampling.min_p, 0.1);
  EXPECT_EQ(asked.sampling.presence_penalty, -2);
  EXPECT_EQ(asked.sampling.frequency_penalty, 2);
  EXPECT_EQ(asked.sampling.repetition_penalty, 1.1);
  EXPECT_EQ(asked.sampling.seed, UINT64_MAX);
  EXPECT_EQ(asked.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(asked.stop_ids, (std::vector<engine::TokenId>{3, 99}));
  EXPECT_TRUE(asked.ignore_eos && asked.include_stop && !asked.skip_special);
  EXPECT_EQ(asked.sampling.logit_bias,
            (std::vector<std::pair<engine::TokenId, float>>{{0, -100.0F}, {99, 100.0F}}));
  EXPECT_EQ(asked.sampling.logprobs, 20);
  EXPECT_EQ(asked.n, 3);
  EXPECT_TRUE(asked.stream && asked.include_usage && asked.continuous_usage);
  EXPECT_FALSE(asked.add_generation_prompt);
  EXPECT_EQ(asked.template_values.dump(0), R"({"enable_thinking":false})");
}

TEST(Parameters, TinyTemperaturesAreGreedy) {
  EXPECT_EQ(taken(Dialect::kChat, R"("temperature":1e-6)").sampling.temperature, 0);
  EXPECT_EQ(taken(Dialect::kChat, R"("temperature":1e-5)").sampling.temperature, 1e-5);
}

TEST(Parameters, SeveralPrompts) {
  const auto prompts_of = [](const char* prompt) {
    auto result = read_parameters(Dialect::kCompletions,
                                  fmt::format(R"({{"prompt":{},"n":2}})", prompt), kBounds);
    return std::get<Parameters>(result);
  };
  EXPECT_EQ(prompts_of(R"(["a","b","c"])").choices(), 6);
  EXPECT_EQ(prompts_of("[[1,2],[3]]").prompts[1].ids, std::vector<std::int32_t>{3});
  EXPECT_EQ(prompts_of("[1,2]").choices(), 2);
  std::string many = "[\"a\"";
  for (int at = 0; at < 64; ++at) many += ",\"a\"";
  const auto result = read_parameters(Dialect::kCompletions,
                                      fmt::format(R"({{"prompt":{}],"n":2}})", many), kBounds);
  EXPECT_EQ(std::get<Refusal>(result).param, "n");
}

}  // namespace
}  // namespace nibble::serve
