#include "trace/steps.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/stats.h"
#include "base/text.h"

namespace nibble::trace {
namespace {

// A step's wall time beyond this many medians is a pause of the server, not a step.
constexpr double kPauseMedians = 5;

struct StepStart {
  std::int64_t at_ns = 0;
  StepKind kind = StepKind::kAny;
};

struct Starts {
  std::vector<StepStart> starts;  // ascending, all different
  std::vector<std::string> notes;
};

std::int64_t last_end(const TraceEvents& events) {
  std::int64_t end = std::numeric_limits<std::int64_t>::min();
  for (const GpuEvent& event : events.gpu) end = std::max(end, event.end_ns);
  return end;
}

void sort_starts(std::vector<StepStart>& starts) {
  std::stable_sort(starts.begin(), starts.end(),
                   [](const StepStart& a, const StepStart& b) { return a.at_ns < b.at_ns; });
  const auto same = [](const StepStart& a, const StepStart& b) { return a.at_ns == b.at_ns; };
  starts.erase(std::unique(starts.begin(), starts.end(), same), starts.end());
}

// The annotations of one family, of the host or of the GPU, by their starts.
std::vector<Annotation> ranges_of(const TraceEvents& events, int family, bool on_gpu) {
  const std::uint32_t process = events.devices[events.gpu.front().device].second;
  std::vector<Annotation> ranges;
  for (const Annotation& range : events.annotations) {
    const bool ours = range.on_gpu || range.process == process;
    if (range.family == family && range.on_gpu == on_gpu && ours) ranges.push_back(range);
  }
  std::stable_sort(ranges.begin(), ranges.end(), [](const Annotation& a, const Annotation& b) {
    return a.start_ns < b.start_ns;
  });
  return ranges;
}

// Leaves out ranges that begin before the one before them has ended: nested, or of another thread.
std::vector<Annotation> without_overlaps(const std::vector<Annotation>& ranges, Starts& result) {
  std::vector<Annotation> kept;
  for (const Annotation& range : ranges) {
    if (kept.empty() || range.start_ns >= kept.back().end_ns) kept.push_back(range);
  }
  if (kept.size() < ranges.size())
    result.notes.push_back(
        fmt::format("left out, for they begin before the one before them has "
                    "ended: {} annotated steps",
                    ranges.size() - kept.size()));
  return kept;
}

// The host runs ahead of the GPU: a step begins with the first kernel that was launched within its
// range.
Starts starts_by_launches(const TraceEvents& events, const std::vector<Annotation>& all) {
  Starts result;
  const std::vector<Annotation> ranges = without_overlaps(all, result);
  std::vector<Launch> launches = events.launches;
  std::stable_sort(launches.begin(), launches.end(),
                   [](const Launch& a, const Launch& b) { return a.key < b.key; });
  std::vector<bool> started(ranges.size(), false);
  for (const GpuEvent& event : events.gpu) {
    if (event.launch == 0 || events.names[event.name].kind == GpuKind::kCopy) continue;
    const auto launch = std::lower_bound(
        launches.begin(), launches.end(), event.launch,
        [](const Launch& candidate, std::uint64_t key) { return candidate.key < key; });
    if (launch == launches.end() || launch->key != event.launch) continue;
    const auto after = std::upper_bound(
        ranges.begin(), ranges.end(), launch->at_ns,
        [](std::int64_t at, const Annotation& range) { return at < range.start_ns; });
    if (after == ranges.begin()) continue;
    const auto index = static_cast<std::size_t>(std::distance(ranges.begin(), after) - 1);
    if (started[index] || launch->at_ns > ranges[index].end_ns) continue;
    started[index] = true;
    result.starts.push_back({event.start_ns, ranges[index].kind});
  }
  const auto idle = std::count(started.begin(), started.end(), false);
  if (idle > 0 && !result.starts.empty())
    result.notes.push_back(fmt::format("left out: {} annotated steps without a kernel", idle));
  sort_starts(result.starts);
  return result;
}

// Ranges of the GPU; those of one step on several streams have one number.
Starts starts_by_gpu_ranges(const TraceEvents& events, const std::vector<Annotation>& all) {
  Starts result;
  std::vector<Annotation> numbered;
  std::vector<Annotation> others;
  for (const Annotation& range : all) (range.id >= 0 ? numbered : others).push_back(range);
  std::map<std::int64_t, StepStart> by_number;
  for (const Annotation& range : numbered)
    by_number.emplace(range.id, StepStart{range.start_ns, range.kind});
  for (const auto& [number, start] : by_number) result.starts.push_back(start);
  for (const Annotation& range : without_overlaps(others, result))
    result.starts.push_back({range.start_ns, range.kind});
  sort_starts(result.starts);
  const std::int64_t end = last_end(events);
  std::erase_if(result.starts, [&](const StepStart& start) { return start.at_ns >= end; });
  return result;
}

// Where nothing ties kernels to the host's ranges, its times must do.
Starts starts_by_time(const TraceEvents& events, const std::vector<Annotation>& all) {
  Starts result;
  for (const Annotation& range : without_overlaps(all, result)) {
    const auto kernel = std::lower_bound(
        events.gpu.begin(), events.gpu.end(), range.start_ns,
        [](const GpuEvent& event, std::int64_t at) { return event.start_ns < at; });
    if (kernel != events.gpu.end()) result.starts.push_back({kernel->start_ns, range.kind});
  }
  sort_starts(result.starts);
  if (!result.starts.empty())
    result.notes.push_back(
        "the trace does not tie kernels to the host's annotations: a step holds "
        "what ran after its annotation began");
  return result;
}

Starts starts_by_annotations(const TraceEvents& events, int family) {
  const std::vector<Annotation> host = ranges_of(events, family, false);
  Starts starts = starts_by_launches(events, host);
  if (starts.starts.empty()) starts = starts_by_gpu_ranges(events, ranges_of(events, family, true));
  if (starts.starts.empty()) starts = starts_by_time(events, host);
  return starts;
}

// The name of which there is one a step: the most frequent of those that the rules say so of.
std::optional<std::uint32_t> kernel_once_a_step(const TraceEvents& events, const Mapping& mapping,
                                                const std::vector<std::int64_t>& counts) {
  std::optional<std::uint32_t> best;
  for (std::uint32_t name = 0; name < counts.size(); ++name) {
    if (counts[name] < 2 || (best && counts[name] <= counts[*best])) continue;
    const KernelRule* rule = mapping.kernel(events.names[name].text);
    if (rule != nullptr && rule->once) best = name;
  }
  return best;
}

// Without such a rule: the smallest count (of three or more) that divides the counts of the names
// that 80 % of all kernels have, where some kernel runs several times a step. If all names had one
// count, it might as well be that of the layers.
std::optional<std::uint32_t> kernel_by_counts(const TraceEvents& events,
                                              const std::vector<std::int64_t>& counts) {
  std::map<std::int64_t, std::int64_t> names_with;  // count -> names
  for (const std::int64_t count : counts) {
    if (count >= 3) ++names_with[count];
  }
  for (const auto& [count, names] : names_with) {
    std::int64_t covered = 0;
    std::int64_t most = 0;
    for (const auto& [other, how_many] : names_with) {
      if (other % count != 0) continue;
      covered += other * how_many;
      most = std::max(most, other);
    }
    if (most == count || 5 * covered < 4 * static_cast<std::int64_t>(events.gpu.size())) continue;
    for (const GpuEvent& event : events.gpu) {
      if (counts[event.name] == count) return event.name;
    }
  }
  return std::nullopt;
}

std::vector<StepStart> starts_of_kernel(const TraceEvents& events, std::uint32_t name) {
  std::vector<StepStart> starts;
  for (const GpuEvent& event : events.gpu) {
    if (event.name == name) starts.push_back({event.start_ns, StepKind::kAny});
  }
  sort_starts(starts);
  return starts;
}

// The windows that begin at `starts`, of which only those of decode steps are kept where the starts
// tell. The last one lacks its end: it holds what follows, as long as the longest before it at
// most.
std::vector<StepWindow> windows_of(const std::vector<StepStart>& starts, std::int64_t end,
                                   bool decode_only) {
  std::vector<StepWindow> windows;
  std::int64_t longest = 0;
  for (std::size_t index = 0; index < starts.size(); ++index) {
    if (decode_only && starts[index].kind != StepKind::kDecode) continue;
    const std::int64_t start = starts[index].at_ns;
    if (index + 1 < starts.size()) {
      longest = std::max(longest, starts[index + 1].at_ns - start);
      windows.push_back({start, starts[index + 1].at_ns, true});
    } else {
      const std::int64_t limit = longest > 0 ? std::min(end, start + longest) : end;
      windows.push_back({start, std::max(limit, start), windows.empty()});
    }
  }
  return windows;
}

void mark_pauses(std::vector<StepWindow>& windows, std::vector<std::string>& notes) {
  std::vector<double> lengths;
  for (const StepWindow& window : windows) {
    if (window.timed) lengths.push_back(static_cast<double>(window.end_ns - window.start_ns));
  }
  if (lengths.size() < 3) return;
  const double most = kPauseMedians * median(lengths);
  std::int64_t pauses = 0;
  for (StepWindow& window : windows) {
    if (!window.timed || static_cast<double>(window.end_ns - window.start_ns) <= most) continue;
    window.timed = false;
    ++pauses;
  }
  if (pauses > 0)
    notes.push_back(
        fmt::format("left out of the step's time, for the server paused after them "
                    "(more than {} times the median): {} steps",
                    kPauseMedians, pauses));
}

Result<Steps> steps_by_annotations(const TraceEvents& events, const StepFamily& family,
                                   Starts found) {
  Steps steps{.by = fmt::format("annotations {}", family.name), .engine = family.engine};
  steps.notes = std::move(found.notes);
  const auto count = [&](StepKind kind) {
    return std::count_if(found.starts.begin(), found.starts.end(),
                         [kind](const StepStart& start) { return start.kind == kind; });
  };
  const auto decode = count(StepKind::kDecode);
  const auto prefill = count(StepKind::kPrefill);
  if (decode == 0 && prefill > 0)
    return input_error(
        "its {} annotated steps ({}) all hold prompts; record while the server decodes",
        found.starts.size(), family.name);
  if (decode > 0 && prefill > 0)
    steps.notes.push_back(fmt::format("left out: {} steps that hold prompts", prefill));
  if (decode == 0)
    steps.notes.push_back(
        "the annotations do not tell decode steps from those with prompts: all "
        "were counted");
  steps.windows = windows_of(found.starts, last_end(events), decode > 0);
  return steps;
}

std::optional<Steps> steps_by_kernel(const TraceEvents& events, const Mapping& mapping) {
  std::vector<std::int64_t> counts(events.names.size(), 0);
  for (const GpuEvent& event : events.gpu) ++counts[event.name];
  std::optional<std::uint32_t> name = kernel_once_a_step(events, mapping, counts);
  if (!name) name = kernel_by_counts(events, counts);
  if (!name) return std::nullopt;
  const std::vector<StepStart> starts = starts_of_kernel(events, *name);
  if (starts.size() < 2) return std::nullopt;
  Steps steps{.by = fmt::format("kernel {} once a step", printable(events.names[*name].text, 60))};
  steps.notes.push_back(
      "no annotations of steps: they were taken from one of this kernel to the next, and decode "
      "steps not told from those with prompts");
  steps.windows = windows_of(starts, last_end(events), false);
  steps.windows.pop_back();  // it has no end
  return steps;
}

Steps one_step(const TraceEvents& events) {
  Steps steps{.by = "the whole trace"};
  steps.notes.push_back(
      "no annotations of steps and no kernel that runs once a step: the whole "
      "trace was taken for one step");
  steps.windows.push_back({events.gpu.front().start_ns, last_end(events), true});
  return steps;
}

}  // namespace

Result<Steps> find_steps(const TraceEvents& events, const Mapping& mapping) {
  NIBBLE_CHECK(!events.gpu.empty());
  std::optional<Steps> steps;
  for (std::size_t family = 0; family < mapping.families().size() && !steps; ++family) {
    Starts found = starts_by_annotations(events, static_cast<int>(family));
    if (found.starts.empty()) continue;
    NIBBLE_ASSIGN_OR_RETURN(
        steps, steps_by_annotations(events, mapping.families()[family], std::move(found)));
  }
  if (!steps) steps = steps_by_kernel(events, mapping);
  if (!steps) steps = one_step(events);
  if (events.cut && steps->windows.size() > 1 && !steps->windows.back().timed) {
    steps->windows.pop_back();
    steps->notes.push_back("the last step was left out, for the file ends within it");
  }
  mark_pauses(steps->windows, steps->notes);
  return *steps;
}

}  // namespace nibble::trace
