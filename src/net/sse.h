// Server-sent events: bytes as they come off the wire -> events, by the WHATWG grammar.
//
//   SseParser parser;
//   const Result<> fed = parser.feed(bytes, [&](const SseEvent& event) { use(event.data); });
//   ...
//   const Result<> ended = parser.finish([&](const SseEvent& event) { use(event.data); });
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace nibble::net {

// The views are valid until the callback returns.
struct SseEvent {
  std::string_view event;  // empty: none was named, which means "message"
  std::string_view data;   // lines joined by LF
  std::string_view id;     // the last that the stream gave
};

// Takes the stream in pieces cut anywhere, in time linear in their length. Grammar in full:
// comments, event, id, retry, unknown fields, LF, CR and CRLF line ends, a byte order mark, several
// data lines.
//
// One deviation: an event that the end of the stream cuts off before its blank line is given by
// finish(), because servers end that way and the last event is the one with the counts. Whether the
// body itself ended as its framing promised is known by the HTTP client.
class SseParser {
 public:
  static constexpr std::size_t kDefaultMaxEventBytes = std::size_t{16} << 20;

  explicit SseParser(std::size_t max_event_bytes = kDefaultMaxEventBytes)
      : max_event_bytes_(max_event_bytes) {}

  // Calls on_event(const SseEvent&) for every event that `bytes` completes. An event larger than
  // max_event_bytes is an error, and so is everything after it.
  template <class OnEvent>
  Result<> feed(std::string_view bytes, OnEvent&& on_event) {
    begin(bytes);
    while (next()) on_event(event());
    return status();
  }

  // The stream has ended: gives the event that is left, if any. A new stream may follow.
  template <class OnEvent>
  Result<> finish(OnEvent&& on_event) {
    if (end()) on_event(event());
    const Result<> last = status();
    reset();
    return last;
  }

  // Milliseconds of the last valid `retry:` field.
  std::optional<std::int64_t> retry_ms() const { return retry_ms_; }

 private:
  static constexpr std::size_t kNotSearched = static_cast<std::size_t>(-1);

  void begin(std::string_view bytes);
  bool next();  // true: event() is the next event
  bool end();   // true: event() is the last event
  void reset();
  SseEvent event() const;
  Result<> status() const;

  bool take_mark();
  std::size_t find_line_end();
  bool take_line(std::string_view line);  // true: the line ended an event
  void take_field(std::string_view name, std::string_view value);
  bool dispatch();
  bool fits(std::size_t more);

  std::size_t max_event_bytes_;
  std::string_view bytes_;              // of this feed
  std::size_t position_ = 0;            // in bytes_
  std::size_t next_cr_ = kNotSearched;  // of bytes_ from position_ on, or its size
  std::size_t next_lf_ = kNotSearched;
  std::string line_;  // the start of a line whose end has not come
  std::string data_;  // each line with its LF
  std::string event_;
  std::string id_;
  std::optional<std::int64_t> retry_ms_;
  std::size_t mark_bytes_ = 0;  // of the byte order mark seen so far
  bool at_start_ = true;        // a byte order mark may still come
  bool after_cr_ = false;       // a LF that comes next belongs to the CR before it
  bool dispatched_ = false;     // data_ and event_ were given and go with the next step
  bool too_large_ = false;
};

}  // namespace nibble::net
