#include "tactics/tune/worker_child.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "tactics/tune/worker_wire.h"

namespace nibble::tune {
namespace {

constexpr int kCannotStart = 127;
constexpr std::size_t kMostSaid = 300;  // bytes of its last words

// In the child, between fork and exec: only calls that are safe there.
[[noreturn]] void become_worker(char* const* words, int socket, int error, pid_t parent) {
  // The child must not outlive its parent, whatever ends that.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kCannotStart);
  ::setpgid(0, 0);  // Ctrl-C is for the parent to understand
  ::dup2(socket, STDIN_FILENO);
  ::dup2(socket, STDOUT_FILENO);
  ::dup2(error, STDERR_FILENO);
  ::execv(words[0], words);
  ::_exit(kCannotStart);
}

}  // namespace

Result<WorkerChild> WorkerChild::start(const std::vector<std::string>& words) {
  NIBBLE_CHECK(!words.empty());
  std::vector<std::string> copies = words;
  std::vector<char*> pointers;
  for (std::string& word : copies) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::array<int, 2> ends = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return run_error("cannot start a worker: {}", errno_text(errno));
  }
  Descriptor ours(ends[0]);
  const Descriptor theirs(ends[1]);
  Descriptor said(::memfd_create("nibble-worker", MFD_CLOEXEC));
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  if (process < 0) return run_error("cannot start a worker: {}", errno_text(errno));
  if (process == 0) become_worker(pointers.data(), theirs.get(), said.get(), parent);
  return WorkerChild(process, std::move(ours), std::move(said));
}

WorkerChild::~WorkerChild() {
  if (process_ <= 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

Result<std::string> WorkerChild::ask(std::string_view line, double seconds) {
  NIBBLE_RETURN_IF_ERROR(send(line));
  return next_line(seconds);
}

Result<> WorkerChild::send(std::string_view line) {
  std::string text(line);
  text += '\n';
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t count = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ended();
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Result<std::string> WorkerChild::next_line(double seconds) {
  const Nanoseconds end = monotonic_now() + from_milliseconds(seconds * 1e3);
  std::array<char, 65536> part = {};
  while (true) {
    const std::size_t at = rest_.find('\n');
    if (at != std::string::npos) {
      std::string line = rest_.substr(0, at);
      rest_.erase(0, at + 1);
      return line;
    }
    if (rest_.size() > kMostLineBytes) return run_error("the worker's answer has no end");
    const double left_ms = milliseconds(end - monotonic_now());
    if (left_ms <= 0) return run_error("the worker gave no answer within {} s", seconds);
    constexpr double kLongestPollMs = 1000;
    pollfd waiting = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, static_cast<int>(std::min(left_ms + 1, kLongestPollMs))) <= 0) continue;
    const ssize_t count = ::recv(socket_.get(), part.data(), part.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return ended();
    rest_.append(part.data(), static_cast<std::size_t>(count));
  }
}

// Its end of the socket is closed. A child that only closed it is no worker any more, either.
Error WorkerChild::ended() {
  constexpr double kGraceMs = 2000;
  const Nanoseconds end = monotonic_now() + from_milliseconds(kGraceMs);
  int status = 0;
  pid_t found = 0;
  while ((found = ::waitpid(process_, &status, WNOHANG)) == 0 && monotonic_now() < end) {
    ::usleep(1000);
  }
  if (found == 0) return run_error("the worker closed its output{}", last_words());
  process_ = -1;
  if (WIFSIGNALED(status)) {
    return run_error("the worker was ended by signal {} ({}){}", WTERMSIG(status),
                     ::sigdescr_np(WTERMSIG(status)), last_words());
  }
  return run_error("the worker ended with status {}{}", WEXITSTATUS(status), last_words());
}

std::string WorkerChild::last_words() const {
  std::string text(kMostSaid, '\0');
  const ssize_t count = ::pread(said_.get(), text.data(), text.size(), 0);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  const std::string said = printable(trim(text), kMostSaid);
  return said.empty() ? "" : ": " + said;
}

}  // namespace nibble::tune
