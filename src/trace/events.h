// What both readers of traces bring: kernels and copies with their times, annotations that may be
// steps, launches that tie the two together. 32 bytes a kernel; names are kept once.
//
//   TraceEvents events(mapping);
//   events.add_gpu({.start_ns = 0, .end_ns = 2000, .name = events.name_of("k", GpuKind::kKernel)});
//   NIBBLE_ASSIGN_OR_RETURN(const TraceSummary summary, summarize(std::move(events), mapping));
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/mapping.h"

namespace nibble::trace {

enum class GpuKind : std::uint8_t {
  kKernel,
  kCopy,   // or memset
  kGraph,  // a CUDA graph whose kernels were not recorded
};

struct GpuEvent {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t launch = 0;  // launch_key(); 0: unknown
  std::uint32_t name = 0;    // index of TraceEvents::names
  std::uint16_t device = 0;
  std::uint16_t stream = 0;  // index in the order of appearance
};

struct GpuName {
  std::string text;
  GpuKind kind = GpuKind::kKernel;
};

// The host's range around the launches of a step, or the GPU's around its kernels.
struct Annotation {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t id = -1;  // the same for the ranges of one step on several streams; -1: unknown
  std::uint32_t process = 0;
  int family = 0;
  StepKind kind = StepKind::kAny;
  bool on_gpu = false;
};

struct Launch {
  std::uint64_t key = 0;
  std::int64_t at_ns = 0;
};

// Of a launch and of what it ran: correlation numbers begin anew in each process.
inline std::uint64_t launch_key(std::uint32_t process, std::uint32_t correlation) {
  return (std::uint64_t{process} << 32U) | correlation;
}
inline std::uint32_t process_of(std::uint64_t launch) {
  return static_cast<std::uint32_t>(launch >> 32U);
}

// Longer is a fault of the file: no kernel of a served model runs for ten minutes. As many as are
// kept add up within 64 bits.
inline constexpr std::int64_t kMostDurationNs = 600'000'000'000;
inline constexpr std::size_t kMostGpuEvents = 10'000'000;
inline constexpr std::size_t kMostNames = 100'000;

class TraceEvents {
 public:
  explicit TraceEvents(const Mapping& mapping);

  std::uint32_t name_of(std::string_view text, GpuKind what);
  std::uint16_t stream_of(std::uint16_t device, std::int64_t stream);
  // Index of `devices`. Processes that each see one GPU all give it the number 0.
  std::uint16_t device_of(std::int64_t number, std::uint32_t process);
  // Counts, instead of keeping it, what has no usable times; false once the most are kept.
  bool add_gpu(const GpuEvent& event);
  void add_annotation(std::string_view name, Annotation annotation);  // kept where it is a step
  // Looks for an engine's marks in the name of an operator or a function.
  void see_name(std::string_view name);
  std::string engine() const;  // by the marks; "" where there were none

  std::vector<GpuEvent> gpu;
  std::vector<GpuName> names;
  std::vector<Annotation> annotations;
  std::vector<Launch> launches;
  std::vector<std::pair<std::int64_t, std::uint32_t>> devices;  // number, process
  std::map<std::int64_t, std::string> device_names;             // by number
  std::vector<std::string> notes;
  std::string kind;           // "chrome", "nsys"
  std::int64_t events = 0;    // of any category
  std::int64_t unusable = 0;  // kernels without usable times
  std::int64_t left_out = 0;  // kernels beyond kMostGpuEvents
  bool cut = false;           // the file ends early

 private:
  const Mapping& mapping_;
  std::array<std::unordered_map<std::string, std::uint32_t>, 3> name_index_;  // by GpuKind
  std::map<std::pair<std::uint16_t, std::int64_t>, std::uint16_t> stream_index_;
  std::vector<bool> engine_seen_;
};

// Decimal text of microseconds as nanoseconds, exactly where there is no exponent; nothing where it
// is no number or 64 bits do not hold it.
std::optional<std::int64_t> nanoseconds(std::string_view microseconds);

}  // namespace nibble::trace
