// The native formats of SGLang and llama.cpp.
#include <string>

#include "api/json_scan.h"
#include "api/stream.h"
#include "api/usage_scan.h"

namespace nibble::api {
namespace {

using Kind = JsonScanner::Kind;

std::int64_t count_items(JsonScanner& scan) {
  std::int64_t items = 0;
  for (scan.open_array(); scan.next_item(); ++items) scan.skip();
  return items;
}

}  // namespace

// {"text":"all so far","output_ids":[...],"meta_info":{"completion_tokens":3,...}}
void StreamReader::read_sglang(JsonScanner& scan) {
  std::optional<std::int64_t> ids;
  for (scan.open_object(); scan.next_member();) {
    const std::string_view key = scan.key();
    if (key == "text") {
      append_text(scan, item_.content);
      item_.has_choice = true;
    } else if (key == "output_ids" && scan.peek() == Kind::kArray) {
      ids = count_items(scan);
      item_.has_choice = true;
    } else if (key == "meta_info" && scan.peek() == Kind::kObject) {
      read_meta_info(scan);
      item_.has_choice = true;
    } else if (!read_error_key(scan)) {
      scan.skip();
    }
  }
  // Ids and text are both of all so far, or both of this event.
  if (ids && item_.usage.output_tokens && *ids < *item_.usage.output_tokens) incremental_ = true;
  if (!scan.failed()) keep_new_text();
}

void StreamReader::keep_new_text() {
  std::string& text = item_.content;
  if (incremental_) return;
  if (text.starts_with(so_far_)) {
    text.erase(0, so_far_.size());
    so_far_ += text;
  } else if (so_far_.starts_with(text)) {
    text.clear();  // the end was cut off again: a stop string
  } else {
    incremental_ = true;
  }
}

void StreamReader::read_meta_info(JsonScanner& scan) {
  Usage& usage = item_.usage;
  for (scan.open_object(); scan.next_member();) {
    const std::string_view key = scan.key();
    if (key == "prompt_tokens") {
      usage.prompt_tokens = scan.read_integer();
    } else if (key == "completion_tokens") {
      usage.output_tokens = scan.read_integer();
    } else if (key == "cached_tokens") {
      usage.cached_tokens = scan.read_integer();
    } else if (key == "reasoning_tokens") {
      usage.reasoning_tokens = scan.read_integer();
    } else if (key == "finish_reason") {
      read_sglang_finish(scan);
    } else {
      scan.skip();
    }
  }
}

// null, "length", or {"type":"length","length":128}; {"type":"abort","message":...} is a failure.
void StreamReader::read_sglang_finish(JsonScanner& scan) {
  if (scan.peek() != Kind::kObject) {
    append_text(scan, item_.finish_reason);
    return;
  }
  for (scan.open_object(); scan.next_member();) {
    if (scan.key() == "type") {
      append_text(scan, item_.finish_reason);
    } else {
      scan.skip();
    }
  }
  if (item_.finish_reason == "abort") item_.is_error = true;
}

// {"content":" a","stop":false,"tokens_predicted":3,...}, and last, with "stop":true, the timings.
void StreamReader::read_llamacpp(JsonScanner& scan) {
  Usage timings;
  bool stopped_by_length = false;
  for (scan.open_object(); scan.next_member();) {
    const std::string_view key = scan.key();
    if (key == "content") {
      append_text(scan, item_.content);
      item_.has_choice = true;
    } else if (key == "stop") {
      item_.done = scan.read_boolean().value_or(false);
    } else if (key == "tokens_predicted") {
      item_.usage.output_tokens = scan.read_integer();
    } else if (key == "tokens_evaluated") {
      item_.usage.prompt_tokens = scan.read_integer();
    } else if (key == "timings") {
      read_timings(scan, timings);
    } else if (key == "stop_type") {
      append_text(scan, item_.finish_reason);
    } else if (key == "stopped_limit") {  // of older servers
      stopped_by_length = scan.read_boolean().value_or(false);
    } else if (!read_error_key(scan)) {
      scan.skip();
    }
  }
  finish_llamacpp(timings, stopped_by_length);
}

void StreamReader::finish_llamacpp(const Usage& timings, bool stopped_by_length) {
  Usage& usage = item_.usage;
  if (!usage.output_tokens) usage.output_tokens = timings.output_tokens;
  if (!usage.prompt_tokens) usage.prompt_tokens = timings.prompt_tokens;
  usage.cached_tokens = timings.cached_tokens;
  std::string& reason = item_.finish_reason;
  if (reason == "limit") {
    reason = "length";
  } else if (reason == "eos" || reason == "word") {
    reason = "stop";
  } else {
    reason.clear();  // "none"
    if (item_.done) reason = stopped_by_length ? "length" : "stop";
  }
}

}  // namespace nibble::api
