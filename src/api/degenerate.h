// Answers that are one token, or a few, over and over: what a broken kernel writes.
//
//   if (const auto repetition = find_repetition(text)) // "!" 128 times
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace nibble::api {

struct Repetition {
  std::string_view unit;    // what is repeated: at most kMaxRepeatedBytes long
  std::size_t times = 0;    // whole repetitions
  std::size_t covered = 0;  // bytes of the text that repeat
};

inline constexpr std::size_t kMaxRepeatedBytes = 64;
inline constexpr std::size_t kLeastRepetitions = 8;

// The shortest unit that, repeated at least kLeastRepetitions times, covers more than half of the
// text. Linear, and a text that does not repeat costs next to nothing. Of a long answer the last
// few kilobytes are enough.
std::optional<Repetition> find_repetition(std::string_view text);

}  // namespace nibble::api
