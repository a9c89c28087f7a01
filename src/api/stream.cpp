#include "api/stream.h"

#include <algorithm>
#include <utility>

#include "api/error_text.h"
#include "api/json_scan.h"
#include "api/usage_scan.h"
#include "base/text.h"

namespace nibble::api {
namespace {

using Kind = JsonScanner::Kind;

constexpr std::size_t kShownBytes = 40;  // of data that is not understood

// null, false and "" say that there is no error.
bool says_error(JsonScanner& scan) {
  switch (scan.peek()) {
    case Kind::kNull:
      scan.skip();
      return false;
    case Kind::kBoolean:
      return scan.read_boolean().value_or(false);
    case Kind::kString:
      return scan.read_raw() != "\"\"";
    default:
      return scan.skip();
  }
}

}  // namespace

TextKind StreamItem::kind() const {
  if (!content.empty()) return TextKind::kContent;
  if (!tool.empty()) return TextKind::kTool;
  return reasoning.empty() ? TextKind::kContent : TextKind::kReasoning;
}

void StreamReader::clear_item() {
  item_.content.clear();
  item_.reasoning.clear();
  item_.tool.clear();
  item_.finish_reason.clear();
  item_.message.clear();
  item_.usage = {};
  item_.new_tokens.reset();
  item_.has_choice = item_.bears_tokens = item_.done = item_.after_done = false;
  item_.is_error = item_.malformed = false;
}

const StreamItem& StreamReader::read(std::string_view data, std::string_view event) {
  clear_item();
  data = trim(data);
  if (data.empty()) return item_;
  if (end_.saw_done) {
    end_.data_after_done = true;
    item_.after_done = true;
  } else if (data == "[DONE]") {
    end_.saw_done = item_.done = true;
  } else if (event == "error") {
    set_error(data);
  } else {
    read_json(data);
  }
  return item_;
}

void StreamReader::read_json(std::string_view data) {
  JsonScanner scan(data);
  const bool listed = dialect_ == Dialect::kSglang && scan.peek() == Kind::kArray;
  if (listed && scan.open_array()) scan.next_item();  // of a batch, the first
  if (dialect_ == Dialect::kSglang) {
    read_sglang(scan);
  } else if (dialect_ == Dialect::kLlamacpp) {
    read_llamacpp(scan);
  } else {
    read_openai(scan);
  }
  while (listed && scan.next_item()) scan.skip();
  if (!scan.finish()) {
    clear_item();
    item_.malformed = true;
    item_.message = fmt::format("the data is no JSON object ({}): \"{}\"", scan.fault(),
                                printable(data.substr(0, 4 * kShownBytes), kShownBytes));
    return;
  }
  if (item_.is_error) {
    set_error(data);
  } else {
    take_usage();
  }
  if (item_.done) end_.saw_done = true;
}

void StreamReader::set_error(std::string_view data) {
  clear_item();
  item_.is_error = true;
  item_.message = error_text(data);
}

// The members that say "error" in every format; false when the key is none of them, and then
// nothing is read.
bool StreamReader::read_error_key(JsonScanner& scan) {
  if (scan.key() == "error") {
    item_.is_error = says_error(scan) || item_.is_error;
    return true;
  }
  if (scan.key() == "object") {
    const bool text = scan.read_string(scratch_);
    item_.is_error = (text && scratch_ == "error") || item_.is_error;
    return true;
  }
  return false;
}

void StreamReader::append_text(JsonScanner& scan, std::string& to) {
  if (scan.read_string(scratch_)) to += scratch_;
}

void StreamReader::read_openai(JsonScanner& scan) {
  Usage timings;  // llama.cpp's, for want of usage
  for (scan.open_object(); scan.next_member();) {
    const std::string_view key = scan.key();
    if (key == "choices") {
      read_choices(scan);
    } else if (key == "usage") {
      read_usage(scan, item_.usage);
    } else if (key == "timings") {
      read_timings(scan, timings);
    } else if (!read_error_key(scan)) {
      scan.skip();
    }
  }
  if (!item_.usage.any()) item_.usage = timings;
}

void StreamReader::read_choices(JsonScanner& scan) {
  if (scan.peek() != Kind::kArray) {
    scan.skip();
    return;
  }
  for (scan.open_array(); scan.next_item();) read_choice(scan);
}

void StreamReader::read_choice(JsonScanner& scan) {
  if (scan.peek() != Kind::kObject) {
    scan.skip();
    return;
  }
  item_.has_choice = true;
  for (scan.open_object(); scan.next_member();) {
    const std::string_view key = scan.key();
    if (key == "delta" || key == "message") {
      read_message(scan);
    } else if (key == "text") {
      append_text(scan, item_.content);
    } else if (key == "finish_reason") {
      append_text(scan, item_.finish_reason);
    } else {
      scan.skip();
    }
  }
}

void StreamReader::read_message(JsonScanner& scan) {
  if (scan.peek() != Kind::kObject) {
    scan.skip();
    return;
  }
  std::string reasoning;
  for (scan.open_object(); scan.next_member();) {
    const std::string_view key = scan.key();
    if (key == "content") {
      read_content(scan);
    } else if (key == "reasoning_content" || key == "reasoning") {
      // Servers in transition say the same under both names.
      if (scan.read_string(scratch_) && scratch_ != reasoning) reasoning += scratch_;
    } else if (key == "refusal") {
      append_text(scan, item_.content);
    } else if (key == "tool_calls") {
      read_tool_calls(scan);
    } else if (key == "function_call") {
      read_function(scan);
    } else {
      scan.skip();
    }
  }
  item_.reasoning += reasoning;
}

// Text, or a list of parts.
void StreamReader::read_content(JsonScanner& scan) {
  if (scan.peek() != Kind::kArray) {
    append_text(scan, item_.content);
    return;
  }
  for (scan.open_array(); scan.next_item();) read_content_part(scan, item_.content);
}

// {"type":"text","text":"..."} or {"type":"thinking","thinking":[parts]}.
void StreamReader::read_content_part(JsonScanner& scan, std::string& to) {
  if (scan.peek() != Kind::kObject) {
    scan.skip();
    return;
  }
  for (scan.open_object(); scan.next_member();) {
    const std::string_view key = scan.key();
    if (key == "text") {
      append_text(scan, to);
    } else if (key == "thinking" && scan.peek() == Kind::kString) {
      append_text(scan, item_.reasoning);
    } else if (key == "thinking" && scan.peek() == Kind::kArray && &to != &item_.reasoning) {
      for (scan.open_array(); scan.next_item();) read_content_part(scan, item_.reasoning);
    } else {
      scan.skip();
    }
  }
}

void StreamReader::read_tool_calls(JsonScanner& scan) {
  if (scan.peek() != Kind::kArray) {
    scan.skip();
    return;
  }
  for (scan.open_array(); scan.next_item();) {
    if (scan.peek() != Kind::kObject) {
      scan.skip();
      continue;
    }
    for (scan.open_object(); scan.next_member();) {
      if (scan.key() == "function") {
        read_function(scan);
      } else {
        scan.skip();
      }
    }
  }
}

void StreamReader::read_function(JsonScanner& scan) {
  if (scan.peek() != Kind::kObject) {
    scan.skip();
    return;
  }
  for (scan.open_object(); scan.next_member();) {
    if (scan.key() == "name" || scan.key() == "arguments") {
      append_text(scan, item_.tool);
    } else {
      scan.skip();
    }
  }
}

// Counts of one event, into the item and the sums.
void StreamReader::take_usage() {
  Usage& usage = item_.usage;
  const auto drop_negative = [](std::optional<std::int64_t>& count) {
    const bool negative = count && *count < 0;
    if (negative) count.reset();
    return negative;
  };
  drop_negative(usage.prompt_tokens);
  drop_negative(usage.cached_tokens);
  drop_negative(usage.reasoning_tokens);
  // Zero after text is no count but a field that the server does not fill.
  const bool text = item_.has_text() || end_.token_events > 0;
  if (drop_negative(usage.output_tokens)) count_invalid_ = true;
  if (usage.output_tokens == 0 && text) {
    count_invalid_ = true;
    usage.output_tokens.reset();
    if (usage.prompt_tokens == 0) usage.prompt_tokens.reset();
  }
  take_count();
  const auto keep = [](std::optional<std::int64_t>& kept, std::optional<std::int64_t> said) {
    if (said) kept = said;
  };
  keep(end_.usage.prompt_tokens, usage.prompt_tokens);
  keep(end_.usage.output_tokens, usage.output_tokens);
  keep(end_.usage.cached_tokens, usage.cached_tokens);
  keep(end_.usage.reasoning_tokens, usage.reasoning_tokens);
  if (!item_.finish_reason.empty()) end_.finish_reason = item_.finish_reason;
}

void StreamReader::take_count() {
  const std::optional<std::int64_t> count = item_.usage.output_tokens;
  const bool rises = item_.has_choice && counts_every_event_ && count && *count > counted_;
  item_.bears_tokens = item_.has_text() || rises;
  if (item_.bears_tokens) {
    ++end_.token_events;
    if (!count) counts_every_event_ = false;
    if (counts_every_event_) item_.new_tokens = std::max<std::int64_t>(0, *count - counted_);
  }
  if (!count) return;
  if (*count < counted_) end_.count_fell = true;
  counted_ = std::max(counted_, *count);
}

StreamEnd StreamReader::end() const {
  StreamEnd end = end_;
  if (end.usage.output_tokens == 0 && end.token_events > 0) end.usage.output_tokens.reset();
  if (!end.usage.output_tokens) {
    end.usage_form = count_invalid_ ? UsageForm::kInvalid : UsageForm::kNone;
  } else {
    const bool continuous = counts_every_event_ && end.token_events > 0;
    end.usage_form = continuous ? UsageForm::kContinuous : UsageForm::kFinal;
  }
  return end;
}

}  // namespace nibble::api
