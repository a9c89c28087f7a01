#include <csignal>
#include <fcntl.h>
#include <new>
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

// Memory may end on any thread, far from whoever could give up in order.
void out_of_memory() {
  constexpr char kSentence[] = "nibble: no memory is left; ask for less at a time\n";
  static_cast<void>(write(STDERR_FILENO, kSentence, sizeof kSentence - 1) == 0);
  _exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  fill_closed_streams();
  std::set_new_handler(out_of_memory);
  // A closed pipe and a limit on the size of files are write errors, which are told in a sentence.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  return nibble::cli::run_program(argc, argv);
}
