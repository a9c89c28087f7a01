// The server itself: its pages, what it refuses, health, keys and its end.
#include "serve/server.h"

#include "base/eventually.h"
#include "serve/test_server.h"

namespace nibble::serve {
namespace {

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
  EXPECT_EQ(info, server.server->configuration());
  EXPECT_EQ(info.find("server")->find("port")->as_integer(), server.server->port());
  EXPECT_EQ(info.find("url")->as_string(), server.server->url());
  EXPECT_EQ(info.find("model")->find("kv_cache_bytes")->as_integer(), 4 * 16 * 512);
  EXPECT_EQ(info.find("sampling")->find("temperature")->as_number(), 1);
  EXPECT_EQ(refused(server.get("/nothing")).status, 404);
  const api::Answer other_method = server.get(kChats);
  EXPECT_EQ(refused(other_method).status, 405);
  EXPECT_EQ(net::find_header(other_method.exchange.headers, "Allow"), "POST");
  const api::Answer post = server.ask("/metrics", "");
  EXPECT_EQ(refused(post).status, 405);
  EXPECT_EQ(net::find_header(post.exchange.headers, "Allow"), "GET, HEAD");
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
  EXPECT_EQ(json_of(server.ask("/tokenize", R"({"messages":[{"role":"user","content":"a"}],
                                  "chat_template_kwargs":{"add_generation_prompt":false}})"))
                .find("tokens")
                ->dump(0),
            "[258,97]");
  const api::Answer unfinished = server.ask(
      "/tokenize", R"({"messages":[{"role":"user","content":"a"}],"add_generation_prompt":false})");
  EXPECT_EQ(json_of(unfinished).find("tokens")->dump(0), "[258,97]");
  EXPECT_EQ(server.ask("/detokenize", R"({"tokens":[260,256,121,195,169,269]})").body,
            R"({"prompt":"<bos>hey)"
            "\u00E9\"}");
  EXPECT_EQ(refused(server.ask("/detokenize", R"({"tokens":[270]})")).param, "tokens");
  EXPECT_EQ(refused(server.ask("/detokenize", R"({})")).param, "tokens");
  EXPECT_EQ(refused(server.ask("/tokenize", R"({})")).param, "prompt");
  EXPECT_EQ(refused(server.ask("/tokenize", R"({"prompt":1})")).param, "prompt");
  for (const char* path : {"/tokenize", "/detokenize"}) {
    const Refused list = refused(server.ask(path, "[]"));
    EXPECT_EQ(list.status, 400);
    EXPECT_EQ(list.param, "");
    EXPECT_NE(list.message.find("must be a JSON object"), std::string::npos) << list.message;
  }
  for (const char* body : {R"({"prompt":"a","model":"x"})", R"({"prompt":"a","model":""})",
                           R"({"messages":[{"role":"user","content":"a"}],"model":"x"})"}) {
    EXPECT_EQ(refused(server.ask("/tokenize", body)).status, 404) << body;
  }
  EXPECT_EQ(refused(server.ask("/detokenize", R"({"tokens":[97],"model":"x"})")).status, 404);
  EXPECT_EQ(server.ask("/tokenize", R"({"prompt":"a","model":"test"})").exchange.status, 200);
}

TEST(Server, TokenizeCountsMoreThanAContextThoughNotAnyAmount) {
  TestServer server({}, {}, 32);
  const auto count = [&](std::size_t letters) {
    return server.ask("/tokenize", fmt::format(R"({{"prompt":"{}"}})", std::string(letters, 'q')));
  };
  EXPECT_EQ(json_of(count(500)).find("count")->as_integer(), 501);
  const Refused refusal = refused(count(32 * 17));
  EXPECT_EQ(refusal.status, 400);
  EXPECT_EQ(refusal.param, "prompt");
}

// All that a message holds reaches the template; arguments as an object, as templates expect them.
TEST(Server, ToolCallsReachTheTemplate) {
  TestServer server;
  ServedModel model{.name = "test",
                    .path = "test",
                    .tokenizer = test_tokenizer(),
                    .chat_template = must(text::ChatTemplate::parse(
                        "{% for m in messages %}{{ m.role }}:{{ m.content }}"
                        "{% for c in m.tool_calls %}[{{ c.function.name }} "
                        "{{ c.function.arguments.city }}]{% endfor %}"
                        "{% if m.tool_call_id %}#{{ m.tool_call_id }}{% endif %};{% endfor %}",
                        "test")),
                    .end_ids = {kEnd}};
  const auto other = must(Server::start({}, *server.engine, std::move(model)));
  api::TestClient client(other->url());
  const api::Answer tokens = client.ask("/tokenize", R"({"messages":[
    {"role":"user","content":"q","name":null},
    {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",
     "function":{"name":"w","arguments":"{\"city\":\"Rome\"}"}}]},
    {"role":"tool","content":"sun","tool_call_id":"c1"}]})");
  const Json ids = *json_of(tokens).find("tokens");
  const api::Answer text = client.ask("/detokenize", Json::object().set("tokens", ids).dump(0));
  EXPECT_EQ(json_of(text).find("prompt")->as_string(), "user:q;assistant:[w Rome];tool:sun#c1;");
  EXPECT_EQ(refused(client.ask(kChats, R"({"messages":[{"role":"user","x":1,"x":2}]})")).param,
            "messages");
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
  api::Answer ready;
  const auto status_is = [&](int status) {
    ready = server.get("/health/ready");
    return ready.exchange.status == status;
  };
  EXPECT_TRUE(eventually([&] { return status_is(200); }));
  server.control->frozen = true;
  RudeClient client(server.server->port());
  client.post(kCompletions, R"({"prompt":"a"})");
  EXPECT_TRUE(eventually([&] { return status_is(503); }));
  EXPECT_NE(ready.body.find("no sign of life"), std::string::npos);
  EXPECT_EQ(server.get("/health").exchange.status, 503);
  EXPECT_EQ(server.get("/health/live").exchange.status, 200);
  server.control->frozen = false;
  EXPECT_TRUE(server.comes_to_rest());
  EXPECT_TRUE(eventually([&] { return status_is(200); }));
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
  EXPECT_TRUE(server.ask(kCompletions, R"({"prompt":"a","max_tokens":900,"n":2,"stream":true})")
                  .error_event);
  EXPECT_TRUE(server.comes_to_rest());
  EXPECT_EQ(server.state().find("choices")->find("timeout")->as_integer(), 3);
  EXPECT_EQ(server.state().find("choices")->find("abort")->as_integer(), 0);
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

}  // namespace
}  // namespace nibble::serve
