#include <gtest/gtest.h>

#include "base/file.h"
#include "base/testing.h"
#include "diagnose/read_evidence.h"
#include "diagnose/read_fixture.h"

namespace nibble::diagnose {
namespace {

constexpr std::string_view kStream =
    R"({"schema":"nibble.telemetry/1","host":"node7","clock":"CLOCK_MONOTONIC","unit":"ns"}
{"signal":{"name":"gpu0.power","unit":"W","source":"NVML","kind":"gauge","available":true}}
{"signal":{"name":"gpu0.throttle_power","unit":"s","source":"NVML","kind":"counter","available":true}}
{"signal":{"name":"gpu0.dram_active","unit":"%","source":"GPM","kind":"gauge","available":false,"reason":"before Hopper"}}
{"t":1000000000,"v":{"gpu0.power":100,"gpu0.throttle_power":0}}
{"t":3000000000,"v":{"gpu0.power":200,"gpu0.throttle_power":0}}
{"t":5000000000,"v":{"gpu0.power":400,"gpu0.throttle_power":1}}
{"t":9000000000,"v":{"gpu0.power":900,"gpu0.throttle_power":1}}
)";

// One level from 2 s to 6 s of the same clock; the run began at 1 s.
Evidence windowed() {
  Evidence evidence;
  evidence.zero_ns = 1'000'000'000;
  evidence.levels.push_back({.name = "8 users"});
  evidence.levels[0].start_s = 1;
  evidence.levels[0].end_s = 5;
  return evidence;
}

TEST(ReadTelemetryTest, FillsTheWindowsOfTheLevels) {
  Evidence evidence = windowed();
  const Result<> read = read_telemetry(kStream, {.name = "watch.jsonl"}, evidence);
  ASSERT_TRUE(read.ok()) << read.error().message;
  const LevelEvidence& level = evidence.levels[0];
  EXPECT_DOUBLE_EQ(*level.get(Fact::kPower), 300);  // of 200 and 400
  // 0 s to 3 s, half of the way at 4 s, 1 s from 5 s on: 1 s of 4 s.
  EXPECT_DOUBLE_EQ(*level.get(Fact::kThrottledPower), 0.25);
  EXPECT_EQ(level[Fact::kDram].reason, "gpu0.dram_active: before Hopper");
  ASSERT_EQ(evidence.series.size(), 1U);
  EXPECT_EQ(evidence.series[0].name, "gpu0.power");
  EXPECT_EQ(evidence.series[0].points[2], (std::pair{4.0, 400.0}));
}

TEST(ReadTelemetryTest, KeepsWhatTheLoadTestSaw) {
  Evidence evidence = windowed();
  evidence.levels[0][Fact::kPower] = measured(333, "load.json");
  ASSERT_TRUE(read_telemetry(kStream, {.name = "watch.jsonl"}, evidence).ok());
  EXPECT_DOUBLE_EQ(*evidence.levels[0].get(Fact::kPower), 333);
}

TEST(ReadTelemetryTest, AnotherClockIsANote) {
  Evidence evidence = windowed();
  evidence.zero_ns = 77'000'000'000'000;
  ASSERT_TRUE(read_telemetry(kStream, {.name = "watch.jsonl"}, evidence).ok());
  EXPECT_FALSE(evidence.levels[0][Fact::kPower].known());
  ASSERT_EQ(evidence.setting.notes.size(), 1U);
  EXPECT_NE(evidence.setting.notes[0].find("watch.jsonl (host node7) was not used"),
            std::string::npos);
  Evidence timeless;
  ASSERT_TRUE(read_telemetry(kStream, {.name = "w"}, timeless).ok());
  EXPECT_EQ(timeless.setting.notes.size(), 1U);
}

TEST(ReadTelemetryTest, AFaultNamesTheLineButForTheLastOne) {
  Evidence evidence = windowed();
  const std::string text(kStream);
  EXPECT_TRUE(read_telemetry(text + "{\"t\":99", {.name = "w"}, evidence).ok());
  const Result<> read = read_telemetry("{\"t\":1}\n" + text, {.name = "w.jsonl"}, evidence);
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message.find("w.jsonl: line 1"), std::string::npos);
  EXPECT_FALSE(read_telemetry("", {.name = "w"}, evidence).ok());
}

class ReadDocumentTest : public testing::Test {
 protected:
  Result<DocumentRead> read(std::string_view text, const char* name = "file.json") {
    EXPECT_TRUE(write_file(folder_.path() / name, text).ok());
    return read_document(folder_.path() / name, evidence_);
  }
  TemporaryFolder folder_;
  Evidence evidence_;
};

TEST_F(ReadDocumentTest, FindsTheKind) {
  const Result<DocumentRead> load = read(kLoadText);
  ASSERT_TRUE(load.ok()) << load.error().message;
  EXPECT_EQ(load->kind, "nibble.load/1");
  EXPECT_EQ(evidence_.levels.size(), 1U);
  const Result<DocumentRead> stream = read(kStream, "watch.jsonl");
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ(stream->kind, "nibble.telemetry/1");
  const Result<DocumentRead> bench = read(R"({"schema": "nibble.bench/1", "rows": []})");
  ASSERT_TRUE(bench.ok());
  EXPECT_EQ(bench->kind, "nibble.bench/1");
  evidence_ = {};  // a case has levels of its own
  const Result<DocumentRead> found = read(built_in_case("glm52_rtxpro6000_spin").value_or("{}"));
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found->analysis.has_value());
}

TEST_F(ReadDocumentTest, OtherKindsListWhatCanBeRead) {
  for (const char* text : {R"({"schema": "nibble.doctor/1"})", R"({"a": 1})"}) {
    const Result<DocumentRead> other = read(text);
    ASSERT_FALSE(other.ok());
    EXPECT_NE(other.error().message.find("file.json"), std::string::npos);
    EXPECT_NE(other.error().message.find("nibble.load/1"), std::string::npos);
    EXPECT_NE(other.error().message.find("nibble.telemetry/1"), std::string::npos);
  }
  EXPECT_FALSE(read("not json").ok());
  EXPECT_FALSE(read("").ok());
  EXPECT_FALSE(read_document(folder_.path() / "absent.json", evidence_).ok());
}

}  // namespace
}  // namespace nibble::diagnose
