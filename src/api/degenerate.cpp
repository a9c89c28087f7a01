#include "api/degenerate.h"

namespace nibble::api {
namespace {

// The longest run around `seed` that repeats with the period; nothing when the seed does not.
Repetition run_around(std::string_view text, std::size_t period, std::size_t seed) {
  const std::size_t last = text.size() - period;
  const auto repeats = [&](std::size_t at) { return text[at] == text[at + period]; };
  if (seed >= last || !repeats(seed)) return {};
  std::size_t start = seed;
  while (start > 0 && repeats(start - 1)) --start;
  std::size_t stop = seed + 1;
  while (stop < last && repeats(stop)) ++stop;
  const std::size_t covered = stop - start + period;
  return {text.substr(start, period), covered / period, covered};
}

bool is_degenerate(const Repetition& found, std::string_view text) {
  return found.times >= kLeastRepetitions && 2 * found.covered > text.size();
}

}  // namespace

std::optional<Repetition> find_repetition(std::string_view text) {
  // A run of more than half of the text holds its middle. A position repeats when the one a period
  // later is the same, so that the middle does, or, in the last unit of the run, the position one
  // period before it.
  const std::size_t middle = text.size() / 2;
  for (std::size_t period = 1; period <= kMaxRepeatedBytes; ++period) {
    if (period * kLeastRepetitions > text.size()) break;
    Repetition found = run_around(text, period, middle);
    if (!is_degenerate(found, text)) found = run_around(text, period, middle - period);
    if (is_degenerate(found, text)) return found;
  }
  return std::nullopt;
}

}  // namespace nibble::api
