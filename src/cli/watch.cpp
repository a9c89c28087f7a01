#include "cli/watch.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <fmt/core.h>
#include <optional>
#include <system_error>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/text.h"
#include "telemetry/line_file.h"
#include "telemetry/watch.h"

namespace nibble::cli {
namespace {

std::atomic<bool> stop_asked = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler may set it

extern "C" void on_end_signal(int) {
  stop_asked = true;
}

// Draws over the table before it on a terminal; elsewhere tables follow each other.
class Screen {
 public:
  // False: standard output takes no more.
  bool show(const std::string& table) {
    std::string text;
    if (terminal_ && lines_ > 0) text = fmt::format("\x1b[{}A\x1b[J", lines_);
    text += table;
    if (!terminal_) text += '\n';
    fault_ = telemetry::write_all(STDOUT_FILENO, text, stop_asked);
    lines_ = std::count(table.begin(), table.end(), '\n');
    return !fault_;
  }
  // What ended it, as an errno.
  std::optional<int> fault() const { return fault_; }

 private:
  bool terminal_ = ::isatty(STDOUT_FILENO) == 1;
  std::ptrdiff_t lines_ = 0;
  std::optional<int> fault_;
};

// After the last table: what the sources cost. A reader that has seen enough, and Ctrl-C while
// nobody reads, are no failures.
Result<int> finish(const Screen& screen, const std::string& health) {
  const std::optional<int> fault = screen.fault();
  if (fault && *fault != EPIPE && *fault != ECANCELED) {
    return run_error("cannot write to standard output: {}", errno_text(*fault));
  }
  if (!fault) fmt::print("\n{}", health);
  return 0;
}

Result<telemetry::WatchOptions> options_from(const Arguments& arguments) {
  telemetry::WatchOptions options;
  options.telemetry.gpus = !arguments.has("--no-gpu");
  options.telemetry.cpu = !arguments.has("--no-cpu");
  options.telemetry.servers = arguments.all("--server");
  options.telemetry.remotes = arguments.all("--telemetry");
  const telemetry::TelemetryOptions& what = options.telemetry;
  if (!what.gpus && !what.cpu && what.servers.empty() && what.remotes.empty()) {
    return usage_error(
        "nothing is left to watch; leave out --no-gpu or --no-cpu, or give a --server");
  }
  NIBBLE_ASSIGN_OR_RETURN(const auto duration, arguments.number("--duration", 0, 1e9, true));
  NIBBLE_ASSIGN_OR_RETURN(const auto interval, arguments.number("--interval", 0.1, 3600));
  options.duration_s = duration.value_or(0);
  options.interval_s = interval.value_or(1);
  options.jsonl = arguments.text("--jsonl").value_or("");
  options.table = !arguments.has("--json") && options.jsonl != "-";
  if (options.jsonl == "-" && arguments.has("--json")) {
    return usage_error("--jsonl - and --json both write on standard output; give one a file");
  }
  if (const auto listen = arguments.text("--listen")) {
    NIBBLE_ASSIGN_OR_RETURN(options.listen, parse_listen(*listen));
  }
  return options;
}

Result<int> execute_watch(const Arguments& arguments) {
  NIBBLE_ASSIGN_OR_RETURN(const telemetry::WatchOptions options, options_from(arguments));
  stop_asked = false;
  struct sigaction action = {};
  action.sa_handler = on_end_signal;
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
  Screen screen;
  const telemetry::WatchEvents events = {
      .show = [&](const std::string& table) { return screen.show(table); },
      .listening =
          [&](int port) {
            fmt::print(stderr, "nibble watch listens on {}:{}\n", options.listen->host, port);
          }};
  NIBBLE_ASSIGN_OR_RETURN(const telemetry::WatchOutcome outcome,
                          telemetry::watch(options, stop_asked, events));
  if (options.table) return finish(screen, outcome.health);
  if (arguments.has("--json")) fmt::print("{}\n", outcome.document.dump());
  return 0;
}

std::vector<OptionDef> watch_options() {
  return {{.name = "--server",
           .value = "URL",
           .help = "an inference server whose metrics to read (nibble serve, vLLM, SGLang, "
                   "TensorRT-LLM, llama.cpp): http://host:port",
           .repeatable = true},
          {.name = "--telemetry",
           .value = "HOST:PORT",
           .help = "join the samples of `nibble watch --listen` on another host",
           .repeatable = true},
          {.name = "--listen",
           .value = "[ADDRESS:]PORT",
           .help = "serve /metrics (Prometheus), /stream and /clock; 0.0.0.0:PORT: to other hosts"},
          {.name = "--jsonl",
           .value = "FILE",
           .kind = ValueKind::kFile,
           .help = "append every sample as a line of JSON; -: standard output, without tables"},
          {.name = "--duration",
           .value = "SECONDS",
           .kind = ValueKind::kNumber,
           .help = "how long; otherwise until Ctrl-C"},
          {.name = "--interval",
           .value = "SECONDS",
           .kind = ValueKind::kNumber,
           .help = "time between two tables; sampling has its own periods",
           .default_text = "1"},
          {.name = "--no-gpu", .help = "leave NVML alone"},
          {.name = "--no-cpu", .help = "leave the processor's counters alone"}};
}

}  // namespace

Result<net::ServerOptions> parse_listen(std::string_view text) {
  net::ServerOptions options;
  const std::size_t colon = text.rfind(':');
  std::string_view port = text;
  if (colon != std::string_view::npos) {
    port = text.substr(colon + 1);
    std::string_view host = text.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    options.host = host;
  }
  const auto [stop, error] = std::from_chars(port.data(), port.data() + port.size(), options.port);
  const bool whole = error == std::errc() && stop == port.data() + port.size();
  if (!whole || options.port < 0 || options.port > 65535 || options.host.empty()) {
    return usage_error("--listen is \"{}\"; give a port, or an address and a port: 0.0.0.0:9753",
                       printable(text));
  }
  return options;
}

CommandDef watch_command() {
  return {
      .name = "watch",
      .summary = "what works and what waits: GPUs, processor, inference server, live",
      .description =
          "Samples power, clocks, throttling, links and the tensor and DRAM activity of each "
          "GPU, the processor, and what an inference server says of itself, all on one clock. "
          "Every signal is a number or the reason why there is none; utilization alone is never "
          "called work, since a kernel that only waits shows 100 %.\n\n"
          "On a terminal the table is redrawn; --jsonl keeps every sample, --json prints one "
          "document at the end: means of the whole time (59 minutes at most), energy by the "
          "counter against "
          "integrated power (from 5 s on), and what sampling cost. Ctrl-C ends it in order. "
          "What a source cannot give, and a source that dies or hangs, does not end it.",
      .options = watch_options(),
      .examples = {{"nibble watch", "a live table of this machine"},
                   {"nibble watch --server http://127.0.0.1:8000 --jsonl run.jsonl",
                    "with a server's queue and cache, every sample kept"},
                   {"nibble watch --listen 0.0.0.0:9753",
                    "for Prometheus, and for `nibble load --telemetry` on another host"},
                   {"nibble watch --duration 10 --json", "ten seconds as one document"}},
      .run = execute_watch};
}

}  // namespace nibble::cli
