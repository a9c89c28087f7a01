#include "telemetry/watch.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>

#include "telemetry/serve.h"
#include "telemetry/stream.h"

namespace nibble::telemetry {
namespace {

// Lines of a store into a file, written from the watching thread.
class LineFile {
 public:
  LineFile(std::shared_ptr<SampleStore> store, std::string path)
      : store_(std::move(store)), path_(std::move(path)), encoder_(host_name()) {}
  ~LineFile() {
    if (subscribed_) store_->unsubscribe(subscription_);
    if (file_ != nullptr && file_ != stdout) static_cast<void>(std::fclose(file_));
  }
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  Result<> open() {
    if (path_.empty()) return {};
    file_ = path_ == "-" ? stdout : std::fopen(path_.c_str(), "a");
    if (file_ == nullptr) {
      return input_error("{}: {}; give a file that can be written", path_, std::strerror(errno));
    }
    subscription_ = store_->subscribe(
        [this](SignalId id, const Signal& signal) {
          const std::lock_guard lock(mutex_);
          encoder_.on_signal(id, signal);
        },
        [this](SignalId id, const Point& point) {
          const std::lock_guard lock(mutex_);
          encoder_.on_value(id, point);
        });
    subscribed_ = true;
    return {};
  }

  Result<> write() {
    if (file_ == nullptr) return {};
    std::unique_lock lock(mutex_);
    const std::string lines = encoder_.take();
    lock.unlock();
    if (std::fwrite(lines.data(), 1, lines.size(), file_) != lines.size() ||
        std::fflush(file_) != 0) {
      return run_error("{}: {}; what came before is kept", path_, std::strerror(errno));
    }
    return {};
  }

 private:
  std::shared_ptr<SampleStore> store_;
  std::string path_;
  std::mutex mutex_;
  StreamEncoder encoder_;
  std::FILE* file_ = nullptr;
  int subscription_ = 0;
  bool subscribed_ = false;
};

Json watch_document(const Telemetry& telemetry, const Window& window) {
  Json signals = Json::array();
  for (const SignalState& state : telemetry.store->states()) {
    Json json = signal_json(state.signal);
    json.set("kept", static_cast<std::int64_t>(state.kept))
        .set("dropped", static_cast<std::int64_t>(state.dropped));
    if (state.dropped > 0) json.set("dropped_why", state.dropped_why);
    signals.push(std::move(json));
  }
  Json sources = Json::array();
  for (const SourceHealth& health : telemetry.sampler->health()) sources.push(health_json(health));
  return Json::object()
      .set("schema", "nibble.watch/1")
      .set("host", host_name())
      .set("duration_s", window.length_s())
      .set("signals", std::move(signals))
      .set("window", telemetry_json(telemetry, window))
      .set("sources", std::move(sources));
}

}  // namespace

Result<WatchOutcome> watch(const WatchOptions& options, const std::atomic<bool>& interrupted,
                           const WatchEvents& events) {
  NIBBLE_ASSIGN_OR_RETURN(Telemetry telemetry, open_telemetry(options.telemetry));
  std::optional<TelemetryServer> server;
  if (options.listen) {
    server.emplace(telemetry.store, *options.listen);
    NIBBLE_ASSIGN_OR_RETURN(const int port, server->start());
    if (events.listening) events.listening(port);
  }
  LineFile lines(telemetry.store, options.jsonl);
  NIBBLE_RETURN_IF_ERROR(lines.open());
  telemetry.sampler->start();
  const std::chrono::duration<double> margin(options.margin_s);
  std::this_thread::sleep_for(margin);
  Window window{.begin = monotonic_now()};
  const auto interval = static_cast<Nanoseconds>(options.interval_s * 1e9);
  const auto duration = static_cast<Nanoseconds>(options.duration_s * 1e9);
  Nanoseconds next_table = window.begin + interval;
  Result<> written;
  while (!interrupted && written) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    window.end = monotonic_now();
    if (window.end >= next_table) {
      telemetry.sampler->health();  // marks what hangs
      if (options.table && events.show) {
        events.show(watch_table(*telemetry.store, window.end, Style::for_stdout()));
      }
      next_table = std::max(next_table + interval, window.end);
    }
    written = lines.write();
    if (duration > 0 && window.end - window.begin >= duration) break;
  }
  if (written) std::this_thread::sleep_for(margin);
  telemetry.sampler->stop();
  if (written) written = lines.write();
  if (!written) return written.error();
  WatchOutcome outcome{.window = window};
  outcome.document = watch_document(telemetry, window);
  outcome.health = health_table(telemetry.sampler->health(), Style::for_stdout());
  return outcome;
}

}  // namespace nibble::telemetry
