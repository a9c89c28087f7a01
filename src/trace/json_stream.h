// JSON as a stream of tokens, for files that are larger than memory should be.
//
//   JsonStream json(*source);
//   while (json.next() == JsonToken::kKey) {
//     if (json.text() == "traceEvents") ...
//     else json.skip_value();
//   }
//
// Numbers are handed out as text, since a double does not hold the nanoseconds of an epoch. Where
// the text ends early or breaks a rule of JSON, next() says so for ever after. Bare words, such as
// the NaN of Python's writer, are tokens; bytes of a skipped value are not checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/byte_source.h"

namespace nibble::trace {

enum class JsonToken : std::uint8_t {
  kBeginObject,
  kEndObject,
  kBeginArray,
  kEndArray,
  kKey,
  kString,
  kNumber,
  kWord,   // true, false, null, NaN, ...
  kEnd,    // after the document; what follows it is not looked at
  kCut,    // the text ends within the document
  kWrong,  // it is no JSON here
};

class JsonStream {
 public:
  explicit JsonStream(ByteSource& source);

  JsonToken next();
  JsonToken last() const { return last_; }
  // Of a key, string, number or word; strings are cut after kMostText bytes. Until the next token.
  std::string_view text() const { return text_; }
  // Reads past the value that comes next (after a key, or within an array), or past the rest of the
  // object or array that has just begun. False where the text ends or is wrong.
  bool skip_value();
  bool skip_rest();

  std::int64_t offset() const { return before_ + static_cast<std::int64_t>(at_); }
  bool failed() const { return last_ == JsonToken::kCut || last_ == JsonToken::kWrong; }

  static constexpr std::size_t kMostText = 4096;

 private:
  enum class Expect : std::uint8_t { kValue, kFirstOfArray, kFirstKey, kKey, kColon, kComma, kEnd };

  // The next byte, -1 at the end.
  int peek() { return at_ < size_ || refill() ? static_cast<unsigned char>(buffer_[at_]) : -1; }
  bool refill();
  int peek_solid();
  JsonToken give(JsonToken token) { return last_ = token; }
  JsonToken open(bool object);
  JsonToken close(int bracket);
  JsonToken value(int byte);
  JsonToken string_token(JsonToken token);
  JsonToken bare_token(int byte);
  void after_value();
  bool read_string();
  bool read_escape();
  bool read_hex(std::uint32_t& unit);
  void append_code_point(std::uint32_t code);
  void append(char byte) {
    if (text_.size() < kMostText) text_ += byte;
  }

  ByteSource& source_;
  std::vector<char> buffer_;
  std::size_t at_ = 0;
  std::size_t size_ = 0;
  std::int64_t before_ = 0;    // bytes before the buffer
  std::vector<bool> objects_;  // of each open level: whether it is an object
  Expect expect_ = Expect::kValue;
  JsonToken last_ = JsonToken::kWord;
  std::string text_;
};

}  // namespace nibble::trace
