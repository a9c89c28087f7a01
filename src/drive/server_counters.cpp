#include "drive/server_counters.h"

#include <chrono>
#include <thread>
#include <utility>

#include "telemetry/server_source.h"

namespace nibble::drive {
namespace {

constexpr Nanoseconds kSettleAtMost = 1'000'000'000;
constexpr Nanoseconds kStillFor = 200'000'000;
constexpr auto kReadEvery = std::chrono::milliseconds(50);

std::optional<double> rise(const std::optional<double>& before, const std::optional<double>& now) {
  if (!before || !now || *now < *before) return std::nullopt;
  return *now - *before;
}

bool went_back(const std::optional<double>& before, const std::optional<double>& now) {
  return before && now && *now < *before;
}

}  // namespace

std::optional<double> ServerCounters::prompt_since(const ServerCounters& before) const {
  return rise(before.prompt_tokens, prompt_tokens);
}

std::optional<double> ServerCounters::output_since(const ServerCounters& before) const {
  return rise(before.output_tokens, output_tokens);
}

std::optional<double> ServerCounters::requests_since(const ServerCounters& before) const {
  return rise(before.requests, requests);
}

std::string ServerCounters::why_not_since(const ServerCounters& before) const {
  if (prompt_since(before) && output_since(before)) return "";
  if (went_back(before.prompt_tokens, prompt_tokens) ||
      went_back(before.output_tokens, output_tokens)) {
    return "the server's counters went back: it was restarted";
  }
  if (!before.reason.empty()) return before.reason;
  return reason.empty() ? "the server's counters were not read" : reason;
}

struct CounterReader::Impl {
  // Of the signals that the page was asked for just now.
  std::optional<double> value(const char* name, Nanoseconds since, std::string* why) const {
    const telemetry::SignalState state = store.state(*store.find(name));
    const bool fresh = state.latest && state.latest->at >= since;
    if (state.signal.available && fresh) return state.latest->value;
    if (why == nullptr || !why->empty()) return std::nullopt;
    *why = fmt::format("{}: {}", name,
                       state.signal.available ? state.dropped_why : state.signal.reason);
    return std::nullopt;
  }

  ServerCounters read(bool& busy) {
    const Nanoseconds begin = monotonic_now();
    const Result<> sampled = source->sample();
    ServerCounters counters;
    busy = false;
    if (!sampled) {
      counters.reason = sampled.error().message;
      return counters;
    }
    counters.prompt_tokens = value("server.prompt_tokens", begin, &counters.reason);
    counters.output_tokens = value("server.generation_tokens", begin, &counters.reason);
    counters.requests = value("server.finished", begin, &counters.reason);
    busy = value("server.running", begin, nullptr).value_or(0) > 0;
    return counters;
  }

  std::unique_ptr<telemetry::PageFetcher> pages;
  telemetry::SampleStore store;  // of these readings alone
  std::unique_ptr<telemetry::Source> source;
};

CounterReader::CounterReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CounterReader::~CounterReader() = default;
CounterReader::CounterReader(CounterReader&&) noexcept = default;
CounterReader& CounterReader::operator=(CounterReader&&) noexcept = default;

Result<CounterReader> CounterReader::make(const net::Url& url, const telemetry::WebOptions& web) {
  auto impl = std::make_unique<Impl>();
  NIBBLE_ASSIGN_OR_RETURN(impl->pages, telemetry::PageFetcher::make(url, web));
  telemetry::PageFetcher* pages = impl->pages.get();
  impl->source =
      telemetry::server_source([pages](std::string_view target) { return pages->get(target); },
                               {.where = url.authority() + url.path}, impl->store, nullptr);
  return CounterReader(std::move(impl));
}

ServerCounters CounterReader::read() {
  bool busy = false;
  return impl_->read(busy);
}

ServerCounters CounterReader::read_settled() {
  const Nanoseconds begin = monotonic_now();
  bool busy = false;
  ServerCounters last = impl_->read(busy);
  Nanoseconds still_since = monotonic_now();
  while (last.prompt_tokens || last.output_tokens || last.requests) {
    const Nanoseconds now = monotonic_now();
    if (now - begin >= kSettleAtMost || (!busy && now - still_since >= kStillFor)) break;
    std::this_thread::sleep_for(kReadEvery);
    ServerCounters next = impl_->read(busy);
    const bool same = next.prompt_tokens == last.prompt_tokens &&
                      next.output_tokens == last.output_tokens && next.requests == last.requests;
    if (!same || busy) still_since = monotonic_now();
    last = std::move(next);
  }
  return last;
}

}  // namespace nibble::drive
