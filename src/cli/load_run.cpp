#include "cli/load_run.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <fmt/core.h>
#include <malloc.h>
#include <optional>
#include <unistd.h>

#include "base/progress.h"
#include "cli/load.h"

namespace nibble::cli {
namespace {

std::atomic<bool> interrupted = false;
std::atomic<int> signals_seen = 0;
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler may set them
static_assert(std::atomic<int>::is_always_lock_free);

// Some senders (timeout, a closing terminal) signal twice in a row. Whoever insists gets out
// without results.
extern "C" void on_load_signal(int signal) {
  constexpr int kInsists = 3;
  interrupted = true;
  if (++signals_seen < kInsists) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void take_signals() {
  interrupted = false;
  signals_seen = 0;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {};
    ::sigaction(signal, nullptr, &before);
    if (signal == SIGHUP && before.sa_handler == SIG_IGN) continue;  // nohup
    struct sigaction action = {};
    action.sa_handler = on_load_signal;
    ::sigaction(signal, &action, nullptr);
  }
}

// One line on a terminal that is rewritten, and one that stays for each level that has ended.
class LiveLine {
 public:
  LiveLine(bool wanted, std::size_t levels)
      : shown_(wanted && ::isatty(STDERR_FILENO) == 1), levels_(levels) {}

  void show(const drive::Progress& progress) {
    if (!shown_) return;
    if (!line_) line_.emplace("load", 0, stderr, "");
    line_->note(progress_text(progress));
  }
  void level(const load::LevelResult& level) {
    if (!shown_) return;
    clear();
    fmt::print(stderr, "{}\n", level_text(level, ++ended_, levels_));
  }
  void clear() { line_.reset(); }

 private:
  bool shown_;
  std::size_t levels_;
  std::size_t ended_ = 0;
  std::optional<Progress> line_;
};

}  // namespace

Result<drive::RunOutcome> run_load(LoadFlags& flags) {
  flags.run.ledger = flags.ledger ? &*flags.ledger : nullptr;
  take_signals();
  // Requests are made, read and written on three threads: with an arena of the heap for each,
  // memory that one allocates and another frees grows for many minutes (tools/soak.sh).
  ::mallopt(M_ARENA_MAX, 1);
  LiveLine line(flags.progress, flags.run.levels.size());
  const drive::RunEvents events = {
      .progress = [&line](const drive::Progress& progress) { line.show(progress); },
      .level_finished = [&line](const load::LevelResult& level) { line.level(level); }};
  Result<drive::RunOutcome> outcome = drive::run(std::move(flags.run), interrupted, events);
  line.clear();
  return outcome;
}

}  // namespace nibble::cli
