// Reads the SQLite export of Nsight Systems (nsys export --type sqlite): kernels, copies and whole
// graphs of CUPTI's tables, launches, and NVTX ranges.
//
//   TraceEvents events(mapping);
//   NIBBLE_RETURN_IF_ERROR(read_nsys("report.sqlite", events));
//
// The file is opened for reading alone and taken for one that nobody changes. Only its tables are
// read, by statements of ours: views, virtual tables and computed columns are not.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "trace/events.h"

namespace nibble::trace {

Result<> read_nsys(const std::filesystem::path& path, TraceEvents& events);

}  // namespace nibble::trace
