// Clients that go away, or take their time: nothing of theirs may stay in the engine, and nobody
// else may notice.
#include <random>

#include "serve/test_server.h"

namespace nibble::serve {
namespace {

constexpr const char* kEndless = R"({"prompt":"x","max_tokens":900,"stream":true})";
constexpr const char* kEndlessBody = R"({"prompt":"x","max_tokens":900})";

bool is_running(const Json& state) {
  return state.find("running")->as_integer() > 0;
}

TEST(Leaving, WhileItWaitsInTheQueue) {
  for (const bool reset : {false, true}) {
    TestServer server({.max_running_requests = 1});
    server.control->step_us = 1000;
    RudeClient first(server.server->port());
    first.post(kCompletions, kEndless);
    ASSERT_TRUE(server.becomes(is_running));
    RudeClient second(server.server->port());
    second.post(kCompletions, kEndless);
    ASSERT_TRUE(
        server.becomes([](const Json& state) { return state.find("waiting")->as_integer() == 1; }));
    second.leave(reset);
    ASSERT_TRUE(server.becomes([](const Json& state) {
      return state.find("waiting")->as_integer() == 0 && is_running(state);
    }));
    first.leave(reset);
    EXPECT_TRUE(server.comes_to_rest());
    EXPECT_EQ(server.state().find("choices")->find("abort")->as_integer(), 2);
  }
}

TEST(Leaving, InThePrefill) {
  for (const char* stream : {"true", "false"}) {
    TestServer server({.max_running_requests = 8, .max_num_batched_tokens = 8});
    server.control->step_us = 2000;  // 100 steps for the prompt
    RudeClient client(server.server->port());
    client.post(kCompletions, fmt::format(R"({{"prompt":"{}","max_tokens":9,"stream":{}}})",
                                          std::string(800, 'q'), stream));
    ASSERT_TRUE(server.becomes(
        [](const Json& state) { return state.find("blocks_in_use")->as_integer() > 0; }));
    client.leave();
    EXPECT_TRUE(server.comes_to_rest());
    EXPECT_EQ(server.state("generation_tokens"), 0);
    // sglang PR 28374: what had been computed of it must not pass for the whole.
    const api::Answer again = server.ask(
        kCompletions,
        fmt::format(R"({{"prompt":"{}z<|assistant|>","max_tokens":900}})", std::string(100, 'q')));
    EXPECT_EQ(text_of(choice_of(again)), std::string(100, 'q') + "z");
  }
}

TEST(Leaving, WhileItDecodes) {
  for (const bool reset : {false, true}) {
    TestServer server;
    server.control->step_us = 1000;
    RudeClient client(server.server->port());
    client.post(kCompletions, R"({"prompt":"x","max_tokens":900,"stream":true,"n":4})");
    EXPECT_NE(client.read_until("\"text\":\"k\"").find("\"text\":\"k\""), std::string::npos);
    client.leave(reset);
    EXPECT_TRUE(server.comes_to_rest());
    EXPECT_LT(server.state("generation_tokens"), 4 * 900);
    RudeClient silent(server.server->port());  // nothing has been written to it yet
    silent.post(kCompletions, kEndlessBody);
    ASSERT_TRUE(server.becomes(is_running));
    silent.leave(reset);
    EXPECT_TRUE(server.comes_to_rest());
  }
}

TEST(Leaving, AfterTheEnd) {
  TestServer server;
  RudeClient client(server.server->port());
  client.post(kCompletions, R"({"prompt":"x","max_tokens":3,"stream":true})");
  client.read_until("[DONE]");
  client.leave(true);
  EXPECT_TRUE(server.comes_to_rest());
  EXPECT_EQ(server.state().find("choices")->find("length")->as_integer(), 1);
  EXPECT_EQ(server.state().find("choices")->find("abort")->as_integer(), 0);
}

TEST(Leaving, InTheMiddleOfARequest) {
  TestServer server;
  for (const char* part :
       {"", "POST", "POST /v1/completions HTTP/1.1\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{"}) {
    RudeClient client(server.server->port());
    client.send(part);
    client.leave();
  }
  EXPECT_TRUE(server.comes_to_rest());
}

// sglang#39216, llama.cpp#29163: a client that leaves breaks the server.
TEST(Leaving, AThousandTimesUnderLoad) {
  TestServer server({.max_running_requests = 8, .kv_blocks = 64});
  server.control->step_us = 100;
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 8; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (int request = 0; request < 125; ++request) {
        RudeClient client(server.server->port());
        const bool stream = random() % 4 != 0;
        client.post(
            random() % 2 == 0 ? kCompletions : kChats,
            fmt::format(R"({{"prompt":"{0}","messages":[{{"role":"user","content":"{0}"}}],)"
                        R"("max_tokens":{1},"stream":{2},"n":{3}}})",
                        std::string(1 + random() % 100, 'q'), 1 + random() % 60, stream,
                        1 + random() % 3));
        if (random() % 3 == 0 && stream) client.read_until("\"index\":");
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
        client.leave(random() % 2 == 0);
      }
    });
  }
  // Somebody who stays gets all of it meanwhile.
  for (int request = 0; request < 5; ++request) {
    const api::Answer answer =
        server.ask(kCompletions, R"({"prompt":"hello<|assistant|>","max_tokens":50})");
    EXPECT_EQ(text_of(choice_of(answer)), "hello");
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(server.comes_to_rest());
  EXPECT_EQ(text_of(choice_of(server.ask(kCompletions, R"({"prompt":"a<|assistant|>"})"))), "a");
}

// A client that reads nothing holds up neither the engine nor its neighbours.
TEST(Leaving, ASlowClientHoldsNothing) {
  TestServer server({.max_running_requests = 16});
  RudeClient slow(server.server->port());
  slow.post(kChats,
            R"({"messages":[{"role":"user","content":"x"}],"max_tokens":900,"ignore_eos":true,)"
            R"("logprobs":true,"top_logprobs":20,"n":8,"stream":true})");
  ASSERT_TRUE(server.becomes(
      [](const Json& state) { return state.find("generation_tokens")->as_integer() >= 8 * 900; }));
  EXPECT_TRUE(server.becomes(
      [](const Json& state) { return state.find("blocks_in_use")->as_integer() == 0; }));
  EXPECT_EQ(text_of(choice_of(server.ask(kCompletions, R"({"prompt":"a<|assistant|>"})"))), "a");
  slow.leave();
  EXPECT_TRUE(server.comes_to_rest());
}

}  // namespace
}  // namespace nibble::serve
