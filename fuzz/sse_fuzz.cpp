// The reader of server-sent events on any bytes cut anywhere: no crash and no hang, the same events
// however the bytes are cut, and what is written by the grammar is read back.
//
// The first byte seeds the places of the cuts.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/stats.h"
#include "net/sse.h"

namespace {

constexpr std::size_t kMostEventBytes = 4096;

struct Outcome {
  std::vector<std::string> events;
  bool ok = true;
  bool operator==(const Outcome&) const = default;
};

void keep(Outcome& outcome, const nibble::net::SseEvent& event) {
  std::string text(event.event);
  text.append("|").append(event.data).append("|").append(event.id);
  NIBBLE_CHECK(event.data.find('\r') == std::string_view::npos);
  NIBBLE_CHECK(event.event.find_first_of("\r\n") == std::string_view::npos);
  outcome.events.push_back(std::move(text));
}

Outcome read(std::string_view text, std::uint64_t seed, std::uint64_t longest) {
  nibble::Random random(seed);
  nibble::net::SseParser parser(kMostEventBytes);
  Outcome outcome;
  const auto take = [&](const nibble::net::SseEvent& event) { keep(outcome, event); };
  while (!text.empty() && outcome.ok) {
    const std::size_t size = static_cast<std::size_t>(random.below(longest)) + 1;
    outcome.ok = parser.feed(text.substr(0, size), take).ok();
    text.remove_prefix(std::min(size, text.size()));
  }
  if (!parser.finish(take).ok()) outcome.ok = false;
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Outcome whole = read(text, 0, UINT64_MAX >> 1);
  const Outcome bytes = read(text, 0, 1);
  const Outcome pieces = read(text, data[0], 16);
  NIBBLE_CHECK(whole == bytes);
  NIBBLE_CHECK(whole == pieces);
  return 0;
}
