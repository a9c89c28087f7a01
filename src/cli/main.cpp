#include <csignal>
#include <fcntl.h>
#include <unistd.h>

#include "cli/command.h"

namespace {

// A standard stream that was closed when we started would give its number to the first file we
// open, and our output would land there. Each is filled with one that fails when it is used.
void fill_closed_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) != -1) continue;
    const int mode = descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (open("/dev/null", mode) != descriptor) _exit(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  fill_closed_streams();
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a write error, and the work goes on
  return nibble::cli::run_program(argc, argv);
}
