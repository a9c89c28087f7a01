// The gate before any timing: a tactic's output against the reference, and the bits of its replays
// against each other.
//
//   const std::string wrong = what_is_wrong(run);   // "" : right
//
// Tactics that a tuner took have corrupted answers under graphs where the default did not, and
// gave NaN from 6,144 tokens on while right at 4,096 (facts/sm120.md, 3A cases 13 and 14). So each
// is replayed as a graph many times on one input, at both ends of the range that it is to serve.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tactics/tune/key.h"

namespace nibble::tune {

// What a backend saw of a tactic at one number of tokens.
struct CheckRun {
  double error = 0;   // relative, of the first replay; infinite or NaN where an output is
  double limit = 0;   // what a right kernel stays below
  std::string where;  // which output is furthest off: "token 3, expert 17"
  std::vector<std::uint64_t> digests;  // of all bits of the output, one a replay
};

// A digest of an output: 64 bits of FNV-1a over its 64-bit words, the last one filled with zeros.
std::uint64_t digest_of(const void* data, std::size_t bytes);

// Empty: right. "relative error 0.3 at token 3; at most 0.004 is right", "replay 37 of 50 gave
// other bits than the first", "50 replays were asked for and 49 came".
std::string what_is_wrong(const CheckRun& run, int repeats);

// The numbers of tokens at which a choice for a key is checked, ascending: its range's ends.
std::vector<std::int64_t> checked_tokens(const TuningKey& key);

}  // namespace nibble::tune
