#include "base/utf8.h"

#include <algorithm>
#include <cstdint>

#include "base/check.h"

namespace nibble {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

std::uint8_t byte_at(std::string_view bytes, std::size_t index) {
  return static_cast<std::uint8_t>(bytes[index]);
}

// Appends the valid form of `bytes` up to a character that is cut short; returns what is left.
std::string_view append_valid(std::string_view bytes, std::string& out) {
  std::size_t start = 0;  // of what is valid and not yet appended
  std::size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Sequence sequence = first_sequence(bytes.substr(at));
    if (sequence.cut_short) break;
    if (!sequence.complete) {
      out.append(bytes, start, at - start);
      out += kReplacement;
      start = at + sequence.length;
    }
    at += sequence.length;
  }
  out.append(bytes, start, at - start);
  return bytes.substr(at);
}

}  // namespace

// Unicode 15, table 3-7: the second byte has the narrower range that rules out overlong forms,
// surrogates and what lies beyond U+10FFFF.
Utf8Sequence first_sequence(std::string_view bytes) {
  const std::uint8_t lead = byte_at(bytes, 0);
  if (lead < 0x80) return {1, true, false};
  if (lead < 0xC2 || lead > 0xF4) return {1, false, false};
  const std::size_t wanted = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  std::uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  std::uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (std::size_t index = 1; index < wanted; ++index) {
    if (index == bytes.size()) return {index, false, true};
    if (byte_at(bytes, index) < low || byte_at(bytes, index) > high) return {index, false, false};
    low = 0x80;
    high = 0xBF;
  }
  return {wanted, true, false};
}

bool is_valid_utf8(std::string_view bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Sequence sequence = first_sequence(bytes.substr(at));
    if (!sequence.complete) return false;
    at += sequence.length;
  }
  return true;
}

std::string make_valid(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  if (!append_valid(bytes, out).empty()) out += kReplacement;
  return out;
}

char32_t next_character(std::string_view text, std::size_t& at) {
  NIBBLE_CHECK(at < text.size());
  const std::uint8_t lead = byte_at(text, at++);
  if (lead < 0x80) return lead;
  const std::size_t more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  char32_t character = lead & (0x3Fu >> more);
  for (const std::size_t end = std::min(at + more, text.size()); at < end; ++at) {
    character = character << 6 | (byte_at(text, at) & 0x3Fu);
  }
  return character;
}

void append_character(std::string& out, char32_t character) {
  const auto continuation = [character](int shift) {
    return static_cast<char>(0x80 | ((character >> shift) & 0x3F));
  };
  if (character < 0x80) {
    out += static_cast<char>(character);
  } else if (character < 0x800) {
    out += static_cast<char>(0xC0 | character >> 6);
    out += continuation(0);
  } else if (character < 0x10000) {
    out += static_cast<char>(0xE0 | character >> 12);
    out += continuation(6);
    out += continuation(0);
  } else {
    out += static_cast<char>(0xF0 | character >> 18);
    out += continuation(12);
    out += continuation(6);
    out += continuation(0);
  }
}

void Utf8Stream::feed(std::string_view bytes, std::string& out) {
  if (pending_.empty()) {
    pending_ = append_valid(bytes, out);
    return;
  }
  pending_ += bytes;
  const std::string joined = std::move(pending_);
  pending_ = append_valid(joined, out);
}

void Utf8Stream::finish(std::string& out) {
  if (!pending_.empty()) out += kReplacement;
  pending_.clear();
}

}  // namespace nibble
