// Serves a store over HTTP: /metrics for Prometheus, /stream for `nibble load --telemetry`, /clock
// for the offset between hosts.
//
//   TelemetryServer server(store, {.host = "0.0.0.0", .port = 9753});
//   NIBBLE_ASSIGN_OR_RETURN(const int port, server.start());
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "net/http_server.h"
#include "net/loop.h"
#include "telemetry/store.h"

namespace nibble::telemetry {

class TelemetryServer {
 public:
  TelemetryServer(std::shared_ptr<SampleStore> store, net::ServerOptions options);
  ~TelemetryServer();
  TelemetryServer(const TelemetryServer&) = delete;
  TelemetryServer& operator=(const TelemetryServer&) = delete;

  Result<int> start();  // the port
  void stop();

 private:
  std::shared_ptr<SampleStore> store_;
  net::Loops loops_{1};
  net::HttpServer server_;
};

// For servers that have samples beside pages of their own: whether the path is /stream or /clock,
// and the answer. `sleep` waits until a time; when it gives false the stream ends.
using StreamSleep = std::function<boost::asio::awaitable<bool>(Nanoseconds time)>;
bool is_samples_path(std::string_view path);
boost::asio::awaitable<void> answer_samples(std::shared_ptr<SampleStore> store,
                                            net::ServerRequest request, net::ResponseWriter& writer,
                                            StreamSleep sleep);

// This host's name, for people.
std::string host_name();

}  // namespace nibble::telemetry
