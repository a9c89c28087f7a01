#include <algorithm>

#include "cli/command.h"
#include "cli/describe.h"

namespace nibble::cli {
namespace {

constexpr std::size_t kIndent = 2;
constexpr std::size_t kWidestLeftColumn = 30;  // a wider entry has its help on the next line

struct Entry {
  std::string left;
  std::string help;
};

// Two aligned columns; the right one wraps within itself.
std::string render(const std::vector<Entry>& entries, const Style& style) {
  std::size_t width = 0;
  for (const Entry& entry : entries) {
    if (entry.left.size() <= kWidestLeftColumn) width = std::max(width, entry.left.size());
  }
  const std::size_t column = kIndent + width + kIndent;
  std::string text;
  for (const Entry& entry : entries) {
    std::string line = std::string(kIndent, ' ') + entry.left;
    if (entry.left.size() > width) {
      text += line + "\n";
      line.clear();
    }
    line.resize(column, ' ');
    text += line + style.wrap(entry.help, column) + "\n";
  }
  return text;
}

// A command line broken as a shell reads it, so that it can be copied from a narrow terminal.
std::string example_line(std::string_view line, const Style& style) {
  constexpr std::string_view kContinuation = " \\";
  Style narrower = style;
  if (narrower.width > kContinuation.size()) narrower.width -= kContinuation.size();
  std::string text;
  for (const char letter : narrower.wrap(line, 2 * kIndent)) {
    if (letter == '\n') text += kContinuation;
    text += letter;
  }
  return style.strong(text);
}

}  // namespace

std::string program_help(std::span<const CommandDef> commands, const Style& style) {
  std::vector<Entry> entries;
  for (const CommandDef& command : commands) entries.push_back({command.name, command.summary});
  const std::vector<Entry> options = {
      {"--help, -h", "print this help; after a command: what it does and takes"},
      {"--version", "print the version, the build and the libraries found"},
  };
  std::string text = style.wrap(
      "nibble tells you why your 4-bit mixture-of-experts model is slow, and makes it faster.", 0);
  text += "\n\n" + style.heading("Usage:") + " nibble COMMAND [OPTION]...\n";
  text += "\n" + style.heading("Commands:") + "\n" + render(entries, style);
  text += "\n" + style.heading("Options:") + "\n" + render(options, style);
  return text;
}

std::string command_help(const CommandDef& command, const Style& style) {
  std::string text = style.wrap("nibble " + command.name + ": " + command.summary, 0) + "\n\n" +
                     style.heading("Usage:") + " " + describe_usage(command) + "\n";
  std::vector<Entry> operands;
  for (const OptionDef& operand : command.operands) {
    operands.push_back({operand.name, describe_help(operand)});
  }
  if (!operands.empty()) text += "\n" + style.heading("Words:") + "\n" + render(operands, style);
  for (const OptionGroup& group : option_groups(command)) {
    std::vector<Entry> entries;
    for (const OptionDef& option : group.options) {
      entries.push_back({describe_names(option), describe_help(option)});
    }
    text += "\n" + style.heading(group.title + ":") + "\n" + render(entries, style);
  }
  if (command.examples.empty()) return text;
  text += "\n" + style.heading("Examples:") + "\n";
  for (const auto& [line, what] : command.examples) {
    text += std::string(kIndent, ' ') + example_line(line, style) + "\n";
    text += std::string(3 * kIndent, ' ') + style.wrap(what, 3 * kIndent) + "\n";
  }
  return text;
}

}  // namespace nibble::cli
