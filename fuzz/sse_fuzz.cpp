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
#include "base/text.h"
#include "net/sse.h"

namespace {

constexpr std::size_t kMostEventBytes = 4096;

struct Event {
  std::string name;
  std::string data;
  std::string id;
  bool operator==(const Event&) const = default;
};

struct Outcome {
  std::vector<Event> events;
  bool ok = true;
  bool operator==(const Outcome&) const = default;
};

void keep(Outcome& outcome, const nibble::net::SseEvent& event) {
  NIBBLE_CHECK(event.data.find('\r') == std::string_view::npos);
  NIBBLE_CHECK(event.event.find_first_of("\r\n") == std::string_view::npos);
  NIBBLE_CHECK(event.id.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos);
  outcome.events.push_back(
      {std::string(event.event), std::string(event.data), std::string(event.id)});
}

std::string write(const std::vector<Event>& events) {
  std::string text;
  for (const Event& event : events) {
    text.append("id: ").append(event.id).append("\nevent: ").append(event.name);
    for (const std::string& line : nibble::split(event.data, '\n')) {
      text.append("\ndata: ").append(line);
    }
    text.append("\n\n");
  }
  return text;
}

Outcome read(std::string_view text, std::uint64_t seed, std::uint64_t longest,
             std::size_t most_event_bytes = kMostEventBytes) {
  nibble::Random random(seed);
  nibble::net::SseParser parser(most_event_bytes);
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
  // Each data line is written with a name, which counts; there are no more lines than bytes.
  const Outcome again = read(write(whole.events), data[0], 16, 16 * kMostEventBytes);
  NIBBLE_CHECK(again.ok && again.events == whole.events);
  return 0;
}
