#include "trace/summarize.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "base/text.h"
#include "trace/steps.h"

namespace nibble::trace {
namespace {

constexpr double kNsPerMs = 1e6;

struct Sum {
  std::int64_t count = 0;
  std::int64_t ns = 0;
};
using SumsByOp = std::map<std::string, std::map<std::uint32_t, Sum>>;  // op, name of the kernel

// Keeps the events of the device that has most kernels, by their starts.
void keep_one_device(TraceEvents& events) {
  std::vector<std::int64_t> kernels(events.devices.size(), 0);
  for (const GpuEvent& event : events.gpu) {
    if (events.names[event.name].kind != GpuKind::kCopy) ++kernels[event.device];
  }
  std::size_t best = events.gpu.front().device;
  for (std::size_t device = 0; device < kernels.size(); ++device) {
    const bool lower = events.devices[device] < events.devices[best];
    if (kernels[device] > kernels[best] || (kernels[device] == kernels[best] && lower))
      best = device;
  }
  const auto others = std::count_if(kernels.begin(), kernels.end(), [](auto n) { return n > 0; }) -
                      (kernels[best] > 0 ? 1 : 0);
  if (others > 0)
    events.notes.push_back(
        fmt::format("kernels of GPU {} alone were read; other GPUs or processes "
                    "that the trace holds: {}",
                    events.devices[best].first, others));
  std::erase_if(events.gpu, [best](const GpuEvent& event) { return event.device != best; });
  std::stable_sort(events.gpu.begin(), events.gpu.end(),
                   [](const GpuEvent& a, const GpuEvent& b) { return a.start_ns < b.start_ns; });
}

// Time within [from, to) in which at least one event runs. Events that began earlier may reach into
// it: `reached` is the latest end of those before `first`.
std::int64_t busy_within(std::span<const GpuEvent> events, std::int64_t from, std::int64_t to,
                         std::int64_t reached) {
  std::int64_t busy = std::max<std::int64_t>(0, std::min(reached, to) - from);
  std::int64_t covered = std::max(from, std::min(reached, to));
  for (const GpuEvent& event : events) {
    const std::int64_t start = std::max(event.start_ns, covered);
    const std::int64_t end = std::min(event.end_ns, to);
    if (end <= start) continue;
    busy += end - start;
    covered = end;
  }
  return busy;
}

class StepSums {
 public:
  StepSums(const TraceEvents& events, const Mapping& mapping) {
    rules_.reserve(events.names.size());
    for (const GpuName& name : events.names) rules_.push_back(mapping.kernel(name.text));
  }

  void add_step(std::span<const GpuEvent> step);
  const SumsByOp& sums() const { return sums_; }
  std::int64_t untold_steps() const { return untold_steps_; }

 private:
  void add(const std::string& op, const GpuEvent& event) {
    Sum& sum = sums_[op][event.name];
    ++sum.count;
    sum.ns += event.end_ns - event.start_ns;
  }
  void add_in_turn(const KernelRule& rule, const std::vector<const GpuEvent*>& kernels);

  std::vector<const KernelRule*> rules_;  // by name
  SumsByOp sums_;
  std::int64_t untold_steps_ = 0;
};

void StepSums::add_step(std::span<const GpuEvent> step) {
  std::map<const KernelRule*, std::vector<const GpuEvent*>> in_turn;
  for (const GpuEvent& event : step) {
    const KernelRule* rule = rules_[event.name];
    if (rule == nullptr) {
      add(std::string(kUnmapped), event);
    } else if (rule->then.empty()) {
      add(rule->op, event);
    } else {
      in_turn[rule].push_back(&event);
    }
  }
  for (const auto& [rule, kernels] : in_turn) add_in_turn(*rule, kernels);
}

void StepSums::add_in_turn(const KernelRule& rule, const std::vector<const GpuEvent*>& kernels) {
  const bool one_stream = std::all_of(kernels.begin(), kernels.end(), [&](const GpuEvent* kernel) {
    return kernel->stream == kernels.front()->stream;
  });
  if (kernels.size() % 2 != 0 || !one_stream) {
    for (const GpuEvent* kernel : kernels) add(rule.otherwise, *kernel);
    ++untold_steps_;
    return;
  }
  for (std::size_t index = 0; index < kernels.size(); ++index)
    add(index % 2 == 0 ? rule.op : rule.then, *kernels[index]);
}

std::vector<OpTime> op_times(const SumsByOp& sums, const TraceEvents& events,
                             const Mapping& mapping, double steps) {
  std::vector<OpTime> ops;
  for (const auto& [op, kernels] : sums) {
    OpTime time{.op = op, .covers = mapping.covers(op)};
    Sum all;
    for (const auto& [name, sum] : kernels) {
      all.count += sum.count;
      all.ns += sum.ns;
      time.kernels.push_back({.name = events.names[name].text,
                              .count = static_cast<double>(sum.count) / steps,
                              .ms = static_cast<double>(sum.ns) / (kNsPerMs * steps)});
    }
    time.count = static_cast<double>(all.count) / steps;
    time.ms = static_cast<double>(all.ns) / (kNsPerMs * steps);
    std::stable_sort(time.kernels.begin(), time.kernels.end(),
                     [](const KernelTime& a, const KernelTime& b) { return a.ms > b.ms; });
    if (time.kernels.size() > kMostKernels) time.kernels.resize(kMostKernels);
    ops.push_back(std::move(time));
  }
  std::stable_sort(ops.begin(), ops.end(),
                   [](const OpTime& a, const OpTime& b) { return a.ms > b.ms; });
  return ops;
}

void add_notes(const TraceEvents& events, const StepSums& sums, const Mapping& mapping,
               TraceSummary& summary) {
  std::vector<std::string>& notes = summary.notes;
  if (events.unusable > 0)
    notes.push_back(fmt::format("left out, without a usable time or duration: {} kernels or copies",
                                events.unusable));
  if (events.left_out > 0)
    notes.push_back(fmt::format("left out: {} kernels beyond the first {}; record fewer steps",
                                events.left_out, kMostGpuEvents));
  if (sums.untold_steps() > 0)
    notes.push_back(
        fmt::format("the first and second products of the experts could not be told "
                    "apart, since their number is odd or they run on several streams, in "
                    "steps: {}",
                    sums.untold_steps()));
  if (mapping.gave_up())
    notes.push_back("a pattern of the mapping took too many steps on a name and was not applied");
}

}  // namespace

Result<TraceSummary> summarize(TraceEvents events, const Mapping& mapping) {
  NIBBLE_CHECK(!events.gpu.empty());
  keep_one_device(events);
  NIBBLE_ASSIGN_OR_RETURN(Steps steps, find_steps(events, mapping));
  StepSums sums(events, mapping);
  std::int64_t wall_ns = 0;
  std::int64_t busy_ns = 0;
  std::int64_t timed = 0;
  std::int64_t reached = events.gpu.front().start_ns;
  std::size_t at = 0;
  for (const StepWindow& window : steps.windows) {
    // Steps ascend, and so do events: each is looked at once.
    for (; at < events.gpu.size() && events.gpu[at].start_ns < window.start_ns; ++at)
      reached = std::max(reached, events.gpu[at].end_ns);
    const std::size_t first = at;
    const std::int64_t before = reached;
    for (; at < events.gpu.size() && events.gpu[at].start_ns < window.end_ns; ++at)
      reached = std::max(reached, events.gpu[at].end_ns);
    const std::span<const GpuEvent> step = std::span(events.gpu).subspan(first, at - first);
    sums.add_step(step);
    if (!window.timed) continue;
    ++timed;
    wall_ns += window.end_ns - window.start_ns;
    busy_ns += busy_within(step, window.start_ns, window.end_ns, before);
  }
  TraceSummary summary{.kind = events.kind,
                       .engine = steps.engine.empty() ? events.engine() : steps.engine,
                       .steps = static_cast<double>(steps.windows.size()),
                       .steps_by = steps.by};
  const auto name = events.device_names.find(events.devices[events.gpu.front().device].first);
  if (name != events.device_names.end()) summary.device = name->second;
  if (timed > 0) {
    summary.step_ms = static_cast<double>(wall_ns) / (kNsPerMs * static_cast<double>(timed));
    summary.busy_ms = static_cast<double>(busy_ns) / (kNsPerMs * static_cast<double>(timed));
  }
  summary.ops = op_times(sums.sums(), events, mapping, summary.steps);
  summary.notes = std::move(events.notes);
  std::move(steps.notes.begin(), steps.notes.end(), std::back_inserter(summary.notes));
  add_notes(events, sums, mapping, summary);
  return summary;
}

}  // namespace nibble::trace
