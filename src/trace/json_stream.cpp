#include "trace/json_stream.h"

#include <algorithm>

namespace nibble::trace {
namespace {

constexpr std::size_t kStreamBuffer = 256 * 1024;
constexpr std::size_t kMostDepth = 1000;

bool is_bare(int byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
         (byte >= 'A' && byte <= 'Z') || byte == '-' || byte == '+' || byte == '.';
}

}  // namespace

JsonStream::JsonStream(ByteSource& source) : source_(source), buffer_(kStreamBuffer) {
  // Some editors begin a file with a byte order mark.
  if (peek() == 0xEF && size_ >= 3 && buffer_[1] == '\xBB' && buffer_[2] == '\xBF') at_ = 3;
}

bool JsonStream::refill() {
  before_ += static_cast<std::int64_t>(size_);
  at_ = 0;
  size_ = source_.read(buffer_);
  return size_ > 0;
}

int JsonStream::peek_solid() {
  int byte = peek();
  while (byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t') {
    ++at_;
    byte = peek();
  }
  return byte;
}

JsonToken JsonStream::next() {
  if (failed() || expect_ == Expect::kEnd) return failed() ? last_ : give(JsonToken::kEnd);
  int byte = peek_solid();
  if (byte < 0) return give(JsonToken::kCut);
  if (byte == '}' || byte == ']') return close(byte);
  if (expect_ == Expect::kComma) {
    if (byte != ',') return give(JsonToken::kWrong);
    ++at_;
    byte = peek_solid();
    expect_ = objects_.back() ? Expect::kKey : Expect::kValue;
  }
  if (expect_ == Expect::kKey || expect_ == Expect::kFirstKey) {
    if (byte < 0) return give(JsonToken::kCut);
    if (byte != '"') return give(JsonToken::kWrong);
    return string_token(JsonToken::kKey);
  }
  if (expect_ == Expect::kColon) {
    if (byte != ':') return give(JsonToken::kWrong);
    ++at_;
    byte = peek_solid();
  }
  return byte < 0 ? give(JsonToken::kCut) : value(byte);
}

JsonToken JsonStream::value(int byte) {
  if (byte == '{' || byte == '[') return open(byte == '{');
  if (byte == '"') return string_token(JsonToken::kString);
  return is_bare(byte) ? bare_token(byte) : give(JsonToken::kWrong);
}

JsonToken JsonStream::open(bool object) {
  if (objects_.size() >= kMostDepth) return give(JsonToken::kWrong);
  ++at_;
  objects_.push_back(object);
  expect_ = object ? Expect::kFirstKey : Expect::kFirstOfArray;
  return give(object ? JsonToken::kBeginObject : JsonToken::kBeginArray);
}

JsonToken JsonStream::close(int bracket) {
  const bool object = bracket == '}';
  const bool may_end =
      expect_ == Expect::kComma || expect_ == (object ? Expect::kFirstKey : Expect::kFirstOfArray);
  if (objects_.empty() || objects_.back() != object || !may_end) return give(JsonToken::kWrong);
  ++at_;
  objects_.pop_back();
  after_value();
  return give(object ? JsonToken::kEndObject : JsonToken::kEndArray);
}

void JsonStream::after_value() {
  expect_ = objects_.empty() ? Expect::kEnd : Expect::kComma;
}

JsonToken JsonStream::string_token(JsonToken token) {
  if (!read_string()) return give(peek() < 0 ? JsonToken::kCut : JsonToken::kWrong);
  if (token == JsonToken::kKey) {
    expect_ = Expect::kColon;
  } else {
    after_value();
  }
  return give(token);
}

JsonToken JsonStream::bare_token(int byte) {
  text_.clear();
  const bool number = byte == '-' || (byte >= '0' && byte <= '9');
  while (is_bare(byte)) {
    append(static_cast<char>(byte));
    ++at_;
    byte = peek();
  }
  if (byte < 0 && !objects_.empty()) return give(JsonToken::kCut);
  after_value();
  return give(number ? JsonToken::kNumber : JsonToken::kWord);
}

// The text after its first quote; leaves `at_` behind the last one.
bool JsonStream::read_string() {
  text_.clear();
  ++at_;
  while (peek() >= 0) {
    // As much as the buffer holds at once: most bytes of a trace are within strings.
    const std::size_t from = at_;
    while (at_ < size_ && buffer_[at_] != '"' && buffer_[at_] != '\\') ++at_;
    const std::size_t room = kMostText - std::min(kMostText, text_.size());
    text_.append(&buffer_[from], std::min(at_ - from, room));
    if (at_ == size_) continue;
    const bool escape = buffer_[at_++] == '\\';
    if (!escape) return true;
    if (!read_escape()) return false;
  }
  return false;
}

bool JsonStream::read_escape() {
  constexpr std::string_view kEscapes = "\"\\/bfnrt";
  constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
  const int byte = peek();
  if (byte < 0) return false;
  if (byte != 'u') {
    const std::size_t index = kEscapes.find(static_cast<char>(byte));
    if (index == std::string_view::npos) return false;
    ++at_;
    append(kMeant[index]);
    return true;
  }
  ++at_;
  std::uint32_t unit = 0;
  if (!read_hex(unit)) return false;
  append_code_point(unit >= 0xD800 && unit <= 0xDFFF ? 0xFFFD : unit);
  return true;
}

bool JsonStream::read_hex(std::uint32_t& unit) {
  for (int digit = 0; digit < 4; ++digit) {
    const int byte = peek();
    const int lower = byte | 0x20;
    if (byte >= '0' && byte <= '9') {
      unit = unit * 16 + static_cast<std::uint32_t>(byte - '0');
    } else if (byte >= 0 && lower >= 'a' && lower <= 'f') {
      unit = unit * 16 + static_cast<std::uint32_t>(lower - 'a' + 10);
    } else {
      return false;
    }
    ++at_;
  }
  return true;
}

// Code points beyond 0xFFFF come as two escapes; each half shows as U+FFFD, which no kernel's name
// has.
void JsonStream::append_code_point(std::uint32_t code) {
  if (code < 0x80) {
    append(static_cast<char>(code));
  } else if (code < 0x800) {
    append(static_cast<char>(0xC0 | (code >> 6U)));
    append(static_cast<char>(0x80 | (code & 0x3FU)));
  } else {
    append(static_cast<char>(0xE0 | (code >> 12U)));
    append(static_cast<char>(0x80 | ((code >> 6U) & 0x3FU)));
    append(static_cast<char>(0x80 | (code & 0x3FU)));
  }
}

bool JsonStream::skip_value() {
  const JsonToken token = next();
  if (token == JsonToken::kBeginObject || token == JsonToken::kBeginArray) return skip_rest();
  return !failed();
}

bool JsonStream::skip_rest() {
  std::int64_t depth = 1;
  bool in_string = false;
  while (depth > 0) {
    const int byte = peek();
    if (byte < 0) {
      give(JsonToken::kCut);
      return false;
    }
    ++at_;
    if (in_string) {
      if (byte == '\\' && peek() >= 0) ++at_;
      if (byte == '"') in_string = false;
    } else if (byte == '"') {
      in_string = true;
    } else if (byte == '{' || byte == '[') {
      ++depth;
    } else if (byte == '}' || byte == ']') {
      --depth;
    }
  }
  objects_.pop_back();
  after_value();
  return true;
}

}  // namespace nibble::trace
