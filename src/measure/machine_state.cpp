#include "measure/machine_state.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <fmt/core.h>
#include <fstream>
#include <sstream>
#include <unistd.h>

#include "base/json_parts.h"
#include "base/text.h"
#include "base/units.h"
#include "machine/probe_parse.h"

namespace nibble {
namespace {

// Files of /proc and /sys state no size, so they are read to their end.
std::string text_of(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

double own_seconds() {
  timespec time{};
  if (::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / kGiga;
}

}  // namespace

std::optional<ProcessorTime> parse_processor_time(std::string_view text, double ticks_per_s) {
  std::istringstream line{std::string(text.substr(0, text.find('\n')))};
  std::string name;
  line >> name;
  // user nice system idle iowait irq softirq steal; guest time is part of user (proc(5)).
  std::array<double, 8> ticks{};
  for (double& tick : ticks) line >> tick;
  if (name != "cpu" || !line || !(ticks_per_s > 0)) return std::nullopt;
  ProcessorTime time;
  for (const double tick : ticks) time.total += tick / ticks_per_s;
  time.steal = ticks[7] / ticks_per_s;
  time.busy = time.total - time.steal - (ticks[3] + ticks[4]) / ticks_per_s;
  return time;
}

MachineState read_machine_state() {
  MachineState state;
  std::istringstream load(text_of("/proc/loadavg"));
  if (double average = 0; load >> average) state.load_average = average;
  state.time =
      parse_processor_time(text_of("/proc/stat"), static_cast<double>(::sysconf(_SC_CLK_TCK)));
  state.own_s = own_seconds();
  state.clock_mhz = cpuinfo_mhz(text_of("/proc/cpuinfo"));
  state.governor =
      std::string(trim(text_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")));
  return state;
}

StateChange change_between(const MachineState& before, const MachineState& after) {
  StateChange change;
  if (!before.time || !after.time) return change;
  const double total = after.time->total - before.time->total;
  if (!(total > 0)) return change;
  const double others = (after.time->busy - before.time->busy) - (after.own_s - before.own_s);
  change.steal_share = (after.time->steal - before.time->steal) / total;
  change.others_share = std::max(0.0, others / total);
  return change;
}

double busy_share(const StateChange& change) {
  return std::min(1.0, change.steal_share.value_or(0) + change.others_share.value_or(0));
}

std::vector<std::string> state_notes(const MachineState& before, const MachineState& after) {
  constexpr double kNoticeable = 0.02;
  constexpr double kSlower = 0.9;
  std::vector<std::string> notes;
  const StateChange change = change_between(before, after);
  if (change.steal_share.value_or(0) > kNoticeable) {
    notes.push_back(fmt::format("the host gave {} of the processor time to other machines",
                                format_percent(*change.steal_share)));
  }
  if (change.others_share.value_or(0) > kNoticeable) {
    notes.push_back(fmt::format("other processes took {} of the processor time",
                                format_percent(*change.others_share)));
  }
  if (before.clock_mhz && after.clock_mhz && *after.clock_mhz < kSlower * *before.clock_mhz) {
    notes.push_back(
        fmt::format("the clock fell from {:.0f} to {:.0f} MHz: heat, power or wide "
                    "vectors",
                    *before.clock_mhz, *after.clock_mhz));
  }
  if (!after.governor.empty() && after.governor != "performance") {
    notes.push_back(fmt::format("the clock is governed by \"{}\", not \"performance\"",
                                printable(after.governor)));
  }
  return notes;
}

Json state_json(const MachineState& before, const MachineState& after) {
  const StateChange change = change_between(before, after);
  return Json::object()
      .set("load_average", before.load_average)
      .set("steal_share", change.steal_share)
      .set("others_share", change.others_share)
      .set("clock_mhz", after.clock_mhz)
      .set("governor", text_or_null(after.governor));
}

}  // namespace nibble
