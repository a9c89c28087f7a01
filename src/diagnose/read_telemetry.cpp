// nibble.telemetry/1: what `nibble watch` recorded beside a load, by the windows of its levels.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "base/text.h"
#include "diagnose/read_signals.h"
#include "telemetry/store.h"
#include "telemetry/stream.h"

namespace nibble::diagnose {
namespace {

constexpr double kNsPerSecond = 1e9;
constexpr std::size_t kMostPoints = 600;  // of a series: more than a chart has pixels for
constexpr Nanoseconds kWholeFile = 400LL * 24 * 3600 * 1'000'000'000;  // kept: all of it

// Two marks of the same host and boot: that its clock runs through the levels' windows.
struct Recording {
  telemetry::SampleStore store{kWholeFile};
  std::string host;
  Nanoseconds first = 0;
  Nanoseconds last = 0;
};

Result<> take_line(std::string_view line, Recording& recording) {
  NIBBLE_ASSIGN_OR_RETURN(const telemetry::StreamLine parsed, telemetry::parse_stream_line(line));
  if (const auto* header = std::get_if<telemetry::StreamHeader>(&parsed)) {
    recording.host = header->host;
  } else if (const auto* signal = std::get_if<telemetry::Signal>(&parsed)) {
    const telemetry::SignalId id = recording.store.declare(*signal);
    if (!signal->available) recording.store.set_unavailable(id, signal->reason);
  } else {
    const auto& values = std::get<telemetry::StreamValues>(parsed);
    if (recording.first == 0) recording.first = values.at;
    recording.first = std::min(recording.first, values.at);
    recording.last = std::max(recording.last, values.at);
    for (const auto& [name, value] : values.values) {
      const auto id = recording.store.find(name);
      if (id) recording.store.add(*id, values.at, value);
    }
  }
  return {};
}

Result<> take_lines(std::string_view lines, const ReadContext& context, Recording& recording) {
  std::size_t number = 0;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = trim(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
    ++number;
    if (line.empty()) continue;
    const Result<> taken = take_line(line, recording);
    // The last line of a file that is still being written may be half of one.
    if (!taken && lines.empty() && number > 1) break;
    if (!taken) return taken.error().within(fmt::format("{}: line {}", context.name, number));
  }
  return {};
}

// Empty: the recording covers every level's window.
std::string why_other_clock(const Evidence& evidence, const Recording& recording) {
  if (evidence.zero_ns == 0) return "the levels' windows have no time on a clock";
  for (const LevelEvidence& level : evidence.levels) {
    if (level.start_s == 0 && level.end_s == 0) continue;
    const double from_s = static_cast<double>(recording.first - evidence.zero_ns) / kNsPerSecond;
    const double to_s = static_cast<double>(recording.last - evidence.zero_ns) / kNsPerSecond;
    if (level.start_s >= from_s && level.end_s <= to_s) return "";
  }
  return "no level's window lies within it: it is of another host, another boot or another time";
}

telemetry::Window window_in(const LevelEvidence& level, std::int64_t zero_ns) {
  return {zero_ns + static_cast<Nanoseconds>(std::llround(level.start_s * kNsPerSecond)),
          zero_ns + static_cast<Nanoseconds>(std::llround(level.end_s * kNsPerSecond))};
}

// Means of as many pieces as a chart can show.
std::vector<std::pair<double, double>> thinned(const std::vector<telemetry::Point>& points,
                                               std::int64_t zero_ns) {
  std::vector<std::pair<double, double>> thin;
  const std::size_t piece = (points.size() + kMostPoints - 1) / kMostPoints;
  for (std::size_t at = 0; at < points.size(); at += piece) {
    const std::size_t end = std::min(points.size(), at + piece);
    double time = 0;
    double value = 0;
    for (std::size_t index = at; index < end; ++index) {
      time += static_cast<double>(points[index].at - zero_ns) / kNsPerSecond;
      value += points[index].value;
    }
    const auto count = static_cast<double>(end - at);
    thin.emplace_back(time / count, value / count);
  }
  return thin;
}

void add_recorded_series(const Recording& recording, Evidence& evidence) {
  const std::vector<telemetry::SignalState> states = recording.store.states();
  for (std::size_t index = 0; index < states.size(); ++index) {
    const telemetry::Signal& signal = states[index].signal;
    if (signal.kind != telemetry::SignalKind::kGauge || states[index].kept == 0) continue;
    const bool known = std::any_of(evidence.series.begin(), evidence.series.end(),
                                   [&](const Series& other) { return other.name == signal.name; });
    if (known) continue;
    const auto id = static_cast<telemetry::SignalId>(index);
    evidence.series.push_back(
        {.name = signal.name,
         .unit = signal.unit,
         .points = thinned(recording.store.points(id, recording.first, recording.last),
                           evidence.zero_ns)});
  }
}

}  // namespace

Result<> read_telemetry(std::string_view lines, const ReadContext& context, Evidence& evidence) {
  Recording recording;
  NIBBLE_RETURN_IF_ERROR(take_lines(lines, context, recording));
  if (recording.last == 0) return input_error("{} holds no samples", context.name);
  const std::string other = why_other_clock(evidence, recording);
  if (!other.empty()) {
    evidence.setting.notes.push_back(
        fmt::format("{} (host {}) was not used: {}", context.name,
                    recording.host.empty() ? "unknown" : printable(recording.host), other));
    return {};
  }
  for (LevelEvidence& level : evidence.levels) {
    if (level.start_s == 0 && level.end_s == 0) continue;
    const telemetry::Window window = window_in(level, evidence.zero_ns);
    const SignalTable table(telemetry::window_of(recording.store, window), window);
    const FactWriter writer{level, context, level.name};
    put_machine_facts(table, writer, evidence.setting);
    if (!table.servers().empty()) put_engine_facts(table, writer, evidence.setting.engine);
    if (!level[Fact::kPowerShare].known()) level[Fact::kPowerShare] = {};
    derive_power_facts(level, evidence.setting);
  }
  add_recorded_series(recording, evidence);
  add_source(evidence, "telemetry", context, std::nullopt);
  return {};
}

}  // namespace nibble::diagnose
