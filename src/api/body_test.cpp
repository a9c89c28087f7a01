#include <gtest/gtest.h>

#include "api/stream.h"

namespace nibble::api {
namespace {

constexpr const char* kChat =
    R"({"id":"1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant",)"
    R"("content":"Hi","reasoning_content":"hm","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]},)"
    R"("finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":9,"total_tokens":12}})";

TEST(ReadBody, Chat) {
  const StreamItem item = read_body(Dialect::kChat, kChat);
  EXPECT_FALSE(item.malformed || item.is_error) << item.message;
  EXPECT_TRUE(item.bears_tokens);
  EXPECT_EQ(item.content, "Hi");
  EXPECT_EQ(item.reasoning, "hm");
  EXPECT_EQ(item.tool, "f{}");
  EXPECT_EQ(item.finish_reason, "stop");
  EXPECT_EQ(item.usage, (Usage{.prompt_tokens = 3, .output_tokens = 9}));
}

TEST(ReadBody, NativeFormats) {
  const StreamItem sglang = read_body(
      Dialect::kSglang,
      R"([{"text":" x","meta_info":{"finish_reason":{"type":"stop","matched":2},"prompt_tokens":1,"completion_tokens":2}}])");
  EXPECT_EQ(sglang.content, " x");
  EXPECT_EQ(sglang.finish_reason, "stop");
  EXPECT_EQ(sglang.usage.output_tokens, 2);
  const StreamItem llamacpp = read_body(
      Dialect::kLlamacpp,
      R"({"content":" y","stop":true,"stop_type":"eos","tokens_predicted":4,"tokens_evaluated":5})");
  EXPECT_EQ(llamacpp.content, " y");
  EXPECT_EQ(llamacpp.finish_reason, "stop");
  EXPECT_FALSE(llamacpp.done);
}

TEST(ReadBody, BytesThatKeepTheConnectionAlive) {
  for (const char* before : {"\n\n\n", "  \r\n", "\xEF\xBB\xBF", ": keep-alive\n\n: again\r\n",
                             "\n: x\n\xEF\xBB\xBF "}) {
    EXPECT_EQ(read_body(Dialect::kChat, std::string(before) + kChat + "\n").content, "Hi")
        << before;
  }
}

TEST(ReadBody, WhatIsNoAnswer) {
  const std::pair<const char*, const char*> malformed[] = {
      {"", "the body is empty"},
      {"\n \n", "the body is empty"},
      {": only a comment", "the body is empty"},
      {"<html><title>Login</title>", "a HTML page: Login"},
      {"{}", "JSON without an answer: {}"},
      {R"({"choices":[]})", R"(JSON without an answer: {"choices":[]})"},
      {"data: {\"choices\":[]}\n\n",
       "the body is a stream of events, though its header does not say so"},
  };
  for (const auto& [body, message] : malformed) {
    const StreamItem item = read_body(Dialect::kChat, body);
    EXPECT_TRUE(item.malformed) << body;
    EXPECT_FALSE(item.is_error || item.bears_tokens);
    EXPECT_EQ(item.message, message);
  }
  EXPECT_TRUE(read_body(Dialect::kChat, R"({"choices":[{"message":{"content":"cut)").malformed);
  EXPECT_TRUE(read_body(Dialect::kChat, std::string(kChat) + "garbage").malformed);
}

TEST(ReadBody, ErrorsWithStatus200) {
  for (const char* body : {R"({"error":{"message":"boom"}})", R"({"detail":"boom"})",
                           R"({"object":"error","message":"boom"})", R"({"message":"boom"})"}) {
    const StreamItem item = read_body(Dialect::kChat, body);
    EXPECT_TRUE(item.is_error) << body;
    EXPECT_FALSE(item.malformed);
    EXPECT_EQ(item.message, "boom");
  }
}

TEST(ReadBody, AnEmptyAnswerIsAnAnswer) {
  const StreamItem item = read_body(
      Dialect::kCompletions, R"({"choices":[{"text":"","finish_reason":"stop"}],"usage":{}})");
  EXPECT_FALSE(item.malformed || item.is_error);
  EXPECT_FALSE(item.bears_tokens);
}

TEST(ReadBody, ZeroTokensWithTextAreNoCount) {
  const StreamItem item =
      read_body(Dialect::kCompletions,
                R"({"choices":[{"text":"x"}],"usage":{"prompt_tokens":0,"completion_tokens":0}})");
  EXPECT_FALSE(item.usage.output_tokens.has_value());
}

TEST(IsEventStream, ByHeaderThenByBeginning) {
  EXPECT_TRUE(is_event_stream("text/event-stream; charset=utf-8", "{"));
  EXPECT_TRUE(is_event_stream("Text/Event-Stream", ""));
  EXPECT_FALSE(is_event_stream("application/json", "data: {"));
  EXPECT_FALSE(is_event_stream("text/html", "data: {"));
  EXPECT_TRUE(is_event_stream("",
                              "\xEF\xBB\xBF"
                              "data: {"));
  EXPECT_TRUE(is_event_stream("text/plain", ": ping\n"));
  EXPECT_TRUE(is_event_stream("application/octet-stream", "\n\nevent: x"));
  EXPECT_FALSE(is_event_stream("", "{\"choices\""));
  EXPECT_FALSE(is_event_stream("", ""));
}

}  // namespace
}  // namespace nibble::api
