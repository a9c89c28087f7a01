#include <gtest/gtest.h>

#include "net/request_parser.h"
#include "net/response_parser.h"
#include "net/test_support.h"

namespace nibble::net {
namespace {

using Step = ResponseParser::Step;

struct ParserCase {
  const char* text;
  int status;
  const char* body;
  bool keep_alive;
  bool ends_by_close;
};

constexpr ParserCase kCases[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", true, false},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
     "5\r\nhello\r\nA;name=\"v\"\r\n0123456789\r\n0\r\nX: y\r\n\r\n",
     200, "hello0123456789", true, false},
    {"HTTP/1.1 500 Oh\r\nConnection: close\r\ntransfer-encoding: "
     "Chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
     500, "x", false, false},
    {"HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, "until the end", false, true},
    {"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", false, false},
    {"HTTP/1.1 204 No Content\r\n\r\n", 204, "", true, false},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x", true,
     false},
};

// Every answer cut at every byte: the same body, and done at its last byte, not before.
TEST(ResponseParser, CutAnywhere) {
  for (const ParserCase& test : kCases) {
    const std::string_view text = test.text;
    for (std::size_t cut = 0; cut < text.size(); ++cut) {
      ResponseParser parser({});
      Recorder sink;
      ASSERT_EQ(parser.feed(text.substr(0, cut), 10, sink), Step::kMore) << text << cut;
      const Step last = parser.feed(text.substr(cut), 20, sink);
      ASSERT_EQ(last, test.ends_by_close ? Step::kMore : Step::kDone) << text << cut;
      if (test.ends_by_close) {
        ASSERT_EQ(parser.finish(), Step::kDone);
      }
      EXPECT_EQ(parser.status(), test.status);
      EXPECT_EQ(sink.body, test.body) << cut;
      EXPECT_EQ(sink.heads, 1);
      EXPECT_EQ(parser.keep_alive(), test.keep_alive) << text;
      EXPECT_EQ(parser.first_byte_at() == 0, sink.body.empty());
    }
  }
}

TEST(ResponseParser, EndsEarlyAnywhere) {
  for (const ParserCase& test : kCases) {
    const std::string_view text = test.text;
    const std::size_t head_end = text.find("\r\n\r\n") + 4;
    for (std::size_t cut = 0; cut < text.size(); ++cut) {
      ResponseParser parser({});
      Recorder sink;
      ASSERT_EQ(parser.feed(text.substr(0, cut), 1, sink), Step::kMore);
      if (test.ends_by_close && cut >= head_end) continue;  // any length is whole
      ASSERT_EQ(parser.finish(), Step::kFailed) << text << cut;
      EXPECT_EQ(parser.fault(), cut == 0 ? NetFault::kReset : NetFault::kTruncated) << text << cut;
    }
  }
}

TEST(ResponseParser, ByteByByteWithItsStamps) {
  ResponseParser parser({});
  Recorder sink;
  const std::string_view text = kCases[1].text;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const Step step = parser.feed(text.substr(i, 1), static_cast<Nanoseconds>(i) + 1, sink);
    ASSERT_EQ(step, i + 1 == text.size() ? Step::kDone : Step::kMore);
  }
  const std::size_t head_end = text.find("\r\n\r\n") + 4;
  EXPECT_EQ(parser.head_at(), static_cast<Nanoseconds>(head_end));
  EXPECT_EQ(parser.first_byte_at(), static_cast<Nanoseconds>(text.find("hello") + 1));
}

TEST(ResponseParser, LinesWithoutAnEnd) {
  const std::string_view starts[] = {
      "HTTP/1.1 200 ",
      "HTTP/1.1 200 OK\r\nX: ", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: "};
  for (const std::string_view start : starts) {
    ResponseParser parser({});
    Recorder sink;
    Step step = parser.feed(start, 1, sink);
    const std::string more(1000, 'a');
    for (int i = 0; i < 200 && step == Step::kMore; ++i) step = parser.feed(more, 1, sink);
    EXPECT_EQ(step, Step::kFailed) << start;
    EXPECT_EQ(parser.fault(), NetFault::kProtocol);
  }
}

TEST(ResponseParser, NotReusableWithBytesBehind) {
  ResponseParser parser({});
  Recorder sink;
  EXPECT_EQ(parser.feed("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy", 1, sink), Step::kDone);
  EXPECT_EQ(sink.body, "x");
  EXPECT_FALSE(parser.keep_alive());
}

TEST(RequestParser, CutAnywhereAndPipelined) {
  const std::string first =
      "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
  const std::string second = "GET /b HTTP/1.0\r\n\r\n";
  const std::string both = first + second;
  for (std::size_t cut = 0; cut <= both.size(); ++cut) {
    RequestParser parser({});
    std::string input = both.substr(0, cut);
    std::size_t used = parser.feed(input);
    if (parser.state() == RequestParser::State::kMore) {
      input = input.substr(used) + both.substr(cut);
      const std::size_t kept = used;
      used = kept + parser.feed(input);
    }
    ASSERT_EQ(parser.state(), RequestParser::State::kDone) << cut;
    EXPECT_EQ(used, first.size()) << cut;
    EXPECT_EQ(parser.method(), "POST");
    EXPECT_EQ(parser.take_body(), "abc");
    EXPECT_TRUE(parser.keep_alive());
    RequestParser next({});
    EXPECT_EQ(next.feed(std::string_view(both).substr(used)), second.size());
    EXPECT_EQ(next.target(), "/b");
    EXPECT_TRUE(next.http_1_0());
    EXPECT_FALSE(next.keep_alive());
  }
}

}  // namespace
}  // namespace nibble::net
