#include "net/request_parser.h"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "net/parser_fields.h"

namespace nibble::net {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

using Parser = http::request_parser<http::string_body>;

// Whether the first line ends like one of HTTP, so that only its version can be what is wrong.
bool names_http_version(std::string_view input) {
  const std::string_view line = input.substr(0, input.find_first_of("\r\n"));
  const std::size_t at = line.rfind(" HTTP/");
  if (at == std::string_view::npos) return false;
  const std::string_view version = line.substr(at + 6);
  return !version.empty() && version.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace

struct RequestParser::Impl {
  Options options;
  Parser parser;
  State state = State::kMore;
  bool started = false;
  bool head_done = false;
  int refusal_status = 0;
  std::string refusal;

  void refuse(int status, std::string sentence) {
    state = State::kRefused;
    refusal_status = status;
    refusal = std::move(sentence);
  }
  void refuse(const beast::error_code& code, std::string_view input);
  void check_head();
};

void RequestParser::Impl::refuse(const beast::error_code& code, std::string_view input) {
  if (code == http::error::body_limit || code == http::error::buffer_overflow) {
    return refuse(413, "the body of the request is larger than this server takes");
  }
  if (code == http::error::header_limit) {
    return refuse(431, "the header of the request is larger than this server takes");
  }
  if (code == http::error::bad_version && names_http_version(input)) {
    return refuse(505, "this server speaks HTTP/1.1");
  }
  refuse(400, "the request is not HTTP/1.1: " + code.message());
}

void RequestParser::Impl::check_head() {
  head_done = true;
  const auto& head = parser.get();
  const auto hosts = head.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && head.version() == 11)) {
    return refuse(400, "the request names no host, or several");
  }
  if (!encoding_is_known(head)) {
    return refuse(501, "this server takes no transfer encoding but chunked");
  }
  parser.eager(true);
}

RequestParser::RequestParser(Options options) : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
  impl_->parser.header_limit(static_cast<std::uint32_t>(options.max_header_bytes));
  impl_->parser.body_limit(options.max_body_bytes);
  impl_->parser.eager(false);  // the head is checked before the body is taken
}
RequestParser::~RequestParser() = default;

std::size_t RequestParser::feed(std::string_view bytes) {
  Impl& impl = *impl_;
  std::size_t used = 0;
  if (!impl.started) {  // empty lines before a request are skipped (RFC 9112, 2.2)
    while (used < bytes.size() && (bytes[used] == '\r' || bytes[used] == '\n')) ++used;
  }
  while (used < bytes.size() && impl.state == State::kMore) {
    impl.started = true;
    beast::error_code code;
    const std::string_view input = bytes.substr(used);
    used += impl.parser.put(boost::asio::buffer(input.data(), input.size()), code);
    if (code == http::error::need_more) {
      const std::size_t waiting = bytes.size() - used;
      if (waiting > impl.options.max_header_bytes) {
        impl.refuse(impl.head_done ? 400 : 431, "the request has a line without an end");
      }
      return used;
    }
    if (code) {
      impl.refuse(code, input);
      return used;
    }
    if (!impl.head_done && impl.parser.is_header_done()) impl.check_head();
    if (impl.state == State::kMore && impl.parser.is_done()) impl.state = State::kDone;
  }
  return used;
}

RequestParser::State RequestParser::state() const {
  return impl_->state;
}
bool RequestParser::started() const {
  return impl_->started;
}

bool RequestParser::expects_continue() const {
  if (!impl_->head_done || impl_->state != State::kMore) return false;
  return beast::iequals(impl_->parser.get()[http::field::expect], "100-continue");
}

std::string RequestParser::method() const {
  return std::string(impl_->parser.get().method_string());
}
std::string RequestParser::target() const {
  return std::string(impl_->parser.get().target());
}

Headers RequestParser::headers() const {
  return copy_fields(impl_->parser.get());
}

std::string RequestParser::take_body() {
  return std::move(impl_->parser.get().body());
}
bool RequestParser::keep_alive() const {
  return impl_->parser.keep_alive();
}
bool RequestParser::http_1_0() const {
  return impl_->parser.get().version() < 11;
}
int RequestParser::refusal_status() const {
  return impl_->refusal_status;
}
const std::string& RequestParser::refusal() const {
  return impl_->refusal;
}

}  // namespace nibble::net
