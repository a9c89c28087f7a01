// Profiler traces of a served model, brought to the operations of the step ledger: torch-profiler's
// Chrome traces, as vLLM and SGLang write them, and SQLite exports of Nsight Systems.
//
//   NIBBLE_ASSIGN_OR_RETURN(const TraceSummary summary, load_trace("rank0.trace.json.gz", {}));
//   for (const OpTime& op : summary.ops) print(op.op, op.ms);       // ms a step; "unmapped" is one
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace nibble::trace {

struct KernelTime {
  std::string name;  // as the profiler has it
  double count = 0;  // a step
  double ms = 0;     // a step
};

// All kernels of one operation of the ledger, or those that no rule knows ("unmapped").
struct OpTime {
  std::string op;
  double count = 0;                 // kernels a step
  double ms = 0;                    // a step
  std::vector<KernelTime> kernels;  // the longest first
};

struct TraceSummary {
  std::string source;       // the file's name
  std::string kind;         // "chrome", "nsys"
  std::string engine;       // "vllm", "sglang", ...; "" where nothing tells
  std::string device;       // "NVIDIA H200", or ""
  double steps = 0;         // decode steps that were found, by what `steps_by` says
  std::string steps_by;     // "annotations execute_model", "gaps between graph launches", ...
  double step_ms = 0;       // mean wall time of a step
  double busy_ms = 0;       // of it with at least one kernel running
  std::vector<OpTime> ops;  // the longest first
  std::vector<std::string> notes;  // what was left out, and why
};

struct TraceOptions {
  std::filesystem::path mapping;  // instead of the built-in data/trace_ops.json
};

Result<TraceSummary> load_trace(const std::filesystem::path& path, const TraceOptions& options);

Json to_json(const TraceSummary& summary);  // nibble.trace/1
Result<TraceSummary> parse_trace(const Json& json, std::string_view where);

}  // namespace nibble::trace
