// Every form of the wire, read by a client that shares no code with its writing side.
#include <gtest/gtest.h>

#include "mock/answer.h"
#include "mock/request.h"
#include "mock/test_server.h"

namespace nibble::mock {
namespace {

TEST(MockWire, ChatHasRolesAndEmptyDeltas) {
  MockScript script = quick();
  script.stream.empty_every = 2;
  RunningMock mock = start(script);
  TestClient client(mock.url());
  const Answer answer = client.ask(kChat, chat(6));
  EXPECT_NE(answer.body.find(R"("role":"assistant")"), std::string::npos);
  EXPECT_EQ(answer.arrivals.size(), 6U);
  // Six with tokens, the role, two empty (after 2 and 4), the finish and [DONE].
  EXPECT_EQ(answer.events, 6 + 1 + 2 + 1 + 1);
}

TEST(MockWire, RolesAndFinishesInTheirOtherForms) {
  MockScript script = quick();
  script.stream.role = RoleDelta::kNone;
  script.stream.finish = FinishForm::kSame;
  script.sse.done = DoneForm::kNone;
  RunningMock mock = start(script);
  TestClient client(mock.url());
  const Answer answer = client.ask(kChat, chat(4));
  EXPECT_EQ(answer.events, 4);
  EXPECT_EQ(answer.end.finish_reason, "length");
  EXPECT_FALSE(answer.end.saw_done);
}

TEST(MockWire, UsageInAllForms) {
  struct Case {
    UsageWhen when;
    api::UsageForm form;
  };
  for (const Case& each : {Case{UsageWhen::kLast, api::UsageForm::kFinal},
                           Case{UsageWhen::kSame, api::UsageForm::kFinal},
                           Case{UsageWhen::kEvery, api::UsageForm::kContinuous},
                           Case{UsageWhen::kNone, api::UsageForm::kNone},
                           Case{UsageWhen::kZeros, api::UsageForm::kInvalid}}) {
    MockScript script = quick(1, 0);
    script.usage.when = each.when;
    RunningMock mock = start(script);
    TestClient client(mock.url());
    for (const char* path : {kChat, kCompletions}) {
      const std::string body = path == kChat ? chat(4, kUsage) : completion(4, kUsage);
      const Answer answer = client.ask(path, body);
      EXPECT_EQ(answer.end.usage_form, each.form) << path << " " << static_cast<int>(each.when);
      EXPECT_EQ(answer.arrivals.size(), 4U);
      const bool own = answer.body.find(R"("choices":[],)") != std::string::npos;
      EXPECT_EQ(own, each.when != UsageWhen::kSame && each.when != UsageWhen::kNone);
    }
  }
}

TEST(MockWire, CachedAndTemplateTokens) {
  MockScript script = quick(1, 0);
  script.usage.cached_share = 0.5;
  script.usage.template_tokens = 7;
  RunningMock mock = start(script);
  TestClient client(mock.url());
  const Answer answer = client.ask(kChat, chat(2, kUsage));
  EXPECT_EQ(answer.end.usage.prompt_tokens, 10);
  EXPECT_EQ(answer.end.usage.cached_tokens, 5);
  EXPECT_EQ(client.ask(kCompletions, completion(2, kUsage)).end.usage.prompt_tokens, 3);
}

TEST(MockWire, StreamOptionsMayBeRefused) {
  MockScript script = quick(1, 0);
  script.usage.stream_options = false;
  RunningMock mock = start(script);
  TestClient client(mock.url());
  EXPECT_EQ(client.ask(kChat, chat(2, kUsage)).exchange.status, 400);
  EXPECT_EQ(client.ask(kChat, chat(2)).exchange.status, 200);
}

TEST(MockWire, ReasoningComesFirst) {
  for (const char* field : {"reasoning_content", "reasoning"}) {
    MockScript script = quick(1, 0);
    script.fields.reasoning_tokens = Distribution::constant(3);
    script.fields.reasoning_field = field;
    RunningMock mock = start(script);
    TestClient client(mock.url());
    const Answer answer = client.ask(kChat, chat(5, kUsage));
    ASSERT_EQ(answer.arrivals.size(), 5U);
    EXPECT_NE(answer.body.find("\"" + std::string(field) + "\":"), std::string::npos);
    for (std::size_t token = 0; token < 5; ++token) {
      EXPECT_EQ(answer.arrivals[token].kind,
                token < 3 ? api::TextKind::kReasoning : api::TextKind::kContent);
    }
    EXPECT_EQ(answer.end.usage.reasoning_tokens, 3);
  }
}

TEST(MockWire, ToolCalls) {
  MockScript script = quick(1, 0);
  script.fields.tool_calls = true;
  RunningMock mock = start(script);
  TestClient client(mock.url());
  const Answer answer = client.ask(kChat, chat(3));
  ASSERT_EQ(answer.arrivals.size(), 3U);
  EXPECT_EQ(answer.arrivals[0].kind, api::TextKind::kTool);
}

TEST(MockWire, EveryFormOfTheStreamSaysTheSame) {
  std::vector<SseForm> forms = {
      {.line_end = LineEnd::kCrLf, .id = true},
      {.line_end = LineEnd::kCr, .event = "message"},
      {.byte_order_mark = true, .multi_line = true, .retry_ms = 5},
      {.space_after_colon = false, .comment_every = 2},
      {.final_newline = false},
      {.done = DoneForm::kNone, .final_newline = false},
      {.cut_bytes = 11, .cut_characters = true},
      {.cut_bytes = 40, .cut_pause_ms = 0.2},
      {.framing = Framing::kClose},
  };
  for (std::size_t index = 0; index < forms.size(); ++index) {
    MockScript script = quick(1, 0);
    script.text.kind = TextKind::kUtf8;
    script.sse = forms[index];
    RunningMock mock = start(script);
    TestClient client(mock.url());
    const Answer answer = client.ask(kChat, chat(6, kUsage));
    EXPECT_EQ(answer.exchange.fault, net::NetFault::kNone) << index;
    EXPECT_EQ(token_counts(answer), (std::vector<std::int64_t>{1, 1, 1, 1, 1, 1})) << index;
    std::string text;
    for (std::int64_t token = 0; token < 6; ++token) text += token_text(script, 0, token);
    EXPECT_EQ(answer.text, text) << index;
    EXPECT_FALSE(answer.malformed) << index;
    EXPECT_EQ(answer.end.saw_done, forms[index].done == DoneForm::kDone) << index;
  }
}

TEST(MockWire, DataBehindDone) {
  MockScript script = quick(1, 0);
  script.sse.done = DoneForm::kThenData;
  RunningMock mock = start(script);
  TestClient client(mock.url());
  const Answer answer = client.ask(kChat, chat(2));
  EXPECT_TRUE(answer.end.saw_done && answer.end.data_after_done);
  EXPECT_EQ(answer.arrivals.size(), 2U);
}

TEST(MockWire, CommentsKeepASilentStreamAlive) {
  MockScript script = quick(60, 0);
  script.sse.keep_alive_ms = 20;
  RunningMock mock = start(script);
  TestClient client(mock.url());
  const Answer answer = client.ask(kChat, chat(1));
  const std::size_t first = answer.body.find(": keep-alive\n\n");
  ASSERT_NE(first, std::string::npos);
  EXPECT_LT(first, answer.body.find("data:"));
  EXPECT_EQ(answer.arrivals.size(), 1U);
}

TEST(MockWire, NativeFormats) {
  RunningMock mock = start(quick(1, 0));
  TestClient client(mock.url());
  const Answer sglang = client.ask(
      "/generate", R"({"text": "a b", "sampling_params": {"max_new_tokens": 4}, "stream": true})");
  EXPECT_EQ(token_counts(sglang), (std::vector<std::int64_t>{1, 1, 1, 1}));
  EXPECT_EQ(sglang.end.usage.prompt_tokens, 2);
  EXPECT_EQ(sglang.end.finish_reason, "length");
  EXPECT_EQ(count_words(sglang.text), 4);
  const Answer llama =
      client.ask("/completion", R"({"prompt": "a b", "n_predict": 4, "stream": true})");
  EXPECT_EQ(count_words(llama.text), 4);
  EXPECT_EQ(llama.end.usage.output_tokens, 4);
  EXPECT_NE(llama.body.find("\"timings\""), std::string::npos);
}

TEST(MockWire, AnswersInOneBody) {
  MockScript script = quick(10, 1);
  script.body_padding_bytes = 5;
  script.fields.reasoning_tokens = Distribution::constant(1);
  RunningMock mock = start(script);
  TestClient client(mock.url());
  std::string body = chat(3);
  body.replace(body.find("true"), 4, "false");
  const Answer answer = client.ask(kChat, body);
  EXPECT_TRUE(answer.body.starts_with("     {"));
  const api::StreamItem item = api::read_body(api::Dialect::kChat, answer.body);
  EXPECT_EQ(count_words(item.content), 2);
  EXPECT_EQ(count_words(item.reasoning), 1);
  EXPECT_EQ(item.usage.output_tokens, 3);
  EXPECT_GE(answer.exchange.stamps.end - answer.exchange.stamps.send_start, 12 * kMs);
}

TEST(MockWire, StreamsThatAreNone) {
  MockScript script = quick(10, 1);
  script.stream.mode = StreamMode::kBody;
  {
    RunningMock mock = start(script);
    TestClient client(mock.url());
    const Answer answer = client.ask(kChat, chat(3));
    EXPECT_EQ(answer.events, 0);
    EXPECT_TRUE(api::read_body(api::Dialect::kChat, answer.body).bears_tokens);
  }
  script.stream.mode = StreamMode::kOneChunk;
  RunningMock mock = start(script);
  TestClient client(mock.url());
  const Answer answer = client.ask(kChat, chat(3, kUsage));
  ASSERT_EQ(answer.arrivals.size(), 1U);
  EXPECT_EQ(answer.arrivals[0].tokens, 3);
  EXPECT_GE(answer.ttft(), 12 * kMs);
}

TEST(MockWire, LargeChunksAndLongPrompts) {
  MockScript script = quick(5, 0);
  script.text.chunk_bytes = 100'000;
  RunningMock mock = start(script);
  TestClient client(mock.url());
  std::string ids = "[1";
  for (int token = 1; token < 131'072; ++token) ids += ",100000";
  const Answer answer = client.ask(
      kCompletions,
      R"({"max_tokens": 20, "stream": true, "stream_options": {"include_usage": true}, "prompt": )" +
          ids + "]}");
  EXPECT_EQ(answer.exchange.fault, net::NetFault::kNone);
  EXPECT_EQ(answer.end.usage.prompt_tokens, 131'072);
  EXPECT_EQ(answer.arrivals.size(), 20U);
  EXPECT_EQ(answer.text.size(), 2'000'000U);
  EXPECT_EQ(count_words(answer.text), 20);
}

TEST(MockWire, ABrokenModelRepeatsAToken) {
  MockScript script = quick(1, 0);
  script.text.kind = TextKind::kRepeat;
  RunningMock mock = start(script);
  TestClient client(mock.url());
  EXPECT_EQ(client.ask(kCompletions, completion(3)).text, " the the the");
}

}  // namespace
}  // namespace nibble::mock
