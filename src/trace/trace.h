// Profiler traces of a served model, brought to the operations of the step ledger: torch-profiler's
// Chrome traces, as vLLM and SGLang write them, and SQLite exports of Nsight Systems
// (docs/trace.md).
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
  std::string name;  // as the profiler has it; control characters are replaced
  double count = 0;  // a step
  double ms = 0;     // a step
};

// All kernels of one row: an operation of the ledger, a group of operations that kernels' names
// cannot tell apart ("gemm", "norm", "all_reduce", ...), work that the ledger takes for fused
// ("quantize", "elementwise", ...), or what no rule knows ("unmapped").
struct OpTime {
  std::string op;
  std::vector<std::string> covers;  // the ledger's operations in it: itself, several, or none
  double count = 0;                 // kernels a step
  double ms = 0;                    // a step; kernels that overlap count in full
  std::vector<KernelTime> kernels;  // the longest first, at most kMostKernels
};
inline constexpr std::size_t kMostKernels = 50;

struct TraceSummary {
  std::string source;              // the file's name
  std::string kind;                // "chrome", "nsys"
  std::string engine;              // "vllm", "sglang", ...; "" where nothing tells
  std::string device;              // "NVIDIA H200", or ""
  double steps = 0;                // decode steps that were found, by what `steps_by` says
  std::string steps_by;            // "annotations execute_context", "kernel NAME once a step", ...
  double step_ms = 0;              // mean time from the start of a step to that of the next
  double busy_ms = 0;              // of it with a kernel or a copy running, on any stream
  std::vector<OpTime> ops;         // the longest first
  std::vector<std::string> notes;  // what was left out, and why
};

struct TraceOptions {
  std::filesystem::path mapping;  // instead of the built-in data/trace_ops.json
};

// Also reads a nibble.trace/1 document that to_json has written.
Result<TraceSummary> load_trace(const std::filesystem::path& path, const TraceOptions& options);

Json to_json(const TraceSummary& summary);  // nibble.trace/1
Result<TraceSummary> parse_trace(const Json& json, std::string_view where);

}  // namespace nibble::trace
