// Each fault of a script as a client sees it.
#include <gtest/gtest.h>

#include "base/eventually.h"
#include "mock/mock.h"
#include "mock/test_server.h"

namespace nibble::mock {
namespace {

using net::NetFault;

constexpr const char* kStream =
    R"({"messages": [{"role": "user", "content": "a"}], "max_tokens": 6, "stream": true})";
constexpr const char* kWhole =
    R"({"messages": [{"role": "user", "content": "a"}], "max_tokens": 6})";

struct Seen {
  Answer answer;
  MockStats stats;
  std::vector<RequestTruth> truths;
};

// The second of three requests meets the fault; the others must not notice.
Seen meet(Fault fault, const char* body, net::Timeouts timeouts = {}) {
  MockScript script;
  script.ttft_ms = Distribution::constant(2);
  script.itl_ms = Distribution::constant(1);
  fault.requests = {1};
  script.faults = {fault};
  Result<RunningMock> mock = start_mock(script, {.keep_truths = true});
  EXPECT_TRUE(mock.ok());
  TestClient client(mock->url(), timeouts, false);
  const Answer before = client.ask("/v1/chat/completions", body);
  Seen seen;
  seen.answer = client.ask("/v1/chat/completions", body);
  const Answer after = client.ask("/v1/chat/completions", body);
  EXPECT_TRUE(before.exchange.ok() && after.exchange.ok());
  if (body == kStream) {
    EXPECT_EQ(before.arrivals.size(), 6U);
    EXPECT_EQ(after.arrivals.size(), 6U);
  }
  // A client that has gone is noticed soon, not at once.
  settle(*mock);
  seen.stats = mock->stats();
  seen.truths = mock->take_truths();
  EXPECT_EQ(seen.stats.running, 0);
  return seen;
}

TEST(MockFault, HttpStatus) {
  for (const int status : {429, 500, 503}) {
    const Seen seen = meet({.kind = FaultKind::kStatus, .status = status}, kStream);
    EXPECT_EQ(seen.answer.exchange.status, status);
    EXPECT_EQ(net::find_header(seen.answer.exchange.headers, "Retry-After").has_value(),
              status != 500);
    EXPECT_TRUE(seen.answer.body.starts_with(R"({"error":)")) << seen.answer.body;
  }
}

TEST(MockFault, ResetBeforeTheHeadAndMidStream) {
  const Seen first = meet({.kind = FaultKind::kReset}, kStream);
  EXPECT_EQ(first.answer.exchange.fault, NetFault::kReset);
  EXPECT_EQ(first.answer.exchange.status, 0);
  const Seen later = meet({.kind = FaultKind::kReset, .after_tokens = 3}, kStream);
  EXPECT_EQ(later.answer.exchange.fault, NetFault::kReset);
  EXPECT_EQ(later.answer.exchange.status, 200);
  EXPECT_EQ(later.stats.aborted, 1);
  // The truth tells how many were given; a reset may destroy what the client had not read.
  EXPECT_LE(later.answer.arrivals.size(), 3U);
}

TEST(MockFault, EndsInsideTheBody) {
  for (const FaultKind kind : {FaultKind::kTruncate, FaultKind::kClose}) {
    const Seen stream = meet({.kind = kind, .after_tokens = 2}, kStream);
    EXPECT_EQ(stream.answer.exchange.fault, NetFault::kTruncated);
    EXPECT_EQ(stream.answer.arrivals.size(), 2U);
    const Seen body = meet({.kind = kind}, kWhole);
    EXPECT_EQ(body.answer.exchange.fault, NetFault::kTruncated);
  }
}

TEST(MockFault, BadFraming) {
  const Seen seen = meet({.kind = FaultKind::kBadFraming, .after_tokens = 2}, kStream);
  EXPECT_EQ(seen.answer.exchange.fault, NetFault::kProtocol);
}

TEST(MockFault, ErrorsInTheStream) {
  const Seen error = meet({.kind = FaultKind::kErrorEvent, .after_tokens = 2}, kStream);
  EXPECT_EQ(error.answer.exchange.fault, NetFault::kNone);
  EXPECT_TRUE(error.answer.error_event);
  EXPECT_EQ(error.answer.arrivals.size(), 2U);
  const Seen broken = meet({.kind = FaultKind::kBadJson, .after_tokens = 2}, kStream);
  EXPECT_TRUE(broken.answer.malformed);
}

TEST(MockFault, StatusTwoHundredWithSomethingElse) {
  const Seen error = meet({.kind = FaultKind::kErrorBody}, kStream);
  EXPECT_EQ(error.answer.exchange.status, 200);
  EXPECT_TRUE(api::read_body(api::Dialect::kChat, error.answer.body).is_error);
  const Seen page = meet({.kind = FaultKind::kHtml}, kStream);
  EXPECT_EQ(page.answer.exchange.status, 200);
  EXPECT_TRUE(page.answer.body.starts_with("<!DOCTYPE html>"));
}

TEST(MockFault, AnAnswerWithoutTokens) {
  const Seen seen = meet({.kind = FaultKind::kEmpty}, kStream);
  EXPECT_EQ(seen.answer.exchange.fault, NetFault::kNone);
  EXPECT_TRUE(seen.answer.arrivals.empty());
  EXPECT_TRUE(seen.answer.end.saw_done);
}

TEST(MockFault, HangsForAWhile) {
  const Seen seen = meet({.kind = FaultKind::kHang, .after_tokens = 3, .ms = 80}, kStream);
  ASSERT_EQ(seen.answer.arrivals.size(), 6U);
  EXPECT_GE(seen.answer.arrivals[3].at - seen.answer.arrivals[2].at, 75 * kMs);
  EXPECT_EQ(seen.truths[1].chunks[3].due - seen.truths[1].chunks[2].due, 81 * kMs);
  const Seen first = meet({.kind = FaultKind::kHang, .ms = 80, .head = false}, kStream);
  EXPECT_GE(first.answer.exchange.stamps.head - first.answer.exchange.stamps.send_start, 75 * kMs);
  EXPECT_EQ(first.answer.arrivals.size(), 6U);
}

TEST(MockFault, HangsForEver) {
  const net::Timeouts timeouts{.first_byte = 100 * kMs, .idle = 100 * kMs};
  for (const bool head : {true, false}) {
    const Seen silent = meet({.kind = FaultKind::kHang, .head = head}, kStream, timeouts);
    EXPECT_EQ(silent.answer.exchange.fault, NetFault::kFirstByteTimeout);
    EXPECT_EQ(silent.answer.exchange.status, head ? 200 : 0);
  }
  const Seen idle = meet({.kind = FaultKind::kHang, .after_tokens = 2}, kStream, timeouts);
  EXPECT_EQ(idle.answer.exchange.fault, NetFault::kIdleTimeout);
  EXPECT_EQ(idle.answer.arrivals.size(), 2U);
}

// A mock whose first request makes it refuse connections for so long.
Result<RunningMock> refuses_for(double ms) {
  MockScript script;
  script.ttft_ms = Distribution::constant(1);
  script.itl_ms = Distribution::constant(0);
  script.faults = {{.kind = FaultKind::kRefuse, .requests = {0}, .ms = ms}};
  return start_mock(script, {});
}

TEST(MockFault, RefusesConnections) {
  const Result<RunningMock> mock = refuses_for(3'600'000);
  ASSERT_TRUE(mock.ok());
  TestClient client(mock->url());
  const auto ask = [&] { return client.ask("/v1/chat/completions", kStream).exchange.fault; };
  EXPECT_EQ(ask(), NetFault::kReset);
  EXPECT_TRUE(eventually([&] { return ask() == NetFault::kRefused; }));
  EXPECT_EQ(ask(), NetFault::kRefused);
}

TEST(MockFault, ListensAgainAfterAWhileAndNotBefore) {
  const Result<RunningMock> mock = refuses_for(150);
  ASSERT_TRUE(mock.ok());
  TestClient client(mock->url());
  const auto ask = [&] { return client.ask("/v1/chat/completions", kStream).exchange.fault; };
  const Nanoseconds begin = monotonic_now();
  EXPECT_EQ(ask(), NetFault::kReset);
  // It listens for a moment after the reset, and a busy client may miss the time of refusals.
  bool refused = false;
  EXPECT_TRUE(eventually([&] {
    const NetFault fault = ask();
    refused |= fault == NetFault::kRefused;
    return fault == NetFault::kNone && (refused || monotonic_now() - begin >= 150 * kMs);
  }));
  EXPECT_GE(monotonic_now() - begin, 150 * kMs);
}

}  // namespace
}  // namespace nibble::mock
