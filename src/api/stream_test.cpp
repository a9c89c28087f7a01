#include "api/stream.h"

#include <gtest/gtest.h>

namespace nibble::api {
namespace {

std::string text_event(std::string_view text, std::string_view more = "") {
  return fmt::format(R"({{"choices":[{{"index":0,"text":"{}"}}]{}}})", text, more);
}
std::string usage_of(std::int64_t output) {
  return fmt::format(R"(,"usage":{{"prompt_tokens":3,"completion_tokens":{}}})", output);
}

TEST(StreamReader, UsageOnTheLastTokenAloneDoesNotGiveItAllTokens) {
  StreamReader reader(Dialect::kCompletions);
  reader.read(text_event("a"));
  const StreamItem& last = reader.read(text_event("b", usage_of(2)));
  EXPECT_TRUE(last.bears_tokens);
  EXPECT_FALSE(last.new_tokens.has_value());
  EXPECT_EQ(reader.end().usage_form, UsageForm::kFinal);
  EXPECT_EQ(reader.end().usage.output_tokens, 2);
}

TEST(StreamReader, OneEventWithAllTokens) {
  StreamReader reader(Dialect::kCompletions);
  EXPECT_EQ(reader.read(text_event("all of it", usage_of(64))).new_tokens, 64);
  EXPECT_EQ(reader.end().token_events, 1);
}

TEST(StreamReader, CountsRiseWithoutText) {
  // Random weights often produce tokens that have no text; the server's count says that they came.
  StreamReader reader(Dialect::kCompletions);
  EXPECT_EQ(reader.read(text_event("", usage_of(1))).new_tokens, 1);
  EXPECT_TRUE(reader.read(text_event("", usage_of(2))).bears_tokens);
  EXPECT_FALSE(reader.read(text_event("", usage_of(2))).bears_tokens);
  EXPECT_EQ(reader.end().token_events, 2);
  EXPECT_EQ(reader.end().usage_form, UsageForm::kContinuous);
}

TEST(StreamReader, UsageAloneBelongsToNoEvent) {
  StreamReader reader(Dialect::kCompletions);
  reader.read(text_event("a", usage_of(1)));
  const StreamItem& usage = reader.read(R"({"choices":[],"usage":{"completion_tokens":5}})");
  EXPECT_FALSE(usage.bears_tokens);
  EXPECT_FALSE(usage.new_tokens.has_value());
  EXPECT_EQ(reader.end().usage.output_tokens, 5);
}

TEST(StreamReader, ACountThatFallsOrLags) {
  StreamReader falling(Dialect::kCompletions);
  falling.read(text_event("a", usage_of(4)));
  EXPECT_EQ(falling.read(text_event("b", usage_of(3))).new_tokens, 0);
  EXPECT_TRUE(falling.end().count_fell);

  // The first event says 0 of itself: such counts are not of the events, the last one holds.
  StreamReader lagging(Dialect::kCompletions);
  EXPECT_FALSE(lagging.read(text_event("a", usage_of(0))).new_tokens.has_value());
  EXPECT_FALSE(lagging.read(text_event("b", usage_of(1))).new_tokens.has_value());
  lagging.read(R"({"choices":[],"usage":{"completion_tokens":2}})");
  EXPECT_EQ(lagging.end().usage_form, UsageForm::kFinal);
  EXPECT_EQ(lagging.end().usage.output_tokens, 2);
}

TEST(StreamReader, NegativeAndStrangeCountsAreInvalid) {
  StreamReader reader(Dialect::kCompletions);
  reader.read(text_event("a", usage_of(-1)));
  EXPECT_EQ(reader.end().usage_form, UsageForm::kInvalid);
  StreamReader strange(Dialect::kCompletions);
  strange.read(text_event("a", R"(,"usage":{"completion_tokens":"7","prompt_tokens":1e99})"));
  EXPECT_EQ(strange.end().usage_form, UsageForm::kNone);
  EXPECT_FALSE(strange.end().usage.any());
}

TEST(StreamReader, ZeroBeforeTheFirstTokenIsACount) {
  StreamReader reader(Dialect::kChat);
  reader.read(R"({"choices":[{"delta":{"role":"assistant"}}],"usage":{"completion_tokens":0}})");
  EXPECT_EQ(
      reader.read(R"({"choices":[{"delta":{"content":"x"}}],"usage":{"completion_tokens":1}})")
          .new_tokens,
      1);
  EXPECT_EQ(reader.end().usage_form, UsageForm::kContinuous);
  // Without a token it is a server that answered nothing, and said so.
  StreamReader nothing(Dialect::kChat);
  nothing.read(R"({"choices":[{"delta":{}}],"usage":{"completion_tokens":0}})");
  EXPECT_EQ(nothing.end().usage.output_tokens, 0);
  EXPECT_EQ(nothing.end().token_events, 0);
}

TEST(StreamReader, WhatIsNoJsonIsMalformed) {
  for (const char* data :
       {"ping", "{", R"({"choices":[)", R"({"choices":[]} x)", "[1]", "7", "null", "\"text\"",
        "<html>", "{\"a\":1}{\"b\":2}", "[DONE", "\xff\xfe"}) {
    StreamReader reader(Dialect::kChat);
    const StreamItem& item = reader.read(data);
    EXPECT_TRUE(item.malformed) << data;
    EXPECT_FALSE(item.message.empty());
    EXPECT_FALSE(item.bears_tokens);
    EXPECT_EQ(item.message.find('\n'), std::string::npos);
  }
}

TEST(StreamReader, TextOfABrokenEventIsNotTaken) {
  StreamReader reader(Dialect::kCompletions);
  const StreamItem& item = reader.read(R"({"choices":[{"text":"lost"}],"usage":)");
  EXPECT_TRUE(item.malformed);
  EXPECT_TRUE(item.content.empty());
  EXPECT_EQ(reader.end().token_events, 0);
}

TEST(StreamReader, WhatCarriesNothing) {
  StreamReader reader(Dialect::kChat);
  for (const char* data :
       {"", "  ", R"({"type":"ping"})", "{}", R"({"choices":null})", R"({"choices":[null]})",
        R"({"choices":[{"delta":null}]})", R"({"choices":[{"delta":{"content":null}}]})",
        R"({"error":null,"choices":[]})", R"({"error":"","choices":[]})", R"({"error":false})",
        R"({"choices":[{"delta":{"content":7,"tool_calls":[{}],"reasoning":[]}}]})"}) {
    const StreamItem& item = reader.read(data);
    EXPECT_FALSE(item.bears_tokens || item.is_error || item.malformed) << data << item.message;
  }
  EXPECT_EQ(reader.end().token_events, 0);
}

TEST(StreamReader, ErrorsInEveryShape) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"error":{"message":"boom","code":500}})", "boom"},
      {R"({"error":"boom"})", "boom"},
      {R"({"object":"error","message":"boom","type":"BadRequestError","code":400})", "boom"},
      {R"({"error":{"code":500}})", R"({"error":{"code":500}})"},
      {R"({"error":true})", R"({"error":true})"},
      {R"({"choices":[{"text":"x"}],"error":{"message":"boom"}})", "boom"},
  };
  for (const auto& [data, message] : cases) {
    for (const Dialect dialect : {Dialect::kChat, Dialect::kSglang, Dialect::kLlamacpp}) {
      StreamReader reader(dialect);
      const StreamItem& item = reader.read(data);
      EXPECT_TRUE(item.is_error) << data;
      EXPECT_EQ(item.message, message);
      EXPECT_FALSE(item.bears_tokens);
    }
  }
}

TEST(StreamReader, ContentInParts) {
  StreamReader reader(Dialect::kChat);
  const StreamItem& item = reader.read(
      R"({"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},)"
      R"({"type":"text","text":"yes"}]}}]})");
  EXPECT_EQ(item.reasoning, "hm");
  EXPECT_EQ(item.content, "yes");
  EXPECT_EQ(item.kind(), TextKind::kContent);
}

TEST(StreamReader, WholeMessageInAStreamAndSeveralChoices) {
  StreamReader reader(Dialect::kChat);
  EXPECT_EQ(
      reader.read(R"({"choices":[{"message":{"role":"assistant","content":"whole"}}]})").content,
      "whole");
  EXPECT_EQ(reader
                .read(R"({"choices":[{"index":0,"delta":{"content":"a"}},)"
                      R"({"index":1,"delta":{"content":"b"}}]})")
                .content,
            "ab");
}

TEST(StreamReader, SglangCutsAStopStringOffAgain) {
  StreamReader reader(Dialect::kSglang);
  reader.read(R"({"text":"one STO","meta_info":{"completion_tokens":2}})");
  const StreamItem& last =
      reader.read(R"({"text":"one","meta_info":{"completion_tokens":3,"finish_reason":"stop"}})");
  EXPECT_TRUE(last.content.empty());
  EXPECT_EQ(last.new_tokens, 1);
  EXPECT_EQ(last.finish_reason, "stop");
}

TEST(StreamReader, SglangPiecesWithoutIds) {
  StreamReader reader(Dialect::kSglang);
  std::string text;
  for (const char* piece : {"The", " quick", " fox", " fox"}) {
    text += reader.read(fmt::format(R"({{"text":"{}"}})", piece)).content;
  }
  EXPECT_EQ(text, "The quick fox fox");
}

TEST(StreamReader, SglangListOfOne) {
  StreamReader reader(Dialect::kSglang);
  EXPECT_EQ(
      reader.read(R"([{"text":"a","meta_info":{"completion_tokens":1}}, {"text":"b"}])").content,
      "a");
  EXPECT_TRUE(reader.read("[]").malformed);
}

TEST(StreamReader, LongEventsAreReadInLinearTime) {
  const std::string text(2 << 20, 'x');
  StreamReader reader(Dialect::kCompletions);
  EXPECT_EQ(reader.read(text_event(text)).content.size(), text.size());
}

}  // namespace
}  // namespace nibble::api
