// One row a request: every stamp that the client took, every token that arrived, what the server
// said of it. All metrics are computed from these rows and from nothing else.
//
//   RequestRecord record{.level = 0, .index = 7, .scheduled = monotonic_now()};
//   ...                                            // the generator fills it
//   writer.write(record);                          // a line of JSON (record_json.h)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace nibble::load {

// How a request ended. Only kOk enters latencies; every other class is counted by its name.
enum class Outcome : std::uint8_t {
  kOk,
  kResolve,           // the host's name is unknown
  kRefused,           // nobody listens there
  kConnectTimeout,    // no connection in time
  kTls,               // certificate or handshake
  kReset,             // the peer broke the connection
  kTruncated,         // the body ended before its framing said so
  kProtocol,          // no HTTP/1.1, or broken chunks
  kHttpStatus,        // a status other than 200; see http_status
  kErrorEvent,        // {"error": ...} in the stream
  kErrorBody,         // status 200 with an error in a JSON body
  kNotJson,           // status 200 with something else, such as a HTML page, or broken JSON
  kNoTokens,          // a reply without a single token
  kFirstByteTimeout,  // nothing came in time
  kIdleTimeout,       // the stream stood still for too long
  kTotalTimeout,      // the request took too long altogether
  kCancelled,         // ended by us: interrupt, or the end of the level
};

enum class TokenKind : std::uint8_t { kText, kReasoning, kTool };

// An event of the stream that bore tokens.
struct TokenEvent {
  Nanoseconds at = 0;
  // What the server's running count rose by: new_tokens of api/stream.h. 0: it stood still (half of
  // a character came); none: the server keeps no such count.
  std::optional<std::int32_t> tokens;
  TokenKind kind = TokenKind::kText;
  friend bool operator==(const TokenEvent&, const TokenEvent&) = default;
};

// Where the number of output tokens comes from, from the best to the worst.
enum class TokenSource : std::uint8_t {
  kContinuousUsage,  // the server's count, on every event
  kUsage,            // the server's count, at the end
  kTokenizer,        // counted here
  kEvents,           // one token an event is assumed
};

struct RequestRecord {
  std::int32_t level = 0;
  std::int64_t index = 0;  // within the level, in the order of scheduling
  bool warmup = false;

  Nanoseconds scheduled = 0;       // when the plan wanted it sent
  Nanoseconds sent = 0;            // when the client began to send (after connecting, if it had to)
  Nanoseconds first_byte = 0;      // of the body; 0: none came
  Nanoseconds end = 0;             // the last byte, or the failure
  std::vector<TokenEvent> events;  // in the order of arrival

  bool connected_anew = false;
  Nanoseconds connect_time = 0;  // of that connection, DNS and TLS included

  std::int64_t prompt_tokens_asked = 0;
  std::int64_t output_tokens_asked = 0;
  std::optional<std::int64_t> prompt_tokens;  // of the server's usage
  std::optional<std::int64_t> output_tokens;  // of the server's usage
  std::optional<std::int64_t> cached_tokens;  // of the server's usage
  std::optional<std::int64_t> reasoning_tokens;
  std::optional<std::int64_t> counted_tokens;  // of our own tokenizer
  TokenSource token_source = TokenSource::kEvents;

  Outcome outcome = Outcome::kOk;
  int http_status = 0;
  std::string message;        // of a failure: one line, printable
  std::string finish_reason;  // "length", "stop", ...; empty: the server gave none

  bool streamed = true;   // false: the answer came as one body or one event
  bool saw_done = false;  // [DONE] came
  bool data_after_done = false;
  bool degenerate = false;  // the text is one token repeated
  // Its prompt, by content, had been sent before in the run; none: not known.
  std::optional<bool> prompt_repeated;
  friend bool operator==(const RequestRecord&, const RequestRecord&) = default;
};

}  // namespace nibble::load
