// What else the machine was doing while we measured, from /proc and /sys.
//
//   const MachineState before = read_machine_state();
//   ...
//   for (const std::string& note : state_notes(before, read_machine_state())) say(note);
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace nibble {

// Processor time since the start, of all processors together, in seconds.
struct ProcessorTime {
  double total = 0;
  double busy = 0;   // without idle, waiting for disks, and stolen
  double steal = 0;  // that the host gave to other virtual machines
};

struct MachineState {
  std::optional<double> load_average;  // of the last minute
  std::optional<ProcessorTime> time;
  double own_s = 0;                 // processor time of this process
  std::optional<double> clock_mhz;  // the fastest processor, as the kernel reports it
  std::string governor;             // "performance"; empty: not readable
};

MachineState read_machine_state();
// The first line of /proc/stat, at `ticks_per_s`.
std::optional<ProcessorTime> parse_processor_time(std::string_view text, double ticks_per_s);

struct StateChange {
  std::optional<double> steal_share;   // of all processor time
  std::optional<double> others_share;  // of all processor time, to other processes
};
// Both together, 0 when nothing is known.
double busy_share(const StateChange& change);
StateChange change_between(const MachineState& before, const MachineState& after);

// Sentences about what may have disturbed the measurement; empty when it was quiet.
std::vector<std::string> state_notes(const MachineState& before, const MachineState& after);

Json state_json(const MachineState& before, const MachineState& after);

}  // namespace nibble
