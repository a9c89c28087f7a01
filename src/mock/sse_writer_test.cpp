#include "mock/sse_writer.h"

#include <gtest/gtest.h>

#include "net/sse.h"

namespace nibble::mock {
namespace {

std::string written(const SseForm& form, std::string_view events, bool last = false) {
  SseWriter writer(form);
  std::string out = writer.begin();
  writer.append(out, events, last);
  return out;
}

TEST(SseWriter, PlainEventsPassThrough) {
  EXPECT_EQ(written({}, "data: {\"a\":1}\n\ndata: [DONE]\n\n"),
            "data: {\"a\":1}\n\ndata: [DONE]\n\n");
}

TEST(SseWriter, EveryFormByHand) {
  EXPECT_EQ(written({.line_end = LineEnd::kCrLf}, "data: {}\n\n"), "data: {}\r\n\r\n");
  EXPECT_EQ(written({.line_end = LineEnd::kCr}, "data: {}\n\n"), "data: {}\r\r");
  EXPECT_EQ(written({.byte_order_mark = true}, "data: {}\n\n"),
            "\xEF\xBB\xBF"
            "data: {}\n\n");
  EXPECT_EQ(written({.space_after_colon = false}, "data: {}\n\n"), "data:{}\n\n");
  EXPECT_EQ(written({.multi_line = true}, "data: {\"a\":1}\n\ndata: [DONE]\n\n"),
            "data: {\ndata: \"a\":1}\n\ndata: [DONE]\n\n");
  EXPECT_EQ(written({.event = "message", .id = true}, "data: {}\n\ndata: {}\n\n"),
            "event: message\nid: 1\ndata: {}\n\nevent: message\nid: 2\ndata: {}\n\n");
  EXPECT_EQ(written({.retry_ms = 250}, "data: {}\n\n"), "retry: 250\ndata: {}\n\n");
  EXPECT_EQ(written({.final_newline = false}, "data: {}\n\ndata: [DONE]\n\n", true),
            "data: {}\n\ndata: [DONE]");
  EXPECT_EQ(written({.line_end = LineEnd::kCrLf, .final_newline = false}, "data: {}\n\n", true),
            "data: {}");
  EXPECT_EQ(written({.final_newline = false}, "data: {}\n\n"), "data: {}\n\n");
  std::string comment;
  SseWriter(SseForm{}).append_comment(comment, "ping");
  EXPECT_EQ(comment, ": ping\n\n");
}

TEST(SseWriter, TheParserReadsTheSameFromEveryForm) {
  const std::string_view events =
      "data: {\"a\":\"caf\u00e9\"}\n\ndata: {\"b\":2}\n\ndata: [DONE]\n\n";
  std::vector<SseForm> forms;
  for (const LineEnd end : {LineEnd::kLf, LineEnd::kCrLf, LineEnd::kCr}) {
    for (int bits = 0; bits < 16; ++bits) {
      forms.push_back({.line_end = end,
                       .byte_order_mark = (bits & 1) != 0,
                       .space_after_colon = (bits & 2) == 0,
                       .event = (bits & 4) != 0 ? "message" : "",
                       .retry_ms = (bits & 4) != 0 ? 10 : 0,
                       .final_newline = (bits & 8) == 0,
                       .cut_bytes = bits + 1,
                       .cut_characters = true});
    }
  }
  for (const SseForm& form : forms) {
    std::vector<std::string> found;
    const auto keep = [&](const net::SseEvent& event) { found.emplace_back(event.data); };
    net::SseParser parser;
    for (const std::string& piece : cut(form, written(form, events, true))) {
      ASSERT_TRUE(parser.feed(piece, keep).ok());
    }
    ASSERT_TRUE(parser.finish(keep).ok());
    EXPECT_EQ(found, (std::vector<std::string>{"{\"a\":\"caf\u00e9\"}", "{\"b\":2}", "[DONE]"}));
  }
}

TEST(SseWriter, Cuts) {
  EXPECT_EQ(cut({}, "abc"), std::vector<std::string>{"abc"});
  EXPECT_EQ(cut({.cut_bytes = 2}, "abcde"), (std::vector<std::string>{"ab", "cd", "e"}));
  EXPECT_EQ(cut({.cut_characters = true}, "a\u00e9b"), (std::vector<std::string>{"a\xC3",
                                                                                 "\xA9"
                                                                                 "b"}));
  EXPECT_EQ(cut({.cut_characters = true}, "ab"), std::vector<std::string>{"ab"});
  EXPECT_EQ(cut({.cut_bytes = 1, .cut_characters = true},
                "\u00e9"
                "b"),
            (std::vector<std::string>{"\xC3", "\xA9", "b"}));
}

}  // namespace
}  // namespace nibble::mock
