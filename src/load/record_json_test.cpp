#include "load/record_json.h"

#include <cstring>
#include <gtest/gtest.h>
#include <limits>

#include "base/json.h"
#include "base/stats.h"
#include "load/test_rows.h"

namespace nibble::load {
namespace {

std::string line_of(const RequestRecord& record) {
  std::string line;
  append_json_line(line, record);
  return line;
}

void expect_equal(const RequestRecord& a, const RequestRecord& b) {
  EXPECT_TRUE(a == b) << line_of(a) << line_of(b);
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
                   {record.sent + 900, 0, TokenKind::kText},  // zero is not "none" here either
                   {record.sent + 900, std::nullopt, TokenKind::kText},
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
  record.prompt_repeated = false;
  return record;
}

RequestRecord round_trip(const RequestRecord& record) {
  const std::string line = line_of(record);
  EXPECT_EQ(line.find('\n'), line.size() - 1);  // one line
  const auto again = parse_record(line, "row");
  EXPECT_TRUE(again.ok()) << (again.ok() ? "" : again.error().message);
  return again.ok() ? *again : RequestRecord{};
}

TEST(RecordJson, IsLossless) {
  expect_equal(full_row(), round_trip(full_row()));
  RequestRecord unsent;
  unsent.outcome = Outcome::kCancelled;
  expect_equal(unsent, round_trip(unsent));
  expect_equal(failed_row(1, 2, Outcome::kRefused),
               round_trip(failed_row(1, 2, Outcome::kRefused)));
}

TEST(RecordJson, IsTheSameWhoeverWroteTheLine) {
  // Another program parses the line and writes it its own way, members in another order.
  const std::string line = line_of(full_row());
  Json json = *Json::parse(line, "row");
  auto& members = json.as_object();
  std::reverse(members.begin(), members.end());
  const auto again = parse_record(json.dump(0), "row");
  ASSERT_TRUE(again.ok()) << again.error().message;
  expect_equal(full_row(), *again);
  // 5.0 is a whole number, in a list as in a field.
  std::string with_doubles = json.dump(0);
  for (const char* field :
       {"\"event_ns\":[5", "\"event_tokens\":[[2", "\"event_tokens\":[[2.0,2"}) {
    const std::size_t at = with_doubles.find(field);
    ASSERT_NE(at, std::string::npos) << field;
    with_doubles.insert(at + std::strlen(field), ".0");
  }
  const auto doubles = parse_record(with_doubles, "row");
  ASSERT_TRUE(doubles.ok()) << doubles.error().message;
  expect_equal(full_row(), *doubles);
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
      record.events.push_back({at, std::nullopt, static_cast<TokenKind>(random.below(3))});
      if (random.below(2) == 0) {
        record.events.back().tokens = static_cast<std::int32_t>(random.below(3));
      }
    }
    record.end = at + static_cast<Nanoseconds>(random.below(5));
    record.outcome = static_cast<Outcome>(random.below(kOutcomes));
    record.token_source = static_cast<TokenSource>(random.below(kTokenSources));
    expect_equal(record, round_trip(record));
  }
}

TEST(RecordJson, EveryNameIsItsOwn) {
  for (int outcome = 0; outcome < kOutcomes; ++outcome) {
    RequestRecord record = make_row({.end = 1});
    record.outcome = static_cast<Outcome>(outcome);
    EXPECT_EQ(round_trip(record).outcome, record.outcome);
    EXPECT_FALSE(to_string(record.outcome).empty());
  }
}

TEST(RecordJson, RefusesWhatIsNoRow) {
  const std::string good = line_of(full_row());
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
      with("\"event_ns\":[5,", "\"event_ns\":[05,"),
      with("\"index\":", "\"event_ns\":[1],\"index\":"),
      with("\"end_ns\":", "\"end_ns\":null,\"was_end\":"),
      with("\"sent_ns\":", "\"sent_ns\":null,\"was_sent\":"),
  };
  for (const std::string& line : bad) {
    const auto parsed = parse_record(line, "rows.jsonl:7");
    ASSERT_FALSE(parsed.ok()) << line;
    EXPECT_NE(parsed.error().message.find("rows.jsonl:7"), std::string::npos);
  }
}

// A wrong row of another program gets one sentence that says what to write.
TEST(RecordJson, SaysWhatIsMissingOrWrong) {
  const auto refusal = [](std::string line) {
    const auto parsed = parse_record(line, "rows.jsonl:7");
    return parsed.ok() ? std::string() : parsed.error().message;
  };
  RequestRecord row = make_row({.end = 1});
  row.sent = 0;
  EXPECT_NE(refusal(line_of(row)).find("\"sent_ns\" is missing"), std::string::npos);
  row.outcome = Outcome::kReset;
  EXPECT_EQ(refusal(line_of(row)), "");
  row.first_byte = test_time(1);
  EXPECT_NE(refusal(line_of(row)).find("\"sent_ns\" is missing"), std::string::npos);
  std::string line = line_of(make_row({.end = 1}));
  line.replace(line.find("\"ok\""), 4, "\"fine\"");
  EXPECT_NE(refusal(line).find("\"outcome\" is none of ok, resolve,"), std::string::npos);
}

// Sums over the rows of a run are 64-bit integers: no row may hold counts that could overflow them.
TEST(RecordJson, CountsThatNoAnswerHasAreRefused) {
  RequestRecord record = full_row();
  record.output_tokens = 10'000'000'000;
  expect_equal(record, round_trip(record));
  record.output_tokens = 10'000'000'001;
  EXPECT_FALSE(parse_record(line_of(record), "row").ok());
  record = full_row();
  for (int event = 0; event < 3; ++event) record.events.push_back(record.events.back());
  expect_equal(record, round_trip(record));  // four times 2^31 - 1
  record.events.push_back(record.events.back());
  EXPECT_FALSE(parse_record(line_of(record), "row").ok());
}

TEST(RecordJson, NeverCrashesOnDamage) {
  const std::string good = line_of(full_row());
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
