// One answer: from bytes off the wire to the row of its request.
//
//   AnswerReader reader(Dialect::kChat, {.keep_text = false}, &tally);
//   const net::Exchange exchange = co_await client.exchange(std::move(request), reader);
//   reader.finish(exchange, record);         // stamps, events, counts, outcome
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/stream.h"
#include "load/record.h"
#include "net/exchange.h"
#include "net/sse.h"

namespace nibble::drive {

// What came on one loop so far, for rates while it comes. Written by that loop alone.
struct Tally {
  std::atomic<std::int64_t> tokens = 0;
  std::atomic<std::int64_t> events = 0;      // that bore tokens
  std::atomic<Nanoseconds> last_answer = 0;  // when the server last said anything
};

struct AnswerOptions {
  bool keep_text = false;         // the whole text, to count its tokens; else its end
  std::int64_t tokens_asked = 0;  // room is made for so many events
  // Of the request: their values are hidden in messages, since servers repeat what they do not
  // like.
  const net::Headers* sent = nullptr;
};

class AnswerReader final : public net::BodySink {
 public:
  // The tally must outlive the reader.
  AnswerReader(api::Dialect dialect, AnswerOptions options, Tally& tally);

  void on_head(int status, const net::Headers& headers) override;
  bool on_bytes(std::string_view bytes, Nanoseconds received_at) override;
  Nanoseconds patience() const override;

  // Fills what the answer tells; the plan's fields of the record stay. The text is for counting and
  // for finding repetition.
  void finish(const net::Exchange& exchange, load::RequestRecord& record);
  std::string take_text() { return std::move(text_); }

 private:
  enum class Shape : std::uint8_t { kUnknown, kStream, kBody };

  bool decide_shape();
  std::size_t most_events() const;
  bool take_stream(std::string_view bytes, Nanoseconds at);
  void take_event(const net::SseEvent& event, Nanoseconds at);
  std::string hidden(std::string_view text) const;
  void take_body(std::string_view bytes);
  void keep(const api::StreamItem& item);
  void fail(load::Outcome outcome, std::string message);
  void finish_stream(load::RequestRecord& record);
  void finish_body(load::RequestRecord& record);
  void take_usage(const api::Usage& usage, load::RequestRecord& record) const;

  api::Dialect dialect_;
  AnswerOptions options_;
  Tally& tally_;
  net::SseParser sse_;
  api::StreamReader stream_;
  Shape shape_ = Shape::kUnknown;
  int status_ = 0;
  std::string content_type_;
  Nanoseconds last_at_ = 0;
  Nanoseconds done_at_ = 0;  // [DONE] came
  std::vector<load::TokenEvent> events_;
  std::string text_;
  std::string body_;
  bool body_cut_ = false;
  load::Outcome outcome_ = load::Outcome::kOk;  // of what was read; the exchange may be worse
  std::string message_;
};

}  // namespace nibble::drive
