#include <algorithm>
#include <charconv>
#include <cmath>

#include "api/json_scan.h"
#include "base/file.h"
#include "base/text.h"
#include "load/schedule.h"

namespace nibble::load {
namespace {

constexpr std::size_t kMaxTraceBytes = std::size_t{1} << 30;

std::optional<double> seconds_of_object(std::string_view line) {
  api::JsonScanner scan(line);
  std::optional<double> milliseconds;
  for (scan.open_object(); scan.next_member();) {
    if (scan.key() == "timestamp") {
      milliseconds = scan.read_number();
    } else {
      scan.skip();
    }
  }
  if (!scan.finish() || !milliseconds) return std::nullopt;
  return *milliseconds * 1e-3;
}

std::optional<double> seconds_of_number(std::string_view line) {
  double value = 0;
  const char* const end = line.data() + line.size();
  const auto [stop, code] = std::from_chars(line.data(), end, value);
  if (code != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

Result<std::vector<Nanoseconds>> parse_trace(std::string_view text, std::string_view origin,
                                             double speed) {
  if (!(speed > 0 && std::isfinite(speed))) {
    return usage_error("a trace cannot be played at speed {}; give a number above 0", speed);
  }
  std::vector<Nanoseconds> times;
  double before = 0;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    const std::optional<double> time =
        line.front() == '{' ? seconds_of_object(line) : seconds_of_number(line);
    if (!time || !(*time >= 0 && *time / speed <= kMostScheduleSeconds)) {
      return input_error(
          "{}: line {} is no time: \"{}\"; give seconds, or an object with \"timestamp\" in "
          "milliseconds",
          origin, number, printable(line, 60));
    }
    if (*time < before) {
      return input_error("{}: line {} lies before the line above it; sort the trace", origin,
                         number);
    }
    before = *time;
    times.push_back(std::llround(*time / speed * 1e9));
  }
  if (times.empty()) return input_error("{}: the trace holds no time", origin);
  return times;
}

Result<std::vector<Nanoseconds>> load_trace(const std::filesystem::path& path, double speed) {
  NIBBLE_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxTraceBytes));
  return parse_trace(text, path.string(), speed);
}

}  // namespace nibble::load
