// A trace's summary as the served column.
#include "diagnose/read_level.h"

namespace nibble::diagnose {
namespace {

constexpr std::size_t kNamedKernels = 3;

}  // namespace

void read_trace_summary(const trace::TraceSummary& summary, const ReadContext& context,
                        Evidence& evidence) {
  TraceEvidence served{.source = context.name,
                       .engine = summary.engine,
                       .steps = summary.steps,
                       .step_ms = summary.step_ms,
                       .busy_ms = summary.busy_ms,
                       .ops = {}};
  for (const trace::OpTime& op : summary.ops) {
    ServedOp found{.op = op.op, .ms = op.ms, .count = op.count, .kernels = {}};
    for (const trace::KernelTime& kernel : op.kernels) {
      if (found.kernels.size() == kNamedKernels) break;
      found.kernels.push_back(kernel.name);
    }
    served.ops.push_back(std::move(found));
  }
  if (evidence.setting.engine.empty()) evidence.setting.engine = summary.engine;
  if (evidence.setting.machine.empty()) evidence.setting.machine = summary.device;
  for (const std::string& note : summary.notes) {
    evidence.setting.notes.push_back(context.name + ": " + note);
  }
  evidence.trace = std::move(served);
  evidence.trace_reason.clear();
  add_source(evidence, "trace", context, std::nullopt);
}

}  // namespace nibble::diagnose
