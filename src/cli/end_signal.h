// The signals that end a server's command (SIGINT, SIGTERM), waited for instead of handled.
//
//   EndSignal signal;                        // before any thread starts
//   signal.wait();                           // stop in good order
//   if (signal.wait_for(kSecond)) ...        // once more: at once
#pragma once

#include <csignal>

#include "base/clock.h"

namespace nibble::cli {

class EndSignal {
 public:
  // Blocks them; threads inherit that, and only the waits below take one.
  EndSignal();
  ~EndSignal();
  EndSignal(const EndSignal&) = delete;
  EndSignal& operator=(const EndSignal&) = delete;

  void wait() const;
  // False: the time has passed without one.
  bool wait_for(Nanoseconds span) const;
  // From here on they do what they do to any program.
  void let_through();

 private:
  sigset_t before_ = {};
  int descriptor_ = -1;
};

}  // namespace nibble::cli
