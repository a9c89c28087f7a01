#include "cli/end_signal.h"

#include <cerrno>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace nibble::cli {

EndSignal::EndSignal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &set, &before_);
  descriptor_ = ::signalfd(-1, &set, SFD_CLOEXEC);
}

EndSignal::~EndSignal() {
  let_through();
  if (descriptor_ >= 0) ::close(descriptor_);
}

void EndSignal::wait() const {
  signalfd_siginfo info = {};
  while (::read(descriptor_, &info, sizeof info) != sizeof info && errno == EINTR) {
  }
}

bool EndSignal::wait_for(Nanoseconds span) const {
  pollfd waiting = {.fd = descriptor_, .events = POLLIN, .revents = 0};
  constexpr Nanoseconds kMs = 1'000'000;
  if (::poll(&waiting, 1, static_cast<int>(span / kMs)) != 1) return false;
  wait();
  return true;
}

void EndSignal::let_through() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace nibble::cli
