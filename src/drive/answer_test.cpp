#include "drive/answer.h"

#include <gtest/gtest.h>

namespace nibble::drive {
namespace {

using load::Outcome;

constexpr Nanoseconds kMs = 1'000'000;

// An answer whose pieces come at the given times (ms).
struct Piece {
  double at_ms;
  std::string bytes;
};

struct Given {
  api::Dialect dialect = api::Dialect::kChat;
  int status = 200;
  std::string content_type = "text/event-stream";
  net::NetFault fault = net::NetFault::kNone;
  bool keep_text = false;
  const net::Headers* sent = nullptr;
};

struct Read {
  load::RequestRecord record;
  std::string text;
  std::int64_t tokens = 0;
  std::int64_t events = 0;
};

Read read(const Given& given, const std::vector<Piece>& pieces) {
  Tally tally;
  AnswerReader reader(given.dialect, {.keep_text = given.keep_text, .sent = given.sent}, tally);
  net::Headers headers;
  if (!given.content_type.empty()) headers.emplace_back("Content-Type", given.content_type);
  net::Exchange exchange{.fault = given.fault, .status = given.status};
  if (given.fault != net::NetFault::kNone) exchange.message = "it broke";
  exchange.stamps.send_start = 100 * kMs;
  exchange.stamps.first_byte = pieces.empty() ? 0 : from_milliseconds(100 + pieces[0].at_ms);
  exchange.stamps.end = 900 * kMs;
  if (given.status != 0) reader.on_head(given.status, headers);
  for (const Piece& piece : pieces) {
    reader.on_bytes(piece.bytes, from_milliseconds(100 + piece.at_ms));
  }
  Read result;
  reader.finish(exchange, result.record);
  result.text = reader.take_text();
  result.tokens = tally.tokens;
  result.events = tally.events;
  return result;
}

std::string delta(const std::string& text, int tokens) {
  return R"(data: {"choices":[{"index":0,"delta":{"content":")" + text +
         R"("},"finish_reason":null}],"usage":{"prompt_tokens":7,"completion_tokens":)" +
         std::to_string(tokens) + "}}\n\n";
}

TEST(AnswerReader, StampsEventsWithTokens) {
  const Read answer =
      read({}, {{5, R"(data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]})"
                    "\n\n"},
                {50, delta("a", 1)},
                {60, delta("bcd", 4)},
                {61, R"(data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}],)"
                     R"("usage":{"prompt_tokens":7,"completion_tokens":4}})"
                     "\n\n"},
                {62, "data: [DONE]\n\n"}});
  const load::RequestRecord& record = answer.record;
  EXPECT_EQ(record.outcome, Outcome::kOk) << record.message;
  ASSERT_EQ(record.events.size(), 2U);
  EXPECT_EQ(record.events[0].at, 150 * kMs);
  EXPECT_EQ(record.events[0].tokens, 1);
  EXPECT_EQ(record.events[1].at, 160 * kMs);
  EXPECT_EQ(record.events[1].tokens, 3);
  EXPECT_EQ(record.prompt_tokens, 7);
  EXPECT_EQ(record.output_tokens, 4);
  EXPECT_EQ(record.token_source, load::TokenSource::kContinuousUsage);
  EXPECT_EQ(record.finish_reason, "length");
  EXPECT_TRUE(record.saw_done);
  EXPECT_TRUE(record.streamed);
  EXPECT_EQ(record.sent, 100 * kMs);
  EXPECT_EQ(record.end, 900 * kMs);
  EXPECT_EQ(answer.text, "abcd");
  EXPECT_EQ(answer.tokens, 4);
  EXPECT_EQ(answer.events, 2);
}

TEST(AnswerReader, AStreamWithoutAContentTypeIsKnownByItsBeginning) {
  const std::string event = delta("a", 1);
  const Read answer = read(
      {.content_type = ""},
      {{1, event.substr(0, 3)}, {2, event.substr(3)}, {3, delta("b", 2)}, {4, "data: [DONE]\n\n"}});
  EXPECT_EQ(answer.record.outcome, Outcome::kOk) << answer.record.message;
  EXPECT_EQ(answer.record.events.size(), 2U);
}

TEST(AnswerReader, AllTokensInOneEventIsNotStreamed) {
  const Read answer = read({}, {{50, delta("abc", 3)}, {51, "data: [DONE]\n\n"}});
  EXPECT_EQ(answer.record.outcome, Outcome::kOk);
  EXPECT_FALSE(answer.record.streamed);
  EXPECT_EQ(answer.record.output_tokens, 3);
}

TEST(AnswerReader, OneBody) {
  const Read answer = read(
      {.content_type = "application/json"},
      {{50, "\n \n"},
       {60, R"({"choices":[{"index":0,"message":{"role":"assistant","content":"a b"},)"
            R"("finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}})"}});
  EXPECT_EQ(answer.record.outcome, Outcome::kOk) << answer.record.message;
  EXPECT_FALSE(answer.record.streamed);
  EXPECT_EQ(answer.record.output_tokens, 2);
  EXPECT_EQ(answer.record.token_source, load::TokenSource::kUsage);
  EXPECT_EQ(answer.record.finish_reason, "stop");
  EXPECT_TRUE(answer.record.events.empty());
  EXPECT_EQ(answer.tokens, 2);
}

TEST(AnswerReader, FailuresByClass) {
  const Given json{.content_type = "application/json"};
  EXPECT_EQ(read(json, {{1, R"({"error":{"message":"no"}})"}}).record.outcome, Outcome::kErrorBody);
  EXPECT_EQ(read({.content_type = "text/html"}, {{1, "<html>Bad Gateway</html>"}}).record.outcome,
            Outcome::kNotJson);
  EXPECT_EQ(read(json, {}).record.outcome, Outcome::kNoTokens);
  EXPECT_EQ(read({}, {{1, "data: [DONE]\n\n"}}).record.outcome, Outcome::kNoTokens);
  EXPECT_EQ(read({}, {{1, "data: {\"choi\n\n"}}).record.outcome, Outcome::kNotJson);
  const Read refused = read({.status = 429, .content_type = "application/json"},
                            {{1, R"({"error":{"message":"slow down"}})"}});
  EXPECT_EQ(refused.record.outcome, Outcome::kHttpStatus);
  EXPECT_EQ(refused.record.message, "429: slow down");
  EXPECT_EQ(refused.record.http_status, 429);
}

TEST(AnswerReader, AnErrorInTheStreamIsAFailureWhateverCameBefore) {
  const Read answer = read({}, {{5, delta("a", 1)},
                                {6, "data: {\"error\":{\"message\":\"out of memory\"}}\n\n"},
                                {7, "data: [DONE]\n\n"}});
  EXPECT_EQ(answer.record.outcome, Outcome::kErrorEvent);
  EXPECT_EQ(answer.record.message, "out of memory");
  EXPECT_EQ(answer.record.events.size(), 1U);
}

TEST(AnswerReader, WhatBreaksOnTheWireComesFirst) {
  const Read cut = read({.fault = net::NetFault::kTruncated}, {{5, delta("a", 1)}});
  EXPECT_EQ(cut.record.outcome, Outcome::kTruncated);
  EXPECT_EQ(cut.record.message, "it broke");
  EXPECT_EQ(cut.record.events.size(), 1U);
  const Read none = read({.status = 0, .fault = net::NetFault::kRefused}, {});
  EXPECT_EQ(none.record.outcome, Outcome::kRefused);
  // A reset without a body is the reset, not the missing tokens.
  EXPECT_EQ(read({.fault = net::NetFault::kReset}, {}).record.outcome, Outcome::kReset);
}

TEST(AnswerReader, WhatWasSentIsHiddenInMessages) {
  const net::Headers sent = {{"Authorization", "Bearer sk-0123456789"}};
  const std::string echo = R"({"error":{"message":"bad key sk-0123456789 )" +
                           std::string(400, 'x') + R"("}})";  // long enough to be cut
  const Read refused =
      read({.status = 401, .content_type = "application/json", .sent = &sent}, {{1, echo}});
  EXPECT_TRUE(refused.record.message.starts_with("401: bad key *** x")) << refused.record.message;
  const Read event = read({.sent = &sent}, {{1, "data: " + echo + "\n\n"}});
  EXPECT_EQ(event.record.outcome, Outcome::kErrorEvent);
  EXPECT_TRUE(event.record.message.starts_with("bad key *** x")) << event.record.message;
}

TEST(AnswerReader, AServerThatForgetsToEndTheBodyAfterDoneHasAnswered) {
  const Read answer =
      read({.fault = net::NetFault::kIdleTimeout}, {{5, delta("a", 1)}, {6, "data: [DONE]\n\n"}});
  EXPECT_EQ(answer.record.outcome, Outcome::kOk) << answer.record.message;
  EXPECT_EQ(answer.record.end, 106 * kMs);  // not when we gave up
  const Read without = read({.fault = net::NetFault::kIdleTimeout}, {{5, delta("a", 1)}});
  EXPECT_EQ(without.record.outcome, Outcome::kIdleTimeout);
}

TEST(AnswerReader, AUsageOfZeroIsToldAndNotBelieved) {
  const Read answer = read({}, {{5, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"},
                                {6, "data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\n"},
                                {7,
                                 "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":0,"
                                 "\"completion_tokens\":0}}\n\ndata: [DONE]\n\n"}});
  EXPECT_EQ(answer.record.outcome, Outcome::kOk);
  EXPECT_EQ(answer.record.output_tokens, 0);
  EXPECT_EQ(answer.record.token_source, load::TokenSource::kEvents);
}

TEST(AnswerReader, TextIsKeptWholeOnlyWhenItIsCounted) {
  std::vector<Piece> pieces;
  const std::string kilobyte(1024, 'x');
  for (int i = 0; i < 100; ++i) pieces.push_back({5.0 + i, delta(kilobyte, i + 1)});
  EXPECT_EQ(read({.keep_text = true}, pieces).text.size(), std::size_t{100} << 10);
  const std::size_t kept = read({}, pieces).text.size();
  EXPECT_GE(kept, std::size_t{4} << 10);
  EXPECT_LE(kept, std::size_t{10} << 10);
}

TEST(AnswerReader, AnAnswerThatDoesNotEndIsCut) {
  Tally tally;
  AnswerReader reader(api::Dialect::kChat, {.tokens_asked = 4}, tally);
  reader.on_head(200, {{"Content-Type", "text/event-stream"}});
  int taken = 0;
  while (taken < 5000 && reader.on_bytes(delta("a", taken + 1), (taken + 1) * kMs)) ++taken;
  EXPECT_EQ(taken, 16 * 4 + 1024);
  net::Exchange exchange{.status = 200, .stopped = true};
  exchange.stamps.send_start = 1;
  exchange.stamps.end = 6000 * kMs;
  load::RequestRecord record;
  reader.finish(exchange, record);
  EXPECT_EQ(record.outcome, Outcome::kProtocol);
  EXPECT_NE(record.message.find("does not end"), std::string::npos) << record.message;
}

TEST(AnswerReader, ABodyOfTextWithoutABelievableCountIsOneEvent) {
  const Read answer = read(
      {.content_type = "application/json"},
      {{50, R"({"choices":[{"message":{"content":"a b"}}],"usage":{"completion_tokens":0}})"}});
  EXPECT_EQ(answer.record.outcome, Outcome::kOk) << answer.record.message;
  EXPECT_EQ(answer.record.events.size(), 1U);
  EXPECT_FALSE(answer.record.streamed);
}

TEST(AnswerReader, CountsThatNoAnswerHasAreLeftOut) {
  const Read answer = read({}, {{5, delta("a", 1)},
                                {6,
                                 "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":"
                                 "20000000000,\"completion_tokens\":1}}\n\n"}});
  EXPECT_FALSE(answer.record.prompt_tokens.has_value());
  EXPECT_EQ(answer.record.output_tokens, 1);
}

}  // namespace
}  // namespace nibble::drive
