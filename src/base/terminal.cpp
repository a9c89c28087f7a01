#include "base/terminal.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <system_error>
#include <unistd.h>

#include "base/text.h"

namespace nibble {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

// COLUMNS is what the user says and wins; then what the terminal says; then the usual 80.
std::size_t terminal_width(int descriptor) {
  const std::string_view text = environment("COLUMNS");
  std::size_t columns = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), columns);
  if (error == std::errc() && end == text.data() + text.size() && columns > 0) return columns;
  winsize size = {};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

std::string ansi(bool colour, const char* code, std::string_view text) {
  if (!colour || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

}  // namespace

Style Style::for_descriptor(int descriptor) {
  if (::isatty(descriptor) == 0) return plain();
  const bool colour = environment("NO_COLOR").empty() && environment("TERM") != "dumb";
  return {.colour = colour, .width = terminal_width(descriptor)};
}

Style Style::for_stdout() {
  return for_descriptor(STDOUT_FILENO);
}
Style Style::for_stderr() {
  return for_descriptor(STDERR_FILENO);
}

std::string Style::strong(std::string_view text) const {
  return ansi(colour, "1", text);
}
std::string Style::heading(std::string_view text) const {
  return ansi(colour, "1;36", text);
}
std::string Style::faint(std::string_view text) const {
  return ansi(colour, "2", text);
}
std::string Style::good(std::string_view text) const {
  return ansi(colour, "32", text);
}
std::string Style::warning(std::string_view text) const {
  return ansi(colour, "33", text);
}
std::string Style::bad(std::string_view text) const {
  return ansi(colour, "31", text);
}

std::string Style::wrap(std::string_view text, std::size_t indent) const {
  constexpr std::size_t kNarrowest =
      20;  // narrower columns of text are harder to read than overhang
  const std::size_t room = width == 0 ? 0 : std::max(width - std::min(indent, width), kNarrowest);
  const std::string line_break = fmt::format("\n{:{}}", "", indent);
  std::vector<std::string> lines;
  for (const std::string& paragraph : split(text, '\n')) {
    std::string line;
    std::size_t columns = 0;
    for (const std::string& word : split(paragraph, ' ')) {
      if (word.empty()) continue;
      const std::size_t word_columns = display_width(word);
      if (!line.empty() && room > 0 && columns + 1 + word_columns > room) {
        lines.push_back(std::move(line));
        line.clear();
        columns = 0;
      }
      columns += word_columns + (line.empty() ? 0 : 1);
      if (!line.empty()) line += ' ';
      line += word;
    }
    lines.push_back(std::move(line));
  }
  std::string wrapped;
  for (std::size_t index = 0; index < lines.size(); ++index) {
    // An empty line stays empty: no trailing spaces.
    if (index > 0) wrapped += lines[index].empty() ? "\n" : line_break;
    wrapped += lines[index];
  }
  return wrapped;
}

}  // namespace nibble
