// Traces for tests, written event by event; times in us.
//
//   const std::string text = chrome_trace({annotation("step[DECODE bs=1]", 0, 4),
//                                          launch(1, 1), kernel("nvjet_a", 10, 5, 1)});
//   const Result<TraceSummary> summary = load_text(text);
#pragma once

#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "base/testing.h"
#include "trace/trace.h"

namespace nibble::trace {

inline std::string event_text(std::string_view category, std::string_view name, double at,
                              double length, const std::string& arguments) {
  return fmt::format(
      R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 1, "tid": 2, "ts": {}, "dur": {}, "args": {{{}}}}})",
      category, name, at, length, arguments);
}
inline std::string kernel(std::string_view name, double at, double length, int correlation,
                          int stream = 7, int device = 0) {
  return event_text(
      "kernel", name, at, length,
      fmt::format(R"("device": {}, "stream": {}, "correlation": {})", device, stream, correlation));
}
inline std::string annotation(std::string_view name, double at, double length) {
  return event_text("user_annotation", name, at, length, R"("External id": 1)");
}
inline std::string gpu_annotation(std::string_view name, double at, double length, int id) {
  return event_text("gpu_user_annotation", name, at, length,
                    fmt::format(R"("External id": {})", id));
}
inline std::string launch(int correlation, double at) {
  return event_text("cuda_runtime", "cudaLaunchKernel", at, 0.5,
                    fmt::format(R"("correlation": {}, "cbid": 211)", correlation));
}
inline std::string chrome_trace(const std::vector<std::string>& events) {
  return fmt::format(
      R"({{"schemaVersion": 1, "deviceProperties": [{{"id": 0, "name": "NVIDIA H200", "numSms": 132}}], "traceEvents": [{}], "traceName": "a.json"}})",
      fmt::join(events, ",\n"));
}

inline Result<TraceSummary> load_text(std::string_view text,
                                      std::string_view name = "rank0.trace.json") {
  const TemporaryFolder folder;
  NIBBLE_CHECK(write_file(folder.path() / name, text).ok());
  return load_trace(folder.path() / name, {});
}

// The row of that name, or an empty one.
inline OpTime row_of(const TraceSummary& summary, std::string_view op) {
  for (const OpTime& row : summary.ops) {
    if (row.op == op) return row;
  }
  return {};
}
inline bool notes_hold(const TraceSummary& summary, std::string_view text) {
  for (const std::string& note : summary.notes) {
    if (note.find(text) != std::string::npos) return true;
  }
  return false;
}

}  // namespace nibble::trace
