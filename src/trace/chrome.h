// Reads the Chrome trace of torch's profiler: kernels, copies, launches and annotations of its
// traceEvents, and what its other members say of the GPUs.
//
//   TraceEvents events(mapping);
//   NIBBLE_RETURN_IF_ERROR(read_chrome(*source, "rank0.trace.json", events));
//
// A file that ends early or is damaged further on is read as far as it goes, with a note.
#pragma once

#include <string_view>

#include "base/result.h"
#include "trace/byte_source.h"
#include "trace/events.h"

namespace nibble::trace {

// `name` is the file's, for messages. When the document is of nibble itself (it has "schema"),
// `own_document` becomes true and nothing else is read.
Result<> read_chrome(ByteSource& source, std::string_view name, TraceEvents& events,
                     bool& own_document);

}  // namespace nibble::trace
