#include "trace/json_stream.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/testing.h"

namespace nibble::trace {
namespace {

// One byte a read: every token meets the edge of a buffer.
class OneByte : public ByteSource {
 public:
  explicit OneByte(std::string text) : text_(std::move(text)) {}
  std::size_t read(std::span<char> buffer) override {
    if (at_ == text_.size()) return 0;
    buffer[0] = text_[at_++];
    return 1;
  }

 private:
  std::string text_;
  std::size_t at_ = 0;
};

// The tokens as one line: {k:key s:text n:1 w:true } [ ] . (end) ~ (cut) ! (wrong)
std::string tokens(ByteSource& source) {
  JsonStream json(source);
  std::string line;
  while (true) {
    switch (json.next()) {
      case JsonToken::kBeginObject:
        line += '{';
        break;
      case JsonToken::kEndObject:
        line += '}';
        break;
      case JsonToken::kBeginArray:
        line += '[';
        break;
      case JsonToken::kEndArray:
        line += ']';
        break;
      case JsonToken::kKey:
        line += fmt::format("k:{} ", json.text());
        break;
      case JsonToken::kString:
        line += fmt::format("s:{} ", json.text());
        break;
      case JsonToken::kNumber:
        line += fmt::format("n:{} ", json.text());
        break;
      case JsonToken::kWord:
        line += fmt::format("w:{} ", json.text());
        break;
      case JsonToken::kEnd:
        return line + '.';
      case JsonToken::kCut:
        return line + '~';
      case JsonToken::kWrong:
        return line + '!';
    }
  }
}
std::string tokens(const std::string& text) {
  OneByte slow(text);
  const std::string line = tokens(slow);
  const std::unique_ptr<ByteSource> fast = read_memory(text);
  EXPECT_EQ(tokens(*fast), line);
  return line;
}

TEST(JsonStream, GivesTheTokensOfADocument) {
  EXPECT_EQ(tokens(R"( {"a": [1, -2.5e3, "x"], "b": {"c": true}, "d": null} )"),
            "{k:a [n:1 n:-2.5e3 s:x ]k:b {k:c w:true }k:d w:null }.");
  EXPECT_EQ(tokens("[]"), "[].");
  EXPECT_EQ(tokens("{}"), "{}.");
  EXPECT_EQ(tokens("[NaN, Infinity, -Infinity]"), "[w:NaN w:Infinity n:-Infinity ].");
}

TEST(JsonStream, ReadsEscapes) {
  EXPECT_EQ(tokens(R"(["a\"b\\c\/\n\u00fc\u20ac\u0041\ud83d\ude00"])"),
            "[s:a\"b\\c/\n\u00fc\u20acA\uFFFD\uFFFD ].");
}

TEST(JsonStream, SkipsAByteOrderMark) {
  const std::unique_ptr<ByteSource> source = read_memory("\xEF\xBB\xBF[1]");
  EXPECT_EQ(tokens(*source), "[n:1 ].");
}

TEST(JsonStream, TellsWhereTheTextEndsEarly) {
  for (const char* text : {"", " ", "[", "[1", "[1,", "[\"a", "[\"a\\", "{", "{\"a\"",
                           "{\"a\":", "{\"a\":1", "{\"a\":1,", "[\"\\u12"}) {
    const std::string line = tokens(std::string(text));
    EXPECT_EQ(line.back(), '~') << text;
  }
}

TEST(JsonStream, RefusesWhatIsNoJson) {
  for (const char* text : {"<html>", "[1 2]", "{1: 2}", "[1,]", "{\"a\" 1}", "{\"a\": 1,}", "]",
                           "[}", "{\"a\"}", "[\"\\x\"]", "[\"\\u12g4\"]", "\x7f", "[,1]"}) {
    EXPECT_EQ(tokens(std::string(text)).back(), '!') << text;
  }
  EXPECT_EQ(tokens(std::string(1001, '[')).back(), '!');
}

TEST(JsonStream, SkipsValuesWhole) {
  const std::unique_ptr<ByteSource> source =
      read_memory(R"({"a": {"b": ["}]\"", {}]}, "c": [1, [2]], "d": 3})");
  JsonStream json(*source);
  ASSERT_EQ(json.next(), JsonToken::kBeginObject);
  ASSERT_EQ(json.next(), JsonToken::kKey);
  EXPECT_TRUE(json.skip_value());
  ASSERT_EQ(json.next(), JsonToken::kKey);
  EXPECT_EQ(json.text(), "c");
  EXPECT_TRUE(json.skip_value());
  ASSERT_EQ(json.next(), JsonToken::kKey);
  EXPECT_TRUE(json.skip_value());
  EXPECT_EQ(json.next(), JsonToken::kEndObject);
  EXPECT_EQ(json.next(), JsonToken::kEnd);
}

TEST(JsonStream, CutsLongTexts) {
  const std::string text = "[\"" + std::string(10000, 'x') + "\", 1]";
  const std::unique_ptr<ByteSource> source = read_memory(text);
  JsonStream json(*source);
  json.next();
  ASSERT_EQ(json.next(), JsonToken::kString);
  EXPECT_EQ(json.text().size(), JsonStream::kMostText);
  EXPECT_EQ(json.next(), JsonToken::kNumber);
}

}  // namespace
}  // namespace nibble::trace
