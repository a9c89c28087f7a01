// What the server's files share: the server's state and one connection of it.
//
//   auto connection = std::make_shared<Connection>(server, loop_index, std::move(socket));
//   asio::co_spawn(executor, Connection::serve(connection), ...);
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "net/http_server.h"
#include "net/loop_state.h"
#include "net/request_parser.h"
#include "net/stream.h"

namespace nibble::net {

struct ServerState {
  ServerState(const Loops& on, ServerOptions how);

  ServerOptions options;
  Handler handler;
  std::optional<TlsContext> tls;
  std::vector<std::shared_ptr<Loops::Loop>> loops;
  std::vector<std::unordered_set<Connection*>> connections;  // of each loop; touched on it alone
  std::optional<Tcp::acceptor> acceptor;                     // of the first loop

  std::atomic<bool> stopping = false;
  std::atomic<std::uint64_t> accepted = 0;
  std::atomic<std::uint64_t> requests = 0;
  std::atomic<std::uint64_t> refused = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t open = 0;  // under the mutex
};

// A pump reads all the time, so that the peer's end is noticed while a handler writes or sleeps;
// the serving coroutine takes requests from what was read.
struct Connection {
  Connection(std::shared_ptr<ServerState> of, std::size_t on, Tcp::socket socket);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  static asio::awaitable<void> serve(std::shared_ptr<Connection> self);

  void lose();       // the peer is gone: whoever waits is woken
  void break_off();  // we go: the socket is closed at once
  asio::awaitable<bool> write(std::string bytes);
  // What the kernel takes at once; false: `rest` is what it did not, or the peer is gone.
  bool write_now(const Stream::Pieces& pieces, std::string& rest);

  std::shared_ptr<ServerState> server;
  std::size_t loop_index;
  std::shared_ptr<Loops::Loop> loop;
  std::shared_ptr<Stream> stream;
  asio::steady_timer sleeper;       // of the handler
  std::function<void()> when_gone;  // of the handler
  bool gone = false;
  bool idle = false;  // between requests: nothing is lost by closing

 private:
  static asio::awaitable<void> pump(std::shared_ptr<Connection> self);
  static asio::awaitable<bool> greet(std::shared_ptr<Connection> self);
  static asio::awaitable<bool> serve_one(std::shared_ptr<Connection> self);
  static asio::awaitable<bool> read_request(std::shared_ptr<Connection> self,
                                            RequestParser* parser);
  static asio::awaitable<void> refuse(std::shared_ptr<Connection> self, int status,
                                      std::string sentence);
  static asio::awaitable<bool> answer(std::shared_ptr<Connection> self, RequestParser* parser);
  static asio::awaitable<void> part(std::shared_ptr<Connection> self);
  void feed(RequestParser& parser);

  std::string input_;
  std::size_t taken_ = 0;  // of input_
  Nanoseconds last_read_ = 0;
  bool discarding_ = false;
  Event readable_;  // something was read, or the peer is gone
  Event drained_;   // there is room to read more
};

}  // namespace nibble::net
