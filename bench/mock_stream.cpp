// How exact a load test's times are on one machine: the mock of src/mock and the client of src/net
// in one process, each stream read by api::StreamReader, and what was measured against the script.
//
//   build/bench/mock_stream [STREAMS [ITL_MS [TOKENS [LOOPS]]]]
//
// LOOPS is of the mock and of the client each. CPU of the client is that of its loops by their own
// clocks; the mock's is the rest of the process.
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fmt/core.h>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

#include "api/stream.h"
#include "base/stats.h"
#include "mock/mock.h"
#include "net/http_client.h"
#include "net/sse.h"

namespace nibble::mock {
namespace {

using boost::asio::awaitable;

constexpr double kTtftMs = 50;

struct Plan {
  int streams = 1000;
  double itl_ms = 10;
  int tokens = 300;
  int loops = 1;
};

// The arrivals of one stream's tokens.
class Reader : public net::BodySink {
 public:
  bool on_bytes(std::string_view bytes, Nanoseconds received_at) override {
    const Result<> fed = parser_.feed(bytes, [&](const net::SseEvent& event) {
      if (reader_.read(event.data, event.event).bears_tokens) arrivals.push_back(received_at);
    });
    return fed.ok();
  }
  std::vector<Nanoseconds> arrivals;

 private:
  net::SseParser parser_;
  api::StreamReader reader_{api::Dialect::kCompletions};
};

struct Stream {
  Reader reader;
  net::Exchange exchange;
};

Nanoseconds process_cpu() {
  timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return Nanoseconds{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

awaitable<void> ask(const Plan& plan, net::HttpClient& client, Stream& stream, Nanoseconds after) {
  co_await net::sleep_for(after);  // the streams are out of step
  net::HttpRequest request{.method = "POST", .target = "/v1/completions"};
  request.body = fmt::format(R"({{"prompt": "a", "max_tokens": {}, "stream": true}})", plan.tokens);
  stream.exchange = co_await client.exchange(std::move(request), stream.reader);
}

void print(const char* what, std::vector<double>& errors_ms) {
  if (errors_ms.empty()) return;
  fmt::print("{:<22} p50 {:.3f} p90 {:.3f} p99 {:.3f} max {:.3f} ms\n", what,
             quantile(errors_ms, 0.5), quantile(errors_ms, 0.9), quantile(errors_ms, 0.99),
             quantile(errors_ms, 1));
}

int report(const Plan& plan, const std::vector<Stream>& streams, const MockStats& stats,
           Nanoseconds client_cpu, Nanoseconds mock_cpu) {
  std::vector<double> ttft;
  std::vector<double> itl;
  double events = 0;
  int failed = 0;
  for (const Stream& stream : streams) {
    const std::vector<Nanoseconds>& at = stream.reader.arrivals;
    events += static_cast<double>(at.size());
    if (!stream.exchange.ok() || at.size() != static_cast<std::size_t>(plan.tokens)) ++failed;
    if (at.empty()) continue;
    const Nanoseconds first = at.front() - stream.exchange.stamps.send_start;
    ttft.push_back(std::abs(milliseconds(first) - kTtftMs));
    for (std::size_t i = 1; i < at.size(); ++i) {
      itl.push_back(std::abs(milliseconds(at[i] - at[i - 1]) - plan.itl_ms));
    }
  }
  fmt::print("{} streams, {} tokens each {} ms apart: {:.0f} events, {} streams failed\n",
             plan.streams, plan.tokens, plan.itl_ms, events, failed);
  if (events == 0) return 1;
  fmt::print("CPU an event           client {:.2f} us, mock {:.2f} us\n",
             static_cast<double>(client_cpu) * 1e-3 / events,
             static_cast<double>(mock_cpu) * 1e-3 / events);
  print("TTFT error", ttft);
  print("ITL error", itl);
  fmt::print("the mock's own lateness p50 {:.3f} p99 {:.3f} ms\n", milliseconds(stats.error.p50),
             milliseconds(stats.error.p99));
  return failed == 0 ? 0 : 1;
}

int measure(const Plan& plan) {
  const Result<> allowed = net::allow_descriptors(static_cast<std::size_t>(plan.streams) * 2 + 100);
  if (!allowed.ok()) {
    fmt::print(stderr, "{}\n", allowed.error().message);
    return 1;
  }
  MockScript script;
  script.ttft_ms = Distribution::constant(kTtftMs);
  script.itl_ms = Distribution::constant(plan.itl_ms);
  const auto count = static_cast<std::size_t>(plan.loops);
  Result<RunningMock> mock = start_mock(std::move(script), {.threads = count});
  if (!mock.ok()) {
    fmt::print(stderr, "{}\n", mock.error().message);
    return 1;
  }
  const net::Url url = net::parse_url(mock->url()).value();
  net::Loops loops(count);
  std::vector<net::HttpClient> clients;
  for (std::size_t i = 0; i < count; ++i) {
    clients.push_back(net::HttpClient::make(loops, i, url, {}).value());
  }
  std::vector<Stream> streams(static_cast<std::size_t>(plan.streams));
  std::atomic<int> left = plan.streams;
  const Nanoseconds step = from_milliseconds(plan.itl_ms) / plan.streams;
  const Nanoseconds cpu_start = process_cpu();
  loops.reset_audit();
  for (std::size_t i = 0; i < streams.size(); ++i) {
    loops.spawn(i % count, [&, i]() -> awaitable<void> {
      co_await ask(plan, clients[i % count], streams[i], step * static_cast<Nanoseconds>(i));
      --left;
    });
  }
  while (left > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const Nanoseconds cpu = process_cpu() - cpu_start;
  Nanoseconds client_cpu = 0;
  for (std::size_t i = 0; i < count; ++i) client_cpu += loops.audit(i).cpu;
  const int result = report(plan, streams, mock->stats(), client_cpu, cpu - client_cpu);
  loops.stop();
  return result;
}

}  // namespace
}  // namespace nibble::mock

int main(int argc, char** argv) {
  constexpr int kMostStreams = 30'000;  // ports of this host
  constexpr double kMostEvents = 1e8;   // 8 bytes each are kept
  constexpr int kMostLoops = 64;
  nibble::mock::Plan plan;
  if (argc > 1) plan.streams = std::atoi(argv[1]);
  if (argc > 2) plan.itl_ms = std::atof(argv[2]);
  if (argc > 3) plan.tokens = std::atoi(argv[3]);
  if (argc > 4) plan.loops = std::atoi(argv[4]);
  const double events = static_cast<double>(plan.streams) * plan.tokens;
  const bool sensible = plan.streams >= 1 && plan.streams <= kMostStreams && plan.itl_ms > 0 &&
                        plan.tokens >= 1 && events <= kMostEvents && plan.loops >= 1 &&
                        plan.loops <= kMostLoops;
  if (!sensible) {
    fmt::print(stderr, "usage: mock_stream [STREAMS [ITL_MS [TOKENS [LOOPS]]]], up to {} streams\n",
               kMostStreams);
    return 2;
  }
  return nibble::mock::measure(plan);
}
