#include "telemetry/stream.h"

#include <gtest/gtest.h>

namespace nibble::telemetry {
namespace {

TEST(StreamEncoder, ValuesOfOneMomentShareALine) {
  StreamEncoder encoder("node7");
  encoder.on_signal(0, {.name = "gpu0.power", .unit = "W", .source = "NVML"});
  encoder.on_signal(1, {.name = "a\"b"});
  encoder.on_value(0, {1000, 445.1});
  encoder.on_value(1, {1000, 2});
  encoder.on_value(0, {2000, 0.1});
  const std::string expected =
      "{\"schema\":\"nibble.telemetry/1\",\"host\":\"node7\",\"clock\":\"CLOCK_MONOTONIC\","
      "\"unit\":\"ns\"}\n"
      "{\"signal\":{\"name\":\"gpu0.power\",\"unit\":\"W\",\"source\":\"NVML\",\"kind\":\"gauge\","
      "\"available\":true}}\n"
      "{\"signal\":{\"name\":\"a\\\"b\",\"unit\":\"\",\"source\":\"\",\"kind\":\"gauge\","
      "\"available\":true}}\n"
      "{\"t\":1000,\"v\":{\"gpu0.power\":445.1,\"a\\\"b\":2}}\n"
      "{\"t\":2000,\"v\":{\"gpu0.power\":0.1}}\n";
  EXPECT_EQ(encoder.take(), expected);
  EXPECT_EQ(encoder.take(), "");
  EXPECT_EQ(encoder.pending_bytes(), 0U);
}

TEST(StreamEncoder, TwoValuesOfOneMomentAreTwoLines) {
  StreamEncoder encoder("x");
  encoder.on_signal(0, {.name = "a"});
  encoder.on_signal(1, {.name = "b"});
  encoder.take();
  encoder.on_value(0, {7, 1});
  encoder.on_value(0, {7, 2});
  encoder.on_value(1, {7, 3});
  EXPECT_EQ(encoder.take(), "{\"t\":7,\"v\":{\"a\":1}}\n{\"t\":7,\"v\":{\"a\":2,\"b\":3}}\n");
}

TEST(StreamEncoder, ALineInTheMakingIsClosedBeforeADescription) {
  StreamEncoder encoder("x");
  encoder.take();
  encoder.on_signal(0, {.name = "a"});
  encoder.take();
  encoder.on_value(0, {7, 1});
  encoder.on_signal(0, {.name = "a", .available = false, .reason = "gone"});
  EXPECT_EQ(encoder.take(),
            "{\"t\":7,\"v\":{\"a\":1}}\n{\"signal\":{\"name\":\"a\",\"unit\":\"\",\"source\":\"\","
            "\"kind\":\"gauge\",\"available\":false,\"reason\":\"gone\"}}\n");
}

TEST(LineFeed, AReaderThatDoesNotComeBackIsGivenUp) {
  auto store = std::make_shared<SampleStore>();
  const SignalId id = store->declare({.name = "a"});
  LineFeed feed(store, "x", 200);
  store->add(id, 1, 1);
  EXPECT_FALSE(feed.overrun());
  EXPECT_TRUE(feed.take().ends_with("{\"t\":1,\"v\":{\"a\":1}}\n"));
  for (int at = 2; at < 100; ++at) store->add(id, at, 1);
  EXPECT_TRUE(feed.overrun());
  EXPECT_LE(feed.take().size(), 250U);
  store->set_unavailable(id, "gone");
  EXPECT_EQ(feed.take(), "");  // what follows a gap is not told either
}

TEST(ParseStreamLine, ReadsEachKind) {
  const auto header = parse_stream_line(R"({"schema":"nibble.telemetry/1","host":"n","new":[1]})");
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(std::get<StreamHeader>(*header).host, "n");
  const auto signal = parse_stream_line(R"({"signal":{"name":"gpu0.power","unit":"W"}})");
  ASSERT_TRUE(signal.ok());
  EXPECT_EQ(std::get<Signal>(*signal).unit, "W");
  const auto values = parse_stream_line(R"({"t":9007199254740993,"v":{"a":1.5,"b":null,"c":"x"}})");
  ASSERT_TRUE(values.ok());
  const StreamValues& batch = std::get<StreamValues>(*values);
  EXPECT_EQ(batch.at, 9007199254740993);  // beyond what a double can hold
  ASSERT_EQ(batch.values.size(), 1U);
  EXPECT_EQ(batch.values[0].second, 1.5);
}

TEST(ParseStreamLine, RefusesEverythingElse) {
  for (const char* line :
       {"", "x", "1", "[]", "{}", R"({"t":1})", R"({"v":{}})", R"({"t":-1,"v":{}})",
        R"({"t":9e18,"v":{}})", R"({"t":1.5,"v":{}})", R"({"t":1,"v":[]})", R"({"signal":1})",
        R"({"schema":"nibble.telemetry/2"})", R"({"schema":1})", R"({"t":1,"v":{"a":1})"}) {
    EXPECT_FALSE(parse_stream_line(line).ok()) << line;
  }
}

TEST(LineCutter, CutsWhereverTheBytesAreCut) {
  const std::string text = "one\ntwo\n\nthree\nrest";
  for (std::size_t step = 1; step <= text.size(); ++step) {
    LineCutter cutter;
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size(); at += step) {
      EXPECT_TRUE(cutter.feed(std::string_view(text).substr(at, step),
                              [&](std::string_view line) { lines.emplace_back(line); }));
    }
    const std::vector<std::string> expected = {"one", "two", "", "three"};
    EXPECT_EQ(lines, expected) << step;
  }
}

TEST(LineCutter, ALineWithoutEndIsRefused) {
  LineCutter cutter;
  const std::string piece(LineCutter::kLongestLine, 'x');
  EXPECT_TRUE(cutter.feed(piece, [](std::string_view) {}));
  EXPECT_FALSE(cutter.feed("x", [](std::string_view) {}));
}

}  // namespace
}  // namespace nibble::telemetry
