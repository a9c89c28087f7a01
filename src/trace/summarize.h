// From the events of a trace to its summary: the device, the steps, each kernel's row, busy time.
//
//   NIBBLE_ASSIGN_OR_RETURN(TraceSummary summary, summarize(std::move(events), mapping));
#pragma once

#include "base/result.h"
#include "trace/events.h"
#include "trace/mapping.h"
#include "trace/trace.h"

namespace nibble::trace {

// `events.gpu` must not be empty. Leaves `source` to the caller.
Result<TraceSummary> summarize(TraceEvents events, const Mapping& mapping);

}  // namespace nibble::trace
