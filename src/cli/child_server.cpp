#include "cli/child_server.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/json.h"
#include "base/text.h"

namespace nibble::cli {
namespace {

constexpr Nanoseconds kReadyWithin = 120'000'000'000;  // a large checkpoint is mapped and packed
constexpr Nanoseconds kEndsWithin = 5'000'000'000;
constexpr int kGlanceMs = 100;
constexpr std::size_t kMostSaid = 2000;  // bytes of an error message
constexpr int kCannotStart = 127;

// In the child, between fork and exec: only calls that are safe there.
[[noreturn]] void become_server(char* const* words, int out, int error, pid_t parent) {
  // The child must not outlive its parent, whatever ends that.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kCannotStart);
  // Ctrl-C is for the parent to understand; it ends the child itself.
  ::setpgid(0, 0);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(error, STDERR_FILENO);
  ::execv("/proc/self/exe", words);
  ::_exit(kCannotStart);
}

std::string said_on(int descriptor) {
  std::string text(kMostSaid, '\0');
  const ssize_t count = ::pread(descriptor, text.data(), text.size(), 0);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return printable(trim(text), kMostSaid);
}

bool has_ended(pid_t process) {
  siginfo_t info = {};
  const auto id = static_cast<id_t>(process);
  return ::waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == process;
}

// The first line that the server prints, with its address; empty when it ended or took too long.
std::string first_line(int descriptor, pid_t process) {
  std::string line;
  const Nanoseconds end = monotonic_now() + kReadyWithin;
  std::array<char, 4096> part = {};
  while (line.find('\n') == std::string::npos && monotonic_now() < end) {
    pollfd waiting = {.fd = descriptor, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, kGlanceMs) <= 0) {
      if (has_ended(process)) return "";
      continue;
    }
    const ssize_t count = ::read(descriptor, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return "";
    line.append(part.data(), static_cast<std::size_t>(count));
  }
  return line;
}

void end_process(pid_t process) {
  ::kill(process, SIGTERM);
  const Nanoseconds end = monotonic_now() + kEndsWithin;
  while (!has_ended(process) && monotonic_now() < end) ::usleep(20'000);
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
}

}  // namespace

Result<ChildServer> ChildServer::start(const std::vector<std::string>& words) {
  std::vector<std::string> all = {"nibble", "serve", "--port", "0", "--json"};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> pointers;
  for (std::string& word : all) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::array<int, 2> ends = {-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return run_error("cannot start the server: {}", errno_text(errno));
  }
  const Descriptor reader(ends[0]);
  Descriptor writer(ends[1]);
  const Descriptor said(::memfd_create("nibble-serve", MFD_CLOEXEC));
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  if (process < 0) return run_error("cannot start the server: {}", errno_text(errno));
  if (process == 0) become_server(pointers.data(), writer.get(), said.get(), parent);
  writer.close();
  const std::string line = first_line(reader.get(), process);
  const Result<Json> told = Json::parse(line, "the server's first line");
  const Json* url = told.ok() ? told->find("url") : nullptr;
  if (url == nullptr || !url->is_string()) {
    end_process(process);
    const std::string why = said_on(said.get());
    return run_error("the server did not start{}{}", why.empty() ? "" : ": ", why);
  }
  return ChildServer(process, url->as_string());
}

ChildServer::~ChildServer() {
  if (process_ > 0) end_process(process_);
}

}  // namespace nibble::cli
