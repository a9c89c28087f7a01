// start_mock() and RunningMock of mock.h: the HTTP server around Session.
#include <boost/asio/this_coro.hpp>
#include <charconv>
#include <condition_variable>

#include "api/reply.h"
#include "mock/mock.h"
#include "mock/pages.h"
#include "mock/session.h"
#include "mock/shared.h"
#include "net/http_server.h"
#include "telemetry/serve.h"

namespace nibble::mock {
namespace {

using boost::asio::awaitable;

constexpr std::size_t kMostThreads = 64;
constexpr Nanoseconds kStopGrace = 2'000'000'000;
// A prompt of 128 K tokens takes about 1 MB; a hundred times that is nobody's prompt.
constexpr std::size_t kMostBodyBytes = std::size_t{128} << 20;

// The number a client gave its request, so that both mean the same one.
std::optional<std::uint64_t> asked_index(const net::ServerRequest& request) {
  const auto value = net::find_header(request.headers, "X-Nibble-Request");
  if (!value) return std::nullopt;
  std::uint64_t index = 0;
  const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), index);
  constexpr std::uint64_t kMost = std::uint64_t{1} << 53;
  if (error != std::errc() || end != value->data() + value->size() || index > kMost) {
    return std::nullopt;
  }
  return index;
}

awaitable<void> refuse_request(net::ResponseWriter& writer, api::Dialect dialect,
                               std::string message) {
  net::Headers headers = {{"Content-Type", "application/json"}};
  std::string body = api::error_body(dialect, 400, message);
  co_await writer.respond(400, std::move(headers), std::move(body));
}

// The sensors of simulated GPUs, until the mock ends or nobody reads them.
awaitable<void> answer_sensors(std::shared_ptr<Shared> shared, net::ServerRequest request,
                               net::ResponseWriter& writer) {
  Pump& pump = shared->pump();
  telemetry::StreamSleep sleep = [&pump, &writer](Nanoseconds time) -> awaitable<bool> {
    const bool on_time = co_await pump.until(time);
    co_return on_time && !writer.peer_gone();
  };
  co_await telemetry::answer_samples(shared->runner->store(), std::move(request), writer,
                                     std::move(sleep));
}

awaitable<void> handle(std::shared_ptr<Shared> shared, net::ServerRequest request,
                       net::ResponseWriter& writer) {
  const std::optional<api::Dialect> dialect = api::dialect_of_path(request.path());
  if (shared->runner && request.method == "GET" && telemetry::is_samples_path(request.path())) {
    co_await answer_sensors(std::move(shared), std::move(request), writer);
    co_return;
  }
  if (!dialect || request.method != "POST") {
    Page page = make_page(*shared, request.method, request.path());
    net::Headers headers = {{"Content-Type", std::move(page.type)}};
    co_await writer.respond(page.status, std::move(headers), std::move(page.body));
    co_return;
  }
  if (!shared->script.usage.stream_options && has_stream_options(request.body)) {
    std::string message = "stream_options: extra fields are not permitted";
    co_await refuse_request(writer, *dialect, std::move(message));
    co_return;
  }
  Result<ClientRequest> asked = read_request(*dialect, request.body);
  if (!asked) {
    std::string message = asked.error().message;
    co_await refuse_request(writer, *dialect, std::move(message));
    co_return;
  }
  const std::uint64_t arrived = shared->next_index();
  const std::uint64_t index = asked_index(request).value_or(arrived);
  request.body = {};  // a long prompt need not stay for as long as its answer takes
  co_await answer_request(*shared, writer, *asked, request.received_at, index);
}

}  // namespace

// The listener may be closed and opened again (the fault "refuse") while answers go on; a thread of
// its own does it, because a loop cannot wait for itself.
struct RunningMock::Impl {
  explicit Impl(std::shared_ptr<Shared> given)
      : shared(std::move(given)), loops(shared->options.threads) {}
  ~Impl() { stop(); }

  Result<int> start();
  Result<int> listen(int on_port);
  void ask_to_refuse(Nanoseconds span);
  void refuse_when_asked();
  void stop();

  std::shared_ptr<Shared> shared;
  net::Loops loops;
  std::unique_ptr<net::HttpServer> server;  // of the control thread, once it runs
  int port = 0;
  bool stopped = false;

  std::mutex mutex;
  std::condition_variable changed;
  Nanoseconds refuse_for = 0;
  bool stopping = false;
  std::thread control;
};

Result<int> RunningMock::Impl::start() {
  for (std::size_t loop = 0; loop < loops.size(); ++loop) {
    std::thread::id thread;
    const bool ran = loops.run(loop, [&]() -> awaitable<void> {
      thread = std::this_thread::get_id();
      co_return;
    });
    if (!ran) return run_error("the event loops of the mock have ended before they began");
    shared->add_pump(thread, loops.executor(loop));
  }
  if (shared->runner) {
    loops.spawn(0, [shared = shared, executor = loops.executor(0)] {
      return shared->runner->drive(shared->pump(), executor);
    });
  }
  NIBBLE_ASSIGN_OR_RETURN(port, listen(shared->options.port));
  shared->refuse = [this](Nanoseconds span) { ask_to_refuse(span); };
  control = std::thread([this] { refuse_when_asked(); });
  return port;
}

Result<int> RunningMock::Impl::listen(int on_port) {
  net::ServerOptions options;
  options.host = shared->options.host;
  options.port = on_port;
  options.max_body_bytes = kMostBodyBytes;
  options.certificate_file = shared->options.certificate_file;
  options.key_file = shared->options.key_file;
  server = std::make_unique<net::HttpServer>(loops, options);
  return server->start([shared = shared](net::ServerRequest request, net::ResponseWriter& writer) {
    return handle(shared, std::move(request), writer);
  });
}

void RunningMock::Impl::ask_to_refuse(Nanoseconds span) {
  const std::lock_guard lock(mutex);
  refuse_for = std::max<Nanoseconds>(span, 1);
  changed.notify_all();
}

void RunningMock::Impl::refuse_when_asked() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return stopping || refuse_for != 0; });
    if (stopping) return;
    const Nanoseconds until = monotonic_now() + refuse_for;
    lock.unlock();
    server->stop(until - monotonic_now());  // as a server that restarts: answers may end meanwhile
    lock.lock();
    refuse_for = 0;
    const std::chrono::nanoseconds left(std::max<Nanoseconds>(0, until - monotonic_now()));
    if (changed.wait_for(lock, left, [&] { return stopping; })) return;
    static_cast<void>(listen(port));  // someone else may have taken the port: then nobody answers
  }
}

void RunningMock::Impl::stop() {
  if (std::exchange(stopped, true)) return;
  {
    const std::lock_guard lock(mutex);
    stopping = true;
    changed.notify_all();
  }
  // Answers end where they are, so that neither stop() below has to wait for them.
  shared->stop_pumps();
  if (control.joinable()) control.join();
  if (server != nullptr) server->stop(kStopGrace);
  server.reset();
  loops.stop();
  shared->clear_pumps();
}

RunningMock::RunningMock(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RunningMock::~RunningMock() = default;
RunningMock::RunningMock(RunningMock&&) noexcept = default;
RunningMock& RunningMock::operator=(RunningMock&&) noexcept = default;

int RunningMock::port() const {
  return impl_->port;
}

std::string RunningMock::url() const {
  const MockOptions& options = impl_->shared->options;
  const bool brackets = options.host.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}", options.certificate_file.empty() ? "http" : "https",
                     brackets ? "[" : "", options.host, brackets ? "]" : "", impl_->port);
}

MockStats RunningMock::stats() const {
  return impl_->shared->stats();
}

void RunningMock::reset_error() {
  impl_->shared->error.reset();
}

std::vector<RequestTruth> RunningMock::take_truths() {
  return impl_->shared->take_truths();
}

Result<> RunningMock::stop() {
  impl_->stop();
  return impl_->shared->close_truth_file();
}

Result<RunningMock> start_mock(MockScript script, MockOptions options) {
  if (options.threads < 1 || options.threads > kMostThreads) {
    return usage_error("the mock's threads are {}; give 1 to {}", options.threads, kMostThreads);
  }
  // Checks that the script holds together, as those from files are.
  NIBBLE_RETURN_IF_ERROR(parse_script(to_json(script), "script"));
  auto shared = std::make_shared<Shared>(std::move(script), std::move(options));
  NIBBLE_RETURN_IF_ERROR(shared->open_truth_file());
  auto impl = std::make_unique<RunningMock::Impl>(shared);
  NIBBLE_RETURN_IF_ERROR(impl->start());
  return RunningMock(std::move(impl));
}

}  // namespace nibble::mock
