#include <charconv>

#include "base/text.h"
#include "telemetry/cpu_source.h"

namespace nibble::telemetry {
namespace {

// The next word of a line, which is shortened by it; empty at the end.
std::string_view next_word(std::string_view& line) {
  const std::size_t begin = line.find_first_not_of(' ');
  if (begin == std::string_view::npos) return line = {};
  const std::size_t end = std::min(line.find(' ', begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

template <class Number>
bool read(std::string_view word, Number& number) {
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, number);
  return error == std::errc() && stop == end;
}

// "cpu3 10 0 20 ...": guest time is part of user time and is not counted again.
bool parse_core(std::string_view line, ProcStat& stat) {
  int core = -1;
  const std::string_view name = next_word(line).substr(3);
  if (!name.empty() && !read(name, core)) return false;
  std::array<std::uint64_t, 8> ticks{};  // user nice system idle iowait irq softirq steal
  std::size_t count = 0;
  for (; count < ticks.size(); ++count) {
    const std::string_view word = next_word(line);
    if (word.empty()) break;
    if (!read(word, ticks[count])) return false;
  }
  if (count < 4) return false;
  CoreTicks& sum = stat.cores[core];
  for (const std::uint64_t tick : ticks) sum.total += tick;
  sum.busy = sum.total - ticks[3] - ticks[4];
  sum.stolen = ticks[7];
  return true;
}

}  // namespace

Result<ProcStat> parse_proc_stat(std::string_view text) {
  ProcStat stat;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with("cpu")) {
      if (!parse_core(line, stat))
        return run_error("/proc/stat has a line \"{}\"", printable(line));
    } else if (line.starts_with("ctxt ")) {
      std::uint64_t switches = 0;
      if (read(line.substr(5), switches)) stat.context_switches = switches;
    }
  }
  if (stat.cores.empty()) return run_error("/proc/stat names no processor");
  return stat;
}

Result<double> parse_process_seconds(std::string_view text, double ticks_per_s) {
  const std::size_t bracket = text.rfind(')');
  std::string_view rest = bracket == std::string_view::npos ? "" : text.substr(bracket + 1);
  // After the name: state, ppid, ... ; user and system time are fields 14 and 15 of the file.
  for (int field = 3; field < 14; ++field) next_word(rest);
  double user = 0;
  double system = 0;
  if (!read(next_word(rest), user) || !read(next_word(rest), system)) {
    return run_error("/proc/self/stat is not as expected");
  }
  return (user + system) / ticks_per_s;
}

std::optional<double> mean_cpuinfo_mhz(std::string_view text) {
  double sum = 0;
  int count = 0;
  for (std::size_t at = text.find("cpu MHz"); at != std::string_view::npos;
       at = text.find("cpu MHz", at + 1)) {
    const std::size_t colon = text.find(':', at);
    const std::size_t end = text.find('\n', at);
    if (colon == std::string_view::npos || colon > end) continue;
    double mhz = 0;
    if (!read(trim(text.substr(colon + 1, end - colon - 1)), mhz)) continue;
    sum += mhz;
    ++count;
  }
  return count > 0 ? std::optional<double>(sum / count) : std::nullopt;
}

double wrapped_difference(double before, double now, double range) {
  return now >= before ? now - before : now - before + range + 1;
}

}  // namespace nibble::telemetry
