#include "trace/chrome.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "trace/trace_testing.h"

namespace nibble::trace {
namespace {

std::string message_of(std::string_view text, std::string_view name = "a.json") {
  const Result<TraceSummary> summary = load_text(text, name);
  return summary.ok() ? "" : summary.error().message;
}
void expect_in(const std::string& message, std::string_view part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

std::string gzip(const std::string& text) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "a.gz").string();
  gzFile file = gzopen(path.c_str(), "wb");
  NIBBLE_CHECK(gzwrite(file, text.data(), static_cast<unsigned>(text.size())) ==
               static_cast<int>(text.size()));
  NIBBLE_CHECK(gzclose(file) == Z_OK);
  return *read_file(path, 64 << 20);
}

TEST(ChromeTimes, AreExact) {
  EXPECT_EQ(nanoseconds("0"), 0);
  EXPECT_EQ(nanoseconds("1712345678901234.567"), 1712345678901234567);
  EXPECT_EQ(nanoseconds("2.5"), 2500);
  EXPECT_EQ(nanoseconds("-0.001"), -1);
  EXPECT_EQ(nanoseconds("0.0004"), 0);
  EXPECT_EQ(nanoseconds("0.0005"), 1);
  EXPECT_EQ(nanoseconds("1e3"), 1000000);
  EXPECT_EQ(nanoseconds("1.5E-3"), 2);  // 1.5 ns
  for (const char* text : {"", "-", ".", "NaN", "Infinity", "1.2.3", "1e400", "1e18", "0x10",
                           "9223372036854775807", "99999999999999999999", "--1"})
    EXPECT_EQ(nanoseconds(text), std::nullopt) << text;
}

TEST(Chrome, ReadsGzip) {
  const std::string text = chrome_trace({kernel("nvjet_a", 0, 10, 0)});
  const Result<TraceSummary> summary = load_text(gzip(text), "a.trace.json.gz");
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_DOUBLE_EQ(row_of(*summary, "gemm").ms, 0.01);
  EXPECT_TRUE(load_text(gzip(text), "no_ending").ok());  // told by its first bytes
}

TEST(Chrome, ReadsAnArrayOfEvents) {
  const Result<TraceSummary> summary = load_text("[" + kernel("nvjet_a", 0, 10, 0) + "]");
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_DOUBLE_EQ(row_of(*summary, "gemm").ms, 0.01);
}

TEST(Chrome, ReadsACutFileAsFarAsItGoes) {
  const std::string whole =
      chrome_trace({kernel("nvjet_a", 0, 10, 0), kernel("nvjet_b", 10, 10, 0)});
  const std::string cut = whole.substr(0, whole.find("nvjet_b") + 3);
  for (const std::string& text : {cut, cut + "\" : : "}) {
    const Result<TraceSummary> summary = load_text(text);
    ASSERT_TRUE(summary.ok()) << summary.error().message;
    EXPECT_DOUBLE_EQ(row_of(*summary, "gemm").count, 1);
    EXPECT_TRUE(notes_hold(*summary, "as far as it goes, 1 events"));
  }
  const std::string zipped = gzip(chrome_trace(std::vector<std::string>(
      2000, kernel("nvjet_a", 0, 10, 0) + "," + kernel("nvjet_\\u00e4", 20, 10, 0))));
  const Result<TraceSummary> summary = load_text(zipped.substr(0, zipped.size() / 2), "a.json.gz");
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_TRUE(notes_hold(*summary, "gzip data end early"));
}

TEST(Chrome, LeavesOutTheLastStepOfACutFile) {
  std::vector<std::string> events;
  for (int step = 0; step < 3; ++step) {
    events.push_back(annotation("step[DECODE bs=1]", 100 * step, 10));
    events.push_back(launch(step + 1, 100 * step + 5));
    events.push_back(kernel("nvjet_a", 100 * step + 20, 10, step + 1));
  }
  const std::string whole = chrome_trace(events);
  const Result<TraceSummary> summary = load_text(whole.substr(0, whole.size() - 3));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->steps, 2);
  EXPECT_TRUE(notes_hold(*summary, "the last step was left out"));
}

TEST(Chrome, KernelsWithoutUsableTimesAreCounted) {
  const std::string bad[] = {
      R"({"ph": "X", "cat": "kernel", "name": "a", "ts": NaN, "dur": 1})",
      R"({"ph": "X", "cat": "kernel", "name": "a", "ts": 1, "dur": -1})",
      R"({"ph": "X", "cat": "kernel", "name": "a", "ts": 1, "dur": 1e300})",
      R"({"ph": "X", "cat": "kernel", "name": "a", "ts": 9e18, "dur": 1})",
      R"({"ph": "X", "cat": "kernel", "name": "a", "ts": 1, "dur": 600000001})",
      R"({"ph": "X", "cat": "kernel", "name": "a", "ts": {"x": 1}, "dur": 1})",
      R"({"ph": "X", "cat": "kernel", "name": "a"})"};
  std::vector<std::string> events(std::begin(bad), std::end(bad));
  expect_in(message_of(chrome_trace(events)), "7 kernels, none with a usable time");
  events.push_back(kernel("nvjet_a", 0, 10, 0));
  const Result<TraceSummary> summary = load_text(chrome_trace(events));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_TRUE(notes_hold(*summary, "usable time or duration: 7 kernels"));
  EXPECT_DOUBLE_EQ(summary->step_ms, 0.01);
}

TEST(Chrome, KnowsTheEngineByItsFunctions) {
  const std::string host =
      event_text("python_function", "sglang/srt/managers/scheduler.py(2592): run_batch", 0, 1, "");
  const Result<TraceSummary> summary = load_text(chrome_trace({host, kernel("nvjet_a", 0, 10, 0)}));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->engine, "sglang");
}

TEST(Chrome, NamesTheRank) {
  const Result<TraceSummary> summary = load_text(
      R"({"distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8}, "traceEvents": [)" +
      kernel("nvjet_a", 0, 10, 0) + "]}");
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_TRUE(notes_hold(*summary, "rank 3 of 8"));
}

TEST(Chrome, WhatIsNoTraceIsRefusedInOneSentence) {
  expect_in(message_of(""), "is empty");
  expect_in(message_of("hello\n"), "is no trace: it is no JSON from byte");
  expect_in(message_of("42"), "is no trace");
  expect_in(message_of("{}"), "without an array \"traceEvents\"");
  expect_in(message_of(R"({"a": 1, "b": []})"), "(it has a, b)");
  expect_in(message_of(R"({"traceEvents": []})"), "has 0 events, but no kernel");
  expect_in(message_of(R"({"traceEvents": [{"ph": "X"}, 7, [1]]})"), "has 1 events, but no kernel");
  expect_in(message_of(R"({"traceEvents": {"a": 1}})"), "without an array \"traceEvents\"");
  expect_in(message_of(R"({"traceEvents": [{"ph": "X", "na)"), "breaks off");
  expect_in(message_of(R"({"a": )"), "has no \"traceEvents\": it ends in the middle");
  expect_in(message_of("text", "a.sqlite"), "is no SQLite database");
  expect_in(message_of("text", "a.nsys-rep"), "nsys export --type sqlite");
  expect_in(message_of("\x1f\x8b\x08garbage", "a.json.gz"), "is no trace: its gzip data");
}

TEST(Chrome, PlacesThatAreNoFilesAreRefused) {
  const TemporaryFolder folder;
  expect_in(load_trace(folder.path(), {}).error().message, "is a folder");
  expect_in(load_trace(folder.path() / "missing.json", {}).error().message, "no trace is at");
  expect_in(load_trace("/dev/null", {}).error().message, "no regular file");
}

}  // namespace
}  // namespace nibble::trace
