// What a streamed event costs, and how late it comes: the server and the client of src/net in one
// process, each on a thread of its own, many streams of small events at a fixed pace.
//
//   build/bench/net_stream [STREAMS [INTERVAL_MS [SECONDS]]]
//
// CPU time is that of the two threads by their own clocks. Latenesses are of the client's stamp
// against the time that the server had planned for the event, both on one clock.
#include <atomic>
#include <cstdlib>
#include <fmt/core.h>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

#include "base/stats.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "net/sse.h"

namespace nibble::net {
namespace {

using boost::asio::awaitable;

struct Plan {
  int streams = 1000;
  Nanoseconds interval = 10'000'000;
  int events = 300;  // of each stream
};

// The size of what vLLM sends for a token.
std::string event_at(Nanoseconds planned) {
  return fmt::format(
      "data: {{\"id\":\"cmpl-0123456789abcdef0123456789abcdef\",\"object\":\"text_completion\","
      "\"created\":1700000000,\"model\":\"mock\",\"choices\":[{{\"index\":0,\"text\":\" token\","
      "\"logprobs\":null,\"finish_reason\":null}}],\"planned\":{:020}}}\n\n",
      planned);
}

awaitable<void> stream(Plan plan, ServerRequest request, ResponseWriter& writer) {
  Headers headers;
  headers.emplace_back("Content-Type", "text/event-stream");
  co_await writer.head(200, std::move(headers), Framing::chunked());
  bool more = true;
  for (int i = 1; i <= plan.events && more; ++i) {
    const Nanoseconds planned = request.received_at + i * plan.interval;
    more = co_await writer.sleep_until(planned);
    std::string event = event_at(planned);
    if (more) more = co_await writer.write(std::move(event));
  }
  if (more) co_await writer.finish();
}

class Reader : public BodySink {
 public:
  explicit Reader(std::vector<double>& lateness_us) : lateness_us_(lateness_us) {}
  bool on_bytes(std::string_view bytes, Nanoseconds received_at) override {
    const Result<> fed = parser_.feed(bytes, [&](const SseEvent& event) {
      const std::size_t at = event.data.rfind(':');
      const Nanoseconds planned = std::strtoll(event.data.data() + at + 1, nullptr, 10);
      lateness_us_.push_back(static_cast<double>(received_at - planned) * 1e-3);
    });
    return fed.ok();
  }

 private:
  SseParser parser_;
  std::vector<double>& lateness_us_;
};

// Seconds that the loop's thread spent outside the kernel.
double user_seconds(Loops& loops) {
  rusage usage = {};
  loops.run(0, [&]() -> awaitable<void> {
    ::getrusage(RUSAGE_THREAD, &usage);
    co_return;
  });
  return static_cast<double>(usage.ru_utime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec);
}

void print(const char* who, Loops& loops, double events) {
  const LoopAudit audit = loops.audit(0);
  fmt::print(
      "{:<7} {:6.2f} us CPU an event, {:.2f} of them outside the kernel; {:.1f} % of a core\n", who,
      static_cast<double>(audit.cpu) * 1e-3 / events, user_seconds(loops) * 1e6 / events,
      100.0 * static_cast<double>(audit.cpu) / static_cast<double>(audit.wall));
  fmt::print("        lag p50 {:.3f} p99 {:.3f} max {:.3f} ms\n", milliseconds(audit.lag_p50),
             milliseconds(audit.lag_p99), milliseconds(audit.lag_max));
}

int measure(const Plan& plan) {
  const Result<> allowed = allow_descriptors(static_cast<std::size_t>(plan.streams) * 2 + 100);
  if (!allowed.ok()) {
    fmt::print(stderr, "{}\n", allowed.error().message);
    return 1;
  }
  Loops server_loops;
  Loops client_loops;
  HttpServer server(server_loops, {});
  const Result<int> port = server.start([plan](ServerRequest request, ResponseWriter& writer) {
    return stream(plan, std::move(request), writer);
  });
  if (!port.ok()) {
    fmt::print(stderr, "{}\n", port.error().message);
    return 1;
  }
  const Url url{.host = "127.0.0.1", .port = static_cast<std::uint16_t>(*port)};
  HttpClient client = HttpClient::make(client_loops, 0, url, {}).value();
  std::vector<double> lateness_us;
  lateness_us.reserve(static_cast<std::size_t>(plan.streams) *
                      static_cast<std::size_t>(plan.events));
  std::atomic<int> left = plan.streams;
  std::atomic<int> failed = 0;
  for (int i = 0; i < plan.streams; ++i) {
    client_loops.spawn(0, [&, i]() -> awaitable<void> {
      co_await sleep_for(plan.interval * i / plan.streams);  // the streams are out of step
      Reader reader(lateness_us);
      HttpRequest request;
      const Exchange exchange = co_await client.exchange(std::move(request), reader);
      if (!exchange.ok()) ++failed;
      --left;
    });
  }
  while (left > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const double events = static_cast<double>(lateness_us.size());
  fmt::print("{} streams, an event each {} ms: {:.0f} events, {} streams failed\n", plan.streams,
             milliseconds(plan.interval), events, failed.load());
  if (events == 0) return 1;
  print("client", client_loops, events);
  print("server", server_loops, events);
  fmt::print("late    p50 {:.1f} p99 {:.1f} max {:.1f} us\n", quantile(lateness_us, 0.5),
             quantile(lateness_us, 0.99), quantile(lateness_us, 1));
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace nibble::net

int main(int argc, char** argv) {
  constexpr int kMostStreams = 30'000;      // ports of this host
  constexpr int kMostEvents = 100'000'000;  // 8 bytes each are kept
  nibble::net::Plan plan;
  double span_s = 3;
  if (argc > 1) plan.streams = std::atoi(argv[1]);
  if (argc > 2) plan.interval = nibble::from_milliseconds(std::atof(argv[2]));
  if (argc > 3) span_s = std::atof(argv[3]);
  const double events = span_s * 1e9 / static_cast<double>(plan.interval);
  const bool sensible = plan.streams >= 1 && plan.streams <= kMostStreams && plan.interval >= 1 &&
                        events >= 1 && events * plan.streams <= kMostEvents;
  if (!sensible) {
    fmt::print(stderr,
               "usage: net_stream [STREAMS [INTERVAL_MS [SECONDS]]], up to {} streams and {} "
               "events in all\n",
               kMostStreams, kMostEvents);
    return 2;
  }
  plan.events = static_cast<int>(events);
  return nibble::net::measure(plan);
}
