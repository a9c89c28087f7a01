// What is refused: by its field, as a whole, counted, and without harm to anybody else.
#include "serve/test_server.h"

namespace nibble::serve {
namespace {

// vllm#7283, #7632: an empty prompt ends the engine. PR 16529 and others: so does an unknown id.
TEST(Refusals, WhatIsRefusedLeavesItUnharmed) {
  TestServer server;
  const std::vector<std::pair<std::string, std::string>> bad = {
      {R"({"prompt":""})", "prompt"},
      {R"({"prompt":[]})", "prompt"},
      {R"({"prompt":[270]})", "prompt"},
      {R"({"prompt":[-1]})", "prompt"},
      {R"({})", "prompt"},
      {R"({"prompt":"a","logit_bias":{"270":1}})", "logit_bias"},
      {R"({"prompt":"a","stop_token_ids":[270]})", "stop_token_ids"},
      {R"({"prompt":"a","top_k":271})", "top_k"},
      {R"({"prompt":"a","max_tokens":0,"echo":true})", "max_tokens"},
      {R"({"prompt":"a","add_special_tokens":false,"temperature":-1})", "temperature"},
      {"{", ""},
      {"", ""},
      {std::string(2000, '['), ""},
  };
  for (const auto& [body, param] : bad) {
    const Refused refusal = refused(server.ask(kCompletions, body));
    EXPECT_EQ(refusal.status, 400) << body;
    EXPECT_EQ(refusal.param, param) << body << ": " << refusal.message;
  }
  EXPECT_EQ(refused(server.ask(kChats, R"({"messages":[]})")).param, "messages");
  EXPECT_EQ(
      refused(server.ask(kChats, R"({"messages":[{"role":"user","content":"a"}],"model":"x"})"))
          .status,
      404);
  EXPECT_EQ(text_of(choice_of(server.ask(kCompletions, R"({"prompt":"ok<|assistant|>"})"))), "ok");
  EXPECT_TRUE(server.comes_to_rest());
  EXPECT_EQ(server.state("refused_requests"), std::ssize(bad) + 2);
}

// A context of 32 tokens, of which <bos> is one.
TEST(Refusals, PromptsAsLongAsTheLimitAndLonger) {
  TestServer server({}, {}, 32);
  const auto ask = [&](int letters, const char* more = "") {
    return server.ask(kCompletions,
                      fmt::format(R"({{"prompt":"{}","max_tokens":99{}}})",
                                  std::string(static_cast<std::size_t>(letters), 'q'), more));
  };
  const Json choice = choice_of(ask(30));
  EXPECT_EQ(choice.find("finish_reason")->as_string(), "length");
  EXPECT_EQ(text_of(choice).size(), 1u);
  EXPECT_EQ(text_of(choice_of(ask(20))).size(), 11u);  // as many as the context leaves
  for (const int letters : {31, 32, 33, 5000, 1'000'000}) {
    const Refused refusal = refused(ask(letters));
    EXPECT_EQ(refusal.status, 400) << letters;
    EXPECT_EQ(refusal.param, "prompt") << refusal.message;
    EXPECT_NE(refusal.message.find("32"), std::string::npos) << refusal.message;
  }
  const Refused chat =
      refused(server.ask(kChats, fmt::format(R"({{"messages":[{{"role":"user","content":"{}"}}]}})",
                                             std::string(40, 'q'))));
  EXPECT_EQ(chat.param, "messages") << chat.message;
  TestServer small({.max_running_requests = 4, .kv_blocks = 2}, {}, 1024);
  const Refused pool =
      refused(small.ask(kCompletions, fmt::format(R"({{"prompt":"{}"}})", std::string(40, 'q'))));
  EXPECT_EQ(pool.status, 400);
  EXPECT_NE(pool.message.find("2 blocks"), std::string::npos) << pool.message;
}

TEST(Refusals, TheFirstPromptThatIsTooLongEndsTheRequest) {
  TestServer server({}, {}, 32);
  const std::string longest(31, 'q');  // and <bos>
  const Refused refusal =
      refused(server.ask(kCompletions, fmt::format(R"({{"prompt":["a","{}",[270]]}})", longest)));
  EXPECT_EQ(refusal.status, 400);
  EXPECT_NE(refusal.message.find("has 32 tokens"), std::string::npos) << refusal.message;
  EXPECT_EQ(server.state("prompt_tokens"), 0);
  EXPECT_EQ(server.state().find("choices")->find("abort")->as_integer(), 0);
}

// A request whose choices do not all fit is refused as a whole, and nothing of it is counted.
TEST(Refusals, AllChoicesOrNone) {
  TestServer server({.max_running_requests = 2, .max_queued_requests = 2});
  server.control->frozen = true;
  RudeClient first(server.server->port());
  first.post(kCompletions, R"({"prompt":"a","n":2,"max_tokens":2})");
  ASSERT_TRUE(server.holds(2));
  const api::Answer busy = server.ask(kCompletions, R"({"prompt":"b","n":3})");
  EXPECT_EQ(refused(busy).status, 503);
  const Refused never = refused(server.ask(kCompletions, R"({"prompt":"b","n":5})"));
  EXPECT_EQ(never.status, 400);
  EXPECT_EQ(never.param, "n");
  server.control->frozen = false;
  first.read_until("}}");
  ASSERT_TRUE(server.comes_to_rest());
  const Json state = server.state();
  EXPECT_EQ(state.find("choices")->find("abort")->as_integer(), 0);
  EXPECT_EQ(state.find("choices")->find("length")->as_integer(), 2);
  EXPECT_EQ(state.find("busy_requests")->as_integer(), 1);
  EXPECT_EQ(state.find("refused_requests")->as_integer(), 1);
  EXPECT_EQ(state.find("prompt_tokens")->as_integer(), 4);  // twice <bos> a
  EXPECT_NE(server.get("/metrics")
                .body.find("nibble:e2e_request_latency_seconds_count{model_name=\"test\"} 2\n"),
            std::string::npos);
  EXPECT_EQ(server.ask(kCompletions, R"({"prompt":"b","n":4})").exchange.status, 200);
}

// Whoever has an answer finds its places free.
TEST(Refusals, AnAnswerGivesItsPlacesBack) {
  TestServer server({.max_running_requests = 2, .max_queued_requests = 2});
  for (int request = 0; request < 300; ++request) {
    const api::Answer answer = server.ask(kCompletions, R"({"prompt":"b","n":4,"max_tokens":1})");
    ASSERT_EQ(answer.exchange.status, 200) << request << answer.body;
  }
}

TEST(Refusals, EveryRefusalIsCounted) {
  TestServer server({}, {.api_key = "k", .max_body_bytes = 1000});
  const net::Headers key = {{"Authorization", "Bearer k"}};
  server.get("/v1/models");                               // 401
  server.get("/nothing", key);                            // 404
  server.get(kChats, key);                                // 405
  server.ask("/tokenize", "{}", key);                     // 400
  server.ask(kCompletions, "{}", key);                    // 400
  server.ask(kCompletions, std::string(1001, ' '), key);  // 413
  RudeClient broken(server.server->port());
  broken.send("nonsense\r\n\r\n");  // 400
  broken.read_until("}}");
  const std::string page = server.get("/metrics").body;
  for (const char* line : {"reason=\"invalid\"} 5\n", "reason=\"not_found\"} 2\n"}) {
    EXPECT_NE(page.find(std::string("nibble:requests_refused_total{model_name=\"test\",") + line),
              std::string::npos)
        << page;
  }
}

// A page needs to ask nobody to send a form or a text.
TEST(Refusals, PagesOfOtherOrigins) {
  TestServer server;
  const net::Headers foreign = {{"Origin", "http://evil.example"}, {"Content-Type", "text/plain"}};
  for (const char* path : {kCompletions, kChats, "/tokenize", "/detokenize"}) {
    EXPECT_EQ(refused(server.ask(path, R"({"prompt":"a"})", foreign)).status, 403) << path;
  }
  EXPECT_EQ(server.state("prompt_tokens"), 0);
  EXPECT_EQ(server.state("refused_requests"), 4);
  EXPECT_EQ(server.ask(kCompletions, R"({"prompt":"a"})", {{"Origin", server.server->url()}})
                .exchange.status,
            200);
  TestServer open({}, {.allow_origin = "http://evil.example"});
  EXPECT_EQ(open.ask(kCompletions, R"({"prompt":"a"})", foreign).exchange.status, 200);
}

TEST(Refusals, BodiesThatAreEncoded) {
  TestServer server;
  const auto status = [&](const char* encoding) {
    return server.ask(kCompletions, R"({"prompt":"a"})", {{"Content-Encoding", encoding}})
        .exchange.status;
  };
  EXPECT_EQ(status("identity"), 200);
  EXPECT_EQ(status("gzip"), 415);
  EXPECT_EQ(status("identity, gzip"), 415);
  const Refused refusal =
      refused(server.ask("/tokenize", "\x1F\x8B", {{"Content-Encoding", "gzip"}}));
  EXPECT_EQ(refusal.status, 415);
  EXPECT_NE(refusal.message.find("gzip"), std::string::npos) << refusal.message;
}

// What is wrong with a template's conversation is told without where the template lies.
TEST(Refusals, FaultsOfATemplateShowNoPath) {
  TestServer server;
  const auto other = [&](const char* source) {
    return must(Server::start(
        {}, *server.engine,
        {.name = "test",
         .path = "test",
         .tokenizer = test_tokenizer(),
         .chat_template = must(text::ChatTemplate::parse(source, "/secret/a.json: chat_template")),
         .end_ids = {kEnd}}));
  };
  const std::string body = R"({"messages":[{"role":"user","content":"a"}]})";
  const auto fails = other("a\n{{ x.y }}");
  api::TestClient first(fails->url());
  EXPECT_EQ(refused(first.ask(kChats, body)).message,
            "the chat template, line 2: 'x' is undefined");
  const auto endless = other(
      "{% for a in range(9999) %}{% for b in range(9999) %}"
      "{% endfor %}{% endfor %}");
  api::TestClient second(endless->url());
  const Refused steps = refused(second.ask("/tokenize", body));
  EXPECT_EQ(steps.status, 400);
  EXPECT_EQ(steps.message.find("secret"), std::string::npos) << steps.message;
  EXPECT_TRUE(steps.message.starts_with("the chat template")) << steps.message;
}

TEST(Refusals, MoreMessagesThanAContextHasTokens) {
  TestServer server({}, {}, 32);
  const auto ask = [&](int count, const char* path) {
    std::string messages;
    for (int at = 0; at < count; ++at) {
      messages += fmt::format(R"({}{{"role":"user","content":""}})", at > 0 ? "," : "");
    }
    return refused(server.ask(path, fmt::format(R"({{"messages":[{}]}})", messages)));
  };
  EXPECT_NE(ask(32, kChats).message.find("33 tokens"), std::string::npos);  // of the template
  const Refused more = ask(33, kChats);
  EXPECT_EQ(more.status, 400);
  EXPECT_EQ(more.param, "messages");
  EXPECT_TRUE(more.message.starts_with("messages are 33")) << more.message;
  EXPECT_EQ(ask(32 * 17, "/tokenize").param, "messages");  // counts 16 contexts
}

TEST(Refusals, ABusyEngineSaysWhenToComeBack) {
  TestServer server({.max_running_requests = 1, .max_queued_requests = 1});
  server.control->frozen = true;
  RudeClient first(server.server->port());
  first.post(kCompletions, R"({"prompt":"a"})");
  ASSERT_TRUE(server.holds(1));
  RudeClient second(server.server->port());
  second.post(kCompletions, R"({"prompt":"a"})");
  ASSERT_TRUE(server.holds(2));
  RudeClient third(server.server->port());
  third.post(kCompletions, R"({"prompt":"a"})");
  const std::string answer = third.read_until("\"code\":503");
  EXPECT_NE(answer.find("503 Service Unavailable"), std::string::npos) << answer;
  EXPECT_NE(answer.find("Retry-After: 1"), std::string::npos) << answer;
  EXPECT_EQ(server.state("busy_requests"), 1);
  server.control->frozen = false;
  first.read_until("length");
}

// The ids 262 to `last` beside those of the test's tokenizer.
text::Tokenizer tokenizer_up_to(engine::TokenId last) {
  Json json = Json::parse(test_tokenizer_json(), "test").value();
  Json& added = *json.find("added_tokens");
  for (engine::TokenId id = kPoison + 1; id <= last; ++id) {
    Json token = added.as_array().back();
    added.push(token.set("id", id).set("content", fmt::format("<|{}|>", id)));
  }
  return must(text::parse_tokenizer(json.dump(0), "test"));
}

// An id beyond the model's last one would be read behind the end of its embedding.
TEST(Refusals, ATokenizerWithMoreTokensThanTheModel) {
  TestServer server;
  const auto start = [&](engine::TokenId last) {
    return Server::start({}, *server.engine,
                         ServedModel{.name = "x", .path = "x", .tokenizer = tokenizer_up_to(last)});
  };
  EXPECT_TRUE(start(269).ok());
  const auto refused = start(270);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("id 270"), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find("has 270"), std::string::npos) << refused.error().message;
}

TEST(Refusals, OptionsThatAreRefused) {
  TestServer server;
  ServedModel model{.name = "x", .path = "x", .tokenizer = test_tokenizer(), .end_ids = {270}};
  EXPECT_FALSE(Server::start({}, *server.engine, model).ok());
  model.end_ids = {};
  model.defaults.top_k = 271;
  const auto top_k = Server::start({}, *server.engine, model);
  ASSERT_FALSE(top_k.ok());
  EXPECT_NE(top_k.error().message.find("top_k"), std::string::npos) << top_k.error().message;
  model.defaults = {};
  for (const char* name : {"a\nb", "a\x1F", "\x7F", "\xFF"}) {
    model.name = name;
    const auto named = Server::start({}, *server.engine, model);
    ASSERT_FALSE(named.ok()) << name;
    EXPECT_NE(named.error().message.find("name"), std::string::npos) << named.error().message;
  }
  model.name = "x";
  EXPECT_FALSE(Server::start({.threads = 0}, *server.engine, model).ok());
  const Result<std::unique_ptr<Server>> taken =
      Server::start({.port = server.server->port()}, *server.engine, model);
  ASSERT_FALSE(taken.ok());
  EXPECT_NE(taken.error().message.find(std::to_string(server.server->port())), std::string::npos);
  // Without a template there are no chats.
  const auto plain = Server::start({}, *server.engine, model).value();
  api::TestClient client(plain->url());
  EXPECT_EQ(refused(client.ask(kChats, R"({"messages":[{"role":"user","content":"a"}]})")).param,
            "messages");
}

}  // namespace
}  // namespace nibble::serve
