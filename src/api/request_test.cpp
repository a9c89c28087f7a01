#include "api/request.h"

#include <cmath>
#include <gtest/gtest.h>

namespace nibble::api {
namespace {

Backend named(std::string_view name) {
  return find_backend(name).value();
}

Json body_of(std::string_view backend, const GenerationRequest& request) {
  const Result<RequestBody> body = request_body(named(backend), request);
  EXPECT_TRUE(body.ok()) << body.error().message;
  return Json::parse(body->json, "body").value();
}

const GenerationRequest kRequest = {.model = "m",
                                    .prompt = "Once \"upon\"\n",
                                    .max_tokens = 128,
                                    .min_tokens = 64,
                                    .temperature = 0.0,
                                    .ignore_eos = true};

// Bodies as the documentation of each server has them.
TEST(RequestBody, EveryFormat) {
  const std::pair<const char*, const char*> cases[] = {
      {"vllm",
       R"({"model":"m","prompt":"Once \"upon\"\n","max_tokens":128,"min_tokens":64,"temperature":0,)"
       R"("ignore_eos":true,"stream":true,)"
       R"("stream_options":{"include_usage":true,"continuous_usage_stats":true}})"},
      {"openai-chat",
       R"({"model":"m","messages":[{"role":"user","content":"Once \"upon\"\n"}],"max_tokens":128,)"
       R"("min_tokens":64,"temperature":0,"ignore_eos":true,"stream":true,)"
       R"("stream_options":{"include_usage":true,"continuous_usage_stats":true}})"},
      {"sglang", R"({"model":"m","text":"Once \"upon\"\n","sampling_params":{"max_new_tokens":128,)"
                 R"("min_new_tokens":64,"temperature":0,"ignore_eos":true},"stream":true})"},
      {"llamacpp", R"({"model":"m","prompt":"Once \"upon\"\n","n_predict":128,"temperature":0,)"
                   R"("ignore_eos":true,"stream":true})"},
  };
  for (const auto& [backend, expected] : cases) {
    EXPECT_EQ(request_body(named(backend), kRequest)->json, expected);
  }
}

TEST(RequestBody, TokenIdsAndMessages) {
  GenerationRequest ids = {.model = "m", .prompt_ids = {1, 2, 30000}, .stream = false};
  EXPECT_EQ(request_body(named("openai"), ids)->json,
            R"({"model":"m","prompt":[1,2,30000],"stream":false})");
  EXPECT_EQ(request_body(named("sglang"), ids)->json,
            R"({"model":"m","input_ids":[1,2,30000],"sampling_params":{},"stream":false})");
  EXPECT_EQ(request_body(named("llamacpp"), ids)->json,
            R"({"model":"m","prompt":[1,2,30000],"stream":false})");
  EXPECT_EQ(request_body(named("openai-chat"), ids).error().message,
            "backend openai-chat takes no token ids; give the prompt as text");
  const GenerationRequest chat = {.model = "m",
                                  .messages = {{"system", "S"}, {"user", "U"}},
                                  .max_tokens = 5,
                                  .stream = false,
                                  .max_completion_tokens = true};
  EXPECT_EQ(
      request_body(named("openai-chat"), chat)->json,
      R"({"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":"U"}],)"
      R"("max_completion_tokens":5,"stream":false})");
}

TEST(RequestBody, UsageOptionsCanBeLeftOut) {
  GenerationRequest request = {.model = "m", .prompt = "p", .continuous_usage = false};
  EXPECT_EQ(body_of("openai", request).find("stream_options")->dump(0),
            R"({"include_usage":true})");
  request.include_usage = false;
  EXPECT_EQ(body_of("openai", request).find("stream_options"), nullptr);
}

TEST(RequestBody, ExtraBodyWinsAndIsSaid) {
  GenerationRequest request = kRequest;
  request.extra_body = Json::parse(R"({"top_k":1,"max_tokens":64,"temperature":0,
      "stream_options":{"continuous_usage_stats":false}})",
                                   "extra")
                           .value();
  const RequestBody body = request_body(named("vllm"), request).value();
  const Json json = Json::parse(body.json, "body").value();
  EXPECT_EQ(json.find("top_k")->as_integer(), 1);
  EXPECT_EQ(json.find("stream_options")->dump(0),
            R"({"include_usage":true,"continuous_usage_stats":false})");
  EXPECT_EQ(body.max_tokens, 64);
  EXPECT_TRUE(body.stream);
  EXPECT_EQ(body.notes, (std::vector<std::string>{
                            "extra body: max_tokens is 64 instead of 128",
                            "extra body: stream_options.continuous_usage_stats is false instead of "
                            "true"}));
}

TEST(RequestBody, ExtraBodyReachesIntoSamplingParams) {
  GenerationRequest request = kRequest;
  request.extra_body =
      Json::parse(R"({"sampling_params":{"top_k":5,"max_new_tokens":9},"stream":false})", "x")
          .value();
  const RequestBody body = request_body(named("sglang"), request).value();
  EXPECT_EQ(
      Json::parse(body.json, "b")->find("sampling_params")->dump(0),
      R"({"max_new_tokens":9,"min_new_tokens":64,"temperature":0,"ignore_eos":true,"top_k":5})");
  EXPECT_EQ(body.max_tokens, 9);
  EXPECT_FALSE(body.stream);
}

TEST(RequestBody, ExtraBodyMayReplaceThePrompt) {
  GenerationRequest request = kRequest;
  request.extra_body = Json::object().set("prompt", "mine");
  const RequestBody body = request_body(named("openai"), request).value();
  EXPECT_EQ(Json::parse(body.json, "b")->find("prompt")->as_string(), "mine");
  EXPECT_EQ(body.notes, std::vector<std::string>{"extra body: prompt replaces the prompt"});
}

TEST(RequestBody, WhatABackendCannotDoIsSaid) {
  EXPECT_EQ(request_body(named("llamacpp"), kRequest)->notes,
            std::vector<std::string>{"backend llamacpp knows no least number of tokens; ignore_eos "
                                     "stands in for it"});
}

TEST(RequestBody, Refusals) {
  const auto refused = [](GenerationRequest request) {
    return request_body(named("openai"), request).error().message;
  };
  EXPECT_EQ(refused({.max_tokens = 0}), "0 output tokens are asked; ask for 1 or more");
  EXPECT_EQ(refused({.max_tokens = 4, .min_tokens = 5}),
            "at least 5 output tokens are asked and at most 4");
  EXPECT_EQ(refused({.temperature = std::nan("")}), "temperature nan is not a number from 0 on");
  EXPECT_EQ(refused({.extra_body = Json(3)}),
            "the extra body is a number; give an object such as {\"top_k\": 1}");
}

TEST(ParseRequest, ReadsWhatTheClientWrites) {
  GenerationRequest request = {.model = "m",
                               .prompt = "p\xC3\xA9",
                               .max_tokens = 128,
                               .temperature = 0.5,
                               .top_p = 0.9,
                               .seed = -7,
                               .stop = {"\n", "END"},
                               .ignore_eos = true};
  request.extra_body = Json::object().set("guided", Json::object().set("a", 1));
  for (const Backend& backend : backends()) {
    GenerationRequest asked = request;
    if (backend.min_tokens) asked.min_tokens = 64;
    if (backend.dialect == Dialect::kSglang) {
      asked.extra_body.set("sampling_params", Json::object().set("top_k", 3));
    }
    const RequestBody body = request_body(backend, asked).value();
    const Result<GenerationRequest> read = parse_request(backend.dialect, body.json);
    ASSERT_TRUE(read.ok()) << read.error().message;
    GenerationRequest expected = asked;
    if (backend.dialect == Dialect::kChat) {
      expected.messages = {{"user", asked.prompt}};
      expected.prompt.clear();
    }
    EXPECT_EQ(*read, expected) << backend.name << "\n" << body.json;
    if (!backend.token_ids) continue;
    asked.prompt.clear();
    asked.prompt_ids = {5, 6, 7};
    asked.stream = false;
    asked.include_usage = asked.continuous_usage = backend.counts_always;
    EXPECT_EQ(*parse_request(backend.dialect, request_body(backend, asked)->json), asked);
  }
}

TEST(ParseRequest, FormsThatClientsSend) {
  const auto read = [](Dialect dialect, std::string_view body) {
    const Result<GenerationRequest> request = parse_request(dialect, body);
    EXPECT_TRUE(request.ok()) << body << request.error().message;
    return request.ok() ? *request : GenerationRequest{};
  };
  EXPECT_EQ(read(Dialect::kCompletions, R"({"prompt":["one"]})").prompt, "one");
  EXPECT_EQ(read(Dialect::kCompletions, R"({"prompt":[[1,2]]})").prompt_ids,
            (std::vector<std::int32_t>{1, 2}));
  EXPECT_FALSE(read(Dialect::kCompletions, R"({"prompt":"x"})").stream);
  EXPECT_EQ(read(Dialect::kCompletions, R"({"prompt":"x","stop":"END","n":1})").stop,
            std::vector<std::string>{"END"});
  EXPECT_EQ(read(Dialect::kLlamacpp, R"({"prompt":"x","n_predict":-1})").max_tokens, std::nullopt);
  const GenerationRequest chat = read(
      Dialect::kChat,
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},)"
      R"({"role":"assistant","content":null}],"max_completion_tokens":3})");
  EXPECT_EQ(chat.messages, (std::vector<ChatMessage>{{"user", "a\nb"}, {"assistant", ""}}));
  EXPECT_EQ(chat.max_tokens, 3);
}

TEST(ParseRequest, AMessageKeepsWhatElseItHolds) {
  const auto chat = parse_request(
      Dialect::kChat,
      R"({"messages":[{"tool_calls":[{"id":"c"}],"role":"assistant","content":"","na\"me":null}]})");
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(
      chat->messages,
      (std::vector<ChatMessage>{{"assistant", "", R"("tool_calls":[{"id":"c"}],"na\"me":null)"}}));
}

TEST(ParseRequest, AListHoldsOnePrompt) {
  const auto refusal = [](std::string_view body) {
    const auto read = parse_request(Dialect::kCompletions, body);
    return read.ok() ? std::string() : read.error().message;
  };
  const auto text = parse_request(Dialect::kCompletions, R"({"prompt":["a"],"max_tokens":2})");
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text, *parse_request(Dialect::kCompletions, R"({"prompt":"a","max_tokens":2})"));
  const auto ids = parse_request(Dialect::kSglang, R"({"input_ids":[[1,2]],"text":"x"})");
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(ids->prompt_ids, (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(refusal(R"({"prompt":["a","b","c","d"]})"),
            "request: \"prompt\" holds 4 prompts; send a request for each of them");
  EXPECT_EQ(refusal(R"({"prompt":[[1,2],[3]]})"),
            "request: \"prompt\" holds 2 prompts; send a request for each of them");
  EXPECT_EQ(refusal(R"({"prompt":[""]})"), "request: \"prompt\" is empty; give text or token ids");
  EXPECT_EQ(refusal(R"({"prompt":[[]]})"),
            "request: \"prompt\" must be text or a list of token ids");
}

// What is read apart from the tree is held to the tree's rules.
TEST(ParseRequest, ThePromptIsCheckedAsTheRest) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"prompt":[1,2)", "request: line 1, column "},
      {R"({"prompt":"x","prompt":"y"})",
       "request: line 1, column 22: not valid JSON: field \"prompt\" appears twice"},
      {"{\"prompt\":\"\xFF\"}", "request: line 1, column "},
      {R"({"prompt":"\ud800"})", "request: line 1, column "},
      {R"({"prompt":"x"} x)", "request: line 1, column "},
      {R"({"prompt":[[[1]]]})", "holds [1], which is no token id"},
      {R"({"prompt":{"a":1}})", "must be text or a list of token ids"},
      {R"({"prompt":null})", "is missing"},
      {R"({"prompt":[1,2.5]})", "holds 2.5, which is no token id"},
      {R"({"prompt":[1,1e999]})", "holds 1e999, which is no token id"},
      {"", "request: "},
      {R"("prompt")", "the request is a string; send a JSON object"},
  };
  for (const auto& [body, message] : cases) {
    const auto read = parse_request(Dialect::kCompletions, body);
    ASSERT_FALSE(read.ok()) << body;
    EXPECT_NE(read.error().message.find(message), std::string::npos) << read.error().message;
  }
  const std::string deep = std::string(100'000, '[') + "1" + std::string(100'000, ']');
  for (const Dialect dialect : {Dialect::kCompletions, Dialect::kChat, Dialect::kSglang}) {
    const std::string key = dialect == Dialect::kChat     ? "messages"
                            : dialect == Dialect::kSglang ? "text"
                                                          : "prompt";
    EXPECT_FALSE(parse_request(dialect, "{\"" + key + "\":" + deep + "}").ok());
  }
  EXPECT_EQ(parse_request(Dialect::kCompletions, R"({"prompt":[8.0,9]})")->prompt_ids,
            (std::vector<std::int32_t>{8, 9}));
}

TEST(ParseRequest, ClearRefusals) {
  const std::tuple<Dialect, const char*, const char*> cases[] = {
      {Dialect::kCompletions, "[]", "the request is an array; send a JSON object"},
      {Dialect::kCompletions, "{}",
       "request: \"prompt\" is missing; give the prompt as text or as token ids"},
      {Dialect::kCompletions, R"({"prompt":""})",
       "request: \"prompt\" is empty; give text or token ids"},
      {Dialect::kCompletions, R"({"prompt":["a","b"]})",
       "request: \"prompt\" holds 2 prompts; send a request for each of them"},
      {Dialect::kCompletions, R"({"prompt":[1,-2]})",
       "request: \"prompt\" holds -2, which is no token id"},
      {Dialect::kCompletions, R"({"prompt":[1,1e10]})",
       "request: \"prompt\" holds 1e10, which is no token id"},
      {Dialect::kCompletions, R"({"prompt":[1,2147483648]})",
       "request: \"prompt\" holds 2147483648, which is no token id"},
      {Dialect::kCompletions, R"({"prompt":[]})",
       "request: \"prompt\" must be text or a list of token ids"},
      {Dialect::kCompletions, R"({"prompt":"x","max_tokens":0})",
       "request: \"max_tokens\" is 0; it must be at least 1"},
      {Dialect::kCompletions, R"({"prompt":"x","max_tokens":"9"})",
       "request: \"max_tokens\" must be a number, found a string"},
      {Dialect::kCompletions, R"({"prompt":"x","max_tokens":4,"min_tokens":5})",
       "request: at least 5 and at most 4 tokens are asked for"},
      {Dialect::kCompletions, R"({"prompt":"x","n":2})",
       "request: \"n\" must be 1: a request has one answer here"},
      {Dialect::kCompletions, R"({"prompt":"x","stop":[1]})",
       "request: \"stop\" must hold strings only"},
      {Dialect::kCompletions, R"({"prompt":"x","top_p":0})",
       "request: \"top_p\" is 0; it must be greater than 0"},
      {Dialect::kCompletions, R"({"prompt":"x","stream_options":{"include_usage":true}})",
       "request: \"stream_options\" is for streams; set stream to true"},
      {Dialect::kChat, R"({"messages":[]})",
       "request: \"messages\" is missing or empty; give at least one message"},
      {Dialect::kChat, R"({"messages":[{"content":"x"}]})",
       "request: messages[0]: \"role\" is missing"},
      {Dialect::kChat, R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})",
       "request: messages[0]: \"content\" holds a part without text; only text is taken"},
      {Dialect::kChat, R"({"messages":"x"})",
       "request: \"messages\" must be a list, found a string"},
      {Dialect::kChat, R"({"messages":["x"]})",
       "request: messages[0]: expected an object, found a string"},
      {Dialect::kChat, R"({"messages":[{"role":"user"},{"role":3}]})",
       "request: messages[1]: \"role\" must be a string, found a number"},
      {Dialect::kChat, R"({"messages":[{"role":"user","content":7}]})",
       "request: messages[0]: \"content\" must be text or a list of parts"},
      {Dialect::kChat, R"({"messages":[{"role":"user","content":"a","role":"b"}]})",
       "request: messages[0]: \"role\" appears twice"},
      {Dialect::kChat, R"({"messages":[{"role":"user","content":"a","content":["b"]}]})",
       "request: messages[0]: \"content\" appears twice"},
      {Dialect::kChat, R"({"messages":[{"role":"user","content":[{"text":"a","text":"b"}]}]})",
       "request: messages[0]: \"text\" appears twice"},
      {Dialect::kSglang, "{}",
       "request: \"text\" is missing; give the prompt as text or as token ids"},
      {Dialect::kSglang, R"({"text":"x","sampling_params":{"max_new_tokens":1.5}})",
       "request: sampling_params: \"max_new_tokens\" is 1.5; it must be a whole number"},
      {Dialect::kLlamacpp, R"({"prompt":"x","n_predict":0})",
       "request: \"n_predict\" must be -1 (no limit), or 1 or more"},
  };
  for (const auto& [dialect, body, message] : cases) {
    const Result<GenerationRequest> read = parse_request(dialect, body);
    ASSERT_FALSE(read.ok()) << body;
    EXPECT_EQ(read.error().message, message) << body;
  }
  EXPECT_NE(parse_request(Dialect::kChat, "{").error().message.find("request: line 1"),
            std::string::npos);
}

// A conversation with calls of tools, read and written again.
TEST(RequestBody, CarriesTheOtherMembersOfAMessage) {
  const char* text =
      R"({"messages":[{"role":"assistant","tool_calls":[{"id":"c1"}],"content":null},)"
      R"({"role":"tool","content":"4","tool_call_id":"c1"}]})";
  const auto request = parse_request(Dialect::kChat, text);
  ASSERT_TRUE(request.ok()) << request.error().message;
  const auto body = request_body(find_backend("vllm-chat").value(), *request);
  ASSERT_TRUE(body.ok()) << body.error().message;
  EXPECT_NE(body->json.find(R"({"role":"tool","content":"4","tool_call_id":"c1"})"),
            std::string::npos)
      << body->json;
  const auto again = parse_request(Dialect::kChat, body->json);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->messages, request->messages);
}

}  // namespace
}  // namespace nibble::api
