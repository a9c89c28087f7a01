// A child process that answers lines with lines over one socket (worker.h).
//
//   NIBBLE_ASSIGN_OR_RETURN(WorkerChild child, WorkerChild::start(words));
//   NIBBLE_ASSIGN_OR_RETURN(const std::string line, child.ask("{...}", 30));
//   // it ends with its owner, also when that is killed
#pragma once

#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"

namespace nibble::tune {

class WorkerChild {
 public:
  static Result<WorkerChild> start(const std::vector<std::string>& words);
  ~WorkerChild();
  WorkerChild(WorkerChild&& other) noexcept
      : process_(std::exchange(other.process_, -1)),
        socket_(std::move(other.socket_)),
        said_(std::move(other.said_)),
        rest_(std::move(other.rest_)) {}
  WorkerChild& operator=(WorkerChild&&) = delete;

  // The next line after `line` was sent. A run error says how the child ended, that it took too
  // long, or that its line was endless; then it is of no more use.
  Result<std::string> ask(std::string_view line, double seconds);

 private:
  WorkerChild(pid_t process, Descriptor socket, Descriptor said)
      : process_(process), socket_(std::move(socket)), said_(std::move(said)) {}

  Result<> send(std::string_view line);
  Result<std::string> next_line(double seconds);
  Error ended();  // how; waits for it
  std::string last_words() const;

  pid_t process_ = -1;
  Descriptor socket_;
  Descriptor said_;  // a file in memory: its standard error
  std::string rest_;
};

}  // namespace nibble::tune
