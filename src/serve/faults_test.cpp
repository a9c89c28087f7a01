#include "serve/faults.h"

#include <atomic>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

#include "serve/test_server.h"

namespace nibble::serve {
namespace {

Result<Faults> parsed(const std::vector<std::string>& words) {
  return parse_faults(words);
}

TEST(Faults, KeysInOneWordAndInSeveral) {
  const auto faults = parsed({"step_stall_ms=2.5,router_bias=4", "front_end_block_ms=0.5"});
  ASSERT_TRUE(faults.ok()) << faults.error().message;
  EXPECT_EQ(faults->step_stall, 2'500'000);
  EXPECT_EQ(faults->front_end_block, 500'000);
  EXPECT_EQ(faults->router_bias, 4);
  EXPECT_TRUE(faults->any());
  EXPECT_EQ(to_json(*faults).dump(0),
            R"({"step_stall_ms":2.5,"front_end_block_ms":0.5,"router_bias":4})");
  EXPECT_EQ(describe(*faults), "step_stall_ms=2.5, front_end_block_ms=0.5, router_bias=4");
}

TEST(Faults, WithoutAnyAllAreZero) {
  for (const auto& words : {std::vector<std::string>{}, {"step_stall_ms=0"}}) {
    const auto faults = parsed(words);
    ASSERT_TRUE(faults.ok());
    EXPECT_FALSE(faults->any());
    EXPECT_EQ(to_json(*faults).dump(0),
              R"({"step_stall_ms":0,"front_end_block_ms":0,"router_bias":0})");
    EXPECT_EQ(describe(*faults), "");
  }
}

TEST(Faults, EveryWrongOneIsNamed) {
  struct Wrong {
    std::string word, sentence;
  };
  const Wrong all[] = {
      {"slow_kernels=1", "knows no fault \"slow_kernels\""},
      {"", "knows no fault \"\""},
      {"step_stall_ms=1,", "knows no fault \"\""},
      {"=1", "knows no fault \"\""},
      {"STEP_STALL_MS=1", "knows no fault"},
      {"step_stall_ms", "step_stall_ms is \"\"; give a number from 0 to 1000"},
      {"step_stall_ms=", "step_stall_ms is \"\""},
      {"step_stall_ms=1000.1", "from 0 to 1000"},
      {"front_end_block_ms=-1", "front_end_block_ms is \"-1\""},
      {"front_end_block_ms=5ms", "is \"5ms\""},
      {"front_end_block_ms= 5", "is \" 5\""},
      {"router_bias=nan", "router_bias is \"nan\""},
      {"router_bias=inf", "from 0 to 100"},
      {"router_bias=1e999", "from 0 to 100"},
      {"router_bias=1,router_bias=1", "router_bias is given twice"},
      {"router_bias=1\n", "router_bias"},
  };
  for (const Wrong& wrong : all) {
    const auto faults = parsed({wrong.word});
    ASSERT_FALSE(faults.ok()) << wrong.word;
    EXPECT_EQ(faults.error().kind, ErrorKind::kUsage);
    EXPECT_NE(faults.error().message.find(wrong.sentence), std::string::npos)
        << faults.error().message;
    EXPECT_EQ(faults.error().message.find('\n'), std::string::npos);
  }
  EXPECT_FALSE(parsed({"step_stall_ms=1", "step_stall_ms=2"}).ok());
}

TEST(Faults, TheConfigurationShowsThem) {
  ServeOptions options;
  options.inject.front_end_block = kMs;
  TestServer server({}, options);
  const Json info = json_of(server.get("/server_info"));
  const Json* inject = info.find("inject");
  ASSERT_NE(inject, nullptr);
  EXPECT_EQ(inject->dump(0), R"({"step_stall_ms":0,"front_end_block_ms":1,"router_bias":0})");
}

// A request and each of its tokens cost the loop 100 ms, the engine nothing: 5 tokens and a request
// are 600 ms at the least, wherever the engine is meanwhile.
TEST(Faults, AFrontEndTakesItsTimeForRequestsAndTokens) {
  ServeOptions options;
  options.inject.front_end_block = 100 * kMs;
  TestServer server({}, options);
  const Nanoseconds begin = monotonic_now();
  const api::Answer answer = server.ask(
      kCompletions, R"({"prompt":"abcdefgh","max_tokens":5,"ignore_eos":true,"stream":true})");
  const Nanoseconds took = monotonic_now() - begin;
  EXPECT_EQ(answer.exchange.status, 200);
  EXPECT_GE(took, 6 * 100 * kMs);
  // The engine has been done for long: its steps are no slower.
  EXPECT_LT(server.state().find("step_time_s")->as_number(), 0.4);
}

// Pages get their turn between the updates of an answer: what a diagnosis reads does not wait for
// the whole backlog (2 s here), and the answer is the same.
TEST(Faults, ASlowFrontEndGivesOthersTheirTurn) {
  ServeOptions options;
  options.inject.front_end_block = 20 * kMs;
  TestServer server({}, options);
  const std::string body = R"({"prompt":"abcdefgh","max_tokens":100,"ignore_eos":true,"stream":)";
  const api::Answer whole = server.ask(kCompletions, body + "false}");
  EXPECT_EQ(json_of(whole).find("usage")->find("completion_tokens")->as_integer(), 100);
  std::atomic<bool> ended = false;
  std::thread asking([&] {
    api::TestClient client(server.server->url());
    EXPECT_EQ(client.ask(kCompletions, body + "true}").exchange.status, 200);
    ended = true;
  });
  EXPECT_TRUE(
      server.becomes([&](const Json& state) { return state.find("steps")->as_integer() > 100; }));
  int pages = 0;
  while (!ended) pages += server.get("/metrics").exchange.status == 200 ? 1 : 0;
  asking.join();
  EXPECT_GE(pages, 3);
}

// Between 5 steps of one request lie 4 stalls, 800 ms, and none of them counts as a step's time.
TEST(Faults, TheEngineStallsBetweenSteps) {
  engine::EngineOptions engine;
  engine.step_stall = 200 * kMs;
  TestServer server(engine);
  const Nanoseconds begin = monotonic_now();
  const api::Answer answer =
      server.ask(kCompletions, R"({"prompt":"abcdefgh","max_tokens":5,"ignore_eos":true})");
  const Nanoseconds took = monotonic_now() - begin;
  EXPECT_EQ(answer.exchange.status, 200);
  EXPECT_GE(took, 4 * 200 * kMs);
  EXPECT_EQ(server.state("steps"), 5);
  EXPECT_LT(server.state().find("step_time_s")->as_number(), 0.4);
}

}  // namespace
}  // namespace nibble::serve
