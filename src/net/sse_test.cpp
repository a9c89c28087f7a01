#include "net/sse.h"

#include <chrono>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace nibble::net {
namespace {

struct Seen {
  std::string event;
  std::string data;
  std::string id;
  bool operator==(const Seen&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Seen& seen) {
  return out << "{" << seen.event << "|" << seen.data << "|" << seen.id << "}";
}

using Events = std::vector<Seen>;

auto keep_in(Events& events) {
  return [&events](const SseEvent& event) {
    events.push_back({std::string(event.event), std::string(event.data), std::string(event.id)});
  };
}

Events parse(const std::vector<std::string_view>& pieces) {
  SseParser parser;
  Events events;
  for (const std::string_view piece : pieces) {
    EXPECT_TRUE(parser.feed(piece, keep_in(events)).ok());
  }
  EXPECT_TRUE(parser.finish(keep_in(events)).ok());
  return events;
}

struct SseCase {
  const char* name;
  std::string text;
  Events events;
};

// Expected events by hand from the WHATWG grammar (HTML standard, 9.2.5 and 9.2.6).
std::vector<SseCase> cases() {
  return {
      {"one event", "data: a\n\n", {{"", "a", ""}}},
      {"two events", "data: a\n\ndata: b\n\n", {{"", "a", ""}, {"", "b", ""}}},
      {"CR", "data: a\r\rdata: b\r\r", {{"", "a", ""}, {"", "b", ""}}},
      {"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", {{"", "a", ""}, {"", "b", ""}}},
      {"mixed ends",
       "data: a\r\n\rdata: b\n\r\ndata: c\r\n\n",
       {{"", "a", ""}, {"", "b", ""}, {"", "c", ""}}},
      {"CR then LF is one end", "data: a\r\ndata: b\r\n\r\n", {{"", "a\nb", ""}}},
      {"LF then CR are two", "data: a\n\rdata: b\n\r", {{"", "a", ""}, {"", "b", ""}}},
      {"several data lines", "data: YHOO\ndata: +2\ndata: 10\n\n", {{"", "YHOO\n+2\n10", ""}}},
      {"empty data lines",
       "data\n\ndata\ndata\n\ndata:\n\n",
       {{"", "", ""}, {"", "\n", ""}, {"", "", ""}}},
      {"one space only",
       "data:test\n\ndata: test\n\ndata:  test\n\n",
       {{"", "test", ""}, {"", "test", ""}, {"", " test", ""}}},
      {"comments",
       ": ping\n\n:\n:x: y\ndata: a\n: in between\ndata: b\n\n: keep-alive\n\n",
       {{"", "a\nb", ""}}},
      {"event names",
       "event: add\ndata: 1\n\ndata: 2\n\nevent: x\nevent: y\ndata: 3\n\n",
       {{"add", "1", ""}, {"", "2", ""}, {"y", "3", ""}}},
      {"an event without data is none, nor its name the next one's",
       "event: lost\n\ndata: a\n\n",
       {{"", "a", ""}}},
      {"ids last",
       "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n",
       {{"", "a", "1"}, {"", "b", "1"}, {"", "c", ""}}},
      {"an id alone holds for what follows", "id: 7\n\ndata: a\n\n", {{"", "a", "7"}}},
      {"an id with NUL is ignored",
       std::string("id: 1\nid: a\0b\ndata: x\n\n", 24),
       {{"", "x", "1"}}},
      {"unknown fields",
       "foo: bar\nData: no\n data: no\ndata : no\ndata: yes\n\n",
       {{"", "yes", ""}}},
      {"colons in values", "data: {\"a\": \"b:c\"}\n\n", {{"", "{\"a\": \"b:c\"}", ""}}},
      {"byte order mark",
       "\xef\xbb\xbf"
       "data: a\n\n",
       {{"", "a", ""}}},
      {"only one mark",
       "\xef\xbb\xbf\xef\xbb\xbf"
       "data: a\n\ndata: b\n\n",
       {{"", "b", ""}}},
      {"no mark later",
       "\n\xef\xbb\xbf"
       "data: a\n\ndata: b\n\n",
       {{"", "b", ""}}},
      {"half a mark",
       "\xef\xbb"
       "data: a\n\ndata: b\n\n",
       {{"", "b", ""}}},
      {"blank lines at the start", "\n\r\n\rdata: a\n\n", {{"", "a", ""}}},
      {"unfinished line", "data: a\n\ndata: b", {{"", "a", ""}, {"", "b", ""}}},
      {"unfinished event", "data: a\ndata: b\n", {{"", "a\nb", ""}}},
      {"unfinished without data", "data: a\n\nevent: x", {{"", "a", ""}}},
      {"NUL in data", std::string("data: a\0b\n\n", 11), {{"", std::string("a\0b", 3), ""}}},
      {"DONE and more", "data: [DONE]\n\ndata: x\n\n", {{"", "[DONE]", ""}, {"", "x", ""}}},
      {"nothing", "", {}},
      {"only comments", ": a\n: b\n\n\n", {}},
  };
}

TEST(Sse, Grammar) {
  for (const SseCase& test : cases()) EXPECT_EQ(parse({test.text}), test.events) << test.name;
}

TEST(Sse, CutOnceAnywhere) {
  for (const SseCase& test : cases()) {
    const std::string_view text = test.text;
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
      EXPECT_EQ(parse({text.substr(0, cut), text.substr(cut)}), test.events)
          << test.name << " cut at " << cut;
    }
  }
}

TEST(Sse, CutTwiceAnywhere) {
  for (const SseCase& test : cases()) {
    const std::string_view text = test.text;
    for (std::size_t first = 0; first <= text.size(); ++first) {
      for (std::size_t second = first; second <= text.size(); ++second) {
        ASSERT_EQ(
            parse({text.substr(0, first), text.substr(first, second - first), text.substr(second)}),
            test.events)
            << test.name << " cut at " << first << " and " << second;
      }
    }
  }
}

TEST(Sse, ByteByByte) {
  for (const SseCase& test : cases()) {
    std::vector<std::string_view> bytes;
    for (std::size_t i = 0; i < test.text.size(); ++i) {
      bytes.push_back(std::string_view(test.text).substr(i, 1));
    }
    EXPECT_EQ(parse(bytes), test.events) << test.name;
  }
}

// A CR ends its line at once: the event does not wait for a LF that may never come.
TEST(Sse, DispatchesAtTheFirstByteThatCan) {
  SseParser parser;
  Events events;
  ASSERT_TRUE(parser.feed("data: a\r\n\r", keep_in(events)).ok());
  EXPECT_EQ(events.size(), 1U);
  ASSERT_TRUE(parser.feed("\ndata: b\n\n", keep_in(events)).ok());
  EXPECT_EQ(events, (Events{{"", "a", ""}, {"", "b", ""}}));
}

TEST(Sse, Retry) {
  SseParser parser;
  Events events;
  ASSERT_TRUE(parser.feed("retry: 2500\n", keep_in(events)).ok());
  EXPECT_EQ(parser.retry_ms(), 2500);
  const char* ignored[] = {
      "retry: -1\n", "retry: 1.5\n", "retry:\n", "retry: 1e3\n", "retry: 99999999999999999999999\n",
      "retry:  7\n"};
  for (const char* line : ignored) {
    ASSERT_TRUE(parser.feed(line, keep_in(events)).ok());
    EXPECT_EQ(parser.retry_ms(), 2500) << line;
  }
  EXPECT_TRUE(events.empty());
}

TEST(Sse, StartsAnewAfterItsEnd) {
  SseParser parser;
  Events events;
  ASSERT_TRUE(parser.feed("id: 1\nevent: e\ndata: a", keep_in(events)).ok());
  ASSERT_TRUE(parser.finish(keep_in(events)).ok());
  ASSERT_TRUE(parser
                  .feed("\xef\xbb\xbf"
                        "data: b\n\n",
                        keep_in(events))
                  .ok());
  EXPECT_EQ(events, (Events{{"e", "a", "1"}, {"", "b", ""}}));
}

TEST(Sse, RefusesEventsThatAreTooLarge) {
  const char* endless[] = {"data: 0123456789", "data: 0123456789\n", ": 0123456789", "x"};
  for (const char* piece : endless) {
    SseParser parser(100);
    Events events;
    Result<> fed;
    int pieces = 0;
    for (; pieces < 200 && fed.ok(); ++pieces) fed = parser.feed(piece, keep_in(events));
    EXPECT_FALSE(fed.ok()) << piece;
    EXPECT_FALSE(parser.feed("\n\ndata: a\n\n", keep_in(events)).ok()) << piece;
    EXPECT_FALSE(parser.finish(keep_in(events)).ok()) << piece;
    EXPECT_TRUE(events.empty()) << piece;
  }
  SseParser parser(100);
  Events events;
  for (int i = 0; i < 1000; ++i) {  // the limit is of one event, not of the stream
    ASSERT_TRUE(
        parser.feed("data: 0123456789012345678901234567890123456789\n\n", keep_in(events)).ok());
  }
  EXPECT_EQ(events.size(), 1000U);
}

TEST(Sse, HugeEventInSmallPieces) {
  const std::string value(1 << 20, 'x');
  const std::string text = "data: " + value + "\n\n";
  SseParser parser;
  Events events;
  for (std::size_t at = 0; at < text.size(); at += 7) {
    ASSERT_TRUE(parser.feed(std::string_view(text).substr(at, 7), keep_in(events)).ok());
  }
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].data, value);
}

// What would be quadratic: lines that end by one of the two characters alone in one large piece,
// and a line fed byte by byte. A quadratic parser needs minutes for these.
TEST(Sse, LinearTime) {
  const auto start = std::chrono::steady_clock::now();
  for (const std::string line : {"data:a\r\r", "data:a\n\n", "a\r", "a\n", "\r", "\n", ":"}) {
    std::string text;
    while (text.size() < (std::size_t{128} << 10)) text += line;
    SseParser parser;
    std::size_t events = 0;
    ASSERT_TRUE(parser.feed(text, [&](const SseEvent&) { ++events; }).ok());
    const std::size_t expected = line.starts_with("data") ? text.size() / line.size() : 0;
    EXPECT_EQ(events, expected);
    SseParser slow;
    for (const char& byte : text) {
      ASSERT_TRUE(slow.feed(std::string_view(&byte, 1), [&](const SseEvent&) { --events; }).ok());
    }
    EXPECT_EQ(events, 0U);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

}  // namespace
}  // namespace nibble::net
