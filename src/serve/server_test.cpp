// The server itself: its pages, what it refuses, health, keys and its end.
#include "serve/server.h"

#include "serve/test_server.h"

namespace nibble::serve {
namespace {

struct Refused {
  int status;
  std::string param;
  std::string message;
};

Refused refused(const api::Answer& answer) {
  const Json json = json_of(answer);
  const Json* error = json.find("error");
  if (error == nullptr) return {answer.exchange.status, "", "no error: " + answer.body};
  EXPECT_EQ(error->find("code")->as_integer(), answer.exchange.status);
  EXPECT_TRUE(error->find("type")->is_string());
  const Json& param = *error->find("param");
  return {answer.exchange.status, param.is_null() ? "" : param.as_string(),
          error->find("message")->as_string()};
}

// vllm#7283, #7632: an empty prompt ends the engine. PR 16529 and others: so does an unknown id.
TEST(Server, WhatIsRefusedLeavesItUnharmed) {
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
TEST(Server, PromptsAsLongAsTheLimitAndLonger) {
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

TEST(Server, Pages) {
  TestServer server;
  const Json models = json_of(server.get("/v1/models"));
  EXPECT_EQ(models.find("data")->as_array()[0].find("id")->as_string(), "test");
  EXPECT_EQ(models.find("data")->as_array()[0].find("max_model_len")->as_integer(), 1024);
  EXPECT_EQ(server.get("/version").body, R"({"version":"1.2.3"})");
  EXPECT_EQ(server.get("/health/live").exchange.status, 200);
  EXPECT_EQ(server.get("/health/ready").exchange.status, 200);
  EXPECT_EQ(server.get("/health").exchange.status, 200);
  const Json info = json_of(server.get("/server_info"));
  EXPECT_EQ(info.find("engine")->find("kv_blocks")->as_integer(), 512);
  EXPECT_EQ(info.find("server")->find("host")->as_string(), "127.0.0.1");
  EXPECT_EQ(info.find("model")->find("vocabulary")->as_integer(), 270);
  EXPECT_EQ(refused(server.get("/nothing")).status, 404);
  EXPECT_EQ(refused(server.get(kChats)).status, 405);
  EXPECT_EQ(refused(server.ask("/metrics", "")).status, 405);
  EXPECT_EQ(server.client->ask("/health", "", "HEAD").exchange.status, 200);
}

TEST(Server, TokensOfATextAndBack) {
  TestServer server;
  EXPECT_EQ(server.ask("/tokenize", R"({"prompt":"hey\u00e9"})").body,
            R"({"count":5,"max_model_len":1024,"tokens":[260,256,121,195,169],"token_strs":null})");
  EXPECT_EQ(
      server
          .ask("/tokenize", R"({"prompt":"a","add_special_tokens":false,"return_token_strs":true})")
          .body,
      R"({"count":1,"max_model_len":1024,"tokens":[97],"token_strs":["a"]})");
  EXPECT_EQ(json_of(server.ask("/tokenize", R"({"prompt":""})")).find("count")->as_integer(), 1);
  // vllm PR 38187: what the template writes is all, the tokenizer adds no second <bos>.
  EXPECT_EQ(json_of(server.ask("/tokenize", R"({"messages":[{"role":"user","content":"<bos>a"}]})"))
                .find("tokens")
                ->dump(0),
            "[258,260,97,259]");
  EXPECT_EQ(server.ask("/detokenize", R"({"tokens":[260,256,121,195,169,269]})").body,
            R"({"prompt":"<bos>hey)"
            "\u00E9\"}");
  EXPECT_EQ(refused(server.ask("/detokenize", R"({"tokens":[270]})")).param, "tokens");
  EXPECT_EQ(refused(server.ask("/detokenize", R"({})")).param, "tokens");
  EXPECT_EQ(refused(server.ask("/tokenize", R"({})")).param, "prompt");
  EXPECT_EQ(refused(server.ask("/tokenize", R"({"prompt":1})")).param, "prompt");
  EXPECT_EQ(refused(server.ask("/tokenize", "[]")).status, 400);
}

TEST(Server, Metrics) {
  TestServer server;
  server.ask(kCompletions, R"({"prompt":"ab<|assistant|>"})");
  server.ask(kCompletions, R"({"prompt":"x","max_tokens":5})");
  ASSERT_TRUE(server.comes_to_rest());
  const std::string page = server.get("/metrics").body;
  for (const char* line : {
           "nibble:num_requests_running{model_name=\"test\"} 0\n",
           "nibble:num_requests_waiting{model_name=\"test\"} 0\n",
           "nibble:kv_cache_usage_perc{model_name=\"test\"} 0\n",
           "nibble:prompt_tokens_total{model_name=\"test\"} 6\n",      // bos a b mark, bos x
           "nibble:generation_tokens_total{model_name=\"test\"} 7\n",  // a b, cdefg
           "nibble:request_success_total{model_name=\"test\",finished_reason=\"stop\"} 1\n",
           "nibble:request_success_total{model_name=\"test\",finished_reason=\"length\"} 1\n",
           "nibble:time_to_first_token_seconds_count{model_name=\"test\"} 2\n",
           "nibble:inter_token_latency_seconds_count{model_name=\"test\"} 5\n",
           "nibble:e2e_request_latency_seconds_count{model_name=\"test\"} 2\n",
           "# TYPE nibble:prompt_tokens_total counter\n",
       }) {
    EXPECT_NE(page.find(line), std::string::npos) << line << page;
  }
}

// vllm#36960 and others: healthy while the engine is dead.
TEST(Server, AFrozenEngineIsNotReady) {
  TestServer server({}, {.ready_timeout = 300 * kMs});
  server.control->frozen = true;
  RudeClient client(server.server->port());
  client.post(kCompletions, R"({"prompt":"a"})");
  const Nanoseconds patience = monotonic_now() + 3000 * kMs;
  api::Answer ready = server.get("/health/ready");
  EXPECT_EQ(ready.exchange.status, 200);
  while (ready.exchange.status == 200 && monotonic_now() < patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ready = server.get("/health/ready");
  }
  EXPECT_EQ(ready.exchange.status, 503);
  EXPECT_NE(ready.body.find("no sign of life"), std::string::npos);
  EXPECT_EQ(server.get("/health").exchange.status, 503);
  EXPECT_EQ(server.get("/health/live").exchange.status, 200);
  server.control->frozen = false;
  EXPECT_TRUE(server.comes_to_rest());
  EXPECT_EQ(server.get("/health/ready").exchange.status, 200);
}

TEST(Server, LogitsThatAreNotFiniteAreAnError) {
  TestServer server;
  const Refused whole = refused(server.ask(kCompletions, R"({"prompt":"a<|poison|>"})"));
  EXPECT_EQ(whole.status, 500);
  const api::Answer stream = server.ask(kCompletions, R"({"prompt":"a<|poison|>","stream":true})");
  EXPECT_TRUE(stream.error_event);
  EXPECT_EQ(events_of(stream).size(), 1u);  // and [DONE]
  EXPECT_TRUE(server.comes_to_rest());
  EXPECT_EQ(server.state("nonfinite_logits"), 2);
  EXPECT_EQ(server.state().find("choices")->find("error")->as_integer(), 2);
}

TEST(Server, ABusyEngineSaysWhenToComeBack) {
  TestServer server({.max_running_requests = 1, .max_queued_requests = 1});
  server.control->frozen = true;
  RudeClient first(server.server->port());
  first.post(kCompletions, R"({"prompt":"a"})");
  ASSERT_TRUE(server.becomes(
      [](const Json& state) { return state.find("active_requests")->as_integer() == 1; }));
  int busy = 0;
  std::vector<std::unique_ptr<RudeClient>> others;
  for (int request = 0; request < 4 && busy == 0; ++request) {
    others.push_back(std::make_unique<RudeClient>(server.server->port()));
    others.back()->post(kCompletions, R"({"prompt":"a"})");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    busy = static_cast<int>(server.state("busy_requests"));
  }
  ASSERT_EQ(busy, 1);
  const std::string answer = others.back()->read_until("\"code\":503");
  EXPECT_NE(answer.find("503 Service Unavailable"), std::string::npos) << answer;
  EXPECT_NE(answer.find("Retry-After: 1"), std::string::npos) << answer;
  server.control->frozen = false;
  first.read_until("length");
}

TEST(Server, TheKeyIsAskedFor) {
  TestServer server({}, {.api_key = "secret"});
  const auto with = [](const char* value) { return net::Headers{{"Authorization", value}}; };
  EXPECT_EQ(refused(server.get("/v1/models")).status, 401);
  for (const char* wrong : {"Bearer secre", "Bearer secret2", "Bearer ", "secret", "Basic secret",
                            "Bearer SECRET", ""}) {
    EXPECT_EQ(refused(server.get("/v1/models", with(wrong))).status, 401) << wrong;
  }
  EXPECT_EQ(server.get("/v1/models", with("Bearer secret")).exchange.status, 200);
  EXPECT_EQ(server.get("/v1/models", with("bearer  secret")).exchange.status, 200);
  EXPECT_EQ(server.ask(kCompletions, R"({"prompt":"a"})").exchange.status, 401);
  EXPECT_EQ(server.get("/debug/state").exchange.status, 401);
  for (const char* open : {"/health", "/health/live", "/health/ready", "/metrics"}) {
    EXPECT_EQ(server.get(open).exchange.status, 200) << open;
  }
  const std::string info = server.get("/server_info", with("Bearer secret")).body;
  EXPECT_EQ(info.find("secret"), std::string::npos);
}

TEST(Server, PagesOfOtherOriginsMayAskWhereTheyAreAllowed) {
  TestServer closed;
  EXPECT_EQ(net::find_header(closed.get("/health").exchange.headers, "Access-Control-Allow-Origin"),
            std::nullopt);
  EXPECT_EQ(closed.client->ask(kChats, "", "OPTIONS").exchange.status, 405);
  TestServer open({}, {.api_key = "k", .allow_origin = "http://localhost:3000"});
  const api::Answer before = open.client->ask(kChats, "", "OPTIONS");
  EXPECT_EQ(before.exchange.status, 204);
  EXPECT_EQ(net::find_header(before.exchange.headers, "Access-Control-Allow-Origin"),
            "http://localhost:3000");
  EXPECT_EQ(
      net::find_header(open.get("/v1/models").exchange.headers, "Access-Control-Allow-Origin"),
      "http://localhost:3000");
}

TEST(Server, LimitsOfBodiesAndTime) {
  TestServer server({}, {.max_body_bytes = 1000, .request_timeout = 200 * kMs});
  const api::Answer large = server.ask(kCompletions, std::string(1001, ' '));
  EXPECT_EQ(refused(large).status, 413);
  server.control->step_us = 50'000;
  const Refused late = refused(server.ask(kCompletions, R"({"prompt":"a","max_tokens":900})"));
  EXPECT_EQ(late.status, 504);
  EXPECT_TRUE(
      server.ask(kCompletions, R"({"prompt":"a","max_tokens":900,"stream":true})").error_event);
  EXPECT_TRUE(server.comes_to_rest());
}

TEST(Server, AStopThatWaitsForAnswers) {
  TestServer server;
  server.control->step_us = 1000;
  RudeClient client(server.server->port());
  client.post(kCompletions, R"({"prompt":"x","max_tokens":100,"stream":true})");
  client.read_until("\"text\"");
  server.server->drain();
  EXPECT_FALSE(server.server->idle());
  EXPECT_EQ(refused(server.ask(kCompletions, R"({"prompt":"a"})")).status, 503);
  EXPECT_EQ(server.get("/health/ready").exchange.status, 503);
  EXPECT_NE(client.read_until("[DONE]").find("\"finish_reason\":\"length\""), std::string::npos);
  EXPECT_TRUE(server.comes_to_rest());
  EXPECT_TRUE(server.becomes([&](const Json&) { return server.server->idle(); }));
  server.engine->stop();
  server.server->stop();
}

TEST(Server, AStopThatDoesNotWait) {
  TestServer server;
  server.control->step_us = 1000;
  RudeClient stream(server.server->port());
  stream.post(kCompletions, R"({"prompt":"x","max_tokens":900,"stream":true})");
  stream.read_until("\"text\"");
  RudeClient whole(server.server->port());
  whole.post(kCompletions, R"({"prompt":"x","max_tokens":900})");
  ASSERT_TRUE(
      server.becomes([](const Json& state) { return state.find("running")->as_integer() == 2; }));
  server.server->drain();
  server.engine->stop();
  server.server->stop();
  EXPECT_NE(stream.read_until("[DONE]").find("the server stops"), std::string::npos);
  EXPECT_NE(whole.read_until("}}").find("503 Service Unavailable"), std::string::npos);
}

TEST(Server, OptionsThatAreRefused) {
  TestServer server;
  ServedModel model{.name = "x", .path = "x", .tokenizer = test_tokenizer(), .end_ids = {270}};
  EXPECT_FALSE(Server::start({}, *server.engine, model).ok());
  model.end_ids = {};
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
