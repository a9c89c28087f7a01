#include "drive/answer.h"

#include <algorithm>
#include <fmt/core.h>
#include <utility>

#include "api/error_text.h"
#include "base/text.h"
#include "drive/redact.h"
#include "load/record_json.h"

namespace nibble::drive {
namespace {

using load::Outcome;

constexpr std::size_t kMostBody = std::size_t{64} << 20;
constexpr std::size_t kMostText = std::size_t{16} << 20;  // of an answer whose tokens are counted
constexpr std::size_t kTextEnd = std::size_t{4} << 10;    // enough to see it repeat itself
constexpr std::size_t kMostMessage = 300;
constexpr std::size_t kTellingBytes = 8;  // of a body: longer than "event:"
constexpr std::int64_t kMostEventsReserved = 65536;

Outcome outcome_of(net::NetFault fault) {
  switch (fault) {
    case net::NetFault::kNone:
      return Outcome::kOk;
    case net::NetFault::kResolve:
      return Outcome::kResolve;
    case net::NetFault::kRefused:
      return Outcome::kRefused;
    case net::NetFault::kConnectTimeout:
      return Outcome::kConnectTimeout;
    case net::NetFault::kTls:
      return Outcome::kTls;
    case net::NetFault::kReset:
      return Outcome::kReset;
    case net::NetFault::kTruncated:
      return Outcome::kTruncated;
    case net::NetFault::kProtocol:
      return Outcome::kProtocol;
    case net::NetFault::kFirstByteTimeout:
      return Outcome::kFirstByteTimeout;
    case net::NetFault::kIdleTimeout:
      return Outcome::kIdleTimeout;
    case net::NetFault::kTotalTimeout:
      return Outcome::kTotalTimeout;
    case net::NetFault::kTooLarge:
      return Outcome::kProtocol;
    case net::NetFault::kCancelled:
    case net::NetFault::kLocal:
      return Outcome::kCancelled;  // nothing that the server did
  }
  return Outcome::kCancelled;
}

load::TokenKind kind_of(api::TextKind kind) {
  switch (kind) {
    case api::TextKind::kContent:
      return load::TokenKind::kText;
    case api::TextKind::kReasoning:
      return load::TokenKind::kReasoning;
    case api::TextKind::kTool:
      return load::TokenKind::kTool;
  }
  return load::TokenKind::kText;
}

// A count that a row can carry.
std::optional<std::int64_t> believable(std::optional<std::int64_t> count) {
  if (!count || *count < 0 || *count > load::kMostTokens) return std::nullopt;
  return count;
}

void add(std::atomic<std::int64_t>& counter, std::int64_t amount) {
  // One thread writes: no read-modify-write on the bus.
  counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

}  // namespace

AnswerReader::AnswerReader(api::Dialect dialect, AnswerOptions options, Tally& tally)
    : dialect_(dialect), options_(options), tally_(tally), stream_(dialect) {
  const std::int64_t room = std::clamp<std::int64_t>(options.tokens_asked, 0, kMostEventsReserved);
  events_.reserve(static_cast<std::size_t>(room));
}

void AnswerReader::on_head(int status, const net::Headers& headers) {
  status_ = status;
  tally_.last_answer.store(monotonic_now(), std::memory_order_relaxed);
  if (const auto type = net::find_header(headers, "Content-Type")) content_type_ = *type;
  if (status != 200) shape_ = Shape::kBody;
}

bool AnswerReader::on_bytes(std::string_view bytes, Nanoseconds received_at) {
  tally_.last_answer.store(received_at, std::memory_order_relaxed);
  last_at_ = received_at;
  if (shape_ == Shape::kStream) return take_stream(bytes, received_at);
  take_body(bytes);
  if (shape_ == Shape::kBody || !decide_shape()) return true;
  return take_stream(std::exchange(body_, {}), received_at);
}

// Servers that forget to end the body after [DONE] are waited for no longer than this.
Nanoseconds AnswerReader::patience() const {
  constexpr Nanoseconds kAfterDone = 1'000'000'000;
  return done_at_ != 0 ? kAfterDone : 0;
}

// True: it is a stream. The beginning tells where the header does not; white space that keeps a
// connection alive tells nothing.
bool AnswerReader::decide_shape() {
  if (api::is_event_stream(content_type_, body_)) {
    shape_ = Shape::kStream;
    return true;
  }
  if (trim(body_).size() >= kTellingBytes) shape_ = Shape::kBody;
  return false;
}

// Far beyond what any server sends that knows what it was asked.
std::size_t AnswerReader::most_events() const {
  constexpr std::int64_t kTimesAsked = 16;
  constexpr std::int64_t kSpare = 1024;
  return static_cast<std::size_t>(kTimesAsked * std::max<std::int64_t>(options_.tokens_asked, 0) +
                                  kSpare);
}

bool AnswerReader::take_stream(std::string_view bytes, Nanoseconds at) {
  const Result<> fed = sse_.feed(bytes, [&](const net::SseEvent& event) { take_event(event, at); });
  if (!fed.ok()) fail(Outcome::kProtocol, fed.error().message);
  return fed.ok() && events_.size() <= most_events();
}

void AnswerReader::take_event(const net::SseEvent& event, Nanoseconds at) {
  const api::StreamItem& item = stream_.read(event.data, event.event);
  if (item.done) done_at_ = at;
  // Messages are cut to a line: what must not show is hidden in the whole text, read once more.
  if (item.is_error || item.malformed) {
    const std::string safe = hidden(event.data);
    fail(item.is_error ? Outcome::kErrorEvent : Outcome::kNotJson,
         api::StreamReader(dialect_).read(safe, event.event).message);
  }
  if (!item.bears_tokens) return;
  load::TokenEvent token{.at = at, .kind = kind_of(item.kind())};
  if (const auto count = believable(item.new_tokens)) {
    token.tokens = static_cast<std::int32_t>(std::min<std::int64_t>(*count, INT32_MAX));
  }
  events_.push_back(token);
  if (events_.size() > most_events()) {
    fail(Outcome::kProtocol, fmt::format("the answer does not end: {} events with tokens came, and "
                                         "{} tokens were asked for",
                                         events_.size(), options_.tokens_asked));
  }
  add(tally_.events, 1);
  add(tally_.tokens, token.tokens.value_or(1));
  keep(item);
}

void AnswerReader::keep(const api::StreamItem& item) {
  if (options_.keep_text && text_.size() > kMostText) return;
  text_ += item.reasoning;
  text_ += item.content;
  text_ += item.tool;
  if (!options_.keep_text && text_.size() > 2 * kTextEnd) text_.erase(0, text_.size() - kTextEnd);
}

std::string AnswerReader::hidden(std::string_view text) const {
  return options_.sent != nullptr ? without_sent(std::string(text), *options_.sent)
                                  : std::string(text);
}

void AnswerReader::take_body(std::string_view bytes) {
  body_cut_ = body_cut_ || body_.size() + bytes.size() > kMostBody;
  if (!body_cut_) body_.append(bytes);
}

// The first failure tells most.
void AnswerReader::fail(Outcome outcome, std::string message) {
  if (outcome_ != Outcome::kOk) return;
  outcome_ = outcome;
  message_ = std::move(message);
}

void AnswerReader::take_usage(const api::Usage& usage, load::RequestRecord& record) const {
  record.prompt_tokens = believable(usage.prompt_tokens);
  record.output_tokens = believable(usage.output_tokens);
  record.cached_tokens = believable(usage.cached_tokens);
  record.reasoning_tokens = believable(usage.reasoning_tokens);
}

void AnswerReader::finish_stream(load::RequestRecord& record) {
  const Result<> ended =
      sse_.finish([&](const net::SseEvent& event) { take_event(event, last_at_); });
  if (!ended.ok()) fail(Outcome::kProtocol, ended.error().message);
  const api::StreamEnd end = stream_.end();
  take_usage(end.usage, record);
  switch (end.usage_form) {
    case api::UsageForm::kContinuous:
      record.token_source = load::TokenSource::kContinuousUsage;
      break;
    case api::UsageForm::kFinal:
      record.token_source = load::TokenSource::kUsage;
      break;
    case api::UsageForm::kInvalid:
      record.output_tokens = 0;
      break;  // said, and not believed
    case api::UsageForm::kNone:
      break;
  }
  record.finish_reason = end.finish_reason;
  record.saw_done = end.saw_done;
  record.data_after_done = end.data_after_done;
  record.streamed = events_.size() != 1 || record.output_tokens.value_or(1) <= 1;
  record.events = std::move(events_);
  if (record.events.empty()) fail(Outcome::kNoTokens, "the stream ended without a token");
}

void AnswerReader::finish_body(load::RequestRecord& record) {
  record.streamed = false;
  body_ = hidden(body_);
  if (body_cut_) {
    return fail(Outcome::kProtocol, fmt::format("the body is larger than {} MiB", kMostBody >> 20));
  }
  if (status_ != 200) {
    return fail(Outcome::kHttpStatus, fmt::format("{}: {}", status_, api::error_text(body_)));
  }
  if (trim(body_).empty()) return fail(Outcome::kNoTokens, "the body is empty");
  const api::StreamItem item = api::read_body(dialect_, body_);
  if (item.is_error) return fail(Outcome::kErrorBody, item.message);
  if (item.malformed) return fail(Outcome::kNotJson, item.message);
  take_usage(item.usage, record);
  if (record.output_tokens) {
    record.token_source = load::TokenSource::kUsage;
    add(tally_.tokens, *record.output_tokens);
  }
  record.finish_reason = item.finish_reason;
  record.saw_done = true;  // a body knows its end
  keep(item);
  if (record.output_tokens.value_or(0) > 0) return;
  if (!item.has_text()) return fail(Outcome::kNoTokens, "the answer has no token");
  // There is text and no count that could be believed: one event that bore tokens.
  record.events.push_back({.at = last_at_, .kind = kind_of(item.kind())});
}

void AnswerReader::finish(const net::Exchange& exchange, load::RequestRecord& record) {
  const net::ExchangeStamps& stamps = exchange.stamps;
  record.sent = stamps.send_start;
  record.first_byte = stamps.first_byte;
  record.end = stamps.end;
  record.connected_anew = stamps.connected_anew;
  record.connect_time = stamps.connected_anew ? stamps.connect_time : 0;
  record.http_status = exchange.status;
  if (shape_ == Shape::kStream) {
    finish_stream(record);
  } else if (exchange.fault == net::NetFault::kNone || exchange.status != 0) {
    finish_body(record);
  }
  // What broke on the wire comes first, unless the client stopped because of what it had read.
  record.outcome = outcome_;
  const bool lingers = done_at_ != 0 && exchange.fault == net::NetFault::kIdleTimeout;
  if (lingers) record.end = last_at_;
  record.message = printable(message_, kMostMessage);
  if (exchange.fault != net::NetFault::kNone && outcome_ != Outcome::kErrorEvent && !lingers) {
    record.outcome = outcome_of(exchange.fault);
    record.message = exchange.message;
  }
}

}  // namespace nibble::drive
