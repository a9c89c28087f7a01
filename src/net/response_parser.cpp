#include "net/response_parser.h"

#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/parser.hpp>
#include <fmt/core.h>
#include <optional>

#include "net/parser_fields.h"

namespace nibble::net {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

// A body of Beast's that hands bytes on instead of keeping them.
struct SinkBody {
  struct value_type {
    BodySink* sink = nullptr;
    Nanoseconds received_at = 0;
    Nanoseconds first_byte_at = 0;
    bool stopped = false;
  };

  class reader {
   public:
    template <bool kIsRequest, class Fields>
    reader(http::header<kIsRequest, Fields>&, value_type& value) : value_(value) {}

    void init(const boost::optional<std::uint64_t>&, beast::error_code& code) { code = {}; }

    template <class Buffers>
    std::size_t put(const Buffers& buffers, beast::error_code& code) {
      code = {};
      std::size_t taken = 0;
      for (const auto& buffer : beast::buffers_range_ref(buffers)) {
        if (buffer.size() == 0) continue;
        if (value_.first_byte_at == 0) value_.first_byte_at = value_.received_at;
        const std::string_view bytes(static_cast<const char*>(buffer.data()), buffer.size());
        taken += buffer.size();
        if (value_.sink->on_bytes(bytes, value_.received_at)) continue;
        value_.stopped = true;
        code = http::make_error_code(http::error::end_of_stream);
        break;
      }
      return taken;
    }

    void finish(beast::error_code& code) { code = {}; }

   private:
    value_type& value_;
  };
};

using Parser = http::response_parser<SinkBody>;

}  // namespace

struct ResponseParser::Impl {
  explicit Impl(Options given) : options(given) { renew(); }

  void renew() {
    parser.emplace();
    parser->header_limit(static_cast<std::uint32_t>(options.max_header_bytes));
    parser->body_limit(boost::none);
    parser->eager(false);  // the head is looked at before the body goes to the sink
    parser->skip(options.head_only);
  }

  Step run(std::string_view input, std::size_t& used, BodySink& sink);
  Step take_head(BodySink& sink);
  Step fail(NetFault why, std::string what) {
    fault = why;
    message = std::move(what);
    return Step::kFailed;
  }

  Options options;
  std::optional<Parser> parser;
  std::string rest;  // bytes that Beast wants to see again with more behind them
  bool started = false;
  bool head_done = false;
  bool extra = false;  // bytes came behind the response
  int status = 0;
  Headers headers;
  Nanoseconds head_at = 0;
  NetFault fault = NetFault::kNone;
  std::string message;
};

ResponseParser::Step ResponseParser::Impl::take_head(BodySink& sink) {
  const auto& head = parser->get();
  const int code = static_cast<int>(head.result_int());
  if (code == 101) {
    return fail(NetFault::kProtocol, "the server wants to speak another protocol (status 101)");
  }
  if (code < 100) {
    return fail(NetFault::kProtocol, fmt::format("the answer has status {}, which is none", code));
  }
  if (code / 100 == 1) {  // "100 Continue" and its like come before the answer
    renew();
    return Step::kMore;
  }
  head_done = true;
  status = code;
  head_at = parser->get().body().received_at;
  headers = copy_fields(head);
  if (!encoding_is_known(head)) {
    return fail(NetFault::kProtocol, "the answer has a transfer encoding that nobody asked for");
  }
  parser->eager(true);
  sink.on_head(status, headers);
  return Step::kMore;
}

ResponseParser::Step ResponseParser::Impl::run(std::string_view input, std::size_t& used,
                                               BodySink& sink) {
  const Nanoseconds received_at = parser->get().body().received_at;
  while (used < input.size()) {
    parser->get().body().sink = &sink;
    parser->get().body().received_at = received_at;
    beast::error_code code;
    used += parser->put(boost::asio::buffer(input.data() + used, input.size() - used), code);
    if (parser->get().body().stopped) return Step::kStopped;
    if (code == http::error::need_more) {
      if (input.size() - used <= options.max_header_bytes) return Step::kMore;
      return fail(NetFault::kProtocol, "the answer has a header or a chunk line without an end");
    }
    if (code) return fail(NetFault::kProtocol, "the answer is not HTTP/1.1: " + code.message());
    if (!head_done && parser->is_header_done()) {
      if (take_head(sink) == Step::kFailed) return Step::kFailed;
    }
    if (head_done && parser->is_done()) return Step::kDone;
  }
  return Step::kMore;
}

ResponseParser::ResponseParser(Options options) : impl_(std::make_unique<Impl>(options)) {}
ResponseParser::~ResponseParser() = default;

ResponseParser::Step ResponseParser::feed(std::string_view bytes, Nanoseconds received_at,
                                          BodySink& sink) {
  Impl& impl = *impl_;
  if (bytes.empty()) return Step::kMore;
  impl.started = true;
  impl.parser->get().body().received_at = received_at;
  const bool joined = !impl.rest.empty();
  if (joined) impl.rest.append(bytes);
  const std::string_view input = joined ? std::string_view(impl.rest) : bytes;
  std::size_t used = 0;
  const Step step = impl.run(input, used, sink);
  impl.extra = used < input.size();
  if (step != Step::kMore) return step;
  if (joined) {
    impl.rest.erase(0, used);
  } else {
    impl.rest.assign(input.substr(used));
  }
  return step;
}

ResponseParser::Step ResponseParser::finish() {
  Impl& impl = *impl_;
  if (!impl.started) {
    return impl.fail(NetFault::kReset, "the server closed the connection without an answer");
  }
  if (!impl.head_done) {
    return impl.fail(NetFault::kTruncated, "the answer ended within its header");
  }
  if (impl.parser->need_eof()) return Step::kDone;
  return impl.fail(NetFault::kTruncated, "the answer ended before its framing said so");
}

int ResponseParser::status() const {
  return impl_->status;
}
Headers ResponseParser::take_headers() {
  return std::move(impl_->headers);
}
Nanoseconds ResponseParser::head_at() const {
  return impl_->head_at;
}
Nanoseconds ResponseParser::first_byte_at() const {
  return impl_->parser->get().body().first_byte_at;
}
bool ResponseParser::keep_alive() const {
  return impl_->head_done && impl_->parser->is_done() && !impl_->extra &&
         impl_->parser->keep_alive();
}
NetFault ResponseParser::fault() const {
  return impl_->fault;
}
const std::string& ResponseParser::message() const {
  return impl_->message;
}

}  // namespace nibble::net
