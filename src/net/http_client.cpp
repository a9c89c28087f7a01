#include "net/http_client.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "net/connector.h"
#include "net/response_parser.h"
#include "net/running_set.h"

namespace nibble::net {
namespace {

// A buffer whose pages are not touched before bytes arrive: thousands of connections cost little.
struct ReadBuffer {
  explicit ReadBuffer(std::size_t room)
      : bytes(std::make_unique_for_overwrite<char[]>(room)), size(room) {}
  std::unique_ptr<char[]> bytes;
  std::size_t size;
  asio::mutable_buffer view() const { return asio::buffer(bytes.get(), size); }
};

// A request on its way to the kernel; shared with the write that may outlive the exchange.
struct Outgoing {
  std::string head;
  std::string body;
  Nanoseconds sent_at = 0;  // 0: not yet, or never
};

// Begins to send, and sends all at once where the kernel takes it: the stamp is then exact. The
// rest of a large body goes in the background, because a server may answer before it has read it.
void send(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Outgoing>& out) {
  out->sent_at = 0;
  error_code code;
  const Stream::Pieces pieces = {asio::buffer(out->head), asio::buffer(out->body)};
  const std::size_t count = stream->try_write(pieces, code);
  if (code) return;  // the read that follows says why
  const std::size_t head_count = std::min(count, out->head.size());
  const std::string_view head = std::string_view(out->head).substr(head_count);
  const std::string_view body = std::string_view(out->body).substr(count - head_count);
  if (head.empty() && body.empty()) {
    out->sent_at = monotonic_now();
    return;
  }
  Stream::write_all(stream, asio::buffer(head), asio::buffer(body), [out](error_code failed) {
    if (!failed) out->sent_at = monotonic_now();
  });
}

// Collects a body for fetch().
class Collector : public BodySink {
 public:
  explicit Collector(std::size_t most) : most_(most) {}
  bool on_bytes(std::string_view bytes, Nanoseconds) override {
    too_large_ = bytes.size() > most_ - body_.size();
    if (!too_large_) body_.append(bytes);
    return !too_large_;
  }
  bool too_large() const { return too_large_; }
  std::string take() { return std::move(body_); }

 private:
  std::size_t most_;
  std::string body_;
  bool too_large_ = false;
};

bool is_plain_target(std::string_view target) {
  return target.starts_with('/') && std::all_of(target.begin(), target.end(), [](char byte) {
           return byte > 0x20 && byte < 0x7f;
         });
}

}  // namespace

// Also the scope of an exchange's pieces: everything here runs on one loop.
struct HttpClient::Impl {
  Impl(std::shared_ptr<Loops::Loop> on, Url to, ClientOptions how, std::optional<TlsContext> with)
      : options(std::move(how)),
        running(on),
        connector(std::move(on), std::move(to), std::move(with), options.timeouts.connect) {}

  struct Talk {  // one exchange as it goes on
    explicit Talk(BodySink& to) : sink(&to) {}
    BodySink* sink;
    bool head_only = false;
    std::shared_ptr<Outgoing> out;
    std::shared_ptr<Stream> stream;
    Exchange result;
    bool answered = false;  // a byte of the answer came
    bool reusable = false;
    void fail(NetFault fault, std::string message) {
      result.fault = fault;
      result.message = std::move(message);
    }
  };

  static asio::awaitable<Exchange> exchange(std::shared_ptr<Impl> self, HttpRequest request,
                                            BodySink* sink);
  static asio::awaitable<Response> fetch(std::shared_ptr<Impl> self, HttpRequest request,
                                         std::size_t max_bytes);
  static asio::awaitable<void> connect(std::shared_ptr<Impl> self, Run* run, Talk* talk);
  static asio::awaitable<void> converse(std::shared_ptr<Impl> self, Run* run, Talk* talk);
  // What a read gave; true: read on.
  bool take(ResponseParser& parser, std::string_view bytes, Nanoseconds at, Run& run, Talk& talk);
  void take_end(ResponseParser& parser, const error_code& code, Talk& talk) const;
  void fail_interrupted(const Run& run, Talk& talk) const;

  std::string write_head(const HttpRequest& request) const;
  std::string reject(const HttpRequest& request) const;
  std::shared_ptr<Stream> take_idle();
  void release(Talk& talk);
  std::string where() const { return connector.url().text(); }

  ClientOptions options;
  RunningSet running;
  Connector connector;
  std::vector<std::shared_ptr<Stream>> idle;
};

std::string HttpClient::Impl::reject(const HttpRequest& request) const {
  if (!valid_header(request.method, "")) return "the request's method is no HTTP method";
  if (!is_plain_target(request.target)) return "the request's target is no path";
  for (const Headers* headers : {&options.headers, &request.headers}) {
    for (const auto& [name, value] : *headers) {
      if (valid_header(name, value)) continue;
      return fmt::format("the header field \"{}\" holds characters that a field cannot",
                         printable(name));
    }
  }
  return {};
}

std::string HttpClient::Impl::write_head(const HttpRequest& request) const {
  std::string head = fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n", request.method, request.target,
                                 connector.url().authority());
  for (const Headers* headers : {&options.headers, &request.headers}) {
    for (const auto& [name, value] : *headers) head += fmt::format("{}: {}\r\n", name, value);
  }
  const bool bodiless =
      request.body.empty() && (request.method == "GET" || request.method == "HEAD");
  if (!bodiless) head += fmt::format("Content-Length: {}\r\n", request.body.size());
  if (!options.keep_alive) head += "Connection: close\r\n";
  head += "\r\n";
  return head;
}

std::shared_ptr<Stream> HttpClient::Impl::take_idle() {
  while (!idle.empty()) {
    std::shared_ptr<Stream> stream = std::move(idle.back());
    idle.pop_back();
    if (stream->still_idle()) return stream;
  }
  return nullptr;
}

// A connection that is not kept is closed here: a write in the background may still hold it.
void HttpClient::Impl::release(Talk& talk) {
  if (talk.stream == nullptr) return;
  const bool room = options.max_idle_connections == 0 || idle.size() < options.max_idle_connections;
  if (talk.reusable && options.keep_alive && room) {
    idle.push_back(std::move(talk.stream));
  } else {
    talk.stream->close();
  }
}

void HttpClient::Impl::fail_interrupted(const Run& run, Talk& talk) const {
  talk.fail(run.interrupted, fmt::format("{}: {}", where(), sentence_of(run.interrupted)));
}

asio::awaitable<void> HttpClient::Impl::connect(std::shared_ptr<Impl> self, Run* run, Talk* talk) {
  const Nanoseconds begin = monotonic_now();
  Connected connected = co_await self->connector.connect(run);
  ExchangeStamps& stamps = talk->result.stamps;
  stamps.connected_anew = true;
  stamps.connect_time = monotonic_now() - begin;
  talk->stream = std::move(connected.stream);
  if (connected.fault != NetFault::kNone) {
    talk->fail(connected.fault, fmt::format("{}: {}", self->where(), connected.message));
  }
}

bool HttpClient::Impl::take(ResponseParser& parser, std::string_view bytes, Nanoseconds at,
                            Run& run, Talk& talk) {
  talk.answered = true;
  switch (parser.feed(bytes, at, *talk.sink)) {
    case ResponseParser::Step::kMore:
      if (parser.first_byte_at() != 0) {
        const Nanoseconds patience = talk.sink->patience();
        run.expect(at, patience != 0 ? patience : options.timeouts.idle, NetFault::kIdleTimeout);
      }
      return true;
    case ResponseParser::Step::kDone:
      talk.reusable = parser.keep_alive() && talk.out->sent_at != 0;
      return false;
    case ResponseParser::Step::kStopped:
      talk.result.stopped = true;
      return false;
    case ResponseParser::Step::kFailed:
      talk.fail(parser.fault(), fmt::format("{}: {}", where(), printable(parser.message())));
      return false;
  }
  return false;
}

// The peer sends no more.
void HttpClient::Impl::take_end(ResponseParser& parser, const error_code& code, Talk& talk) const {
  if (is_end(code) || is_cut_off(code)) {
    const ResponseParser::Step step = parser.finish();
    if (step == ResponseParser::Step::kFailed) {
      return talk.fail(parser.fault(), fmt::format("{}: {}", where(), parser.message()));
    }
    if (is_end(code)) return;
    return talk.fail(
        NetFault::kTruncated,
        where() + ": the answer ended without the goodbye of TLS; it may lack its end");
  }
  talk.fail(NetFault::kReset,
            fmt::format("{}: the server broke the connection: {}", where(), code.message()));
}

asio::awaitable<void> HttpClient::Impl::converse(std::shared_ptr<Impl> self, Run* run, Talk* talk) {
  ExchangeStamps& stamps = talk->result.stamps;
  const ReadBuffer buffer(self->options.read_buffer_bytes);
  ResponseParser parser({.head_only = talk->head_only});
  run->stream = talk->stream.get();
  stamps.send_start = monotonic_now();
  run->expect(stamps.send_start, self->options.timeouts.first_byte, NetFault::kFirstByteTimeout);
  send(talk->stream, talk->out);
  const Stream::Take on_read = [&](const error_code& code, std::size_t count) {
    const Nanoseconds at = monotonic_now();
    stamps.end = at;
    if (run->interrupted != NetFault::kNone) {
      self->fail_interrupted(*run, *talk);
    } else if (code) {
      self->take_end(parser, code, *talk);
    } else {
      return self->take(parser, {buffer.bytes.get(), count}, at, *run, *talk);
    }
    return false;
  };
  auto reading = talk->stream->read_each(buffer.view(), on_read);
  co_await std::move(reading);
  run->stream = nullptr;
  stamps.sent = talk->out->sent_at;
  stamps.head = parser.head_at();
  stamps.first_byte = parser.first_byte_at();
  talk->result.status = parser.status();
  talk->result.headers = parser.take_headers();
}

asio::awaitable<Exchange> HttpClient::Impl::exchange(std::shared_ptr<Impl> self,
                                                     HttpRequest request, BodySink* sink) {
  NIBBLE_CHECK(self->running.on_loop());
  Talk talk(*sink);
  ExchangeStamps& stamps = talk.result.stamps;
  const Nanoseconds start = monotonic_now();
  stamps.start = start;
  const std::string rejected = self->reject(request);
  if (!rejected.empty()) {
    talk.fail(NetFault::kLocal, rejected);
    stamps.end = start;
    co_return std::move(talk.result);
  }
  Run run;
  run.limit(start, self->options.timeouts.total);
  const RunningSet::Entry entry(self->running, run);
  talk.head_only = request.method == "HEAD";
  talk.out = std::make_shared<Outgoing>();
  talk.out->head = self->write_head(request);
  talk.out->body = std::move(request.body);
  talk.stream = self->take_idle();
  const bool reused = talk.stream != nullptr;
  if (!reused) co_await connect(self, &run, &talk);
  if (talk.result.fault == NetFault::kNone) co_await converse(self, &run, &talk);
  if (reused && !talk.answered && talk.result.fault == NetFault::kReset) {
    talk.stream->close();
    talk.result = Exchange{.retried = true};
    stamps.start = start;
    co_await connect(self, &run, &talk);
    if (talk.result.fault == NetFault::kNone) co_await converse(self, &run, &talk);
  }
  if (stamps.end == 0) stamps.end = monotonic_now();
  self->release(talk);
  co_return std::move(talk.result);
}

asio::awaitable<Response> HttpClient::Impl::fetch(std::shared_ptr<Impl> self, HttpRequest request,
                                                  std::size_t max_bytes) {
  Collector collector(max_bytes);
  Response response;
  response.exchange = co_await exchange(self, std::move(request), &collector);
  response.body = collector.take();
  if (collector.too_large()) {
    response.exchange.fault = NetFault::kTooLarge;
    response.exchange.message =
        fmt::format("{}: the answer is larger than {} bytes", self->where(), max_bytes);
  }
  co_return response;
}

HttpClient::HttpClient(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

Result<HttpClient> HttpClient::make(const Loops& loops, std::size_t loop, Url url,
                                    ClientOptions options) {
  std::optional<TlsContext> tls;
  if (url.tls) {
    NIBBLE_ASSIGN_OR_RETURN(TlsContext context, TlsContext::for_client(options.ca_file.string(),
                                                                       options.verify_certificate));
    tls = std::move(context);
  }
  return HttpClient(std::make_shared<Impl>(loops.share(loop), std::move(url), std::move(options),
                                           std::move(tls)));
}

asio::awaitable<Exchange> HttpClient::exchange(HttpRequest request, BodySink& sink) {
  return Impl::exchange(impl_, std::move(request), &sink);
}

asio::awaitable<Response> HttpClient::fetch(HttpRequest request, std::size_t max_bytes) {
  return Impl::fetch(impl_, std::move(request), max_bytes);
}

void HttpClient::cancel_all() {
  asio::post(impl_->running.context(), [impl = impl_] {
    impl->running.interrupt_all(NetFault::kCancelled);
    impl->idle.clear();
  });
}

const Url& HttpClient::url() const {
  return impl_->connector.url();
}

}  // namespace nibble::net
