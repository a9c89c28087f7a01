#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/text.h"
#include "base/utf8.h"
#include "text/jinja/escapes.h"
#include "text/jinja/unicode.h"

namespace nibble::text::jinja {
namespace {

// Longest first.
constexpr std::array<std::string_view, 26> kOperators = {
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

constexpr std::size_t kNowhere = std::string_view::npos;

bool is_ascii_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

bool is_name_byte(char byte) {
  return is_ascii_digit(byte) || byte == '_' || (byte >= 'a' && byte <= 'z') ||
         (byte >= 'A' && byte <= 'Z');
}

// Line ends become \n, and one at the end of the template goes.
std::string normalize_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t at = 0; at < source.size(); ++at) {
    if (source[at] != '\r') {
      out += source[at];
      continue;
    }
    out += '\n';
    if (at + 1 < source.size() && source[at + 1] == '\n') ++at;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  Lexer(std::string source, std::string_view where) : source_(std::move(source)), where_(where) {}

  Result<std::vector<Token>> run() {
    while (!error_ && at_ < source_.size()) lex_root();
    if (error_) return *error_;
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool looking_at(std::string_view wanted) const {
    return rest().substr(0, wanted.size()) == wanted;
  }

  void add(TokenKind kind, std::string text) {
    Token token;
    token.kind = kind;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
  }

  void fail(std::string_view what) {
    if (!error_) error_ = input_error("{}, line {}: {}", where_, line_, what);
    at_ = source_.size();
  }

  // Moves on by `bytes`, counting lines.
  void advance(std::size_t bytes) {
    const std::string_view passed = rest().substr(0, bytes);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    line_starting_ = !passed.empty() && passed.back() == '\n';
    at_ += passed.size();
  }

  void skip_space() { advance(rest().size() - strip_start(rest()).size()); }

  // Text up to the next tag, then the tag.
  void lex_root() {
    const std::size_t tag = next_tag();
    if (tag == kNowhere) {
      add(TokenKind::kData, std::string(rest()));
      advance(rest().size());
      return;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    add_data(tag, sign, kind != '{');
    advance(tag - at_ + 2 + (sign == '-' || sign == '+' ? 1 : 0));
    if (kind == '#') {
      lex_comment();
    } else if (kind == '{') {
      lex_expression(TokenKind::kOutputBegin, TokenKind::kOutputEnd);
    } else if (!lex_raw()) {
      lex_expression(TokenKind::kBlockBegin, TokenKind::kBlockEnd);
    }
  }

  std::size_t next_tag() const {
    for (std::size_t at = at_; (at = source_.find('{', at)) != kNowhere; ++at) {
      if (at + 1 >= source_.size()) return kNowhere;
      const char next = source_[at + 1];
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return kNowhere;
  }

  // The text before a tag at `end`, without the white space that the tag takes with it.
  void add_data(std::size_t end, char sign, bool may_strip) {
    std::string_view data = std::string_view(source_).substr(at_, end - at_);
    if (sign == '-') {
      data = strip_end(data);
    } else if (sign != '+' && may_strip) {
      const std::size_t newline = data.rfind('\n');
      const std::size_t start = newline == kNowhere ? 0 : newline + 1;
      const bool blank = strip_start(data.substr(start)).empty();
      if (blank && (start > 0 || line_starting_)) data = data.substr(0, start);
    }
    if (!data.empty()) add(TokenKind::kData, std::string(data));
  }

  // What ends a tag: "-%}" takes all white space behind it, "%}" one line end, "+%}" none.
  void end_tag(std::size_t length, char sign, bool trims) {
    advance(length);
    if (sign == '-') {
      const std::size_t space = rest().size() - strip_start(rest()).size();
      const bool newline = space > 0 ? source_[at_ + space - 1] == '\n' : false;
      advance(space);
      line_starting_ = newline;
    } else if (sign != '+' && trims && looking_at("\n")) {
      advance(1);
    }
  }

  void lex_comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == kNowhere) return fail("this comment has no end (#})");
    const char sign = end > at_ ? source_[end - 1] : ' ';
    advance(end - at_);
    end_tag(2, sign, true);
  }

  // {% raw %} ... {% endraw %}
  bool lex_raw() {
    std::string_view inner = strip_start(rest());
    if (inner.substr(0, 3) != "raw") return false;
    inner = strip_start(inner.substr(3));
    const bool strips = inner.substr(0, 3) == "-%}";
    if (!strips && inner.substr(0, 2) != "%}") return false;
    const std::size_t length = rest().size() - inner.size() + (strips ? 3 : 2);
    end_tag(length, strips ? '-' : ' ', false);
    for (std::size_t tag = at_; (tag = source_.find("{%", tag)) != kNowhere; tag += 2) {
      if (end_raw(tag)) return true;
    }
    fail("this raw block has no end ({% endraw %})");
    return true;
  }

  bool end_raw(std::size_t tag) {
    std::string_view inner = std::string_view(source_).substr(tag + 2);
    const char sign = inner.empty() ? ' ' : inner.front();
    if (sign == '-' || sign == '+') inner.remove_prefix(1);
    inner = strip_start(inner);
    if (inner.substr(0, 6) != "endraw") return false;
    inner = strip_start(inner.substr(6));
    const char end_sign = inner.empty() ? ' ' : inner.front();
    if (end_sign == '-' || end_sign == '+') inner.remove_prefix(1);
    if (inner.substr(0, 2) != "%}") return false;
    add_data(tag, sign, true);
    end_tag(source_.size() - at_ - inner.size() + 2, end_sign, true);
    return true;
  }

  void lex_expression(TokenKind begin, TokenKind end) {
    const std::string_view closing = end == TokenKind::kBlockEnd ? "%}" : "}}";
    add(begin, "");
    brackets_.clear();
    while (!error_) {
      if (at_ == source_.size()) return fail("the template ends within a tag");
      if (brackets_.empty() && end_expression(end, closing)) return;
      lex_word();
    }
  }

  bool end_expression(TokenKind end, std::string_view closing) {
    const char sign = source_[at_];
    const bool block = end == TokenKind::kBlockEnd;
    const bool has_sign = sign == '-' || (sign == '+' && block);
    if (rest().substr(has_sign ? 1 : 0, 2) != closing) return false;
    add(end, "");
    end_tag(has_sign ? 3 : 2, has_sign ? sign : ' ', block);
    return true;
  }

  void lex_word() {
    const char byte = source_[at_];
    std::size_t after = at_;
    if (is_space(next_character(source_, after))) return skip_space();
    if (is_ascii_digit(byte)) return lex_number();
    if (is_name_byte(byte)) return lex_name();
    if (byte == '\'' || byte == '"') return lex_text(byte);
    for (const std::string_view name : kOperators) {
      if (looking_at(name)) return lex_operator(name);
    }
    fail(fmt::format("\"{}\" has no meaning within a tag",
                     printable(rest().substr(0, after - at_))));
  }

  void lex_name() {
    std::size_t end = at_;
    while (end < source_.size() && is_name_byte(source_[end])) ++end;
    if (end < source_.size() && static_cast<unsigned char>(source_[end]) >= 0x80) {
      return fail("names of other letters than a-z, A-Z, 0-9 and _ are not supported");
    }
    add(TokenKind::kName, source_.substr(at_, end - at_));
    advance(end - at_);
  }

  void lex_operator(std::string_view name) {
    static constexpr std::string_view kOpening = "([{";
    static constexpr std::string_view kClosing = ")]}";
    if (const std::size_t which = kOpening.find(name); which != kNowhere) {
      brackets_ += kClosing[which];
    } else if (kClosing.find(name) != kNowhere) {
      if (brackets_.empty() || brackets_.back() != name.front()) {
        return fail(fmt::format("\"{}\" closes no bracket", name));
      }
      brackets_.pop_back();
    }
    add(TokenKind::kOperator, std::string(name));
    advance(name.size());
  }

  void lex_text(char quote) {
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return fail("this text has no closing quote");
    const auto unescaped = unescape(rest().substr(1, end - at_ - 1));
    if (!unescaped.ok()) return fail(unescaped.error().message);
    add(TokenKind::kText, *unescaped);
    advance(end + 1 - at_);
  }

  // Digits, with single underscores among them, from `at` on.
  std::size_t digits_end(std::size_t at) const {
    while (at < source_.size()) {
      const bool underscore = source_[at] == '_' && at > at_ && is_ascii_digit(source_[at - 1]) &&
                              at + 1 < source_.size() && is_ascii_digit(source_[at + 1]);
      if (!is_ascii_digit(source_[at]) && !underscore) break;
      ++at;
    }
    return at;
  }

  bool digit_at(std::size_t at) const { return at < source_.size() && is_ascii_digit(source_[at]); }

  void lex_number() {
    const std::size_t whole = digits_end(at_);
    std::size_t end = whole;
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (!after_dot && end < source_.size() && source_[end] == '.' && digit_at(end + 1)) {
      end = digits_end(end + 1);
    }
    if (!after_dot && end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const std::size_t sign =
          end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-') ? 1 : 0;
      if (digit_at(end + 1 + sign)) end = digits_end(end + 1 + sign);
    }
    std::string digits = source_.substr(at_, end - at_);
    digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
    if (end > whole) return add_float(digits, end);
    add_integer(digits, end);
  }

  void add_float(const std::string& digits, std::size_t end) {
    double number = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (parsed.ec != std::errc()) return fail("this number is too large or too small");
    add(TokenKind::kFloat, "");
    tokens_.back().number = number;
    advance(end - at_);
  }

  void add_integer(const std::string& digits, std::size_t end) {
    const bool zeros = digits.find_first_not_of('0') == kNowhere;
    const bool other_base = digits == "0" && end < source_.size() && is_name_byte(source_[end]);
    if (other_base || (digits.front() == '0' && !zeros)) {
      return fail("only decimal numbers without leading zeros are supported");
    }
    std::int64_t number = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (parsed.ec != std::errc()) return fail("this number does not fit in 64 bits");
    add(TokenKind::kInteger, digits);
    tokens_.back().integer = number;
    advance(end - at_);
  }

  std::string source_;
  std::string_view where_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // what was read last ended a line, or nothing was read yet
  std::string brackets_;       // what closes the open ones, innermost last
  std::vector<Token> tokens_;
  std::optional<Error> error_;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source, std::string_view where) {
  return Lexer(normalize_lines(make_valid(source)), where).run();
}

}  // namespace nibble::text::jinja
