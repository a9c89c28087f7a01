// A row of a load test as one line of JSON, lossless and versioned, and back.
//
//   std::string line;
//   append_json_line(line, record);                    // {"v":1,"level":0,...}\n
//   NIBBLE_ASSIGN_OR_RETURN(const RequestRecord again, parse_record(line, "rows.jsonl:1"));
//
// Stamps are nanoseconds of the monotonic clock; one that was never taken is null. Events are three
// lists: "event_ns", the first from "sent_ns" and each other from the one before it, and runs of
// [count, value] in "event_tokens" (null: the server did not count) and "event_kinds".
// docs/schemas/nibble.load_row.1.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "load/record.h"

namespace nibble::load {

// The names that documents and tables use: "ok", "refused", "http_status", ...
std::string_view to_string(Outcome outcome);
std::string_view to_string(TokenKind kind);  // "text", "reasoning", "tool"
std::string_view to_string(
    TokenSource source);  // "continuous_usage", "usage", "tokenizer", "events"

// Tokens of one request, counted in whatever way: 900 million such rows add up without overflow. A
// row with more is refused, so whoever fills one leaves out a server's count that is above it.
inline constexpr std::int64_t kMostTokens = 10'000'000'000;

inline constexpr int kOutcomes = static_cast<int>(Outcome::kCancelled) + 1;
inline constexpr int kTokenSources = static_cast<int>(TokenSource::kEvents) + 1;

// Appends the line and its newline. About 12 bytes an event. Text that is no UTF-8 is the one thing
// that does not come back to the bit: its bad bytes become U+FFFD.
void append_json_line(std::string& out, const RequestRecord& record);

// Refuses another version, fields of the wrong kind, counts that no answer has and stamps in an
// impossible order; `origin` names the line. Fields it does not know are left alone.
Result<RequestRecord> parse_record(std::string_view line, std::string_view origin);

}  // namespace nibble::load
