// The stream of another host's samples, of any bytes cut anywhere: no crash and no hang, the same
// lines however the bytes are cut, descriptions that are written are read back, and a store that
// takes it all tells it as a stream that is read without a fault.
//
// The first byte seeds the places of the cuts.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/stats.h"
#include "telemetry/stream.h"

namespace {

using namespace nibble::telemetry;

std::vector<std::string> lines_of(std::string_view bytes, std::uint64_t seed,
                                  std::uint64_t longest) {
  nibble::Random random(seed);
  LineCutter cutter;
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    const std::size_t size = static_cast<std::size_t>(random.below(longest)) + 1;
    NIBBLE_CHECK(cutter.feed(bytes.substr(0, size),
                             [&](std::string_view line) { lines.emplace_back(line); }));
    bytes.remove_prefix(std::min(size, bytes.size()));
  }
  return lines;
}

void check_signal(const Signal& signal) {
  NIBBLE_CHECK(!signal.name.empty());
  const nibble::Result<Signal> again = parse_signal(signal_json(signal), "again");
  NIBBLE_CHECK(again.ok());
  NIBBLE_CHECK(again->name == signal.name && again->unit == signal.unit);
  NIBBLE_CHECK(again->source == signal.source && again->kind == signal.kind);
  NIBBLE_CHECK(again->low == signal.low && again->high == signal.high);
  NIBBLE_CHECK(again->available == signal.available);
  NIBBLE_CHECK(signal.available || again->reason == signal.reason);
}

void take(const StreamLine& line, SampleStore& store) {
  if (const Signal* signal = std::get_if<Signal>(&line)) {
    check_signal(*signal);
    store.declare(*signal);
    return;
  }
  const StreamValues* values = std::get_if<StreamValues>(&line);
  if (values == nullptr) return;
  NIBBLE_CHECK(values->at >= 0);
  for (const auto& [name, value] : values->values) {
    NIBBLE_CHECK(std::isfinite(value));
    if (const auto id = store.find(name)) store.add(*id, values->at, value);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::vector<std::string> lines = lines_of(bytes, 0, UINT64_MAX >> 1);
  NIBBLE_CHECK(lines == lines_of(bytes, 0, 1));
  NIBBLE_CHECK(lines == lines_of(bytes, data[0], 16));
  const auto store = std::make_shared<SampleStore>();
  LineFeed feed(store, "fuzz");
  for (const std::string& line : lines) {
    const nibble::Result<StreamLine> parsed = parse_stream_line(line);
    if (parsed) take(*parsed, *store);
  }
  std::size_t values = 0;
  for (const std::string& line : lines_of(feed.take(), 0, UINT64_MAX >> 1)) {
    const nibble::Result<StreamLine> again = parse_stream_line(line);
    NIBBLE_CHECK(again.ok());
    const StreamValues* batch = std::get_if<StreamValues>(&*again);
    if (batch != nullptr) values += batch->values.size();
  }
  std::size_t kept = 0;
  for (const SignalState& state : store->states()) kept += state.kept;
  NIBBLE_CHECK(values == kept || feed.overrun());
  return 0;
}
