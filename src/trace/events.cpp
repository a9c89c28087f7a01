#include "trace/events.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/text.h"

namespace nibble::trace {
namespace {

constexpr std::size_t kMostNameBytes = 4096;

// Times whose sums and differences 64 bits hold.
bool usable(std::int64_t time_ns) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 4;
  return time_ns >= -kMost && time_ns <= kMost;
}

// Digits with at most one point, rounded to a thousandth.
std::optional<std::int64_t> exact_thousandths(std::string_view digits) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 10 - 1;
  std::int64_t value = 0;
  int places = -1;  // after the point; -1 before it
  bool any = false;
  bool round_up = false;
  for (const char letter : digits) {
    if (letter == '.') {
      if (places >= 0) return std::nullopt;
      places = 0;
      continue;
    }
    if (letter < '0' || letter > '9') return std::nullopt;
    any = true;
    if (places == 3) {
      round_up = letter >= '5';
      places = 4;
    }
    if (places >= 4) continue;
    if (value > kMost) return std::nullopt;
    value = value * 10 + (letter - '0');
    if (places >= 0) ++places;
  }
  for (int place = std::max(places, 0); place < 3; ++place) {
    if (value > kMost) return std::nullopt;
    value *= 10;
  }
  if (!any) return std::nullopt;
  return value + (round_up ? 1 : 0);
}

}  // namespace

std::optional<std::int64_t> nanoseconds(std::string_view microseconds) {
  const bool negative = !microseconds.empty() && microseconds.front() == '-';
  if (microseconds.find_first_of("eE") == std::string_view::npos) {
    const auto value = exact_thousandths(microseconds.substr(negative ? 1 : 0));
    if (!value) return std::nullopt;
    return negative ? -*value : *value;
  }
  double value = 0;
  const char* end = microseconds.data() + microseconds.size();
  const auto read = std::from_chars(microseconds.data(), end, value);
  constexpr double kMost = 9e15;  // us that fit as ns
  if (read.ec != std::errc() || read.ptr != end || !(std::abs(value) < kMost)) return std::nullopt;
  return static_cast<std::int64_t>(std::llround(value * 1000));
}

TraceEvents::TraceEvents(const Mapping& mapping)
    : mapping_(mapping), engine_seen_(mapping.engines().size(), false) {}

std::uint32_t TraceEvents::name_of(std::string_view text, GpuKind what) {
  auto& index = name_index_[static_cast<std::size_t>(what)];
  std::string key(text.substr(0, kMostNameBytes));
  if (names.size() >= kMostNames && index.find(key) == index.end()) key = "(further names)";
  const auto [entry, added] = index.emplace(key, static_cast<std::uint32_t>(names.size()));
  if (added) {
    names.push_back({.text = printable(key, kMostNameBytes), .kind = what});
    see_name(key);
  }
  return entry->second;
}

std::uint16_t TraceEvents::device_of(std::int64_t number, std::uint32_t process) {
  constexpr std::size_t kMostDevices = 1024;  // all further ones share the last place
  const auto found = std::find(devices.begin(), devices.end(), std::pair(number, process));
  const auto index = static_cast<std::size_t>(found - devices.begin());
  if (found == devices.end()) {
    if (devices.size() >= kMostDevices) return kMostDevices - 1;
    devices.emplace_back(number, process);
  }
  return static_cast<std::uint16_t>(index);
}

std::uint16_t TraceEvents::stream_of(std::uint16_t device, std::int64_t stream) {
  constexpr std::size_t kMostStreams = 65535;
  const std::size_t next = std::min(stream_index_.size(), kMostStreams);
  if (next == kMostStreams) return kMostStreams;
  return stream_index_.emplace(std::pair(device, stream), static_cast<std::uint16_t>(next))
      .first->second;
}

bool TraceEvents::add_gpu(const GpuEvent& event) {
  if (!usable(event.start_ns) || !usable(event.end_ns) || event.end_ns < event.start_ns ||
      event.end_ns - event.start_ns > kMostDurationNs) {
    ++unusable;
    return true;
  }
  if (gpu.size() >= kMostGpuEvents) {
    ++left_out;
    return false;
  }
  gpu.push_back(event);
  return true;
}

void TraceEvents::add_annotation(std::string_view name, Annotation annotation) {
  const StepMatch match = mapping_.step(name);
  if (match.family < 0 || !usable(annotation.start_ns) || annotation.end_ns < annotation.start_ns)
    return;
  annotation.family = match.family;
  annotation.kind = match.kind;
  annotations.push_back(annotation);
}

void TraceEvents::see_name(std::string_view name) {
  for (std::size_t index = 0; index < engine_seen_.size(); ++index) {
    if (engine_seen_[index]) continue;
    const std::vector<std::string>& texts = mapping_.engines()[index].texts;
    engine_seen_[index] = std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
      return name.find(text) != std::string_view::npos;
    });
  }
}

std::string TraceEvents::engine() const {
  for (std::size_t index = 0; index < engine_seen_.size(); ++index) {
    if (engine_seen_[index]) return mapping_.engines()[index].engine;
  }
  return {};
}

}  // namespace nibble::trace
