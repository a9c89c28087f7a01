#include "tactics/logs/log_reader.h"

#include <algorithm>
#include <cstring>
#include <fmt/core.h>
#include <utility>

#include "base/text.h"
#include "tactics/logs/python_text.h"

namespace nibble::logs {
namespace {

using Kind = LineEvent::Kind;

// CUTLASS's reasons are followed by the tactic's fields and a trace of the stack.
constexpr int kContinuation = 40;
constexpr std::size_t kMostOpen = 4096;  // entries of a rank that wait for their operation

constexpr std::string_view kMarker = "[autotun";  // "[Autotuner]", "[AutoTuner]", "[AutoTunner]"

std::size_t find_marker(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find('[', from); at != std::string_view::npos;
       at = text.find('[', at + 1)) {
    const std::string_view word = text.substr(at, kMarker.size());
    const bool same =
        std::equal(word.begin(), word.end(), kMarker.begin(), kMarker.end(),
                   [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
    if (same) return at;
  }
  return std::string_view::npos;
}

// Most lines hold none of the words looked for: memmem passes them several times faster than
// string_view's find.
bool contains(std::string_view text, std::string_view word) {
  return memmem(text.data(), text.size(), word.data(), word.size()) != nullptr;
}

// "(Worker_TP0 pid=7) ", and nothing more: the progress bar follows on a line of its own.
bool is_bare_prefix(std::string_view text) {
  constexpr std::size_t kMostPrefix = 80;
  text = trim(text);
  return text.size() < kMostPrefix && text.starts_with('(') && text.ends_with(')');
}

// "1   0x7c6dd0a58b16 tensorrt_llm::common::throwRuntimeError(...) + 97"
bool is_stack_line(std::string_view text) {
  const std::size_t address = text.find(" 0x");
  return address != std::string_view::npos && address < 80 &&
         text.find_first_not_of(' ', address) != std::string_view::npos &&
         text.find("::") != std::string_view::npos;
}

// Words of which one is in every message of read_cutlass.
bool may_be_failure(std::string_view text) {
  return contains(text, "nitialize") || contains(text, "utlass") ||
         contains(text, "nsupported tile") || contains(text, "shared memory but device") ||
         contains(text, "Error Internal");
}

// Of the tactic that was chosen, where it was timed: messages about choices have no times.
std::optional<double> time_of(const std::vector<Entry>& open, const Entry& chosen) {
  const auto timed = std::find_if(open.rbegin(), open.rend(), [&](const Entry& entry) {
    return entry.status == Status::kTried && entry.tactic == chosen.tactic &&
           entry.runner == chosen.runner && entry.bucket == chosen.bucket;
  });
  return timed == open.rend() ? std::nullopt : timed->time_ms;
}

bool is_open_reason(ReasonClass kind) {
  return kind == ReasonClass::kNone || kind == ReasonClass::kUnknown ||
         kind == ReasonClass::kNotInitialised;
}

void learn_programs(std::string_view text, Collector& collector) {
  if (text.find("[TRT-LLM]") != std::string_view::npos) collector.program("TensorRT-LLM");
  if (text.find("flashinfer") != std::string_view::npos) collector.program("FlashInfer");
  if (text.find("vllm") != std::string_view::npos ||
      text.find("(EngineCore") != std::string_view::npos ||
      text.find("(Worker") != std::string_view::npos) {
    collector.program("vLLM");
  }
  if (text.find("sglang") != std::string_view::npos) collector.program("SGLang");
}

// Paths of caches hold the version and what it was compiled for: ".../0.6.14/120f/...".
void learn_versions(std::string_view text, Collector& collector) {
  if (!contains(text, "flashinfer") && !contains(text, "TensorRT")) return;
  for (const std::string_view folder :
       {".cache/flashinfer/", "flashinfer_autotune_cache/", "flashinfer/autotune/"}) {
    const auto rest = between(text, folder, "");
    if (!rest || rest->empty() || rest->front() < '0' || rest->front() > '9') continue;
    const std::vector<std::string> parts = split(rest->substr(0, 80), '/');
    if (parts.size() < 3) continue;
    collector.version("FlashInfer", parts[0]);
    collector.version("architecture", parts[1]);
    return;
  }
  for (const std::string_view name : {"TensorRT LLM version: ", "TensorRT-LLM version: "}) {
    if (const auto version = between(text, name, " ")) {
      collector.version("TensorRT-LLM", *version);
    }
  }
}

}  // namespace

LogReader::Rank* LogReader::known_state(const std::string& rank) {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? nullptr : &found->second;
}

LogReader::Rank* LogReader::state_of(const std::string& rank) {
  Rank* known = known_state(rank);
  if (known != nullptr || ranks_.size() >= kMostRanks) return known;
  return &ranks_[rank];
}

void LogReader::read(const LogLine& line) {
  line_ = line.number;
  const std::size_t at = find_marker(line.text, 0);
  learn_versions(line.text, collector_);
  if (at != std::string_view::npos) {
    std::string rank = rank_of(line.text);
    if (rank.empty() && at == 0) rank = bare_rank_;
    if (at > 0) bare_rank_.clear();
    read_messages(line, std::move(rank), at);
    return;
  }
  bare_rank_ = is_bare_prefix(line.text) ? rank_of(line.text) : std::string();
  const bool maybe = contains(line.text, ".json") || contains(line.text, "OutOfResources");
  if (std::optional<LineEvent> event = maybe ? read_triton(line.text) : std::nullopt) {
    learn_programs(line.text, collector_);
    collector_.device(event->entry.device);
    event->entry.rank = rank_of(line.text);
    event->entry.line = line.number;
    Rank* rank = known_state(event->entry.rank);
    if (rank != nullptr && begins_message(line.text)) end_reason(*rank);
    collector_.add(std::move(event->entry));
    return;
  }
  if (continuing_ > 0) {
    Rank* rank = known_state(rank_of(line.text));
    if (rank != nullptr && continue_reason(line, *rank)) return;
  }
  if (may_be_failure(line.text)) read_failure(line);
}

// A progress bar and a message may share a line.
void LogReader::read_messages(const LogLine& line, std::string rank, std::size_t at) {
  learn_programs(line.text, collector_);
  const std::string_view text = line.text;
  const std::string_view before = text.substr(0, at);
  while (at != std::string_view::npos) {
    const std::size_t next = find_marker(text, at + kMarker.size());
    const std::string_view segment = text.substr(at, next - at);
    const std::size_t end = segment.find(']');
    if (end != std::string_view::npos) {
      read_message({rank, line.number}, before, segment.substr(end + 1));
    }
    at = next;
  }
}

void LogReader::read_message(const Place& place, std::string_view before,
                             std::string_view message) {
  const bool colon = message.starts_with(':');
  if (colon) message.remove_prefix(1);
  const bool tensorrt = before.find("[TRT-LLM]") != std::string_view::npos || !colon;
  LineEvent event = tensorrt ? read_tensorrt_llm(message) : read_flashinfer(message);
  const bool first = event.kind != Kind::kUnknown;
  // Releases of TensorRT-LLM wrote as FlashInfer still does, and lines may lack their prefix.
  if (!first) event = tensorrt ? read_flashinfer(message) : read_tensorrt_llm(message);
  if (event.kind == Kind::kUnknown) {
    collector_.unread(message);
    return;
  }
  if (event.kind != Kind::kNothing) {
    collector_.program(tensorrt ? "TensorRT-LLM" : "FlashInfer");
  }
  Rank* rank = state_of(place.rank);
  if (rank == nullptr) {
    if (event.kind == Kind::kEntry || event.kind == Kind::kDetail) ++collector_.log().dropped;
    return;
  }
  end_reason(*rank);
  event.entry.rank = place.rank;
  event.entry.line = place.line;
  rank->carried = has_carried_time(before);
  take(std::move(event), *rank);
}

void LogReader::take(LineEvent event, Rank& rank) {
  if (event.timed) collector_.log().shows_tried = true;
  Entry& entry = event.entry;
  switch (event.kind) {
    case Kind::kOperation:
      if (event.entry.op != rank.op) flush(rank, rank.op);
      rank.op = entry.op;
      collector_.profiles(entry.op, event.number);
      return;
    case Kind::kTotal:
      flush(rank, entry.op);
      collector_.note(fmt::format("{}: tactics failed in {} searches; TensorRT-LLM logs the first",
                                  entry.op, event.number));
      return;
    case Kind::kSaved:
      collector_.log().saved = event.number;
      return;
    case Kind::kIgnored:
      collector_.note("cache not used, it was written in another environment: " + event.text);
      return;
    case Kind::kReason:
      if (rank.open.empty()) return;
      rank.open.back().reason = std::move(entry.reason);
      break;
    case Kind::kDetail:
      take_detail(std::move(entry), rank);
      break;
    case Kind::kEntry:
      take_entry(std::move(entry), rank);
      break;
    case Kind::kEnd:
      flush(rank, rank.op);
      rank.op.clear();
      return;
    case Kind::kUnknown:
    case Kind::kNothing:
      return;
  }
  if (event.continues && !rank.open.empty()) {
    rank.continuation = kContinuation;
    ++continuing_;
  }
}

void LogReader::end_reason(Rank& rank) {
  if (rank.continuation > 0) --continuing_;
  rank.continuation = 0;
}

// A second line about a tactic that was skipped in the line before.
void LogReader::take_detail(Entry entry, Rank& rank) {
  const bool same = !rank.open.empty() && rank.open.back().status == Status::kSkipped &&
                    rank.open.back().runner == entry.runner &&
                    rank.open.back().tactic == entry.tactic;
  if (!same) {
    take_entry(std::move(entry), rank);
    return;
  }
  Entry& last = rank.open.back();
  if (last.op.empty()) last.op = entry.op;
  if (last.shape.empty()) {
    last.shape = std::move(entry.shape);
    last.bucket = entry.bucket;
  }
  if (is_open_reason(last.reason.kind) && entry.reason.kind != ReasonClass::kUnknown) {
    last.reason = std::move(entry.reason);
  }
}

void LogReader::take_entry(Entry entry, Rank& rank) {
  // The end of a search: its messages before named no operation.
  const bool ends = entry.status == Status::kChosen || entry.status == Status::kDefault;
  const bool counts = entry.status == Status::kSkipped && entry.tactic.empty();
  if (counts) {
    take_counted(std::move(entry), rank);
    return;
  }
  if (ends) {
    // A lookup at run time is not the end of a search, and its operation is another one.
    const bool lookup = entry.reason.kind == ReasonClass::kUntuned;
    if (entry.op.empty()) entry.op = rank.op;
    if (entry.status == Status::kChosen && !entry.time_ms)
      entry.time_ms = time_of(rank.open, entry);
    flush(rank, lookup ? rank.op : entry.op);
    collector_.add(std::move(entry));
    return;
  }
  // The same failure, printed before the tuner caught it.
  if (entry.status == Status::kSkipped && !rank.loose.empty() &&
      rank.loose.back().reason.kind == entry.reason.kind && --rank.loose.back().count == 0) {
    rank.loose.pop_back();
  }
  if (rank.open.size() >= kMostOpen) flush(rank, rank.op);
  rank.open.push_back(std::move(entry));
}

// "Skipped 4 unsupported tactic(s) for OP": those of them that were named before count once.
void LogReader::take_counted(Entry entry, Rank& rank) {
  const auto known = std::count_if(rank.open.begin(), rank.open.end(), [](const Entry& open) {
    return open.status == Status::kSkipped && !open.tactic.empty();
  });
  entry.tactics -= known;
  if (entry.tactics > 0) give_reason(entry, rank);
  flush(rank, entry.op);
  if (entry.tactics > 0) collector_.add(std::move(entry));
}

// What the kernels printed is why the tactics were skipped, where they all printed the same. Lines
// of kernels often lack the rank of the process.
void LogReader::give_reason(Entry& counted, Rank& rank) {
  Rank* source = rank.loose.empty() ? known_state("") : &rank;
  if (source == nullptr) return;
  const auto first = std::find_if(source->loose.begin(), source->loose.end(),
                                  [&](const Entry& failure) { return failure.line > rank.since; });
  if (first == source->loose.end()) return;
  const bool alike = std::all_of(first, source->loose.end(), [&](const Entry& failure) {
    return failure.reason.kind == first->reason.kind;
  });
  if (!alike) return;
  counted.reason = first->reason;
  counted.line = first->line;
  source->told_from = first->line;
}

// What stands in a tuner's count already is no failure of its own.
void LogReader::drop_told(Rank& rank) {
  if (rank.told_from == 0) return;
  std::erase_if(rank.loose, [&](const Entry& failure) { return failure.line >= rank.told_from; });
  rank.told_from = 0;
}

// A failure of a kernel without a tuner's words around it.
void LogReader::read_failure(const LogLine& line) {
  std::optional<LineEvent> event = read_cutlass(line.text);
  if (!event) return;
  learn_programs(line.text, collector_);
  collector_.program("CUTLASS");
  Entry& entry = event->entry;
  entry.rank = rank_of(line.text);
  entry.line = line.number;
  Rank* rank = state_of(entry.rank);
  if (rank == nullptr) {
    ++collector_.log().dropped;
    return;
  }
  drop_told(*rank);
  std::vector<Entry>& loose = rank->loose;
  if (!loose.empty() && loose.back().reason.text == entry.reason.text &&
      loose.back().runner == entry.runner) {
    ++loose.back().count;
  } else if (loose.size() < kMostOpen) {
    loose.push_back(std::move(entry));
  } else {
    collector_.add(std::move(entry));
  }
}

bool LogReader::continue_reason(const LogLine& line, Rank& rank) {
  if (rank.continuation == 0 || rank.open.empty()) return false;
  // TensorRT-LLM's exceptions begin as lines of its log do.
  const bool thrown =
      rank.open.back().reason.text.empty() && contains(line.text, "[TensorRT-LLM][ERROR] ");
  if (begins_message(line.text, rank.carried) && !thrown) {
    end_reason(rank);
    return false;
  }
  if (--rank.continuation == 0) --continuing_;
  Reason& reason = rank.open.back().reason;
  if (is_stack_line(line.text)) {
    // Types of operands stand in the names of functions.
    if (line.text.find("e2m1") != std::string::npos) reason.fp4 = true;
    return true;
  }
  Reason more = classify(line.text);
  if (more.tile && (!reason.tile || more.tile->k_in_bytes)) reason.tile = more.tile;
  if (more.fp4) reason.fp4 = true;
  const bool better = more.kind != ReasonClass::kUnknown && more.kind != reason.kind;
  if (!is_open_reason(reason.kind) || !better) return true;
  reason.kind = more.kind;
  reason.wanted_bytes = more.wanted_bytes;
  reason.limit_bytes = more.limit_bytes;
  reason.text = std::move(more.text);
  return true;
}

void LogReader::flush(Rank& rank, std::string_view op) {
  for (Entry& entry : rank.open) {
    if (entry.op.empty()) entry.op = op;
    collector_.add(std::move(entry));
  }
  rank.open.clear();
  drop_told(rank);
  for (Entry& entry : rank.loose) {
    entry.op = op;
    collector_.add(std::move(entry));
  }
  rank.loose.clear();
  rank.since = line_;
  end_reason(rank);
}

void LogReader::finish() {
  for (auto& [name, rank] : ranks_) flush(rank, rank.op);
}

}  // namespace nibble::logs
