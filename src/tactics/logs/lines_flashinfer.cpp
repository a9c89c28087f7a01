// Formats: flashinfer/autotuner.py of flashinfer-ai/flashinfer, commits 006078ac and, for older
// releases, bkryu/flashinfer 0b9c786c (0.6.3).
#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "tactics/logs/line_events.h"
#include "tactics/logs/python_text.h"

namespace nibble::logs {
namespace {

using Kind = LineEvent::Kind;

LineEvent event_of_kind(Kind kind) {
  LineEvent event;
  event.kind = kind;
  return event;
}

LineEvent entry_event(Status status) {
  LineEvent event = event_of_kind(Kind::kEntry);
  event.entry.status = status;
  return event;
}

void set_runner(Entry& entry, std::string_view text) {
  RunnerAndTactic both = split_runner(text);
  entry.runner = std::move(both.runner);
  entry.tactic = std::move(both.tactic);
}

void set_shape(Entry& entry, std::string_view text) {
  entry.shape = plain_shape(text);
  entry.bucket = first_number(entry.shape);
}

void set_untuned(Entry& entry, std::string_view message) {
  entry.reason.kind = ReasonClass::kUntuned;
  entry.reason.text = printable(trim(message), 240);
}

// "('op', 'Runner', hash, ((1, 2), ...), extras)", and the form of files, without the hash.
void set_key(Entry& entry, std::string_view key) {
  const std::vector<std::string_view> items = tuple_items(key);
  if (items.size() < 3) return;
  entry.op = unquoted(items[0]);
  if (entry.runner.empty()) entry.runner = unquoted(items[1]);
  const auto shape = std::find_if(items.begin() + 2, items.end(),
                                  [](std::string_view item) { return item.starts_with('('); });
  if (shape != items.end()) set_shape(entry, *shape);
}

// "trtllm::fused_moe::gemm1:  43%|####    | 3/7 [00:00<00:00, 25.19profile/s]"
LineEvent read_progress(std::string_view rest) {
  const std::size_t end = rest.find(": ");
  const std::string_view op = trim(rest.substr(0, end));
  if (op.empty() || op.find(' ') != std::string_view::npos) return {};
  LineEvent event = event_of_kind(Kind::kOperation);
  event.entry.op = op;
  if (end == std::string_view::npos) return event;
  const std::size_t slash = rest.find('/', end);
  if (slash != std::string_view::npos) {
    std::from_chars(rest.data() + slash + 1, rest.data() + rest.size(), event.number);
  }
  return event;
}

LineEvent read_skipping(std::string_view message) {
  // "Skipping autotuning for 'OP' (in skip_ops). Using fallback tactic."
  if (const auto op = between(message, "Skipping autotuning for '", "'")) {
    LineEvent event = entry_event(Status::kDefault);
    event.entry.op = *op;
    set_untuned(event.entry, message);
    return event;
  }
  const auto what = between(message, "Skipping tactic ", ", due to failure");
  if (!what) return {};
  LineEvent event = entry_event(Status::kSkipped);
  set_runner(event.entry, *what);
  const auto tail = between(message, ", due to failure", "");
  event.entry.reason = classify(between(tail.value_or(""), ":", "").value_or(""));
  event.continues = true;
  return event;
}

LineEvent read_failed(std::string_view message) {
  const auto what = between(message, "Failed when profiling ", ", shapes=");
  if (!what) return {};
  LineEvent event = entry_event(Status::kSkipped);
  event.kind = Kind::kDetail;
  set_runner(event.entry, *what);
  set_shape(event.entry, between(message, ", shapes=", ". Error occurred: ").value_or(""));
  event.entry.reason = classify(between(message, ". Error occurred: ", "").value_or(""));
  event.continues = true;
  return event;
}

LineEvent read_profiling(std::string_view message) {
  if (const auto chosen = between(message, "profiling chosen runner: ", "")) {
    LineEvent event = entry_event(Status::kChosen);
    const std::size_t key = chosen->find(" for (");
    if (key == std::string_view::npos) return {};
    set_runner(event.entry, chosen->substr(0, key));
    set_key(event.entry, chosen->substr(key + 5));
    event.timed = true;
    return event;
  }
  const auto what = between(message, "profiling ", ", shapes=");
  const auto time = between(message, ", avg_time ", "");
  if (!what || !time) return {};
  LineEvent event = entry_event(Status::kTried);
  set_runner(event.entry, *what);
  set_shape(event.entry, between(message, ", shapes=", ", avg_time ").value_or(""));
  event.entry.time_ms = milliseconds_of(*time);
  if (!event.entry.time_ms) {  // "avg_time inf": it did not run, and a line before may say why
    event.entry.status = Status::kSkipped;
    event.entry.reason.kind = ReasonClass::kUnknown;
    event.kind = Kind::kDetail;
  }
  event.timed = true;
  return event;
}

LineEvent read_counted(std::string_view message) {
  // "Skipped 4 unsupported tactic(s) for OP (enable debug logs to see details)"
  constexpr std::int64_t kMostTactics = 1'000'000;
  const std::int64_t number = first_number(message).value_or(0);
  if (number < 1) return event_of_kind(Kind::kNothing);
  LineEvent event = entry_event(Status::kSkipped);
  event.entry.tactics = std::min(number, kMostTactics);
  event.entry.op = trim(between(message, " for ", " (").value_or(""));
  event.entry.reason.kind = ReasonClass::kUnknown;
  return event;
}

// A lookup that found nothing.
LineEvent read_fallback(std::string_view message) {
  LineEvent event = entry_event(Status::kDefault);
  set_untuned(event.entry, message);
  if (const auto op = between(message, "No tuned config covers ", " input_shapes=")) {
    event.entry.op = *op;
    set_shape(event.entry, between(message, " input_shapes=", "; falling back").value_or(""));
    event.entry.runner = between(message, "to runner=", " ").value_or("");
    return event;
  }
  if (const auto fallback = between(message, "Using fallback tactic for ", " with input shapes")) {
    event.entry.op = *fallback;
    set_shape(event.entry, trim(between(message, "with input shapes ", "").value_or("")));
    return event;
  }
  const auto key = between(message, "Loading configs for ", " from file failed");
  if (!key) return {};
  set_key(event.entry, *key);
  return event;
}

LineEvent read_cache_message(std::string_view message) {
  if (message.starts_with("Saved ")) {
    LineEvent event = event_of_kind(Kind::kSaved);
    event.number = first_number(message).value_or(0);
    return event;
  }
  if (message.starts_with("Cache file ")) {
    LineEvent event = event_of_kind(Kind::kIgnored);
    event.text =
        printable(between(message, "different environment (", "). Ignoring").value_or(message));
    return event;
  }
  LineEvent event = entry_event(Status::kChosen);
  event.entry.reason.text = "from a configuration file";
  if (const auto op = between(message, "Config cache hit for ", " (")) {
    event.entry.op = *op;
    event.entry.runner = between(message, "runner=", ",").value_or("");
    return event;
  }
  const auto key = between(message, "Loading configs for ", " from file.");
  if (!key) return {};
  set_key(event.entry, *key);
  return event;
}

}  // namespace

LineEvent read_flashinfer(std::string_view message) {
  message = trim(message);
  if (message.starts_with("Tuning ")) return read_progress(message.substr(7));
  if (message.starts_with("Skipping ")) return read_skipping(message);
  if (message.starts_with("Skipped ")) return read_counted(message);
  if (message.starts_with("Failed when profiling ")) return read_failed(message);
  if (message.starts_with("profiling ")) return read_profiling(message);
  if (message.starts_with("OOM detected")) {
    LineEvent event = entry_event(Status::kDefault);
    event.entry.reason = classify(message);
    return event;
  }
  if (message.starts_with("No tuned config") || message.starts_with("Using fallback") ||
      message.find("from file failed") != std::string_view::npos) {
    return read_fallback(message);
  }
  if (message.starts_with("Saved ") || message.starts_with("Cache file ") ||
      message.starts_with("Config cache hit") || message.starts_with("Loading configs")) {
    return read_cache_message(message);
  }
  if (message.starts_with("Autotuning process")) return event_of_kind(Kind::kEnd);
  for (const std::string_view known :
       {"Loaded ", "generated profile", "Generated key", "use_cold_l2", "No tensor inputs"}) {
    if (message.starts_with(known)) return event_of_kind(Kind::kNothing);
  }
  return {};
}

}  // namespace nibble::logs
