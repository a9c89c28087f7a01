// Scrapes an inference server's metrics into signals, and keeps its histograms for windows.
//
//   auto log = std::make_shared<HistogramLog>();
//   sources.push_back(server_source(fetch, {.where = "127.0.0.1:8000"}, store, log));
//   const Result<HistogramQuantile> p99 = log->quantile("ttft", 0.99, window);
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "telemetry/server_metrics.h"
#include "telemetry/source.h"
#include "telemetry/window.h"

namespace nibble::telemetry {

inline constexpr Nanoseconds kScrapePeriod = 1'000'000'000;

// The histograms of the newest scrapes.
class HistogramLog {
 public:
  using Histograms = std::map<std::string, Histogram, std::less<>>;

  using Faults = std::map<std::string, std::string, std::less<>>;

  // A name is in one of the two, or the server does not have it.
  void add(Nanoseconds at, Histograms histograms, Faults faults = {});
  // Of what came between the last scrape before the window and the first after it.
  Result<HistogramQuantile> quantile(std::string_view name, double q, const Window& window) const;

 private:
  // As long as the samples are kept.
  static constexpr std::size_t kKept = SampleStore::kDefaultRetention / kScrapePeriod;
  mutable std::mutex mutex_;
  std::deque<std::pair<Nanoseconds, Histograms>> scrapes_;
  Faults faults_;  // of the newest scrape
};

// Gives the body of a page: "/metrics", "/prometheus/metrics". May take as long as its own timeout.
using FetchPage = std::function<Result<std::string>(std::string_view target)>;

struct ServerOptions {
  std::string where;             // names the server in reasons
  std::string owner = "server";  // of its signals: "server.running"
  Nanoseconds period = kScrapePeriod;
};

// Signals that this server does not have are marked with that reason at the first scrape.
std::unique_ptr<Source> server_source(FetchPage fetch, ServerOptions options, SampleStore& store,
                                      std::shared_ptr<HistogramLog> log);

}  // namespace nibble::telemetry
