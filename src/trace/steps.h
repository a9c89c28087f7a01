// Where the steps of a trace begin and end on the GPU: from annotations where there are any, else
// from a kernel that runs once a step, else the whole trace is one.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Steps steps, find_steps(events, mapping));
//   for (const StepWindow& window : steps.windows) ...     // decode steps, ascending
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "trace/events.h"
#include "trace/mapping.h"

namespace nibble::trace {

struct StepWindow {
  std::int64_t start_ns = 0;  // of its first kernel
  std::int64_t end_ns = 0;    // of the next step's first kernel
  bool timed = true;          // false: the last one, or one with a pause of the server behind it
};

struct Steps {
  std::vector<StepWindow> windows;
  std::string by;
  std::string engine;  // of the annotations; ""
  std::vector<std::string> notes;
};

// `events.gpu` must be of one device, ascending by start, and not empty.
Result<Steps> find_steps(const TraceEvents& events, const Mapping& mapping);

}  // namespace nibble::trace
