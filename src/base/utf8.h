// UTF-8: what is valid, one character after the other, and bytes of any kind made valid.
//
//   make_valid("a\xff" "b");                    // "a\uFFFDb"
//   for (std::size_t at = 0; at < text.size();) use(next_character(text, at));
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nibble {

// The start of some bytes: a whole character, or the longest part of one that could be its
// beginning (one byte where that byte begins none).
struct Utf8Sequence {
  std::size_t length = 0;
  bool complete = false;
  bool cut_short = false;  // not complete, and the bytes end here
};
// At least one byte.
Utf8Sequence first_sequence(std::string_view bytes);

bool is_valid_utf8(std::string_view bytes);

// The bytes with each faulty sequence replaced by U+FFFD, as Python's errors="replace" and Rust's
// from_utf8_lossy do it: one for each longest start of a character that does not go on as it must.
std::string make_valid(std::string_view bytes);

// The character at byte `at` of valid text; moves `at` behind it.
char32_t next_character(std::string_view text, std::size_t& at);

void append_character(std::string& out, char32_t character);

// Makes bytes valid as they come in. What may still become a character waits.
class Utf8Stream {
 public:
  // Appends what is complete to `out`.
  void feed(std::string_view bytes, std::string& out);
  // Nothing follows: a character that has only begun becomes U+FFFD.
  void finish(std::string& out);

 private:
  std::string pending_;  // the start of a character: three bytes at most
};

}  // namespace nibble
