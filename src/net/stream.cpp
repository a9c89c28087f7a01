#include "net/stream.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <filesystem>
#include <sys/socket.h>

#include "base/text.h"

namespace nibble::net {
namespace {

namespace ssl = asio::ssl;

// OpenSSL is linked in and knows the folders of the system that it was built on; these are where
// others keep their authorities.
constexpr const char* kAuthorityFiles[] = {
    "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Arch, Alpine
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",                             // openSUSE
    "/etc/ssl/cert.pem"};
constexpr std::string_view kAlpn = "\x08http/1.1";

void trust_the_system(ssl::context& context) {
  error_code ignored;
  context.set_default_verify_paths(ignored);
  for (const char* file : kAuthorityFiles) {
    std::error_code absent;
    if (!std::filesystem::exists(file, absent)) continue;
    context.load_verify_file(file, ignored);
    return;
  }
}

std::string failure_of(SSL* handle, const error_code& code) {
  const bool verified = (::SSL_get_verify_mode(handle) & SSL_VERIFY_PEER) != 0;
  const long verdict = ::SSL_get_verify_result(handle);
  if (!verified || verdict == X509_V_OK)
    return "the TLS handshake failed: " + printable(code.message());
  return fmt::format(
      "the server's certificate is not trusted ({}); give the file of its authority, or --insecure",
      ::X509_verify_cert_error_string(verdict));
}

// The handler of each of read_each()'s reads; it moves into the next.
template <class Source, class Handler>
struct ReadAgain {
  Source* source;
  asio::mutable_buffer buffer;
  const Stream::Take* take;
  Handler done;

  void start() && {
    Source& from = *source;
    const asio::mutable_buffer to = buffer;
    from.async_read_some(to, std::move(*this));
  }
  void operator()(const error_code& code, std::size_t count) {
    if ((*take)(code, count)) {
      std::move(*this).start();
    } else {
      std::move(done)();
    }
  }
};

template <class Source>
asio::awaitable<void> read_again(Source& source, asio::mutable_buffer buffer,
                                 const Stream::Take& take) {
  return asio::async_initiate<const asio::use_awaitable_t<>&, void()>(
      [&source, buffer, &take](auto handler) {
        ReadAgain<Source, decltype(handler)>{&source, buffer, &take, std::move(handler)}.start();
      },
      asio::use_awaitable);
}

}  // namespace

struct TlsContext::Impl {
  explicit Impl(ssl::context::method method) : context(method) {
    context.set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 |
                        ssl::context::no_sslv3 | ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1);
  }
  ssl::context context;
  bool verify = true;
};

struct Stream::Tls {
  Tls(Tcp::socket& socket, std::shared_ptr<TlsContext::Impl> shared)
      : context(std::move(shared)), stream(socket, context->context) {}
  std::shared_ptr<TlsContext::Impl> context;
  ssl::stream<Tcp::socket&> stream;
};

Result<TlsContext> TlsContext::for_client(const std::string& ca_file, bool verify) {
  auto impl = std::make_shared<Impl>(ssl::context::tls_client);
  impl->verify = verify;
  impl->context.set_verify_mode(verify ? ssl::verify_peer : ssl::verify_none);
  if (!verify) return TlsContext(std::move(impl));
  if (ca_file.empty()) {
    trust_the_system(impl->context);
    return TlsContext(std::move(impl));
  }
  error_code code;
  impl->context.load_verify_file(ca_file, code);
  if (code) {
    return input_error("{} holds no certificates in PEM form: {}", ca_file,
                       printable(code.message()));
  }
  return TlsContext(std::move(impl));
}

Result<TlsContext> TlsContext::for_server(const std::string& certificate_file,
                                          const std::string& key_file) {
  auto impl = std::make_shared<Impl>(ssl::context::tls_server);
  error_code code;
  impl->context.use_certificate_chain_file(certificate_file, code);
  if (code) {
    return input_error("{} holds no certificate in PEM form: {}", certificate_file,
                       printable(code.message()));
  }
  impl->context.use_private_key_file(key_file, ssl::context::pem, code);
  if (code) {
    return input_error("{} holds no private key in PEM form that fits {}: {}", key_file,
                       certificate_file, printable(code.message()));
  }
  return TlsContext(std::move(impl));
}

Stream::Stream(Tcp::socket socket) : socket_(std::move(socket)) {}
Stream::~Stream() = default;

void Stream::prepare() {
  error_code ignored;
  socket_.set_option(Tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
}

asio::awaitable<std::string> Stream::handshake_as_client(std::shared_ptr<Stream> self,
                                                         TlsContext context, std::string host) {
  self->tls_ = std::make_unique<Tls>(self->socket_, context.impl());
  auto& stream = self->tls_->stream;
  SSL* handle = stream.native_handle();
  error_code code;
  asio::ip::make_address(host, code);
  if (code) {  // addresses are not named (RFC 6066, 3); the macro for this hides an old-style cast
    ::SSL_ctrl(handle, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, host.data());
  }
  ::SSL_set_alpn_protos(handle, reinterpret_cast<const unsigned char*>(kAlpn.data()),
                        static_cast<unsigned>(kAlpn.size()));
  if (context.impl()->verify) stream.set_verify_callback(ssl::host_name_verification(host), code);
  code = {};
  co_await stream.async_handshake(ssl::stream_base::client,
                                  asio::redirect_error(asio::use_awaitable, code));
  std::string failure;
  if (code) failure = failure_of(handle, code);
  co_return failure;
}

asio::awaitable<std::string> Stream::handshake_as_server(std::shared_ptr<Stream> self,
                                                         TlsContext context) {
  self->tls_ = std::make_unique<Tls>(self->socket_, context.impl());
  error_code code;
  co_await self->tls_->stream.async_handshake(ssl::stream_base::server,
                                              asio::redirect_error(asio::use_awaitable, code));
  std::string failure;
  if (code) failure = code.message();
  co_return failure;
}

// Not coroutines: what they return is the operation itself, without a frame around it.
asio::awaitable<std::size_t> Stream::read(asio::mutable_buffer buffer, error_code& code) {
  if (tls_ == nullptr) {
    return socket_.async_read_some(buffer, asio::redirect_error(asio::use_awaitable, code));
  }
  return tls_->stream.async_read_some(buffer, asio::redirect_error(asio::use_awaitable, code));
}

asio::awaitable<void> Stream::read_each(asio::mutable_buffer buffer, const Take& take) {
  if (tls_ == nullptr) return read_again(socket_, buffer, take);
  return read_again(tls_->stream, buffer, take);
}

asio::awaitable<std::size_t> Stream::write_some(asio::const_buffer buffer, error_code& code) {
  if (tls_ == nullptr) {
    return socket_.async_write_some(buffer, asio::redirect_error(asio::use_awaitable, code));
  }
  return tls_->stream.async_write_some(buffer, asio::redirect_error(asio::use_awaitable, code));
}

std::size_t Stream::try_write(const Pieces& pieces, error_code& code) {
  code = {};
  if (tls_ != nullptr) return 0;
  const std::size_t count = socket_.write_some(pieces, code);
  if (code == asio::error::would_block || code == asio::error::try_again) code = {};
  return count;
}

void Stream::write_all(std::shared_ptr<Stream> self, asio::const_buffer first,
                       asio::const_buffer second, std::function<void(error_code)> done) {
  Stream& stream = *self;
  const std::array<asio::const_buffer, 2> both = {first, second};
  auto finished = [self = std::move(self), done = std::move(done)](error_code code, std::size_t) {
    done(code);
  };
  if (stream.tls_ == nullptr) {
    asio::async_write(stream.socket_, both, std::move(finished));
  } else {
    asio::async_write(stream.tls_->stream, both, std::move(finished));
  }
}

bool Stream::still_idle() {
  char byte = 0;
  const ssize_t count =
      ::recv(socket_.native_handle(), &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
  return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

void Stream::finish_writing() {
  error_code ignored;
  socket_.shutdown(Tcp::socket::shutdown_send, ignored);
}

asio::awaitable<void> Stream::say_goodbye(std::shared_ptr<Stream> self) {
  if (self->tls_ != nullptr) {
    error_code ignored;
    co_await self->tls_->stream.async_shutdown(asio::redirect_error(asio::use_awaitable, ignored));
  }
  self->finish_writing();
}

void Stream::close() {
  error_code ignored;
  socket_.close(ignored);
}

void Stream::reset() {
  error_code ignored;
  socket_.set_option(Tcp::socket::linger(true, 0), ignored);
  socket_.close(ignored);
}

bool is_end(const error_code& code) {
  return code == asio::error::eof;
}
bool is_cut_off(const error_code& code) {
  return code == ssl::error::stream_truncated;
}

}  // namespace nibble::net
