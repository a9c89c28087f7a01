#include "telemetry/serve.h"

#include <array>
#include <boost/asio/awaitable.hpp>
#include <unistd.h>
#include <utility>

#include "base/json.h"
#include "telemetry/prometheus.h"
#include "telemetry/stream.h"

namespace nibble::telemetry {
namespace {

using boost::asio::awaitable;

constexpr Nanoseconds kStreamPeriod = 50'000'000;
awaitable<void> stream(std::shared_ptr<SampleStore> store, net::ResponseWriter& writer,
                       StreamSleep sleep) {
  net::Headers headers = {{"Content-Type", "application/x-ndjson"}, {"Cache-Control", "no-store"}};
  bool alive = co_await writer.head(200, std::move(headers), net::Framing::chunked());
  LineFeed feed(std::move(store), host_name());
  Nanoseconds next = monotonic_now();
  while (alive) {
    std::string lines = feed.take();
    if (!lines.empty()) alive = co_await writer.write(std::move(lines));
    if (!alive) break;
    if (feed.overrun()) {
      writer.close();
      co_return;
    }
    next = std::max(next + kStreamPeriod, monotonic_now());
    alive = co_await sleep(next);
  }
}

awaitable<void> respond(net::ResponseWriter& writer, int status, std::string type,
                        std::string body) {
  net::Headers headers = {{"Content-Type", std::move(type)}};
  co_await writer.respond(status, std::move(headers), std::move(body));
}

awaitable<void> handle(std::shared_ptr<SampleStore> store, net::ServerRequest request,
                       net::ResponseWriter& writer) {
  const std::string path(request.path());
  if (request.method != "GET" && request.method != "HEAD") {
    co_await respond(writer, 405, "text/plain", "only GET\n");
  } else if (is_samples_path(path)) {
    StreamSleep sleep = [&writer](Nanoseconds time) { return writer.sleep_until(time); };
    co_await answer_samples(std::move(store), std::move(request), writer, std::move(sleep));
  } else if (path == "/metrics") {
    const std::vector<SignalState> states = store->states();
    std::string page = signals_page(states);
    co_await respond(writer, 200, "text/plain; version=0.0.4; charset=utf-8", std::move(page));
  } else if (path == "/") {
    co_await respond(writer, 200, "text/plain",
                     "nibble watch\n/metrics  Prometheus text\n/stream   samples as JSON lines\n"
                     "/clock    this host's monotonic clock\n");
  } else {
    co_await respond(writer, 404, "text/plain", "there are /metrics, /stream and /clock\n");
  }
}

}  // namespace

bool is_samples_path(std::string_view path) {
  return path == "/stream" || path == "/clock";
}

awaitable<void> answer_samples(std::shared_ptr<SampleStore> store, net::ServerRequest request,
                               net::ResponseWriter& writer, StreamSleep sleep) {
  if (request.path() == "/stream") {
    co_await stream(std::move(store), writer, std::move(sleep));
    co_return;
  }
  std::string body = Json::object()
                         .set("schema", "nibble.clock/1")
                         .set("received_ns", request.received_at)
                         .set("answered_ns", monotonic_now())
                         .dump(0);
  co_await respond(writer, 200, "application/json", std::move(body));
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

TelemetryServer::TelemetryServer(std::shared_ptr<SampleStore> store, net::ServerOptions options)
    : store_(std::move(store)), server_(loops_, std::move(options)) {}

TelemetryServer::~TelemetryServer() {
  stop();
}

Result<int> TelemetryServer::start() {
  return server_.start([store = store_](net::ServerRequest request, net::ResponseWriter& writer) {
    return handle(store, std::move(request), writer);
  });
}

void TelemetryServer::stop() {
  server_.stop(0);
  loops_.stop();
}

}  // namespace nibble::telemetry
