#include "load/record_json.h"

#include <gtest/gtest.h>
#include <limits>

#include "base/json.h"
#include "base/stats.h"
#include "load/test_rows.h"

namespace nibble::load {
namespace {

void expect_equal(const RequestRecord& a, const RequestRecord& b) {
  EXPECT_EQ(a.level, b.level);
  EXPECT_EQ(a.index, b.index);
  EXPECT_EQ(a.warmup, b.warmup);
  EXPECT_EQ(a.scheduled, b.scheduled);
  EXPECT_EQ(a.sent, b.sent);
  EXPECT_EQ(a.first_byte, b.first_byte);
  EXPECT_EQ(a.end, b.end);
  ASSERT_EQ(a.events.size(), b.events.size());
  for (std::size_t index = 0; index < a.events.size(); ++index) {
    EXPECT_EQ(a.events[index].at, b.events[index].at) << index;
    EXPECT_EQ(a.events[index].tokens, b.events[index].tokens) << index;
    EXPECT_EQ(a.events[index].kind, b.events[index].kind) << index;
  }
  EXPECT_EQ(a.connected_anew, b.connected_anew);
  EXPECT_EQ(a.connect_time, b.connect_time);
  EXPECT_EQ(a.prompt_tokens_asked, b.prompt_tokens_asked);
  EXPECT_EQ(a.output_tokens_asked, b.output_tokens_asked);
  EXPECT_EQ(a.prompt_tokens, b.prompt_tokens);
  EXPECT_EQ(a.output_tokens, b.output_tokens);
  EXPECT_EQ(a.cached_tokens, b.cached_tokens);
  EXPECT_EQ(a.reasoning_tokens, b.reasoning_tokens);
  EXPECT_EQ(a.counted_tokens, b.counted_tokens);
  EXPECT_EQ(a.token_source, b.token_source);
  EXPECT_EQ(a.outcome, b.outcome);
  EXPECT_EQ(a.http_status, b.http_status);
  EXPECT_EQ(a.message, b.message);
  EXPECT_EQ(a.finish_reason, b.finish_reason);
  EXPECT_EQ(a.streamed, b.streamed);
  EXPECT_EQ(a.saw_done, b.saw_done);
  EXPECT_EQ(a.data_after_done, b.data_after_done);
  EXPECT_EQ(a.degenerate, b.degenerate);
}

RequestRecord full_row() {
  RequestRecord record;
  record.level = 3;
  record.index = 1234567890123;
  record.warmup = true;
  record.scheduled = 9'007'199'254'740'993;  // 2^53 + 1: no double holds it
  record.sent = record.scheduled + 17;
  record.first_byte = record.sent + 1;
  record.events = {{record.sent + 5, 2, TokenKind::kReasoning},
                   {record.sent + 5, 2, TokenKind::kReasoning},
                   {record.sent + 900, 0, TokenKind::kText},
                   {record.sent + 901, std::numeric_limits<std::int32_t>::max(), TokenKind::kTool}};
  record.end = record.sent + 1000;
  record.connected_anew = true;
  record.connect_time = 12345;
  record.prompt_tokens_asked = 100;
  record.output_tokens_asked = 200;
  record.prompt_tokens = 101;
  record.output_tokens = 0;  // zero is not "none"
  record.cached_tokens = 64;
  record.reasoning_tokens = 7;
  record.counted_tokens = 8;
  record.token_source = TokenSource::kContinuousUsage;
  record.outcome = Outcome::kErrorEvent;
  record.http_status = 200;
  record.message = "said \"no\"\n\\ \x01 \xc3\xa4 ,\"event_ns\":[1]}";
  record.finish_reason = "stop";
  record.streamed = false;
  record.saw_done = true;
  record.data_after_done = true;
  record.degenerate = true;
  return record;
}

RequestRecord round_trip(const RequestRecord& record) {
  std::string line;
  append_json_line(line, record);
  EXPECT_EQ(line.find('\n'), line.size() - 1);  // one line
  const auto again = parse_record(line, "row");
  EXPECT_TRUE(again.ok()) << (again.ok() ? "" : again.error().message);
  return again.ok() ? *again : RequestRecord{};
}

TEST(RecordJson, IsLossless) {
  expect_equal(full_row(), round_trip(full_row()));
  expect_equal(RequestRecord{}, round_trip(RequestRecord{}));
  expect_equal(failed_row(1, 2, Outcome::kRefused),
               round_trip(failed_row(1, 2, Outcome::kRefused)));
}

TEST(RecordJson, IsTheSameWhoeverWroteTheLine) {
  // Another program parses the line and writes it its own way, members in another order.
  std::string line;
  append_json_line(line, full_row());
  Json json = *Json::parse(line, "row");
  auto& members = json.as_object();
  std::reverse(members.begin(), members.end());
  const auto again = parse_record(json.dump(0), "row");
  ASSERT_TRUE(again.ok()) << again.error().message;
  expect_equal(full_row(), *again);
  members.emplace_back("my_note", Json("unknown fields are left alone"));
  EXPECT_TRUE(parse_record(json.dump(0), "row").ok());
}

TEST(RecordJson, RandomRowsComeBack) {
  Random random(7);
  for (int round = 0; round < 300; ++round) {
    RequestRecord record;
    record.sent = static_cast<Nanoseconds>(1 + random.below(std::uint64_t{1} << 60));
    Nanoseconds at = record.sent;
    const std::uint64_t events = random.below(20);
    for (std::uint64_t event = 0; event < events; ++event) {
      at += static_cast<Nanoseconds>(random.below(3) == 0 ? 0 : random.below(1'000'000'000));
      record.events.push_back({at, static_cast<std::int32_t>(random.below(3)),
                               static_cast<TokenKind>(random.below(3))});
    }
    record.end = at + static_cast<Nanoseconds>(random.below(5));
    record.outcome = static_cast<Outcome>(random.below(kOutcomes));
    record.token_source = static_cast<TokenSource>(random.below(kTokenSources));
    expect_equal(record, round_trip(record));
  }
}

TEST(RecordJson, EveryNameIsItsOwn) {
  for (int outcome = 0; outcome < kOutcomes; ++outcome) {
    RequestRecord record;
    record.outcome = static_cast<Outcome>(outcome);
    EXPECT_EQ(round_trip(record).outcome, record.outcome);
    EXPECT_FALSE(to_string(record.outcome).empty());
  }
}

TEST(RecordJson, RefusesWhatIsNoRow) {
  std::string good;
  append_json_line(good, full_row());
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string line = good;
    const std::size_t at = line.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return line.replace(at, from.size(), to);
  };
  const std::string bad[] = {
      "",
      "{}",
      "[]",
      "1",
      "{\"v\":1}",
      good.substr(0, good.size() / 2),
      with("\"v\":1", "\"v\":2"),
      with("\"level\":3", "\"level\":-1"),
      with("\"level\":3", "\"level\":1e99"),
      with("error_event", "no_such_outcome"),
      with("continuous_usage", "guess"),
      with("[1,2147483647]", "[1,2147483648]"),
      with("[1,2147483647]", "[1,-1]"),
      with("[1,2147483647]", "[2,2147483647]"),
      with("[1,2147483647]", "[0,1]"),
      with("[1,\"tool\"]", "[1,\"picture\"]"),
      with("\"event_ns\":[5,", "\"event_ns\":[-5,"),
      with("\"event_ns\":[5,", "\"event_ns\":[5,,"),
      with("\"event_ns\":[5,", "\"event_ns\":[5.5,"),
      with("\"event_ns\":[5,", "\"event_ns\":[9223372036854775807,"),
      with("\"event_ns\":[5,", "\"event_ns\":[99999999999999999999,"),
      with("\"end_ns\":", "\"end_ns\":null,\"was_end\":"),
  };
  for (const std::string& line : bad) {
    const auto parsed = parse_record(line, "rows.jsonl:7");
    ASSERT_FALSE(parsed.ok()) << line;
    EXPECT_NE(parsed.error().message.find("rows.jsonl:7"), std::string::npos);
  }
}

TEST(RecordJson, NeverCrashesOnDamage) {
  std::string good;
  append_json_line(good, full_row());
  Random random(5);
  for (int round = 0; round < 3000; ++round) {
    std::string line = good;
    for (std::uint64_t edits = 1 + random.below(3); edits > 0; --edits) {
      line[random.below(line.size())] = static_cast<char>(random.below(256));
    }
    static_cast<void>(parse_record(line, "row"));
  }
}

}  // namespace
}  // namespace nibble::load
