// What `nibble` does with its command line, and the one place where errors become sentences on
// standard error and an exit status (docs/errors.md).
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <fmt/core.h>
#include <new>

#include "base/descriptor.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/version.h"
#include "machine/probe.h"

namespace nibble::cli {
namespace {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;

bool is_help(std::string_view word) {
  return word == "--help" || word == "-h";
}

const CommandDef* find_command(std::string_view name) {
  for (const CommandDef& command : commands()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

Error unknown_command(std::string_view word) {
  std::vector<std::string> names;
  for (const CommandDef& command : commands()) names.push_back(command.name);
  if (word.starts_with('-')) {
    return usage_error("the option {} stands before the command; write \"nibble COMMAND {}\"", word,
                       word);
  }
  const std::string nearest = did_you_mean(word, names);
  return usage_error("there is no command \"{}\"{}", word,
                     nearest.empty() ? "; \"nibble --help\" lists them" : nearest);
}

Result<int> run_command(const CommandDef& command, std::span<const std::string> command_line) {
  const std::span<const std::string> words = command_line.subspan(2);
  const auto end_of_options = std::find(words.begin(), words.end(), "--");
  if (std::any_of(words.begin(), end_of_options, is_help)) {
    fmt::print("{}", command_help(command, Style::for_stdout()));
    return kDone;
  }
  NIBBLE_ASSIGN_OR_RETURN(Arguments arguments, parse_arguments(command, words));
  arguments.command_line.assign(command_line.begin(), command_line.end());
  return command.run(arguments);
}

Result<int> run(std::span<const std::string> command_line) {
  if (command_line.size() < 2 || is_help(command_line[1])) {
    fmt::print("{}", program_help(commands(), Style::for_stdout()));
    return kDone;
  }
  const std::string& word = command_line[1];
  if (word == "--version") {
    if (command_line.size() > 2) {
      return usage_error("--version stands alone; \"{}\" follows it", command_line[2]);
    }
    fmt::print("{}", version_text(probe_libraries()));
    return kDone;
  }
  const CommandDef* command = find_command(word);
  if (command == nullptr) return unknown_command(word);
  return run_command(*command, command_line);
}

// One line, whatever the words hold that the sentence quotes.
int fail(std::string_view sentence, int status) {
  constexpr std::size_t kLongest = 2000;
  std::fprintf(stderr, "nibble: %s\n", printable(sentence, kLongest).c_str());
  return status;
}

// A reader that has seen enough (`nibble doctor | head -1`) is no failure, and changes nothing of
// `status`; a full disk is one.
int output_failed(int error_number, int status) {
  if (error_number == EPIPE) return status;
  const std::string reason = errno_text(error_number);
  return fail("cannot write to standard output: " + reason, kFailed);
}

// The exit status of a finished run, once all it printed has been taken.
int finish(int status) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  return output_failed(errno != 0 ? errno : EIO, status);
}

int report(const Error& error) {
  return fail(error.message, error.kind == ErrorKind::kRun ? kFailed : kUsage);
}

}  // namespace

int run_program(int argc, const char* const* argv) {
  try {
    const Result<int> result = run(std::vector<std::string>(argv, argv + argc));
    return finish(result.ok() ? *result : report(result.error()));
  } catch (const std::bad_alloc&) {
    return fail("out of memory; free some, or give a smaller input", kFailed);
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) return output_failed(error.code().value(), kDone);
    return fail(error.what(), kFailed);
  } catch (const std::exception& error) {
    return fail(fmt::format("unexpected failure: {}; please report it", error.what()), kFailed);
  }
}

}  // namespace nibble::cli
