// What the tests of this room share: sinks, raw sockets, one exchange from the test's thread.
//
//   RawServer server([](int socket, int) { send_all(socket, "HTTP/1.1 200 OK\r\n..."); });
//   TestClient client(server.port());
//   const Exchange exchange = client.get("/", sink);
#pragma once

#include <arpa/inet.h>
#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "base/check.h"
#include "base/eventually.h"
#include "net/http_client.h"
#include "net/loop.h"

namespace nibble::net {

inline constexpr Nanoseconds kMillisecond = 1'000'000;

// Keeps what came; asks for no more after `most` bytes.
class Recorder : public BodySink {
 public:
  explicit Recorder(std::size_t most = static_cast<std::size_t>(-1)) : most_(most) {}
  void on_head(int status, const Headers&) override {
    ++heads;
    head_status = status;
  }
  bool on_bytes(std::string_view bytes, Nanoseconds received_at) override {
    body.append(bytes);
    times.push_back(received_at);
    began = true;
    return body.size() < most_;
  }
  std::atomic<bool> began = false;  // the first bytes are here: for other threads
  int heads = 0;
  int head_status = 0;
  std::string body;
  std::vector<Nanoseconds> times;

 private:
  std::size_t most_;
};

inline sockaddr_in local_address(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

inline bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

// Until the text ends with `end`, or the peer closes, or nothing comes for two seconds.
inline std::string receive_until(int socket, std::string_view end) {
  std::string text;
  char buffer[65536];
  while (end.empty() || !text.ends_with(end)) {
    pollfd entry = {.fd = socket, .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, 2000) <= 0) break;
    const ssize_t count = ::recv(socket, buffer, sizeof buffer, 0);
    if (count <= 0) break;
    text.append(buffer, static_cast<std::size_t>(count));
  }
  return text;
}

// What one read gives.
inline std::string receive_some(int socket) {
  char buffer[65536];
  const ssize_t count = ::recv(socket, buffer, sizeof buffer, 0);
  return std::string(buffer, count > 0 ? static_cast<std::size_t>(count) : 0);
}

inline std::string receive_request(int socket) {
  return receive_until(socket, "\r\n\r\n");
}
inline std::string receive_to_end(int socket) {
  return receive_until(socket, "");
}

// The peer sees a reset instead of an end.
inline void close_with_reset(int socket) {
  const linger now = {.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

// Ends what this side sends and waits until the peer's kernel has acknowledged it: from then on the
// peer cannot take the connection for an open one.
inline bool end_is_received(int socket) {
  ::shutdown(socket, SHUT_WR);
  return eventually([socket] {
    tcp_info info = {};
    socklen_t size = sizeof info;
    ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size);
    return info.tcpi_state != TCP_ESTABLISHED && info.tcpi_state != TCP_FIN_WAIT1;
  });
}

// A listening socket without anybody who accepts.
class Listener {
 public:
  explicit Listener(int backlog = 64) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = local_address(0);
    socklen_t size = sizeof address;
    NIBBLE_CHECK(::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    NIBBLE_CHECK(::listen(socket_, backlog) == 0);
    NIBBLE_CHECK(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { close(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  int socket() const { return socket_; }
  int port() const { return port_; }

 private:
  int socket_;
  int port_ = 0;
};

// A server of plain sockets that misbehaves as the test tells it: `serve` gets each connection with
// its number from 0, on a thread of its own; the socket is closed behind it.
class RawServer {
 public:
  using Serve = std::function<void(int socket, int index)>;
  explicit RawServer(Serve serve) : serve_(std::move(serve)), acceptor_([this] { accept_all(); }) {}
  ~RawServer() {
    ::shutdown(listener_.socket(), SHUT_RDWR);
    acceptor_.join();
    for (std::thread& thread : threads_) thread.join();
  }
  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;
  int port() const { return listener_.port(); }
  int connections() const { return connections_; }

 private:
  void accept_all() {
    while (true) {
      const int socket = ::accept(listener_.socket(), nullptr, nullptr);
      if (socket < 0) return;
      const int index = connections_++;
      threads_.emplace_back([this, socket, index] {
        serve_(socket, index);
        ::close(socket);
      });
    }
  }

  Listener listener_;
  Serve serve_;
  std::atomic<int> connections_ = 0;
  std::list<std::thread> threads_;
  std::thread acceptor_;
};

// Answers each connection's first request with these bytes, then closes.
inline RawServer::Serve answer_with(std::string bytes) {
  return [bytes = std::move(bytes)](int socket, int) {
    receive_request(socket);
    send_all(socket, bytes);
  };
}

// A byte each 20 ms until the client has had enough.
inline void trickle(int socket, int) {
  receive_request(socket);
  send_all(socket, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
  for (int i = 0; i < 1000 && send_all(socket, "x"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// A connected plain socket.
class RawClient {
 public:
  explicit RawClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const sockaddr_in address = local_address(port);
    NIBBLE_CHECK(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
                 0);
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  int socket() const { return socket_; }

 private:
  int socket_;
};

inline Url local_url(int port) {
  return {.host = "127.0.0.1", .port = static_cast<std::uint16_t>(port)};
}

// A client with a loop of its own.
class TestClient {
 public:
  explicit TestClient(int port, ClientOptions options = {})
      : TestClient(local_url(port), std::move(options)) {}
  TestClient(Url url, ClientOptions options)
      : client(HttpClient::make(loops, 0, std::move(url), std::move(options)).value()) {}

  Exchange send(HttpRequest request, BodySink& sink) {
    Exchange result;
    const bool ran = loops.run(0, [&]() -> boost::asio::awaitable<void> {
      result = co_await client.exchange(std::move(request), sink);
    });
    NIBBLE_CHECK(ran);
    return result;
  }
  Exchange get(const std::string& target, BodySink& sink) {
    return send({.method = "GET", .target = target}, sink);
  }
  Response fetch(HttpRequest request, std::size_t max_bytes = std::size_t{64} << 20) {
    Response result;
    const bool ran = loops.run(0, [&]() -> boost::asio::awaitable<void> {
      result = co_await client.fetch(std::move(request), max_bytes);
    });
    NIBBLE_CHECK(ran);
    return result;
  }

  Loops loops;
  HttpClient client;
};

}  // namespace nibble::net
