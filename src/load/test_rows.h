// Rows for the tests of metrics: times in ms from a common start.
#pragma once

#include <utility>
#include <vector>

#include "load/record.h"

namespace nibble::load {

inline constexpr Nanoseconds kTestStart = 1'000'000'000;  // 0 would mean "never"

inline Nanoseconds test_time(double ms) {
  return kTestStart + from_milliseconds(ms);
}

struct TestRow {
  double sent = 0;             // ms
  std::vector<double> events;  // ms from the send
  double end = 0;              // ms from the send
  double queue = 0;            // ms between schedule and send
  std::int64_t output = -1;    // usage; -1: none
  std::int64_t asked = 0;
  std::vector<std::int32_t> tokens = {};  // of the events: continuous usage
};

inline RequestRecord make_row(const TestRow& row) {
  RequestRecord record;
  record.scheduled = test_time(row.sent - row.queue);
  record.sent = test_time(row.sent);
  record.end = test_time(row.sent + row.end);
  if (!row.events.empty()) record.first_byte = test_time(row.sent + row.events.front());
  for (std::size_t index = 0; index < row.events.size(); ++index) {
    TokenEvent event;
    event.at = test_time(row.sent + row.events[index]);
    if (!row.tokens.empty()) event.tokens = row.tokens[index];
    record.events.push_back(event);
  }
  if (row.output >= 0) {
    record.output_tokens = row.output;
    record.token_source = TokenSource::kUsage;
  }
  if (!row.tokens.empty()) record.token_source = TokenSource::kContinuousUsage;
  record.output_tokens_asked = row.asked;
  record.prompt_tokens_asked = 10;
  record.prompt_tokens = 10;
  record.http_status = 200;
  record.finish_reason = "length";
  record.saw_done = true;
  return record;
}

inline RequestRecord failed_row(double sent, double end, Outcome outcome) {
  RequestRecord record = make_row({.sent = sent, .events = {}, .end = end});
  record.outcome = outcome;
  record.prompt_tokens.reset();
  record.saw_done = false;
  return record;
}

}  // namespace nibble::load
