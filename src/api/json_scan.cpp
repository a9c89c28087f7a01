#include "api/json_scan.h"

#include <bitset>
#include <charconv>
#include <cmath>
#include <fmt/core.h>

namespace nibble::api {
namespace {

constexpr std::size_t kMaxDepth = 100;  // as Json::parse

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

void JsonScanner::skip_space() {
  while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
}

bool JsonScanner::fail(const char* what) {
  if (fault_ == nullptr) {
    fault_ = what;
    fault_at_ = at_;
  }
  return false;
}

std::string JsonScanner::fault() const {
  if (fault_ == nullptr) return {};
  return fmt::format("byte {}: {}", fault_at_ - begin_ + 1, fault_);
}

JsonScanner::Kind JsonScanner::peek() {
  skip_space();
  if (failed() || at_ == end_) return Kind::kNone;
  switch (*at_) {
    case '{':
      return Kind::kObject;
    case '[':
      return Kind::kArray;
    case '"':
      return Kind::kString;
    case 't':
    case 'f':
      return Kind::kBoolean;
    case 'n':
      return Kind::kNull;
    default:
      return *at_ == '-' || is_digit(*at_) ? Kind::kNumber : Kind::kNone;
  }
}

bool JsonScanner::open(char bracket) {
  skip_space();
  if (failed()) return false;
  if (at_ == end_ || *at_ != bracket) {
    return fail(bracket == '{' ? "no object begins here" : "no array begins here");
  }
  ++at_;
  first_ = true;
  return true;
}

bool JsonScanner::open_object() {
  return open('{');
}
bool JsonScanner::open_array() {
  return open('[');
}

// Whether an element follows; false behind the closing bracket.
bool JsonScanner::next(char closing) {
  skip_space();
  if (failed()) return false;
  if (at_ == end_) return fail("the text ends within an object or array");
  const bool first = first_;
  first_ = false;
  if (*at_ == closing) {
    ++at_;
    return false;
  }
  if (first) return true;
  if (*at_ != ',') return fail("a comma or a closing bracket is missing");
  ++at_;
  skip_space();
  return true;
}

bool JsonScanner::next_member() {
  if (!next('}')) return false;
  if (at_ == end_ || *at_ != '"') return fail("a key in quotes is missing");
  const char* const start = ++at_;
  at_ += plain_json_length({at_, static_cast<std::size_t>(end_ - at_)});
  if (at_ != end_ && *at_ == '"') {
    key_ = {start, static_cast<std::size_t>(at_ - start)};
    ++at_;
  } else {
    at_ = start;
    key_buffer_.clear();
    if (!scan_string(&key_buffer_)) return false;
    key_ = key_buffer_;
  }
  skip_space();
  if (at_ == end_ || *at_ != ':') return fail("a colon is missing");
  ++at_;
  return true;
}

bool JsonScanner::next_item() {
  return next(']');
}

bool JsonScanner::take_literal(std::string_view literal) {
  const std::string_view rest(at_, static_cast<std::size_t>(end_ - at_));
  if (!rest.starts_with(literal)) return fail("no value begins here");
  at_ += literal.size();
  return true;
}

bool JsonScanner::scan_number(bool& integral) {
  const auto digits = [this] {
    const char* const start = at_;
    while (at_ != end_ && is_digit(*at_)) ++at_;
    return at_ != start;
  };
  integral = true;
  if (*at_ == '-') ++at_;
  if (at_ != end_ && *at_ == '0') {
    ++at_;
  } else if (!digits()) {
    return fail("a minus sign without digits");
  }
  if (at_ != end_ && *at_ == '.') {
    ++at_;
    integral = false;
    if (!digits()) return fail("a decimal point without digits");
  }
  if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
    ++at_;
    integral = false;
    if (at_ != end_ && (*at_ == '+' || *at_ == '-')) ++at_;
    if (!digits()) return fail("an exponent without digits");
  }
  return true;
}

bool JsonScanner::read_string(std::string& out) {
  if (peek() != Kind::kString) {
    skip();
    return false;
  }
  ++at_;
  out.clear();
  return scan_string(&out);
}

std::optional<double> JsonScanner::read_number() {
  if (peek() != Kind::kNumber) {
    skip();
    return std::nullopt;
  }
  const char* const start = at_;
  bool integral = false;
  if (!scan_number(integral)) return std::nullopt;
  double value = 0;
  const auto [stop, code] = std::from_chars(start, at_, value);
  if (code != std::errc() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<std::int64_t> JsonScanner::read_integer() {
  if (peek() != Kind::kNumber) {
    skip();
    return std::nullopt;
  }
  const char* const start = at_;
  bool integral = false;
  if (!scan_number(integral)) return std::nullopt;
  std::int64_t value = 0;
  if (integral && std::from_chars(start, at_, value).ec == std::errc()) return value;
  double real = 0;
  constexpr double kBeyond = 9007199254740992.0;  // 2^53: doubles are not exact from there on
  if (integral || std::from_chars(start, at_, real).ec != std::errc()) return std::nullopt;
  if (real != std::trunc(real) || std::abs(real) >= kBeyond) return std::nullopt;
  return static_cast<std::int64_t>(real);
}

std::optional<bool> JsonScanner::read_boolean() {
  if (peek() != Kind::kBoolean) {
    skip();
    return std::nullopt;
  }
  const bool value = *at_ == 't';
  if (!take_literal(value ? "true" : "false")) return std::nullopt;
  return value;
}

bool JsonScanner::skip_scalar() {
  switch (peek()) {
    case Kind::kString:
      ++at_;
      return scan_string(nullptr);
    case Kind::kNumber: {
      bool integral = false;
      return scan_number(integral);
    }
    case Kind::kBoolean:
      return take_literal(*at_ == 't' ? "true" : "false");
    case Kind::kNull:
      return take_literal("null");
    default:
      return fail("no value begins here");
  }
}

// A loop, for input chooses the depth.
bool JsonScanner::skip() {
  std::bitset<kMaxDepth> is_object;
  std::size_t depth = 0;
  do {
    const Kind kind = peek();
    if (kind == Kind::kObject || kind == Kind::kArray) {
      if (depth == kMaxDepth) return fail("nesting deeper than 100");
      is_object[depth++] = kind == Kind::kObject;
      ++at_;
      first_ = true;
    } else if (!skip_scalar()) {
      return false;
    }
    // Ends the containers that end here, then stands before the next value.
    while (depth > 0 && !(is_object[depth - 1] ? next_member() : next_item())) {
      if (failed()) return false;
      --depth;
    }
  } while (depth > 0);
  return true;
}

std::string_view JsonScanner::read_raw() {
  skip_space();
  const char* const start = at_;
  if (!skip()) return {};
  return {start, static_cast<std::size_t>(at_ - start)};
}

bool JsonScanner::finish() {
  skip_space();
  if (failed()) return false;
  return at_ == end_ || fail("text after the value");
}

}  // namespace nibble::api
