#include "trace/chrome.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "trace/json_stream.h"

namespace nibble::trace {
namespace {

enum class Category : std::uint8_t { kOther, kGpu, kAnnotation, kGpuAnnotation, kApi, kHost };

// The members of one event that we look at; reused for all events, so that nothing is allocated.
struct ChromeEvent {
  std::string name, phase, category;
  std::string start, duration;  // numbers as they are written
  std::int64_t device = -1, stream = -1, correlation = -1, external = -1;
  std::int64_t process = -1, thread = -1;
  bool complete = false;  // it was read to its end

  void clear() {
    name.clear();
    phase.clear();
    category.clear();
    start.clear();
    duration.clear();
    device = stream = correlation = external = process = thread = -1;
    complete = false;
  }
};

// Early versions of the profiler wrote "Kernel".
bool is_kernel(const ChromeEvent& event) {
  return event.category == "kernel" || event.category == "Kernel";
}

Category category_of(const ChromeEvent& event) {
  const std::string& name = event.category;
  if (is_kernel(event) || name == "gpu_memcpy" || name == "gpu_memset") return Category::kGpu;
  if (name == "user_annotation") return Category::kAnnotation;
  if (name == "gpu_user_annotation") return Category::kGpuAnnotation;
  if (name == "cuda_runtime" || name == "cuda_driver") return Category::kApi;
  if (name == "cpu_op" || name == "python_function") return Category::kHost;
  return Category::kOther;
}

class ChromeReader {
 public:
  ChromeReader(ByteSource& source, std::string_view name, TraceEvents& events)
      : source_(source), json_(source), file_(name), events_(events) {}

  Result<> read(bool& own_document);

 private:
  void document();
  void event_list();
  void event();
  void arguments();
  void device_list();
  void distribution();
  void keep();
  void keep_gpu();
  std::int64_t integer_member();
  Result<> verdict() const;
  std::string where_it_broke() const;

  ByteSource& source_;
  JsonStream json_;
  std::string file_;
  TraceEvents& events_;
  ChromeEvent event_;
  std::vector<std::string> members_;  // of the document, some
  bool own_document_ = false;
  bool has_events_ = false;
  bool is_document_ = false;
  std::int64_t rank_ = -1;
  std::int64_t world_ = -1;
};

// A number, or the number in a string; -1 for everything else.
std::int64_t ChromeReader::integer_member() {
  const JsonToken token = json_.next();
  if (token == JsonToken::kBeginObject || token == JsonToken::kBeginArray) {
    json_.skip_rest();
    return -1;
  }
  if (token != JsonToken::kNumber && token != JsonToken::kString) return -1;
  std::int64_t value = -1;
  const std::string_view text = json_.text();
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc() && value >= 0 ? value : -1;
}

void ChromeReader::arguments() {
  if (json_.next() != JsonToken::kBeginObject) {
    if (json_.last() == JsonToken::kBeginArray) json_.skip_rest();
    return;
  }
  const Category category = category_of(event_);
  // The category comes first; host operators list all their inputs.
  const bool useless = category == Category::kOther || category == Category::kHost;
  if (useless && !event_.category.empty()) {
    json_.skip_rest();
    return;
  }
  while (json_.next() == JsonToken::kKey) {
    const std::string_view key = json_.text();
    if (key == "device") {
      event_.device = integer_member();
    } else if (key == "stream") {
      event_.stream = integer_member();
    } else if (key == "correlation") {
      event_.correlation = integer_member();
    } else if (key == "External id" || key == "external id") {
      event_.external = integer_member();
    } else if (!json_.skip_value()) {
      return;
    }
  }
}

void ChromeReader::event() {
  event_.clear();
  const auto copy_text = [this](std::string& into) {
    const JsonToken token = json_.next();
    if (token == JsonToken::kBeginObject || token == JsonToken::kBeginArray) {
      json_.skip_rest();
    } else if (!json_.failed()) {
      into = json_.text();
    }
  };
  while (json_.next() == JsonToken::kKey) {
    const std::string_view key = json_.text();
    if (key == "name") {
      copy_text(event_.name);
    } else if (key == "ph") {
      copy_text(event_.phase);
    } else if (key == "cat") {
      copy_text(event_.category);
    } else if (key == "ts") {
      copy_text(event_.start);
    } else if (key == "dur") {
      copy_text(event_.duration);
    } else if (key == "pid") {
      event_.process = integer_member();
    } else if (key == "tid") {
      event_.thread = integer_member();
    } else if (key == "args") {
      arguments();
    } else if (!json_.skip_value()) {
      return;
    }
  }
  event_.complete = json_.last() == JsonToken::kEndObject;
}

void ChromeReader::keep_gpu() {
  const auto start = nanoseconds(event_.start);
  const auto duration = nanoseconds(event_.duration);
  if (!start || !duration || *duration < 0 || *duration > kMostDurationNs) {
    ++events_.unusable;
    return;
  }
  // Where the arguments lack them, the GPU stands as the process, and its stream as the thread.
  const std::uint16_t device = events_.device_of(
      std::max<std::int64_t>(event_.device >= 0 ? event_.device : event_.process, 0), 0);
  const std::int64_t stream = event_.stream >= 0 ? event_.stream : event_.thread;
  const auto correlation =
      static_cast<std::uint32_t>(std::max(event_.correlation, std::int64_t{0}));
  std::int64_t end = 0;
  if (__builtin_add_overflow(*start, *duration, &end)) {
    ++events_.unusable;
    return;
  }
  events_.add_gpu(
      {.start_ns = *start,
       .end_ns = end,
       .launch = launch_key(0, correlation),
       .name = events_.name_of(event_.name, is_kernel(event_) ? GpuKind::kKernel : GpuKind::kCopy),
       .device = device,
       .stream = events_.stream_of(device, stream)});
}

void ChromeReader::keep() {
  ++events_.events;
  const Category category = category_of(event_);
  if (category == Category::kHost) events_.see_name(event_.name);
  if (event_.phase != "X") return;
  if (category == Category::kGpu) return keep_gpu();
  const auto start = nanoseconds(event_.start);
  if (!start) return;
  if (category == Category::kApi) {
    // Only what runs kernels: cudaLaunchKernel, cuLaunchKernelEx, cudaGraphLaunch, ...
    if (event_.correlation > 0 && event_.name.find("aunch") != std::string::npos)
      events_.launches.push_back(
          {launch_key(0, static_cast<std::uint32_t>(event_.correlation)), *start});
    return;
  }
  if (category != Category::kAnnotation && category != Category::kGpuAnnotation) return;
  const auto duration = nanoseconds(event_.duration);
  std::int64_t end = 0;
  if (!duration || *duration < 0 || __builtin_add_overflow(*start, *duration, &end)) return;
  events_.add_annotation(event_.name, {.start_ns = *start,
                                       .end_ns = end,
                                       .id = event_.external,
                                       .on_gpu = category == Category::kGpuAnnotation});
}

void ChromeReader::event_list() {
  has_events_ = true;
  while (true) {
    const JsonToken token = json_.next();
    if (token == JsonToken::kBeginObject) {
      event();
      if (!event_.complete) return;
      keep();
    } else if (token == JsonToken::kBeginArray) {
      if (!json_.skip_rest()) return;
    } else if (token == JsonToken::kEndArray || json_.failed()) {
      return;
    }
  }
}

// [{"id": 0, "name": "NVIDIA H200", ...}, ...]
void ChromeReader::device_list() {
  if (json_.next() != JsonToken::kBeginArray) {
    if (json_.last() == JsonToken::kBeginObject) json_.skip_rest();
    return;
  }
  while (json_.next() == JsonToken::kBeginObject) {
    std::int64_t id = -1;
    std::string name;
    while (json_.next() == JsonToken::kKey) {
      if (json_.text() == "id") {
        id = integer_member();
      } else if (json_.text() == "name") {
        if (json_.next() == JsonToken::kString) name = printable(json_.text());
      } else if (!json_.skip_value()) {
        return;
      }
    }
    if (id >= 0 && !name.empty()) events_.device_names[id] = name;
  }
}

// {"backend": "nccl", "rank": 0, "world_size": 8, ...}
void ChromeReader::distribution() {
  if (json_.next() != JsonToken::kBeginObject) {
    if (json_.last() == JsonToken::kBeginArray) json_.skip_rest();
    return;
  }
  while (json_.next() == JsonToken::kKey) {
    if (json_.text() == "rank") {
      rank_ = integer_member();
    } else if (json_.text() == "world_size") {
      world_ = integer_member();
    } else if (!json_.skip_value()) {
      return;
    }
  }
}

void ChromeReader::document() {
  constexpr std::size_t kShownMembers = 8;
  while (json_.next() == JsonToken::kKey) {
    const std::string key(json_.text());
    if (members_.size() < kShownMembers) members_.push_back(printable(key, 40));
    if (key == "schema") {
      own_document_ = true;
      return;
    }
    if (key == "traceEvents") {
      if (json_.next() == JsonToken::kBeginArray) {
        event_list();
      } else if (json_.last() == JsonToken::kBeginObject) {
        json_.skip_rest();
      }
    } else if (key == "deviceProperties") {
      device_list();
    } else if (key == "distributedInfo") {
      distribution();
    } else {
      json_.skip_value();
    }
    if (json_.failed()) return;
  }
}

std::string ChromeReader::where_it_broke() const {
  if (!source_.fault().empty()) return source_.fault();
  return json_.last() == JsonToken::kCut
             ? std::string("it ends in the middle of its JSON")
             : fmt::format("it is no JSON from byte {} on", json_.offset());
}

Result<> ChromeReader::verdict() const {
  if (!is_document_)
    return input_error(
        "{} is no trace: {}; give torch-profiler's JSON, plain or .gz, or an SQLite "
        "export of Nsight Systems",
        file_, where_it_broke());
  if (!has_events_ && json_.failed())
    return input_error("{} has no \"traceEvents\": {}; record the trace again", file_,
                       where_it_broke());
  if (!has_events_)
    return input_error(
        "{} is JSON without an array \"traceEvents\" (it has {}): it is no trace of "
        "torch's profiler",
        file_, members_.empty() ? "nothing" : join(members_, ", "));
  if (!events_.gpu.empty()) return {};
  if (events_.unusable > 0)
    return input_error(
        "{} has {} kernels, none with a usable time and duration; record the trace "
        "again",
        file_, events_.unusable);
  if (json_.failed())
    return input_error(
        "{} has no kernel in the {} events before it breaks off: {}; record the trace "
        "again, and stop the profiler before the server",
        file_, events_.events, where_it_broke());
  return input_error(
      "{} has {} events, but no kernel of a GPU; record it with "
      "torch.profiler.ProfilerActivity.CUDA",
      file_, events_.events);
}

Result<> ChromeReader::read(bool& own_document) {
  const JsonToken first = json_.next();
  is_document_ = first == JsonToken::kBeginObject || first == JsonToken::kBeginArray;
  if (first == JsonToken::kBeginObject) document();
  if (first == JsonToken::kBeginArray) event_list();
  own_document = own_document_;
  if (own_document_) return {};
  NIBBLE_RETURN_IF_ERROR(verdict());
  if (json_.failed()) {
    events_.cut = true;
    events_.notes.push_back(fmt::format("the file was read as far as it goes, {} events: {}",
                                        events_.events, where_it_broke()));
  }
  if (rank_ >= 0 && world_ > 1)
    events_.notes.push_back(fmt::format("this is rank {} of {}", rank_, world_));
  return {};
}

}  // namespace

Result<> read_chrome(ByteSource& source, std::string_view name, TraceEvents& events,
                     bool& own_document) {
  events.kind = "chrome";
  return ChromeReader(source, name, events).read(own_document);
}

}  // namespace nibble::trace
