// `nibble serve` as a process of its own: what `nibble diagnose` measures when nobody names a
// server.
//
//   NIBBLE_ASSIGN_OR_RETURN(ChildServer server, ChildServer::start({"--model", folder}));
//   server.url()                  // "http://127.0.0.1:39321"
//   // it ends with its owner, also when that is killed
#pragma once

#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "base/result.h"

namespace nibble::cli {

class ChildServer {
 public:
  // This program again, on a free port of 127.0.0.1. Returns when it takes requests; a run error
  // says what it said when it does not.
  static Result<ChildServer> start(const std::vector<std::string>& words);
  ~ChildServer();
  ChildServer(ChildServer&& other) noexcept
      : process_(std::exchange(other.process_, -1)), url_(std::move(other.url_)) {}
  ChildServer& operator=(ChildServer&&) = delete;

  const std::string& url() const { return url_; }

 private:
  ChildServer(pid_t process, std::string url) : process_(process), url_(std::move(url)) {}
  pid_t process_ = -1;
  std::string url_;
};

}  // namespace nibble::cli
