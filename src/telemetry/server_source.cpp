#include "telemetry/server_source.h"

#include <array>
#include <utility>

namespace nibble::telemetry {
namespace {

// TensorRT-LLM has statistics in JSON at /metrics, and Prometheus text at the second place.
constexpr std::array<std::string_view, 2> kPlaces = {"/metrics", "/prometheus/metrics"};

class ServerSource : public Source {
 public:
  ServerSource(FetchPage fetch, ServerOptions options, SampleStore& store,
               std::shared_ptr<HistogramLog> log)
      : fetch_(std::move(fetch)),
        where_(std::move(options.where)),
        store_(store),
        log_(std::move(log)),
        period_(options.period) {
    for (Signal signal : server_signals()) {
      signal.name = fmt::format("{}.{}", options.owner, quantity_of(signal.name));
      signal.available = false;
      signal.reason = "not scraped yet";
      ids_.push_back(store_.declare(std::move(signal)));
    }
  }

  SourceInfo info() const override { return {"server " + where_, "server " + where_, period_}; }
  std::vector<SignalId> signals() const override { return ids_; }

  Result<> sample() override {
    if (place_.empty()) return discover();
    // What fails once is sought anew: another server may have come to this address.
    const std::string place = std::exchange(place_, {});
    const Nanoseconds begin = monotonic_now();
    NIBBLE_ASSIGN_OR_RETURN(const std::string body, fetch_(place));
    ServerReading reading = read_server_metrics(body);
    if (reading.values.empty()) return nothing_known(reading);
    place_ = place;
    add(begin + (monotonic_now() - begin) / 2, std::move(reading));
    return {};
  }

 private:
  // The place that tells most; asked again at each sample until one tells anything.
  Result<> discover() {
    std::optional<Error> no_page;
    std::optional<Error> unknown_page;
    ServerReading best;
    Nanoseconds best_at = 0;
    for (const std::string_view place : kPlaces) {
      const Nanoseconds begin = monotonic_now();
      const Result<std::string> body = fetch_(place);
      if (!body) {
        if (!no_page) no_page = body.error();
        continue;
      }
      ServerReading reading = read_server_metrics(*body);
      if (reading.values.empty() && !unknown_page) unknown_page = nothing_known(reading);
      if (reading.values.size() <= best.values.size()) continue;
      best = std::move(reading);
      best_at = begin + (monotonic_now() - begin) / 2;
      place_ = place;
    }
    if (place_.empty()) {
      return unknown_page ? *unknown_page : *no_page;
    }
    add(best_at, std::move(best));
    return {};
  }

  Error nothing_known(const ServerReading& reading) const {
    return run_error("{}: its metrics page has no name that is known here{}{}", where_,
                     reading.faults.empty() ? "" : "; ",
                     reading.faults.empty() ? "" : reading.faults.front());
  }

  void add(Nanoseconds at, ServerReading reading) {
    const std::span<const Signal> signals = server_signals();
    for (std::size_t which = 0; which < signals.size(); ++which) {
      const auto value = reading.values.find(signals[which].name);
      if (value != reading.values.end()) {
        store_.add(ids_[which], at, value->second);
      } else {
        store_.set_unavailable(
            ids_[which],
            fmt::format("{} does not tell it", reading.engine.empty() ? where_ : reading.engine));
      }
    }
    if (!log_) return;
    log_->add(at, std::move(reading.histograms), std::move(reading.histogram_faults));
  }

  FetchPage fetch_;
  std::string where_;
  SampleStore& store_;
  std::shared_ptr<HistogramLog> log_;
  Nanoseconds period_;
  std::vector<SignalId> ids_;  // in the order of server_signals()
  std::string place_;          // empty: not known yet
};

}  // namespace

void HistogramLog::add(Nanoseconds at, Histograms histograms, Faults faults) {
  const std::lock_guard lock(mutex_);
  faults_ = std::move(faults);
  scrapes_.emplace_back(at, std::move(histograms));
  if (scrapes_.size() > kKept) scrapes_.pop_front();
}

Result<HistogramQuantile> HistogramLog::quantile(std::string_view name, double q,
                                                 const Window& window) const {
  const std::lock_guard lock(mutex_);
  const Histogram* before = nullptr;
  const Histogram* after = nullptr;
  for (const auto& [at, histograms] : scrapes_) {
    const auto found = histograms.find(name);
    if (found == histograms.end()) continue;
    if (at <= window.begin) before = &found->second;
    if (at >= window.end && after == nullptr) after = &found->second;
  }
  const auto fault = faults_.find(name);
  const bool missing = before == nullptr || after == nullptr;
  if (missing && fault != faults_.end()) return run_error("{}", fault->second);
  if (before == nullptr) return run_error("no scrape with {} from before the window", name);
  if (after == nullptr) return run_error("no scrape with {} from after the window", name);
  NIBBLE_ASSIGN_OR_RETURN(const Histogram grown, histogram_difference(*before, *after));
  return histogram_quantile(grown, q);
}

std::unique_ptr<Source> server_source(FetchPage fetch, ServerOptions options, SampleStore& store,
                                      std::shared_ptr<HistogramLog> log) {
  return std::make_unique<ServerSource>(std::move(fetch), std::move(options), store,
                                        std::move(log));
}

}  // namespace nibble::telemetry
