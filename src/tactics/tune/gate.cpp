#include "tactics/tune/gate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/core.h>

#include "base/units.h"

namespace nibble::tune {

std::uint64_t digest_of(const void* data, std::size_t bytes) {
  constexpr std::uint64_t kOffset = 0xcbf29ce484222325;
  constexpr std::uint64_t kPrime = 0x100000001b3;
  const auto* at = static_cast<const unsigned char*>(data);
  std::uint64_t digest = kOffset;
  while (bytes > 0) {
    std::uint64_t word = 0;
    const std::size_t part = std::min(bytes, sizeof(word));
    std::memcpy(&word, at, part);
    digest = (digest ^ word) * kPrime;
    // A product moves bits upwards only: the upper ones come down to be mixed too.
    digest ^= digest >> 29;
    at += part;
    bytes -= part;
  }
  return digest;
}

std::string what_is_wrong(const CheckRun& run, int repeats) {
  if (!std::isfinite(run.error)) {
    return fmt::format("an output is no number{}{}", run.where.empty() ? "" : " at ", run.where);
  }
  if (run.error > run.limit) {
    return fmt::format("relative error {}{}{}; at most {} is right", format_number(run.error),
                       run.where.empty() ? "" : " at ", run.where, format_number(run.limit));
  }
  if (run.digests.size() != static_cast<std::size_t>(repeats)) {
    return fmt::format("{} replays were asked for and {} came", repeats, run.digests.size());
  }
  for (std::size_t replay = 1; replay < run.digests.size(); ++replay) {
    if (run.digests[replay] == run.digests.front()) continue;
    return fmt::format("replay {} of {} gave other bits than the first", replay + 1, repeats);
  }
  return "";
}

std::vector<std::int64_t> checked_tokens(const TuningKey& key) {
  if (key.from_tokens >= key.tokens) return {key.tokens};
  return {key.from_tokens, key.tokens};
}

}  // namespace nibble::tune
