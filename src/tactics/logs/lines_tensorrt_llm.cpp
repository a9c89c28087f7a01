// Formats: tensorrt_llm/_torch/autotuner.py of NVIDIA/TensorRT-LLM: commit 000a01de (with the
// colon, as FlashInfer), the release with AutoTunerProfilingCache, and "Candidate:" of pull request
// 19162.
#include "base/text.h"
#include "tactics/logs/line_events.h"
#include "tactics/logs/python_text.h"

namespace nibble::logs {
namespace {

using Kind = LineEvent::Kind;

// "runner=R, tactic=T, shapes=S", each up to the next; `end` is what follows the last.
void set_fields(Entry& entry, std::string_view message, std::string_view end) {
  entry.runner = class_of_object(between(message, "runner=", ", tactic=").value_or(""));
  entry.tactic = trim(between(message, ", tactic=", ", shapes=").value_or(""));
  entry.shape = plain_shape(between(message, ", shapes=", end).value_or(""));
  entry.bucket = first_number(entry.shape);
}

// "('op', 'Runner', 'id', ((1, 2), ...))"
void set_key_fields(Entry& entry, std::string_view key) {
  const std::vector<std::string_view> items = tuple_items(key);
  if (items.size() < 4) return;
  entry.op = unquoted(items[0]);
  entry.runner = unquoted(items[1]);
  entry.shape = plain_shape(items.back());
  entry.bucket = first_number(entry.shape);
}

LineEvent failed_message(std::string_view message) {
  LineEvent event;
  event.kind = Kind::kEntry;
  event.entry.status = Status::kSkipped;
  event.entry.op = trim(between(message, "custom_op=", ", runner=").value_or(""));
  // Releases either give the error or ask for a more talkative log level.
  const std::string_view end =
      message.find(". Error: ") != std::string_view::npos ? ". Error: " : ". Set TLLM_LOG_LEVEL";
  set_fields(event.entry, message, end);
  event.entry.reason = classify(between(message, ". Error: ", "").value_or(""));
  event.continues = true;
  return event;
}

// "Profiled runner=R, tactic=T, shapes=S: 0.012345ms."
LineEvent timed_message(std::string_view message) {
  LineEvent event;
  const std::size_t colon = message.rfind(": ");
  if (colon == std::string_view::npos) return event;
  event.kind = Kind::kEntry;
  set_fields(event.entry, message.substr(0, colon), "");
  event.entry.time_ms = milliseconds_of(message.substr(colon + 2));
  event.timed = true;
  return event;
}

// "Candidate: custom_op=O, runner=R, tactic=T, shapes=S, time=0.123ms"; a failure has time=infms.
LineEvent candidate_message(std::string_view message) {
  LineEvent event;
  event.kind = Kind::kEntry;
  set_fields(event.entry, message, ", time=");
  event.entry.op = trim(between(message, "custom_op=", ", runner=").value_or(""));
  event.entry.time_ms = milliseconds_of(between(message, ", time=", "ms").value_or(""));
  if (!event.entry.time_ms) {
    event.entry.status = Status::kSkipped;
    event.entry.reason.kind = ReasonClass::kUnknown;
    event.kind = Kind::kDetail;
  }
  event.timed = true;
  return event;
}

LineEvent chosen_message(std::string_view message) {
  LineEvent event;
  event.kind = Kind::kEntry;
  event.entry.status = Status::kChosen;
  event.entry.runner = class_of_object(between(message, "runner=", ", tactic=").value_or(""));
  event.entry.tactic = trim(between(message, ", tactic=", " for cache_key=").value_or(""));
  const std::string runner = event.entry.runner;
  set_key_fields(event.entry, between(message, "cache_key=", "").value_or(""));
  if (event.entry.runner.empty()) event.entry.runner = runner;
  event.timed = true;
  return event;
}

// "('op', 'Runner', 'id', (...)): (runner_id=0, tactic=3, min_time=0.01)"
LineEvent cache_line(std::string_view message) {
  LineEvent event;
  const std::size_t end = message.find("): (runner_id=");
  if (end == std::string_view::npos) return event;
  event.kind = Kind::kEntry;
  event.entry.status = Status::kChosen;
  set_key_fields(event.entry, message.substr(0, end + 1));
  event.entry.tactic = trim(between(message, ", tactic=", ", min_time=").value_or(""));
  event.entry.time_ms = milliseconds_of(between(message, ", min_time=", ")").value_or(""));
  return event;
}

LineEvent default_message(std::string_view message) {
  LineEvent event;
  event.kind = Kind::kEntry;
  event.entry.status = Status::kDefault;
  event.entry.reason.text = printable(message, 240);
  if (message.starts_with("No valid runner/tactic")) {
    event.entry.reason.kind = ReasonClass::kNoKernel;
    event.entry.op = trim(between(message, "custom_op=", ", input_shapes=").value_or(""));
    event.entry.shape = plain_shape(between(message, "input_shapes=", ". ").value_or(""));
  } else {
    event.entry.reason.kind = ReasonClass::kUntuned;
    const std::size_t op = message.find(" using the fallback tactic");
    if (op != std::string_view::npos) event.entry.op = message.substr(0, op);
    event.entry.shape = plain_shape(between(message, "input shapes=", "").value_or(""));
  }
  event.entry.bucket = first_number(event.entry.shape);
  return event;
}

// "New tuning error occurs:Total failed profiling tactics occurs: 3 for custom_op=O. This ..."
LineEvent total_message(std::string_view message) {
  LineEvent event;
  event.kind = Kind::kTotal;
  event.entry.op = printable(trim(between(message, "custom_op=", ". ").value_or("")));
  event.number = first_number(between(message, "tactics occurs: ", "").value_or("")).value_or(1);
  return event;
}

}  // namespace

LineEvent read_tensorrt_llm(std::string_view message) {
  message = trim(message);
  if (message.starts_with("Failed when profiling runner=") ||
      message.starts_with("Single-pair run failed")) {
    return failed_message(message);
  }
  if (message.starts_with("Profiled runner=")) return timed_message(message);
  if (message.starts_with("Profiling runner=")) return chosen_message(message);
  if (message.starts_with("Candidate: ")) return candidate_message(message);
  if (message.starts_with("No valid runner/tactic") ||
      message.find("fallback tactic, due to cache miss") != std::string_view::npos) {
    return default_message(message);
  }
  if (message.starts_with("New tuning error occurs")) return total_message(message);
  if (message.starts_with("('")) return cache_line(message);
  LineEvent event;
  if (message.starts_with("Exception captured: ")) {
    event.kind = Kind::kReason;
    event.entry.reason = classify(message.substr(20));
    event.continues = true;
    return event;
  }
  if (message.starts_with("Autotuning process")) event.kind = Kind::kEnd;
  for (const std::string_view known :
       {"Generated profile", "use_cold_l2", "No tensor inputs", "Cache size", "Cache contents",
        "The profiling_cache", "The statistics", "Successfully", "Could not", "Failed to save",
        "Failed to load"}) {
    if (message.starts_with(known)) event.kind = Kind::kNothing;
  }
  return event;
}

}  // namespace nibble::logs
