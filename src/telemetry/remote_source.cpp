#include "telemetry/remote_source.h"

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <map>
#include <mutex>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "telemetry/stream.h"
#include "telemetry/web.h"

namespace nibble::telemetry {
namespace {

using boost::asio::awaitable;

constexpr Nanoseconds kRemotePeriod = 1'000'000'000;
constexpr Nanoseconds kClockPeriod = 10'000'000'000;
constexpr int kClockQuestions = 8;
constexpr Nanoseconds kReconnectAfter = 1'000'000'000;
// A stream in which nothing comes for so long is broken: every host samples its CPU.
constexpr Nanoseconds kSilence = 10'000'000'000;
constexpr std::string_view kBoundName = "clock.offset_bound";
constexpr std::size_t kMostSignals = 4096;

class RemoteSource : public Source, private net::BodySink {
 public:
  RemoteSource(const net::Url& url, SampleStore& store)
      : where_(url.authority()), target_(url.target("/stream")), store_(store) {
    bound_ = store_.declare({.name = fmt::format("{}/{}", where_, kBoundName),
                             .unit = "s",
                             .source = "/clock of " + where_,
                             .low = 0,
                             .high = 60,
                             .available = false,
                             .reason = "not connected yet"});
  }
  ~RemoteSource() override { loops_.stop(); }

  Result<> open(const net::Url& url) {
    NIBBLE_ASSIGN_OR_RETURN(pages_, PageFetcher::make(url, {}));
    net::ClientOptions options;
    options.timeouts = {.first_byte = kSilence, .idle = kSilence};
    NIBBLE_ASSIGN_OR_RETURN(net::HttpClient client,
                            net::HttpClient::make(loops_, 0, url, std::move(options)));
    client_ = std::make_unique<net::HttpClient>(std::move(client));
    return {};
  }

  SourceInfo info() const override {
    return {"remote " + where_, "remote " + where_, kRemotePeriod};
  }

  std::vector<SignalId> signals() const override {
    const std::lock_guard lock(mutex_);
    std::vector<SignalId> all = {bound_};
    for (const auto& [name, id] : ids_) all.push_back(id);
    return all;
  }

  // The samples come by themselves; what is done here is to look after the clock and the stream.
  Result<> sample() override {
    const std::string fault = take_fault();
    if (!fault.empty()) mark(fault);
    const Nanoseconds now = monotonic_now();
    if (clock_at_ == 0 || now - clock_at_ >= kClockPeriod || !following_) {
      NIBBLE_ASSIGN_OR_RETURN(const ClockOffset clock, ask_clock());
      clock_at_ = now;
      offset_ = clock.offset;
      store_.add(bound_, now, seconds(clock.bound));
    }
    if (!following_ && (last_start_ == 0 || now - last_start_ >= kReconnectAfter)) follow(now);
    if (!fault.empty()) return run_error("{}", fault);
    return {};
  }

 private:
  Result<ClockOffset> ask_clock() {
    std::vector<ClockExchange> exchanges;
    for (int question = 0; question < kClockQuestions; ++question) {
      NIBBLE_ASSIGN_OR_RETURN(const net::Response response, pages_->fetch("/clock"));
      NIBBLE_ASSIGN_OR_RETURN(ClockExchange exchange, parse_clock_answer(response.body));
      exchange.sent = response.exchange.stamps.send_start;
      exchange.received = response.exchange.stamps.first_byte;
      exchanges.push_back(exchange);
    }
    return estimate_offset(exchanges);
  }

  void follow(Nanoseconds now) {
    last_start_ = now;
    following_ = true;
    cutter_ = {};
    loops_.spawn(0, [this]() -> awaitable<void> {
      net::HttpRequest request{.target = target_};
      const net::Exchange exchange = co_await client_->exchange(std::move(request), *this);
      ended(exchange);
    });
  }

  void ended(const net::Exchange& exchange) {
    std::string why = exchange.message;  // it names the address
    if (exchange.fault == net::NetFault::kNone) {
      why = exchange.status == 200
                ? fmt::format("{}: it ended the stream", where_)
                : fmt::format("{}{} answers status {}", where_, target_, exchange.status);
    }
    const std::lock_guard lock(mutex_);
    if (fault_.empty()) fault_ = std::move(why);
    following_ = false;
  }

  void mark(const std::string& fault) {
    for (const SignalId id : signals()) {
      if (id != bound_) store_.set_unavailable(id, fault);
    }
  }

  std::string take_fault() {
    const std::lock_guard lock(mutex_);
    return std::exchange(fault_, {});
  }

  void on_head(int status, const net::Headers&) override { status_ = status; }

  bool on_bytes(std::string_view bytes, Nanoseconds) override {
    if (status_ != 200) return false;
    bool fine = true;
    const auto on_line = [&](std::string_view line) {
      if (!fine || line.empty()) return;
      const Result<> taken = take_line(line);
      if (taken) return;
      fine = false;
      fail(taken.error().message);
    };
    if (!cutter_.feed(bytes, on_line)) {
      fine = false;
      fail("a line of its stream is too long");
    }
    return fine;
  }

  void fail(std::string_view why) {
    const std::lock_guard lock(mutex_);
    fault_ = fmt::format("{}: {}", where_, why);
  }

  Result<> take_line(std::string_view line) {
    NIBBLE_ASSIGN_OR_RETURN(StreamLine parsed, parse_stream_line(line));
    if (Signal* signal = std::get_if<Signal>(&parsed)) return declare(std::move(*signal));
    const StreamValues* values = std::get_if<StreamValues>(&parsed);
    if (values == nullptr) return {};
    const Nanoseconds at = values->at - offset_;
    for (const auto& [name, value] : values->values) {
      const auto known = ids_.find(name);
      if (known != ids_.end()) store_.add(known->second, at, value);
    }
    return {};
  }

  Result<> declare(Signal signal) {
    const std::string name = signal.name;
    if (name == kBoundName) return run_error("stream of samples: it has our own {}", kBoundName);
    if (!ids_.contains(name) && ids_.size() >= kMostSignals) {
      return run_error("it has more than {} signals", kMostSignals);
    }
    signal.name = where_ + "/" + name;
    const SignalId id = store_.declare(std::move(signal));
    const std::lock_guard lock(mutex_);
    ids_.insert_or_assign(name, id);
    return {};
  }

  std::string where_;
  std::string target_;
  SampleStore& store_;
  SignalId bound_ = 0;
  std::unique_ptr<PageFetcher> pages_;
  net::Loops loops_{1};
  std::unique_ptr<net::HttpClient> client_;

  // Of the lane's thread.
  Nanoseconds clock_at_ = 0;
  Nanoseconds last_start_ = 0;

  std::atomic<Nanoseconds> offset_ = 0;
  std::atomic<bool> following_ = false;
  mutable std::mutex mutex_;
  std::string fault_;
  std::map<std::string, SignalId, std::less<>> ids_;  // changed by the loop alone

  // Of the loop.
  int status_ = 0;
  LineCutter cutter_;
};

}  // namespace

Result<ClockExchange> parse_clock_answer(std::string_view body) {
  constexpr NumberRange kTimes{.min = 0, .max = 4e18};
  NIBBLE_ASSIGN_OR_RETURN(const Json json, Json::parse(body, "/clock"));
  if (!json.is_object()) return input_error("/clock answers {}", json.kind_name());
  ObjectReader reader(json, "/clock");
  ClockExchange exchange;
  exchange.received_at = reader.require_integer("received_ns", kTimes);
  exchange.answered_at = reader.require_integer("answered_ns", kTimes);
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  return exchange;
}

Result<std::unique_ptr<Source>> remote_source(const net::Url& url, SampleStore& store) {
  auto source = std::make_unique<RemoteSource>(url, store);
  NIBBLE_RETURN_IF_ERROR(source->open(url));
  return std::unique_ptr<Source>(std::move(source));
}

}  // namespace nibble::telemetry
