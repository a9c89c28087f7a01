// What the events of an answer carry, in all four formats and as servers really send them.
//
//   StreamReader reader(backend.dialect);
//   const StreamItem& item = reader.read(event.data, event.event);   // of every SSE event
//   if (item.bears_tokens) stamps.push_back({now, item.new_tokens, item.kind()});
//   ...
//   reader.end().usage.output_tokens   // the server's count, where it gave one
//
// Rules: an event bears tokens when it carries text (content, reasoning, a tool call or a refusal),
// or when the server counts every event and its count has risen. A role, an empty delta, a finish
// reason or usage alone bear none. Text behind [DONE] is not read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/backend.h"
#include "api/usage.h"

namespace nibble::api {

class JsonScanner;

// What a text is, for the time to the first token that is no reasoning.
enum class TextKind : std::uint8_t { kContent, kReasoning, kTool };

// What one event, or a whole body, carried. Texts are what is new in it, also where the server
// repeats all text so far.
struct StreamItem {
  std::string content;    // `content`, `text`, `refusal`
  std::string reasoning;  // `reasoning_content`, `reasoning`
  std::string tool;       // name and arguments of tool calls
  std::string finish_reason;
  Usage usage;                             // as stated by this event
  std::optional<std::int64_t> new_tokens;  // set where the server counts every event
  bool has_choice = false;                 // it is a piece of an answer, be it empty
  bool bears_tokens = false;
  bool done = false;        // [DONE], or the last event of a format without it
  bool after_done = false;  // came behind [DONE]; not read
  bool is_error = false;    // the server reports a failure
  bool malformed = false;   // no JSON object
  std::string message;      // of is_error and malformed: one printable line

  bool has_text() const { return !content.empty() || !reasoning.empty() || !tool.empty(); }
  // Of the text; an event with reasoning and content counts as content.
  TextKind kind() const;
};

// How the server told its count of output tokens.
enum class UsageForm : std::uint8_t {
  kNone,        // not at all
  kInvalid,     // zero although there was text, or negative
  kFinal,       // once, at the end
  kContinuous,  // with every event that bore tokens
};

// What is known when the stream has ended.
struct StreamEnd {
  Usage usage;  // each count as it was stated last; no output_tokens where they are invalid
  UsageForm usage_form = UsageForm::kNone;
  std::string finish_reason;
  std::int64_t token_events = 0;  // events that bore tokens
  bool saw_done = false;
  bool data_after_done = false;
  bool count_fell = false;  // a later count of output tokens was smaller
};

class StreamReader {
 public:
  explicit StreamReader(Dialect dialect) : dialect_(dialect) {}

  // Reads one event; the item is valid until the next call. `event` is the SSE event's name: data
  // of an event named "error" is an error whatever it holds.
  const StreamItem& read(std::string_view data, std::string_view event = {});
  StreamEnd end() const;

 private:
  void clear_item();
  void read_json(std::string_view data);
  void read_openai(JsonScanner& scan);
  void read_choices(JsonScanner& scan);
  void read_choice(JsonScanner& scan);
  void read_message(JsonScanner& scan);
  void read_content(JsonScanner& scan);
  void read_content_part(JsonScanner& scan, std::string& to);
  void read_tool_calls(JsonScanner& scan);
  void read_function(JsonScanner& scan);
  void read_sglang(JsonScanner& scan);
  void read_meta_info(JsonScanner& scan);
  void read_sglang_finish(JsonScanner& scan);
  void read_llamacpp(JsonScanner& scan);
  void finish_llamacpp(const Usage& timings, bool stopped_by_length);
  bool read_error_key(JsonScanner& scan);
  void append_text(JsonScanner& scan, std::string& to);
  void keep_new_text();
  void take_usage();
  void take_count();
  void set_error(std::string_view data);

  Dialect dialect_;
  StreamItem item_;
  StreamEnd end_;
  std::string scratch_;
  std::string so_far_;        // SGLang repeats all text so far in each event
  bool incremental_ = false;  // ... unless it was told not to
  bool count_invalid_ = false;
  bool counts_every_event_ = true;  // until an event bears tokens without a count
  std::int64_t counted_ = 0;        // the highest count so far
};

// An answer that came as one body. Bytes that keep the connection alive (white space, a BOM, lines
// that begin with a colon) may stand before it. JSON without an answer in it is malformed.
StreamItem read_body(Dialect dialect, std::string_view body);

// Whether a 200's body is a stream of events: by its Content-Type, or where that is missing by how
// it begins.
bool is_event_stream(std::string_view content_type, std::string_view beginning);

}  // namespace nibble::api
