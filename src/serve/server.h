// The OpenAI API over an engine.
//
//   NIBBLE_ASSIGN_OR_RETURN(auto server, Server::start(options, *engine, std::move(model)));
//   fmt::print("listens on {}\n", server->url());
//   ...
//   server->drain();                        // 503 for new answers; those under way go on
//   while (!server->idle() && !in_haste()) sleep();
//   engine->stop();                         // what still runs ends with an error
//   server->stop();
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "engine/engine.h"
#include "serve/options.h"

namespace nibble::serve {

class Server {
 public:
  // The engine must outlive the server.
  static Result<std::unique_ptr<Server>> start(ServeOptions options, engine::Engine& engine,
                                               ServedModel model);
  ~Server();  // stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const;
  std::string url() const;     // "http://127.0.0.1:8000"
  Json configuration() const;  // what /server_info tells

  void drain();
  bool idle() const;  // no answer is under way
  // Breaks the answers that are under way, after a moment in which those that have an end send it.
  void stop();

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::serve
