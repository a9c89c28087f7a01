#include "load/steady.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "base/stats.h"
#include "load/metrics.h"
#include "load/test_rows.h"

namespace nibble::load {
namespace {

// A closed loop of `streams`: each sends its next request when the last one ends. latency(i) gives
// the ms of request i, half of it to the first token, ten tokens in all.
template <class Latency>
std::vector<RequestRecord> closed_loop(int streams, int requests, Latency&& latency) {
  std::vector<double> free(static_cast<std::size_t>(streams), 0);
  std::vector<RequestRecord> rows;
  for (int index = 0; index < requests; ++index) {
    const auto stream = std::min_element(free.begin(), free.end());
    const double ms = latency(index);
    TestRow row{.sent = *stream, .events = {}, .end = ms, .output = 10};
    for (int token = 0; token < 10; ++token) row.events.push_back(ms * (10 + token) / 20);
    rows.push_back(make_row(row));
    rows.back().index = index;
    *stream += ms;
  }
  return rows;
}

Steady steady_of(const std::vector<RequestRecord>& rows, std::optional<double> target) {
  SteadyFinder finder({.target = target});
  for (const RequestRecord& row : rows) finder.add(row);
  return finder.find();
}

TEST(UnstablePrefix, FindsTheSlowStart) {
  Random random(1);
  std::vector<double> values;
  for (int index = 0; index < 200; ++index) {
    values.push_back((index < 20 ? 500 : 50) * (0.95 + 0.1 * random.uniform()));
  }
  // The least standard error may lie a batch or two later by chance, never earlier.
  EXPECT_GE(unstable_prefix(values), 20);
  EXPECT_LE(unstable_prefix(values), 50);
  values.erase(values.begin(), values.begin() + 2);  // 18 of them: the batch of five is cut whole
  EXPECT_GE(unstable_prefix(values), 20);
  std::vector<double> exact(100, 1.0);
  std::fill(exact.begin(), exact.begin() + 20, 10.0);
  EXPECT_EQ(unstable_prefix(exact), 20);
}

TEST(UnstablePrefix, CutsNothingFromAStableSeries) {
  EXPECT_EQ(unstable_prefix({}), 0);
  EXPECT_EQ(unstable_prefix(std::vector<double>(100, 3.0)), 0);
  EXPECT_EQ(unstable_prefix(std::vector<double>(100, 0.0)), 0);
  Random random(2);
  int cut = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<double> values;
    for (int index = 0; index < 200; ++index) values.push_back(50 + 20 * random.uniform());
    cut += unstable_prefix(values) > 0 ? 1 : 0;
  }
  EXPECT_LT(cut, 5);
}

// T14: the first 20 requests are ten times as slow.
TEST(Steady, LeavesOutTheSlowStart) {
  const auto rows = closed_loop(8, 400, [](int index) { return index < 20 ? 1000.0 : 100.0; });
  const Steady steady = steady_of(rows, 8);
  ASSERT_TRUE(steady.valid()) << steady.reason;
  EXPECT_EQ(steady.unstable, 20);
  MetricsOptions options;
  options.window = steady.window;
  LevelAccumulator inside(options);
  LevelAccumulator all({});
  for (const RequestRecord& row : rows) {
    inside.add(row);
    all.add(row);
  }
  const LevelMetrics metrics = inside.finish();
  EXPECT_EQ(metrics[Metric::kE2el].max, 95);  // the last token of a 100 ms request: 19 / 20
  EXPECT_EQ(metrics[Metric::kTtft].max, 50);
  EXPECT_GT(metrics.counts.ok, 300);
  // Eight streams, ten tokens every 100 ms: 800 tokens/s. Over everything it looks slower.
  EXPECT_NEAR(*metrics.output_throughput, 800, 8);
  EXPECT_LT(*all.finish().output_throughput, 720);
}

TEST(Steady, CutsRampAndDrain) {
  // Streams that start 100 ms apart, each 20 requests of 200 ms: four in flight from 300 on, until
  // the first of them is through at 4000.
  std::vector<RequestRecord> rows;
  for (int stream = 0; stream < 4; ++stream) {
    for (int index = 0; index < 20; ++index) {
      rows.push_back(make_row({.sent = 100.0 * stream + 200 * index,
                               .events = {100, 150, 200},
                               .end = 200,
                               .output = 3}));
    }
  }
  const Steady steady = steady_of(rows, 4);
  ASSERT_TRUE(steady.valid()) << steady.reason;
  EXPECT_EQ(steady.window.start, test_time(300));
  EXPECT_EQ(steady.window.stop, test_time(4000));
  EXPECT_NEAR(steady.ramp_s, 0.3, 1e-9);
  EXPECT_NEAR(steady.drain_s, 0.3, 1e-9);
  EXPECT_NEAR(steady.share_at_target, 1, 1e-9);
  EXPECT_EQ(steady.unstable, 0);
  EXPECT_FALSE(steady.enough);  // 3.7 s of 5 s
  EXPECT_NE(steady.note.find("5"), std::string::npos);
}

TEST(Steady, SaysWhyThereIsNone) {
  EXPECT_EQ(steady_of({}, 4).reason, "no request succeeded");
  EXPECT_EQ(steady_of({failed_row(0, 5, Outcome::kReset)}, 1).reason, "no request succeeded");
  const RequestRecord one = make_row({.sent = 0, .events = {5, 10}, .end = 10, .output = 2});
  EXPECT_NE(steady_of({one}, 8).reason.find("never in flight"), std::string::npos);
  EXPECT_TRUE(steady_of({one}, 1).valid());
  // Open loop: one request has no time between the first send and the last.
  EXPECT_FALSE(steady_of({one}, std::nullopt).valid());
}

TEST(Steady, GapsBetweenRequestsAreTold) {
  // One stream that waits as long as it works: half of the time nothing is in flight.
  std::vector<RequestRecord> rows;
  for (int index = 0; index < 100; ++index) {
    rows.push_back(make_row({.sent = 200.0 * index, .events = {50, 100}, .end = 100, .output = 2}));
  }
  const Steady steady = steady_of(rows, 1);
  ASSERT_TRUE(steady.valid());
  EXPECT_NEAR(steady.share_at_target, 0.5, 0.01);
  EXPECT_NE(steady.note.find("of the window only"), std::string::npos);
}

TEST(Steady, OpenLoopEndsWithTheLastSend) {
  std::vector<RequestRecord> rows;
  for (int index = 0; index < 100; ++index) {
    rows.push_back(make_row({.sent = 100.0 * index, .events = {50, 250}, .end = 250, .output = 2}));
  }
  const Steady steady = steady_of(rows, std::nullopt);
  ASSERT_TRUE(steady.valid());
  EXPECT_EQ(steady.window.stop, test_time(9900));
  EXPECT_TRUE(steady.enough);
}

}  // namespace
}  // namespace nibble::load
