// Strings of JSON: their end, their escapes, their UTF-8.
#include <charconv>
#include <cstring>

#include "api/json_scan.h"

namespace nibble::api {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

constexpr std::uint64_t kOnes = 0x0101010101010101ULL;
constexpr std::uint64_t kHighs = 0x8080808080808080ULL;

std::uint64_t has_zero(std::uint64_t bytes) {
  return (bytes - kOnes) & ~bytes & kHighs;
}

// Non-zero when one of eight bytes is a quote, a backslash, a control character or not ASCII.
std::uint64_t has_special(std::uint64_t bytes) {
  const std::uint64_t control = (bytes - kOnes * 0x20) & ~bytes & kHighs;
  return control | has_zero(bytes ^ (kOnes * '"')) | has_zero(bytes ^ (kOnes * '\\')) |
         (bytes & kHighs);
}

bool is_special(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte >= 0x80 || c == '"' || c == '\\';
}

// First byte of [at, end) that does not stand for itself in a string.
const char* find_special(const char* at, const char* end) {
  while (end - at >= 8) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, at, 8);
    if (has_special(bytes) != 0) break;
    at += 8;
  }
  while (at != end && !is_special(*at)) ++at;
  return at;
}

void append_code_point(std::string& out, std::uint32_t code) {
  const auto byte = [&out](std::uint32_t value) { out += static_cast<char>(value); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0 | (code >> 6));
    byte(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    byte(0xE0 | (code >> 12));
    byte(0x80 | ((code >> 6) & 0x3F));
    byte(0x80 | (code & 0x3F));
  } else {
    byte(0xF0 | (code >> 18));
    byte(0x80 | ((code >> 12) & 0x3F));
    byte(0x80 | ((code >> 6) & 0x3F));
    byte(0x80 | (code & 0x3F));
  }
}

}  // namespace

// Table 3-7 of the Unicode standard: no overlong forms, no surrogates, nothing above U+10FFFF.
std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  unsigned low = 0x80;
  unsigned high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t index = 2; index < length; ++index) {
    if ((byte(index) & 0xC0) != 0x80) return 0;
  }
  return length;
}

std::size_t plain_json_length(std::string_view text) {
  const char* const end = text.data() + text.size();
  return static_cast<std::size_t>(find_special(text.data(), end) - text.data());
}

bool JsonScanner::scan_string(std::string* out) {
  for (;;) {
    const char* const start = at_;
    at_ = find_special(at_, end_);
    if (out != nullptr) out->append(start, static_cast<std::size_t>(at_ - start));
    if (at_ == end_) return fail("the text ends within a string");
    const char c = *at_;
    if (c == '"') {
      ++at_;
      return true;
    }
    if (c == '\\') {
      if (!scan_escape(out)) return false;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      return fail("a control character within a string");
    } else {
      scan_multibyte(out);
    }
  }
}

void JsonScanner::scan_multibyte(std::string* out) {
  const std::size_t length = utf8_length({at_, static_cast<std::size_t>(end_ - at_)});
  if (length == 0) {
    repaired_ = true;
    if (out != nullptr) out->append(kReplacement);
    ++at_;
    return;
  }
  if (out != nullptr) out->append(at_, length);
  at_ += length;
}

bool JsonScanner::scan_escape(std::string* out) {
  ++at_;
  if (at_ == end_) return fail("the text ends within a string");
  constexpr std::string_view kNames = "\"\\/bfnrt";
  constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
  if (*at_ == 'u') return scan_unicode_escape(out);
  const std::size_t which = kNames.find(*at_);
  if (which == std::string_view::npos) return fail("an unknown escape");
  if (out != nullptr) *out += kMeant[which];
  ++at_;
  return true;
}

std::optional<std::uint32_t> JsonScanner::scan_hex4() {
  if (end_ - at_ < 4) return std::nullopt;
  std::uint32_t value = 0;
  const auto [stop, code] = std::from_chars(at_, at_ + 4, value, 16);
  if (code != std::errc() || stop != at_ + 4) return std::nullopt;
  at_ += 4;
  return value;
}

bool JsonScanner::scan_unicode_escape(std::string* out) {
  constexpr std::uint32_t kReplacementCode = 0xFFFD;
  const auto is_high = [](std::uint32_t code) { return code >= 0xD800 && code < 0xDC00; };
  const auto is_low = [](std::uint32_t code) { return code >= 0xDC00 && code < 0xE000; };
  ++at_;
  const std::optional<std::uint32_t> first = scan_hex4();
  if (!first) return fail("\\u without four hexadecimal digits");
  std::uint32_t code = *first;
  if (is_high(code) && end_ - at_ >= 6 && at_[0] == '\\' && at_[1] == 'u') {
    const char* const second_at = at_;
    at_ += 2;
    const std::optional<std::uint32_t> second = scan_hex4();
    if (second && is_low(*second)) {
      code = 0x10000 + ((code - 0xD800) << 10) + (*second - 0xDC00);
    } else {
      at_ = second_at;  // read on its own
    }
  }
  if (is_high(code) || is_low(code)) {
    repaired_ = true;
    code = kReplacementCode;
  }
  if (out != nullptr) append_code_point(*out, code);
  return true;
}

}  // namespace nibble::api
