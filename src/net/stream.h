// A TCP connection with or without TLS: reads and writes are the same for both.
//
//   auto stream = std::make_shared<Stream>(std::move(socket));
//   auto handshake = Stream::handshake_as_client(stream, context, host);
//   const std::string failure = co_await std::move(handshake);  // empty: none
//   const std::size_t count = co_await stream->read(buffer, code);
#pragma once

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/loop_state.h"

namespace nibble::net {

using boost::system::error_code;
using Tcp = asio::ip::tcp;

// Certificates, keys and whom to trust; shared by the connections of a client or a server.
class TlsContext {
 public:
  // ca_file empty: the authorities of the system. verify false: anybody is believed.
  static Result<TlsContext> for_client(const std::string& ca_file, bool verify);
  static Result<TlsContext> for_server(const std::string& certificate_file,
                                       const std::string& key_file);
  struct Impl;
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  explicit TlsContext(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

// At most one read and one write at a time. Where a callback or a coroutine may outlive its owner,
// it holds the stream by shared_ptr.
class Stream {
 public:
  explicit Stream(Tcp::socket socket);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Tcp::socket& socket() { return socket_; }
  void prepare();  // a connected socket: no Nagle delay, no blocking

  // A sentence where it failed, empty where it did not.
  static asio::awaitable<std::string> handshake_as_client(std::shared_ptr<Stream> self,
                                                          TlsContext context, std::string host);
  static asio::awaitable<std::string> handshake_as_server(std::shared_ptr<Stream> self,
                                                          TlsContext context);

  asio::awaitable<std::size_t> read(asio::mutable_buffer buffer, error_code& code);
  // One read after another into the same buffer until `take`, called with what each gave, says
  // false: a stream of small events costs one resumed coroutine and not one each.
  using Take = std::function<bool(const error_code& code, std::size_t count)>;
  asio::awaitable<void> read_each(asio::mutable_buffer buffer, const Take& take);
  asio::awaitable<std::size_t> write_some(asio::const_buffer buffer, error_code& code);

  // What the kernel takes at once without waiting: 0 where it takes none, and with TLS.
  using Pieces = std::array<asio::const_buffer, 3>;
  std::size_t try_write(const Pieces& pieces, error_code& code);
  // The rest, in the background.
  static void write_all(std::shared_ptr<Stream> self, asio::const_buffer first,
                        asio::const_buffer second, std::function<void(error_code)> done);

  // Whether an idle connection is still one: neither closed nor with bytes nobody asked for.
  bool still_idle();
  void finish_writing();  // tells the peer that nothing follows
  // The same with TLS's goodbye before it, where there is TLS.
  static asio::awaitable<void> say_goodbye(std::shared_ptr<Stream> self);
  void close();  // waiting reads and writes end with operation_aborted
  void reset();  // the same, and the peer sees a reset

 private:
  struct Tls;
  Tcp::socket socket_;
  std::unique_ptr<Tls> tls_;
};

// The end of the peer's bytes as it should be, and one without TLS's goodbye.
bool is_end(const error_code& code);
bool is_cut_off(const error_code& code);

}  // namespace nibble::net
